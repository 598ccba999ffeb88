package view

import (
	"context"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
)

// Open checks that node may be opened for f, and truncates it if f says so. It
// keeps no handle. Errors: Denied, ReadOnly, IsDir, Loop (a symlink).
func (v *View) Open(r *Request, node backend.NodeID, f OpenFlags) (backend.Attr, error) {
	c := v.begin("open", r)
	defer c.end()
	err := c.in(node, func(c *call) error {
		if err := c.open(node.Ino(), f); err != nil {
			return err
		}
		if c.watch != nil {
			c.watch.Opened(&c.attr, f.Write)
		}
		return nil
	})
	if err != nil {
		return backend.Attr{}, err
	}
	return c.attr, nil
}

// open does what Open does, but for telling the Observer. The lock is held.
func (c *call) open(ino backend.Ino, f OpenFlags) error {
	var pl place
	if err := c.seen(ino, &pl); err != nil {
		return err
	}
	writes := f.Write || f.Truncate
	switch {
	case pl.attr.Type == backend.TypeSymlink:
		return backend.Loop
	case pl.attr.IsDir() && writes:
		return backend.IsDir
	case pl.attr.IsDir(): // opened for listing
		c.show(&pl)
		return c.permit(&pl, MayRead)
	}
	if f.Read || f.Exec || !writes {
		if err := c.need(policy.Read, &pl, ""); err != nil {
			return err
		}
	}
	if writes {
		if err := c.need(policy.Write, &pl, ""); err != nil {
			return err
		}
	}
	if err := c.permit(&pl, f.rights()); err != nil {
		return err
	}
	if f.Truncate && pl.attr.Type == backend.TypeRegular {
		if err := c.disarm(&pl); err != nil {
			return err
		}
		c.noteChange(opWrite, &pl)
		var zero uint64
		a, err := c.tx.Setattr(ino, backend.SetAttr{Size: &zero})
		if err != nil {
			return err
		}
		pl.attr = a
	}
	c.show(&pl)
	return nil
}

// rights returns the mode bits that an open needs.
func (f OpenFlags) rights() (want uint32) {
	switch {
	case f.Exec:
		want = MayExec
	case f.Read:
		want = MayRead
	}
	if f.Write || f.Truncate {
		want |= MayWrite
	}
	return want
}

// Read copies bytes from off on into p: less than len(p) only at the end, 0
// and no error at or after it.
func (v *View) Read(r *Request, node backend.NodeID, p []byte, off uint64) (n int, err error) {
	c := v.begin("read", r)
	defer c.end()
	err = c.in(node, func(c *call) error {
		if err := c.allowed(policy.Read, node.Ino()); err != nil {
			return err
		}
		n, err = c.tx.Read(node.Ino(), p, off)
		return err
	})
	return n, err
}

// allowed decides whether a may be done to ino. The lock is held.
func (c *call) allowed(a policy.Action, ino backend.Ino) error {
	var pl place
	if err := c.seen(ino, &pl); err != nil {
		return err
	}
	return c.need(a, &pl, "")
}

// changes decides whether ino's content may be changed, and prepares for it. The
// lock is held.
func (c *call) changes(ino backend.Ino) error {
	var pl place
	if err := c.seen(ino, &pl); err != nil {
		return err
	}
	if err := c.need(policy.Write, &pl, ""); err != nil {
		return err
	}
	if err := c.disarm(&pl); err != nil {
		return err
	}
	c.noteChange(opWrite, &pl)
	return nil
}

// Write puts p at off, up to backend.MaxPutBytes of it; N tells how much.
// Errors: TooBig, NoSpace, IsDir, Denied, ReadOnly.
func (v *View) Write(r *Request, node backend.NodeID, p []byte, off uint64) (WriteResult, error) {
	return v.write("write", r, node, p, off, anywhere)
}

// WriteBack is Write of a page that was stored to through a map: it makes no file
// longer. What stands behind the end (another has cut the file off there) counts as
// written.
func (v *View) WriteBack(r *Request, node backend.NodeID, p []byte, off uint64) (WriteResult, error) {
	return v.write("write", r, node, p, off, within)
}

// Append puts p at the end of the file, as one step. Off tells where that was.
func (v *View) Append(r *Request, node backend.NodeID, p []byte) (WriteResult, error) {
	return v.write("append", r, node, p, 0, behind)
}

// reach is where a write may go.
type reach uint8

const (
	anywhere reach = iota
	behind         // to the end of the file, wherever that is
	within         // before the end
)

