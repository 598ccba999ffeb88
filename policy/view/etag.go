package view

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// Cond is what must hold for a write to be done. The zero value asks for
// nothing.
type Cond struct {
	Match  string // Conflict unless the file is there and has this etag
	Absent bool   // Exist if there is a file

	Publish *Publication // marks what is written, and may ask for more
}

// Publication is what a write that publishes a file asks for. What it replaces gets
// the name AT.AGENT in a directory of the same volume, AGENT being who changed it
// last.
type Publication struct {
	Name string         // that the file is published under
	Own  bool           // Conflict unless what it replaces was published under Name, and was not changed since, by the view's author
	Keep backend.NodeID // the directory; 0: Exist if there is something to replace
	At   string
}

// Etag names the present state of a regular file: it is another one after every
// change of the file's content, and may be after others. "" for anything else.
func (v *View) Etag(node backend.NodeID) (etag string, err error) {
	_, err = v.look(func(c *call) error {
		return c.in(node, func(c *call) error {
			var pl place
			if err := c.seen(node.Ino(), &pl); err != nil {
				return err
			}
			etag, err = c.etag(&pl)
			return err
		})
	})
	return etag, err
}

// etag is Etag with the lock held. The time of the last change of an inode only
// grows, whatever the clock does (tree.Txn.touch), and nobody can set it.
func (c *call) etag(pl *place) (string, error) {
	if pl.blank || pl.attr.Type != backend.TypeRegular {
		return "", nil
	}
	p, err := c.tx.Provenance(pl.ino())
	if err != nil {
		return "", err
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(pl.attr.Node))
	binary.BigEndian.PutUint64(b[8:], uint64(p.ModifiedAt))
	sum := sha256.Sum256(b[:])
	return base64.RawURLEncoding.EncodeToString(sum[:12]), nil
}

// holds tells whether cond is met where a write meets pl. The lock is held.
func (c *call) holds(cond Cond, pl *place) error {
	if cond.Absent {
		return backend.Exist
	}
	if cond.Match != "" {
		if etag, err := c.etag(pl); err != nil || etag != cond.Match {
			return cmp.Or(err, error(errMoved))
		}
	}
	if cond.Publish != nil && cond.Publish.Own {
		return c.ownPublication(pl, cond.Publish.Name)
	}
	return nil
}

// keepOld links the file pl, which is about to be replaced, to the name that p asks for.
// The lock is held.
func (c *call) keepOld(pl *place, p *Publication) error {
	if p == nil {
		return nil
	}
	if p.Keep == 0 {
		return backend.Exist
	}
	by, err := c.tx.Provenance(pl.ino())
	if err != nil {
		return err
	}
	name := p.At + "." + by.ModifiedBy
	c.noteTo("link", pl, nil, "", p.Keep.Ino(), name)
	_, err = c.tx.Link(pl.ino(), p.Keep.Ino(), name)
	return err
}

// ownPublication fails with a Conflict unless the view's author published the file pl
// under name, and nobody else has changed it since. Another name means that the file
// was renamed, so it may serve another purpose now. The lock is held.
func (c *call) ownPublication(pl *place, name string) error {
	mark, err := c.tx.GetXattr(pl.ino(), publishedAs)
	if err != nil && !errors.Is(err, backend.NoData) {
		return err
	}
	p, err := c.tx.Provenance(pl.ino())
	if err == nil && (string(mark) != name || p.ModifiedBy != c.v.author()) {
		err = errTaken
	}
	return err
}

// errTaken is the error of publishing over a file that is not the publisher's.
var errTaken = &backend.Error{Kind: backend.Conflict, Err: errors.New("it is not the publisher's")}

// Published fails with a Conflict unless the view may replace the file node, named
// name, as its own publication.
func (v *View) Published(node backend.NodeID, name string) error {
	c := v.begin("getxattr", nil)
	defer c.end()
	return c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		return c.ownPublication(&pl, name)
	})
}

// errMoved is the failure of a condition on an etag.
var errMoved = &backend.Error{Kind: backend.Conflict, Err: errors.New("it has changed: its etag is another one now")}

