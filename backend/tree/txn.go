package tree

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/feed"
	"github.com/warrenfs/warren/backend/quota"
)

// bg is the context of the tree's own calls: operations are not cancelled
// half-way; the store's Close ends them.
var bg = context.Background()

// Op is what one request brings to the tree.
type Op struct {
	Agent    string // recorded as provenance; "" is the administrator
	UID, GID uint32 // of new nodes, in stored form (backend.OwnerID: the owner)
	Origin   backend.Origin
	// KillPriv asks writes, truncates and chowns to clear set-id bits.
	KillPriv bool
	// Event goes into the feed with the next change, in the same transaction; then
	// it is nil again. Set it right before the call that it tells of.
	Event *feed.Event
}

// Txn is one volume under its lock. Set Op before the first method that changes
// anything.
type Txn struct {
	Op Op

	t       *Tree
	v       *volume
	locked  bool
	changes []Change
	lsn     backend.LSN
	cut     cut // of the last change
	buf     []byte
	moved   []moved
	looks   looks // since it began
}

// unlock gives the volume back before the Txn ends; nothing but what was read
// before may be used after.
func (tx *Txn) unlock() {
	if tx.locked {
		tx.locked = false
		tx.v.settle()
		tx.v.mu.Unlock()
		tx.v.asked.add(&tx.looks)
	}
}

// Info tells what is known of the volume.
func (tx *Txn) Info() VolumeInfo { return tx.v.info }

// Changes are those made so far. The slice is valid until the Txn ends.
func (tx *Txn) Changes() []Change { return tx.changes }

// LSN is that of the last change, or 0.
func (tx *Txn) LSN() backend.LSN { return tx.lsn }

// DirGeneration changes whenever a directory of the volume moves: what was
// derived from a node's ancestors holds as long as it stays the same.
func (tx *Txn) DirGeneration() uint64 { return tx.v.dirGen }

// Memo is a word that the caller may keep with a cached inode; 0 if none is
// kept. It is lost when the inode leaves the cache. That a name of the inode
// changed is for the caller to see to.
func (tx *Txn) Memo(ino backend.Ino) uint64 {
	if n := tx.v.inodes[ino]; n != nil {
		return n.memo
	}
	return 0
}

// SetMemo keeps m with ino if it is cached.
func (tx *Txn) SetMemo(ino backend.Ino, m uint64) {
	if n := tx.v.inodes[ino]; n != nil {
		n.memo = m
	}
}

func (tx *Txn) node(i backend.Ino) backend.NodeID { return backend.Node(tx.v.id, i) }

func (tx *Txn) changed(c Change) { tx.changes = append(tx.changes, c) }

// writer collects one Update. After the first error it does nothing.
type writer struct {
	v   *volume
	kv  backend.Tx
	use usage
	buf []byte
	err error

	cut   cut
	moved []moved
}

// commit runs fn as one Update and, when it took effect, keeps its counters.
// fn may run again. Quota: it would take the volume over a hard limit, and
// nothing in it is left to reclaim.
func (tx *Txn) commit(fn func(*writer) error) error {
	err := tx.commitOnce(fn)
	for errors.Is(err, backend.Quota) && tx.makeRoom() {
		err = tx.commitOnce(fn)
	}
	return err
}

func (tx *Txn) commitOnce(fn func(*writer) error) error {
	w := writer{v: tx.v, buf: tx.buf, moved: tx.moved}
	lsn, err := tx.t.store.UpdateFrom(bg, tx.Op.Origin, func(kv backend.Tx) error {
		w.kv, w.use, w.cut, w.moved, w.err = kv, tx.v.use, cut{}, w.moved[:0], nil
		if err := fn(&w); err != nil {
			return err
		}
		if w.use != tx.v.use {
			if err := tx.v.limits.Admit(tx.v.use.counted(), w.use.counted()); err != nil {
				return err
			}
			w.putUsage()
		}
		if ev := tx.Op.Event; ev != nil && tx.t.feed != nil && w.err == nil {
			w.err = tx.t.feed.Put(kv, ev)
		}
		return w.err
	})
	tx.buf, tx.moved = w.buf[:0], w.moved[:0]
	if err != nil {
		tx.v.unsure(w.moved)
		return err
	}
	tx.v.follow(w.moved)
	if ev := tx.Op.Event; ev != nil && tx.t.feed != nil {
		tx.t.feed.Done(ev)
		tx.Op.Event = nil
	}
	tx.v.use = w.use
	tx.lsn, tx.cut = lsn, w.cut
	tx.t.advance(lsn)
	return nil
}

func (w *writer) set(k, v []byte) {
	if w.err == nil {
		w.err = w.kv.Set(k, v)
	}
}

func (w *writer) delete(k []byte) {
	if w.err == nil {
		w.err = w.kv.Delete(k)
	}
}