func (v *View) write(op string, r *Request, node backend.NodeID, p []byte, off uint64, to reach) (w WriteResult, err error) {
	c := v.begin(op, r)
	defer c.end()
	err = c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		if err := c.need(policy.Write, &pl, ""); err != nil {
			return err
		}
		all := len(p)
		if to == within {
			p = p[:min(uint64(all), pl.attr.Size-min(off, pl.attr.Size))]
			if len(p) == 0 {
				c.show(&pl)
				w = WriteResult{N: all, Off: off, Attr: c.attr}
				return nil
			}
		}
		if err := c.disarm(&pl); err != nil {
			return err
		}
		c.noteChange(opWrite, &pl)
		if to == behind {
			w, err = c.tx.Append(node.Ino(), p)
		} else {
			w, err = c.tx.Write(node.Ino(), p, off)
		}
		if err == nil {
			pl.attr = w.Attr
			c.show(&pl)
			w.Attr = c.attr
		}
		if w.N == len(p) {
			w.N = all
		}
		return err
	})
	return w, err
}

// Fsync returns when everything done to node so far is on disk.
func (v *View) Fsync(ctx context.Context, r *Request, node backend.NodeID) error {
	c := v.begin("fsync", r)
	defer c.end()
	err := c.in(node, func(c *call) error {
		var pl place
		return c.seen(node.Ino(), &pl)
	})
	if err != nil {
		return err
	}
	return v.s.tree.Sync(ctx)
}

// Fallocate is fallocate(2) with Linux's mode bits KEEP_SIZE, PUNCH_HOLE and
// ZERO_RANGE. Space is not reserved, but what there is no room for now is NoSpace or
// Quota. Unsupported for other bits.
func (v *View) Fallocate(r *Request, node backend.NodeID, off, length uint64, mode uint32) error {
	c := v.begin("fallocate", r)
	defer c.end()
	return c.in(node, func(c *call) error {
		if err := c.changes(node.Ino()); err != nil {
			return err
		}
		return c.tx.Fallocate(node.Ino(), off, length, mode)
	})
}

// Seek finds the next data, or hole, at or after off. NoDevice at or past the
// end.
func (v *View) Seek(r *Request, node backend.NodeID, off uint64, hole bool) (at uint64, err error) {
	c := v.begin("seek", r)
	defer c.end()
	err = c.in(node, func(c *call) error {
		if err := c.allowed(policy.Read, node.Ino()); err != nil {
			return err
		}
		at, err = c.tx.Seek(node.Ino(), off, hole)
		return err
	})
	return at, err
}

// CopyRange makes n bytes of dst share what src has, without moving them. It may do
// less. CrossVolume between two volumes when src is being changed all the time:
// copy by reading and writing then.
func (v *View) CopyRange(r *Request, src backend.NodeID, srcOff uint64, dst backend.NodeID, dstOff, n uint64) (done uint64, err error) {
	c := v.begin("copy", r)
	defer c.end()
	if src.Volume() != dst.Volume() {
		return c.copyAcross(src, srcOff, dst, dstOff, n)
	}
	err = c.in(src, func(c *call) error {
		if err := c.allowed(policy.Read, src.Ino()); err != nil {
			return err
		}
		if err := c.changes(dst.Ino()); err != nil {
			return err
		}
		done, err = c.tx.CopyRange(src.Ino(), srcOff, dst.Ino(), dstOff, n)
		return err
	})
	return done, err
}

// copyTries is how often a copy between volumes is tried when the source changes
// between the two steps.
const copyTries = 8

// copyAcross copies from one volume into another, of which one at a time is
// locked. The source is copied as it was when reading it was decided on.
func (c *call) copyAcross(src backend.NodeID, srcOff uint64, dst backend.NodeID, dstOff, n uint64) (done uint64, err error) {
	for range copyTries {
		var from tree.Source
		err := c.in(src, func(c *call) error {
			if err := c.allowed(policy.Read, src.Ino()); err != nil {
				return err
			}
			from, err = c.tx.Source(src.Ino())
			return err
		})
		if err != nil {
			return 0, err
		}
		err = c.in(dst, func(c *call) error {
			if err := c.changes(dst.Ino()); err != nil {
				return err
			}
			done, err = c.tx.CopyFrom(from, srcOff, dst.Ino(), dstOff, n)
			return err
		})
		if backend.KindOf(err) != backend.WouldBlock {
			return done, err
		}
	}
	return 0, backend.CrossVolume
}
