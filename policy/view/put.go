package view

import (
	"bytes"
	"errors"
	"io"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// PutIf is Put that is done only if cond holds where it takes effect, and gives
// the etag of what it wrote. Where the file is written in place, cond holds for
// the first step. Errors: Put's; NotFound, Conflict and Exist as cond says.
func (v *View) PutIf(path string, body io.Reader, mode uint32, cond Cond) (Found, string, error) {
	return v.put(path, body, mode, &walk{v: v, create: true}, false, cond)
}

// chunk is how many bytes of a file are written at once.
const chunk = 1 << 20

// putting is one write of a whole file under way.
type putting struct {
	v    *View
	f    *Found // what is replaced, or where it goes; in the end what was written
	cond Cond
	mode uint32
	etag string
}

func (v *View) put(path string, body io.Reader, mode uint32, w *walk, keep bool, cond Cond) (f Found, etag string, err error) {
	if f, err = v.findWritable(path, *w); err != nil {
		return Found{}, "", err
	}
	exists := f.Attr.Node != 0
	switch {
	case exists && cond.Absent:
		return Found{}, "", pathError("write", path, backend.Exist)
	case !exists && cond.Match != "":
		return Found{}, "", pathError("write", path, backend.NotFound)
	case exists && (keep || mode == 0):
		mode = f.Attr.Mode
	case mode == 0:
		mode = 0o644
	}
	first, err := io.ReadAll(io.LimitReader(body, chunk))
	if err != nil {
		return Found{}, "", err
	}
	if len(first) == chunk {
		body = io.MultiReader(bytes.NewReader(first), body)
	} else {
		body = bytes.NewReader(first)
	}
	p := putting{v: v, f: &f, cond: cond, mode: mode}
	size := min(len(first)+1, chunk)
	if exists && !v.allows(policy.Create, f.Dir) {
		err = p.rewrite(body, size)
	} else {
		err = p.replace(body, size)
	}
	if err != nil {
		return Found{}, "", atPath("write", path, err)
	}
	return f, p.etag, nil
}

// replace writes a nameless file, like the one at f if there is one, and then
// gives it the name.
func (p *putting) replace(body io.Reader, size int) error {
	v, f := p.v, p.f
	a, err := v.Tmpfile(nil, f.Dir, p.mode)
	if err != nil {
		return err
	}
	defer v.s.Dropped(a.Node) // it stays if it got a name
	old := &f.Attr
	if old.Node != 0 {
		if old.UID != a.UID || old.GID != a.GID {
			if _, err := v.Setattr(nil, a.Node, backend.SetAttr{UID: &old.UID, GID: &old.GID, Mode: &p.mode}); err != nil {
				return err
			}
		}
		if err := v.copyXattrs(old.Node, a.Node); err != nil {
			return err
		}
	}
	if err := v.writeAll(a.Node, body, size, 0); err != nil {
		return err
	}
	if err := p.mark(a.Node); err != nil {
		return err
	}
	if p.cond.Match == "" {
		_, err := v.link("create", nil, a.Node, f.Dir, f.Name, func(c *call) error { return p.settled(c, a.Node.Ino()) })
		if err == nil || p.cond.Absent || !errors.Is(err, backend.Exist) {
			return err
		}
	}
	return v.supplant(a.Node, f.Dir, f.Name, func(c *call, old *place) error { return p.meets(c, a.Node.Ino(), old) },
		func(c *call) error { return p.settled(c, a.Node.Ino()) })
}

// mark notes at a file that it is a publication, if it is.
func (p *putting) mark(node backend.NodeID) error {
	if p.cond.Publish == nil {
		return nil
	}
	c := p.v.begin("setxattr", nil)
	defer c.end()
	return c.in(node, func(c *call) error {
		return c.tx.SetXattr(node.Ino(), publishedAs, []byte(p.cond.Publish.Name), false, false)
	})
}

// meets tells whether what is about to be replaced (nil: nothing) meets the
// condition, and makes ino its successor, which keeps who made it and when.
func (p *putting) meets(c *call, ino backend.Ino, old *place) error {
	if old == nil {
		if p.cond.Match != "" {
			return backend.NotFound
		}
		return nil
	}
	if err := c.holds(p.cond, old); err != nil || old.attr.Type != backend.TypeRegular {
		return err
	}
	if err := c.keepOld(old, p.cond.Publish); err != nil {
		return err
	}
	return c.tx.Succeed(ino, old.ino())
}

// settled notes what the write has left at ino. The lock is held.
func (p *putting) settled(c *call, ino backend.Ino) error {
	return c.settled(ino, p.f, &p.etag)
}

// rewrite replaces a file's content in place; what fits in one step, as one for
// every reader.
func (p *putting) rewrite(body io.Reader, size int) error {
	node := p.f.Attr.Node
	first := make([]byte, size)
	n, rerr := ReadFull(body, first)
	if rerr != nil && !errors.Is(rerr, io.EOF) {
		return rerr
	}
	c := p.v.begin("write", nil)
	defer c.end()
	err := c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		if err := c.holds(p.cond, &pl); err != nil {
			return err
		}
		if pl.attr.Type == backend.TypeSymlink {
			return backend.Loop
		}
		if err := c.changes(node.Ino()); err != nil {
			return err
		}
		if _, err := c.tx.Amend(node.Ino(), first[:n], 0); err != nil {
			return err
		}
		return p.settled(c, node.Ino())
	})
	if err != nil {
		return err
	}
	if rerr == nil { // there is more
		if err := p.v.writeAll(node, body, size, uint64(n)); err != nil {
			return err
		}
	}
	if p.mode != p.f.Attr.Mode {
		if _, err := p.v.Setattr(nil, node, backend.SetAttr{Mode: &p.mode}); err != nil {
			return err
		}
	} else if errors.Is(rerr, io.EOF) {
		return nil
	}
	return p.resettle(node)
}

// resettle notes again what is at node, after more steps.
func (p *putting) resettle(node backend.NodeID) error {
	c := p.v.begin("write", nil)
	defer c.end()
	return c.in(node, func(c *call) error { return p.settled(c, node.Ino()) })
}

// writeAll writes all of body, size bytes at a time, from off on.
func (v *View) writeAll(node backend.NodeID, body io.Reader, size int, off uint64) error {
	buf := make([]byte, size)
	for {
		n, rerr := ReadFull(body, buf)
		if err := v.WriteFull(node, buf[:n], off); err != nil {
			return err
		}
		off += uint64(n)
		if errors.Is(rerr, io.EOF) {
			return nil
		}
		if rerr != nil {
			return rerr
		}
	}
}