func (w *writer) putInode(i backend.Ino, r *record) {
	r.epoch = w.v.info.Epoch
	w.buf = r.encode(w.buf[:0])
	w.set(inodeKey(w.v.id, i), w.buf)
}

func (w *writer) putDirent(dir backend.Ino, name string, e dent) {
	w.buf = e.encode(w.buf[:0], w.v.info.Epoch)
	w.set(direntKey(w.v.id, dir, name), w.buf)
}

func (w *writer) putUsage() {
	w.buf = w.use.encode(w.buf[:0], w.v.info.Epoch)
	w.set(appendVol(nil, famUsage, w.v.id), w.buf)
}

// putTodo leaves ino to the reclaimer.
func (w *writer) putTodo(i backend.Ino) {
	w.set(todoKey(w.v.id, i), []byte{recordVersion})
}

func (w *writer) putLink(i backend.Ino, l Link) {
	w.buf = encoder{}.epoch(w.buf[:0], w.v.info.Epoch)
	w.set(linkKey(w.v.id, i, l), w.buf)
}

// epoch is the value of a record that says nothing but when it was written.
func (encoder) epoch(b []byte, epoch uint32) []byte {
	e := encoder{b}
	e.byte(recordVersion)
	e.u(uint64(epoch))
	return e.b
}

func (w *writer) nextIno() backend.Ino {
	i := backend.Ino(w.use.nextIno)
	if i > backend.MaxIno && w.err == nil {
		w.err = backend.NoSpace
	}
	w.use.nextIno++
	w.use.inodes++
	return i
}

func (w *writer) newRecord(t backend.FileType, mode uint32, op Op, now backend.Time) record {
	return record{
		typ: t, mode: mode & 0o7777, uid: op.UID, gid: op.GID, nlink: 1,
		atime: now, mtime: now, ctime: now, btime: now,
		createdBy: op.Agent, modifiedBy: op.Agent, modifiedAt: now,
	}
}

// setRecord replaces a cached inode's record after a commit.
func (tx *Txn) setRecord(n *inode, r *record) { n.rec = *r }

// touch marks r as changed now by the acting agent. modifiedAt is later after every
// change than before it, even if the clock is not: etags stand on it.
func (tx *Txn) touch(r *record, now backend.Time) {
	r.ctime = now
	r.modifiedBy, r.modifiedAt = tx.Op.Agent, max(now, r.modifiedAt+1)
}

func (tx *Txn) touchDir(r *record, now backend.Time) {
	r.mtime = now
	tx.touch(r, now)
}

// checkName refuses what can never be a name.
func checkName(name string) error {
	switch {
	case name == "" || name == "." || name == "..":
		return backend.Invalid
	case len(name) > backend.MaxName:
		return backend.NameTooLong
	case strings.ContainsAny(name, "/\x00"):
		return backend.Invalid
	}
	return nil
}

// Lookup finds what name in directory parent leads to. NotFound if nothing.
func (tx *Txn) Lookup(parent backend.Ino, name string) (backend.NodeID, backend.FileType, error) {
	d, err := tx.dir(parent)
	if err != nil {
		return 0, 0, err
	}
	if len(name) > backend.MaxName {
		return 0, 0, backend.NameTooLong
	}
	e, err := tx.find(d, name)
	if err != nil {
		return 0, 0, err
	}
	return e.node(tx.v.id), e.typ, nil
}

// Attr gives the attributes of ino in stored form.
func (tx *Txn) Attr(ino backend.Ino) (backend.Attr, error) {
	n, err := tx.load(ino)
	if err != nil {
		return backend.Attr{}, err
	}
	return n.rec.attr(tx.node(ino)), nil
}

// Provenance tells who made and last changed ino.
func (tx *Txn) Provenance(ino backend.Ino) (backend.Provenance, error) {
	n, err := tx.load(ino)
	if err != nil {
		return backend.Provenance{}, err
	}
	return backend.Provenance{CreatedBy: n.rec.createdBy, CreatedAt: n.rec.btime,
		ModifiedBy: n.rec.modifiedBy, ModifiedAt: n.rec.modifiedAt}, nil
}

// Links lists all names of ino in the volume. The root and an orphan have none.
func (tx *Txn) Links(ino backend.Ino) (out []Link, err error) {
	err = tx.EachLink(ino, Link{}, func(l Link) error {
		out = append(out, l)
		return nil
	})
	return out, err
}