// RemoveIf is Remove of what has an etag: Conflict if it has another one, or
// none, as all that is no regular file.
func (v *View) RemoveIf(path, etag string) error {
	dir, name, err := v.ResolveParent(path)
	if err != nil {
		return err
	}
	return atPath("remove", path, v.UnlinkIf(nil, dir.Node, name, etag))
}

// UnlinkIf is Unlink of what has an etag: Conflict if it has another one, or none.
func (v *View) UnlinkIf(r *Request, parent backend.NodeID, name, etag string) error {
	return v.remove("unlink", r, parent, name, false, func(c *call, ino backend.Ino) error { return c.isStill(ino, etag) })
}

// RenameIf is Rename of what has an etag: Conflict if it has another one, or none.
func (v *View) RenameIf(parent backend.NodeID, name string, newParent backend.NodeID, newName string, flags RenameFlags, etag string) error {
	return v.rename(nil, parent, name, newParent, newName, flags, func(m *move) error {
		if !m.from.there {
			return backend.NotFound
		}
		return m.c.isStill(m.from.node.ino(), etag)
	})
}

// isStill fails unless what is at ino has an etag. The lock is held.
func (c *call) isStill(ino backend.Ino, etag string) error {
	var pl place
	if err := c.seen(ino, &pl); err != nil {
		return err
	}
	if now, err := c.etag(&pl); err != nil || now != etag || etag == "" {
		return cmp.Or(err, error(errMoved))
	}
	return nil
}

// ReadAt is Read that also gives the attributes and the etag of the file, all as
// of one moment.
func (v *View) ReadAt(node backend.NodeID, p []byte, off uint64) (n int, a backend.Attr, etag string, err error) {
	c := v.begin("read", nil)
	defer c.end()
	err = c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		if err := c.need(policy.Read, &pl, ""); err != nil {
			return err
		}
		if etag, err = c.etag(&pl); err != nil {
			return err
		}
		c.show(&pl)
		a = c.attr
		n, err = c.tx.Read(node.Ino(), p, off) // may give the lock back
		return err
	})
	return n, a, etag, err
}

// Rewritten returns a number that is another one after the file's content was replaced in
// place than before: what was read in steps with it the same is of one content, which
// others may have appended to.
func (v *View) Rewritten(node backend.NodeID) (n uint64, err error) {
	_, err = v.look(func(c *call) error {
		return c.in(node, func(c *call) error {
			lsn, err := c.tx.Rewritten(node.Ino())
			n = uint64(lsn)
			return err
		})
	})
	return n, err
}

// AppendFile adds data to the end of the file at a tree path, as one step for every
// reader, or makes the file with mode (0: 0644). The etag is that of what it
// leaves. Errors: Put's; Exist and Conflict as cond says.
func (v *View) AppendFile(path string, data []byte, mode uint32, cond Cond) (f Found, etag string, err error) {
	for range maxRetries {
		if f, err = v.findWritable(path, walk{v: v, create: true}); err != nil {
			return f, "", err
		}
		if f.Attr.Node == 0 {
			if cond.Match != "" {
				return f, "", pathError("write", path, backend.NotFound)
			}
			f, etag, err = v.PutIf(path, bytes.NewReader(data), mode, Cond{Absent: true})
			if cond.Absent || !errors.Is(err, backend.Exist) {
				return f, etag, err
			}
			continue // made by another meanwhile
		}
		etag, err = v.appendTo(&f, data, cond)
		if !isNotFound(err) {
			return f, etag, atPath("write", path, err)
		}
	}
	return f, "", pathError("write", path, backend.Conflict)
}

// maxRetries bounds how often an operation starts again because what it found
// was replaced.
const maxRetries = 16

