package tree

import (
	"errors"
	"strings"

	"github.com/warrenfs/warren/backend"
)

// maxXattrList is how long all names of one inode may be, each with a NUL: what
// listxattr(2) can return.
const maxXattrList = 64 << 10

func checkXattr(name string) error {
	switch {
	case name == "" || strings.IndexByte(name, 0) >= 0:
		return backend.Invalid
	case len(name) > backend.MaxXattr:
		return backend.Range
	}
	return nil
}

// GetXattr gives the value of an extended attribute. NoData if there is none.
func (tx *Txn) GetXattr(ino backend.Ino, name string) ([]byte, error) {
	n, err := tx.load(ino)
	if err != nil {
		return nil, err
	}
	if n.rec.xattrs == 0 {
		return nil, backend.NoData
	}
	var out []byte
	err = tx.t.store.View(bg, func(kv backend.Tx) error {
		b, err := kv.Get(xattrKey(tx.v.id, ino, name))
		if err != nil {
			return err
		}
		out, err = decodeXattr(tx.v.id, ino, b)
		return err
	})
	if errors.Is(err, backend.NotFound) {
		return nil, backend.NoData
	}
	return out, err
}

// decodeXattr copies the value out of a record.
func decodeXattr(v backend.VolumeID, ino backend.Ino, b []byte) ([]byte, error) {
	d := decoder{b: b}
	if d.byte() != recordVersion {
		d.bad = true
	}
	d.u()
	out := append([]byte{}, d.bytes()...)
	return out, d.done("xattr", v, ino)
}

// ListXattr gives the names of ino's extended attributes, sorted.
func (tx *Txn) ListXattr(ino backend.Ino) ([]string, error) {
	n, err := tx.load(ino)
	if err != nil || n.rec.xattrs == 0 {
		return nil, err
	}
	var out []string
	err = tx.t.store.View(bg, func(kv backend.Tx) error {
		out = out[:0]
		return scanXattrs(kv, tx.v.id, ino, func(name string) { out = append(out, name) })
	})
	return out, err
}

func scanXattrs(kv backend.Tx, v backend.VolumeID, ino backend.Ino, fn func(string)) error {
	start := appendIno(nil, famXattr, v, ino)
	return kv.ScanKeys(start, backend.PrefixEnd(start), func(k []byte) error {
		fn(nameOf(k))
		return nil
	})
}

// SetXattr sets an extended attribute. create: Exist if it is there; replace:
// NoData if it is not. Errors: Range (a name too long), TooBig (value), NoSpace
// (the list of names would pass 64 KiB), Quota (the values would, in a volume with
// limits).
func (tx *Txn) SetXattr(ino backend.Ino, name string, value []byte, create, replace bool) error {
	if err := checkXattr(name); err != nil {
		return err
	}
	if len(value) > backend.MaxXattrVal {
		return backend.TooBig
	}
	if err := tx.t.room.check(len(value)); err != nil {
		return err
	}
	return tx.changeXattrs(ino, func(w *writer, r *record) error {
		key := xattrKey(tx.v.id, ino, name)
		_, err := w.kv.Get(key)
		there := err == nil
		if err != nil && !errors.Is(err, backend.NotFound) {
			return err
		}
		switch {
		case there && create:
			return backend.Exist
		case !there && replace:
			return backend.NoData
		case !there:
			if r.xattrs += xattrRoom(name); r.xattrs > maxXattrList {
				return backend.NoSpace
			}
		}
		if err := w.valuesFit(ino, name, len(value)); err != nil {
			return err
		}
		w.putXattr(ino, name, value)
		return w.err
	})
}

// Xattr is an extended attribute that a node is made with.
type Xattr struct {
	Name  string
	Value []byte
}

func (w *writer) putXattr(ino backend.Ino, name string, value []byte) {
	w.buf = encoder{}.epoch(w.buf[:0], w.v.info.Epoch)
	e := encoder{w.buf}
	e.u(uint64(len(value)))
	w.buf = append(e.b, value...)
	w.set(xattrKey(w.v.id, ino, name), w.buf)
}

// putXattrs gives a new node its extended attributes.
func (w *writer) putXattrs(ino backend.Ino, r *record, list []Xattr) {
	for _, x := range list {
		w.putXattr(ino, x.Name, x.Value)
		r.xattrs += xattrRoom(x.Name)
	}
}

// RemoveXattr removes an extended attribute. NoData if there is none.
func (tx *Txn) RemoveXattr(ino backend.Ino, name string) error {
	return tx.changeXattrs(ino, func(w *writer, r *record) error {
		key := xattrKey(tx.v.id, ino, name)
		if _, err := w.kv.Get(key); errors.Is(err, backend.NotFound) {
			return backend.NoData
		} else if err != nil {
			return err
		}
		w.delete(key)
		r.xattrs -= min(r.xattrs, xattrRoom(name))
		return w.err
	})
}

// xattrRoom is what name takes of the list of names.
func xattrRoom(name string) uint32 { return uint32(len(name)) + 1 }

func (tx *Txn) changeXattrs(ino backend.Ino, fn func(*writer, *record) error) error {
	n, err := tx.load(ino)
	if err != nil {
		return err
	}
	now := tx.t.clock()
	var r record
	err = tx.commit(func(w *writer) error {
		r = n.rec
		tx.touch(&r, now)
		if err := fn(w, &r); err != nil {
			return err
		}
		w.putInode(ino, &r)
		return w.err
	})
	if err != nil {
		return err
	}
	tx.setRecord(n, &r)
	tx.changed(Change{Kind: AttrChanged, Node: tx.node(ino)})
	return nil
}