// EachLink calls fn with the names of ino until it returns an error;
// backend.ErrStop ends it without one. The first name comes first, then the
// others in a fixed order, but beginning after near: where names are removed in
// that order, what is left is found without passing what is gone.
func (tx *Txn) EachLink(ino backend.Ino, near Link, fn func(Link) error) error {
	n, err := tx.load(ino)
	if err != nil || n.rec.nlink == 0 || n.rec.link.Parent == 0 {
		return err
	}
	stopped := false
	call := func(l Link) error {
		err := fn(l)
		stopped = err != nil
		return err
	}
	if err := call(n.rec.link); err == backend.ErrStop {
		return nil
	} else if err != nil || n.rec.nlink == 1 {
		return err
	}
	start := appendIno(nil, famLink, tx.v.id, ino)
	from, each := linkKey(tx.v.id, ino, near), func(k []byte) error { return call(linkOf(k)) }
	return tx.t.store.View(bg, func(kv backend.Tx) error {
		err := kv.ScanKeys(from, backend.PrefixEnd(start), each)
		if err != nil || stopped {
			return err
		}
		return kv.ScanKeys(start, from, each)
	})
}

// Parent gives the directory that ino's first name is in. The volume's root is
// its own; an orphan has none: NotFound.
func (tx *Txn) Parent(ino backend.Ino) (backend.Ino, error) {
	if ino == backend.RootIno {
		return ino, nil
	}
	n, err := tx.load(ino)
	if err != nil {
		return 0, err
	}
	if n.rec.nlink == 0 || n.rec.link.Parent == 0 {
		return 0, backend.NotFound
	}
	return n.rec.link.Parent, nil
}

// walkUp calls fn with ino and each of its ancestors, nearest first, and the
// name each has in the next; the root is not among them.
func (tx *Txn) walkUp(ino backend.Ino, fn func(i backend.Ino, name string) error) error {
	for ino != backend.RootIno {
		n, err := tx.load(ino)
		if err != nil {
			return err
		}
		if n.rec.nlink == 0 || n.rec.link.Parent == 0 {
			return backend.NotFound
		}
		if err := fn(ino, n.rec.link.Name); err != nil {
			return err
		}
		ino = n.rec.link.Parent
	}
	return nil
}

// Path is where ino stands below the volume's root, "" for the root itself.
// NotFound for an orphan and what is in a removed directory.
func (tx *Txn) Path(ino backend.Ino) (string, error) {
	var parts []string
	err := tx.walkUp(ino, func(_ backend.Ino, name string) error {
		parts = append(parts, name)
		return nil
	})
	slices.Reverse(parts)
	return strings.Join(parts, "/"), err
}

// Top is the first component of Path.
func (tx *Txn) Top(ino backend.Ino) (string, error) {
	top := ""
	err := tx.walkUp(ino, func(_ backend.Ino, name string) error {
		top = name
		return nil
	})
	return top, err
}

// Within tells whether ino is dir or stands below it.
func (tx *Txn) Within(ino, dir backend.Ino) (bool, error) {
	if dir == backend.RootIno {
		return true, nil
	}
	found := false
	err := tx.walkUp(ino, func(i backend.Ino, _ string) error {
		if i == dir {
			found = true
			return backend.ErrStop
		}
		return nil
	})
	if found {
		return true, nil
	}
	return false, err
}

// DeniedMark tells whether a name of ino was made under the deny-list.
func (tx *Txn) DeniedMark(ino backend.Ino) (bool, error) {
	n, err := tx.load(ino)
	if err != nil {
		return false, err
	}
	return n.rec.flags&flagDenied != 0, nil
}

// MarkDenied sets that mark for good.
func (tx *Txn) MarkDenied(ino backend.Ino) error {
	n, err := tx.load(ino)
	if err != nil || n.rec.flags&flagDenied != 0 {
		return err
	}
	r := n.rec
	r.flags |= flagDenied
	if err := tx.commit(func(w *writer) error { w.putInode(ino, &r); return w.err }); err != nil {
		return err
	}
	tx.setRecord(n, &r)
	n.memo = 0
	return nil
}

// Free tells what may be added to the store, quotas apart.
func (tx *Txn) Free() (bytes, inodes uint64) {
	if tx.t.room.free != nil {
		bytes, _ = tx.t.room.free()
	}
	return bytes, bytes / 512
}

// Stat tells the volume's use, its limits and the free space, of which what the
// store has is shared.
func (tx *Txn) Stat() VolumeStat {
	u, l := tx.v.use, tx.v.limits
	bytes, inodes := tx.Free()
	room := l.Room(u.counted(), quota.Use{Bytes: bytes, Inodes: min(inodes, uint64(backend.MaxIno)-u.nextIno)})
	return VolumeStat{
		BlockSize: BlockSize, MaxNameLen: backend.MaxName, FilesystemN: uint64(tx.v.id), Limits: l,
		UsedBytes: u.bytes, FreeBytes: room.Bytes, Bytes: cmp.Or(l.Bytes, u.bytes+room.Bytes),
		UsedInodes: u.inodes, FreeInodes: room.Inodes, Inodes: cmp.Or(l.Inodes, u.inodes+room.Inodes),
	}
}