func (v *View) appendTo(f *Found, data []byte, cond Cond) (etag string, err error) {
	node := f.Attr.Node
	c := v.begin("append", nil)
	defer c.end()
	err = c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		if err := c.need(policy.Write, &pl, ""); err != nil {
			return err
		}
		if pl.attr.Nlink == 0 {
			return backend.NotFound // replaced since it was found
		}
		if err := c.holds(cond, &pl); err != nil {
			return err
		}
		if err := c.disarm(&pl); err != nil {
			return err
		}
		c.noteChange(opWrite, &pl)
		size := pl.attr.Size
		if err := c.writeWhole(node.Ino(), data, size); err != nil {
			return failed(err, c.resize(node.Ino(), size))
		}
		return c.settled(node.Ino(), f, &etag)
	})
	return etag, err
}

// AtEnd is the offset of AmendFile that stands for the end of the file.
const AtEnd = ^uint64(0)

// AmendFile makes tail what the regular file at a tree path has from byte off on
// (AtEnd: adds tail), as one step for every reader, if cond holds. The file stays
// the one it is, so that what others append by a handle they hold comes after it.
// No symlink is followed. A crash leaves the file as it was or as it was to be; what is
// added to the end is cut by one if it is longer than backend.MaxPutBytes. Errors:
// NotFound, Denied, ReadOnly; Invalid: it is no regular file; Loop: a symlink stands
// before that; Conflict as cond says.
func (v *View) AmendFile(path string, off uint64, tail []byte, cond Cond) (etag string, err error) {
	for range maxRetries {
		f, err := v.findWritable(path, walk{v: v, create: true, stop: true, plain: true})
		if err == nil && f.Attr.Node == 0 {
			err = pathError("write", path, backend.NotFound)
		}
		if err != nil {
			return "", err
		}
		if off == AtEnd {
			etag, err = v.appendTo(&f, tail, cond)
		} else {
			etag, err = v.amend(&f, off, tail, cond)
		}
		if !isNotFound(err) {
			return etag, atPath("write", path, err)
		}
	}
	return "", pathError("write", path, backend.Conflict)
}

func (v *View) amend(f *Found, off uint64, tail []byte, cond Cond) (etag string, err error) {
	node := f.Attr.Node
	var staged backend.NodeID
	if len(tail) > backend.MaxPutBytes {
		if err := v.stageIn(node, &staged); err != nil {
			return "", err
		}
		defer v.s.Dropped(staged)
		if err := v.writeStaged(staged, tail, off); err != nil {
			return "", err
		}
	}
	err = v.unfragmented(node, func(c *call) error {
		if _, err := c.overwrite(node.Ino(), cond, tail, staged, off); err != nil {
			return err
		}
		return c.settled(node.Ino(), f, &etag)
	})
	return etag, err
}

// failed is err, with what undoing failed with, if it did.
func failed(err error, undone ...error) error {
	if left := errors.Join(undone...); left != nil {
		return errors.Join(err, left)
	}
	return err
}

// writeWhole writes all of p. The lock is held.
func (c *call) writeWhole(ino backend.Ino, p []byte, off uint64) error {
	for len(p) > 0 {
		w, err := c.tx.Write(ino, p, off)
		if err != nil {
			return err
		}
		p, off = p[w.N:], off+uint64(w.N)
	}
	return nil
}

// resize sets a file's size, unless it has it. The lock is held.
func (c *call) resize(ino backend.Ino, size uint64) error {
	a, err := c.tx.Attr(ino)
	if err == nil && a.Size != size {
		_, err = c.tx.Setattr(ino, backend.SetAttr{Size: &size})
	}
	return err
}

// settled fills in what a write has left at ino. The lock is held.
func (c *call) settled(ino backend.Ino, f *Found, etag *string) error {
	var pl place
	err := c.place(ino, &pl)
	if err == nil {
		*etag, err = c.etag(&pl)
	}
	c.show(&pl)
	f.Attr = c.attr
	return err
}

// atPath adds a path to an error that has none.
func atPath(op, path string, err error) error {
	if e, ok := err.(*backend.Error); ok && e.Path == "" && e.Op == "" {
		return &backend.Error{Op: op, Path: path, Kind: e.Kind, Err: e.Err}
	}
	return pathError(op, path, err)
}
