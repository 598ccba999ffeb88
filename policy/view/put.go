package view

import (
	"cmp"
	"errors"
	"io"
	"slices"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
)

// PutIf does the same as Put, but only if cond holds at that moment, and also returns
// the etag of what it wrote. Errors: Put's; NotFound, Conflict and Exist as cond defines.
func (v *View) PutIf(path string, body io.Reader, mode uint32, cond Cond) (Found, string, error) {
	return v.put(path, body, walk{create: true}, putting{mode: mode, cond: cond})
}

// chunk is how many bytes of a file are written at once.
const chunk = 1 << 20

// putting is one write of a whole file under way.
type putting struct {
	v        *View
	f        *Found // what is changed, or where it goes; in the end what was written
	cond     Cond
	mode     uint32 // 0: that of the file that is there, else of a new one 0644
	keep     bool   // a file that is there keeps its mode
	replaces bool   // a file that is there is replaced by another one under its name
	etag     string

	first  []byte         // all of the content, if nothing is staged
	staged backend.NodeID // a file without a name that has the content; 0: none
	named  bool           // staged may get the name: it was made as the view makes files
}

// put implements Put and its variants, which differ in p and in the walk that finds the
// file.
func (v *View) put(path string, body io.Reader, w walk, p putting) (f Found, etag string, err error) {
	w.v, p.v, p.f = v, v, &f
	if err := p.find(path, w); err != nil {
		return Found{}, "", err
	}
	defer func() { p.drop() }()
	if err := p.read(body); err != nil {
		return Found{}, "", atPath("write", path, err)
	}
	for range maxRetries {
		there := f.Attr.Node != 0
		switch {
		case !there:
			err = p.create()
		case p.replaces:
			err = p.replace()
		default:
			err = p.rewrite()
		}
		again := there && isNotFound(err) || !there && errors.Is(err, backend.Exist) && !p.cond.Absent
		if !again {
			return f, p.etag, atPath("write", path, err)
		}
		if err = p.find(path, w); err != nil {
			return Found{}, "", err
		}
	}
	return Found{}, "", pathError("write", path, backend.Conflict)
}

// find looks for the file, and fails if the condition cannot hold because the file exists
// or is missing.
func (p *putting) find(path string, w walk) (err error) {
	if *p.f, err = p.v.findWritable(path, w); err != nil {
		return err
	}
	switch there := p.f.Attr.Node != 0; {
	case there && p.cond.Absent:
		return pathError("write", path, backend.Exist)
	case !there && p.cond.Match != "":
		return pathError("write", path, backend.NotFound)
	}
	return nil
}

// read reads all of body: into first, where it is less than a chunk and for a file
// that is there, else into a staged file.
func (p *putting) read(body io.Reader) error {
	p.first = make([]byte, 4096)
	n, err := ReadFull(body, p.first)
	if err == nil {
		p.first = slices.Grow(p.first, chunk-n)[:chunk]
		var more int
		more, err = ReadFull(body, p.first[n:])
		n += more
	}
	p.first = p.first[:n]
	switch {
	case err == nil:
		return p.stage(body)
	case !errors.Is(err, io.EOF):
		return err
	case p.f.Attr.Node == 0 || p.replaces:
		return p.stage(nil)
	}
	return nil
}

// stage writes first, and then the rest of body, to a file without a name. Where the
// file is there and changed in place the view need not be allowed to make one: it sees
// nothing of that file.
func (p *putting) stage(body io.Reader) error {
	if err := p.newStage(p.f.Attr.Node == 0 || p.replaces); err != nil {
		return err
	}
	off, buf := uint64(0), p.first
	for p.first = nil; ; {
		if err := p.v.writeStaged(p.staged, buf, off); err != nil || body == nil {
			return err
		}
		off += uint64(len(buf))
		n, err := ReadFull(body, buf[:cap(buf)])
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if err != nil {
			body = nil
		}
		buf = buf[:n]
	}
}

// newStage makes the file without a name. If named, the file may get a name later.
func (p *putting) newStage(named bool) error {
	if p.named = named; named {
		a, err := p.v.Tmpfile(nil, p.f.Dir, cmp.Or(p.mode, 0o644))
		p.staged = a.Node
		return err
	}
	return p.v.stageIn(p.f.Attr.Node, &p.staged)
}

// stageIn makes a file without a name in the volume of node, and outside every view.
func (v *View) stageIn(node backend.NodeID, staged *backend.NodeID) error {
	return v.at(node, func(c *call) error {
		a, err := c.tx.CreateOrphan(backend.RootIno, tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o600}, true)
		*staged = a.Node
		return err
	})
}

// drop lets go of what was staged; it stays if it got a name.
func (p *putting) drop() {
	if p.staged != 0 {
		p.v.s.Dropped(p.staged)
	}
}

// writeStaged writes b to a staged file, which only this write uses.
func (v *View) writeStaged(node backend.NodeID, b []byte, off uint64) error {
	return v.at(node, func(c *call) error { return c.writeWhole(node.Ino(), b, off) })
}

// create links the content to the name. It fails with Exist if the name is taken by now.
func (p *putting) create() error {
	if p.staged == 0 || !p.named { // the file that was there is gone
		old := p.staged
		if err := p.newStage(true); err != nil {
			p.staged = old
			return err
		}
		err := p.v.at(p.staged, func(c *call) error { return c.fill(p.staged.Ino(), p.first, old, 0) })
		if old != 0 {
			p.v.s.Dropped(old)
		}
		if err != nil {
			return err
		}
	}
	if err := p.mark(); err != nil {
		return err
	}
	_, err := p.v.link("create", nil, p.staged, p.f.Dir, p.f.Name, func(c *call) error {
		return c.settled(p.staged.Ino(), p.f, &p.etag)
	})
	return err
}

// at runs fn, a step of a write, with the lock of node's volume.
func (v *View) at(node backend.NodeID, fn func(*call) error) error {
	c := v.begin("write", nil)
	defer c.end()
	return c.in(node, fn)
}

// fill makes what staged has from off on, or tail if staged is 0, all that the file ino
// has there. The lock is held.
func (c *call) fill(ino backend.Ino, tail []byte, staged backend.NodeID, off uint64) error {
	if staged == 0 {
		_, err := c.tx.Amend(ino, tail, off)
		return err
	}
	if staged.Volume() != c.vol { // a symlink leads elsewhere now
		return backend.Conflict
	}
	_, err := c.tx.TakeContent(ino, staged.Ino(), off)
	return err
}

// rewrite replaces a file's content in place, as one step for every reader and after
// a crash. It fails with NotFound if the file has lost its last name since it was found.
func (p *putting) rewrite() error {
	return p.v.unfragmented(p.f.Attr.Node, func(c *call) error {
		pl, err := c.overwrite(p.f.Attr.Node.Ino(), p.cond, p.first, p.staged, 0)
		if err != nil {
			return err
		}
		if mode := p.mode; mode != 0 && !p.keep && mode != pl.attr.Mode {
			set := backend.SetAttr{Mode: &mode}
			if err := c.restrain(&pl, &set); err != nil {
				return err
			}
			if _, err := c.tx.Setattr(pl.ino(), set); err != nil {
				return err
			}
		}
		return c.settled(pl.ino(), p.f, &p.etag)
	})
}

// overwrite runs fill on a file that the view may write, if cond holds. It fails with
// NotFound if the file has no name any more. The lock is held.
func (c *call) overwrite(ino backend.Ino, cond Cond, tail []byte, staged backend.NodeID, off uint64) (pl place, err error) {
	if err := c.seen(ino, &pl); err != nil {
		return pl, err
	}
	switch {
	case pl.attr.Nlink == 0:
		return pl, backend.NotFound
	case pl.attr.Type == backend.TypeSymlink:
		return pl, backend.Loop
	}
	if err := c.holds(cond, &pl); err != nil {
		return pl, err
	}
	if err := c.changes(ino); err != nil {
		return pl, err
	}
	return pl, c.fill(ino, tail, staged, off)
}

// TakeContent makes what from has, a file that Tmpfile made in the same volume, all that
// the regular file node has, as one step for every reader and after a crash. from is
// empty afterwards. Errors: Write's; NotFound also where node has no name any more;
// TooBig as for Put.
func (v *View) TakeContent(node, from backend.NodeID) error {
	return v.unfragmented(node, func(c *call) error {
		_, err := c.overwrite(node.Ino(), Cond{}, nil, from, 0)
		return err
	})
}

// replace moves the name from its file to the staged file, which becomes like that file.
// It fails with NotFound if the name was removed since it was found.
func (p *putting) replace() error {
	v, old, mode := p.v, &p.f.Attr, p.mode
	if p.keep || mode == 0 {
		mode = old.Mode
	}
	set := backend.SetAttr{UID: &old.UID, GID: &old.GID, Mode: &mode}
	if _, err := v.Setattr(nil, p.staged, set); err != nil {
		return err
	}
	if err := v.copyXattrs(old.Node, p.staged); err != nil {
		return err
	}
	if err := p.mark(); err != nil {
		return err
	}
	ino := p.staged.Ino()
	return v.supplant(p.staged, p.f.Dir, p.f.Name, func(c *call, old *place) error {
		if old == nil {
			return backend.NotFound
		}
		if err := c.holds(p.cond, old); err != nil || old.attr.Type != backend.TypeRegular {
			return err
		}
		if err := c.keepOld(old, p.cond.Publish); err != nil {
			return err
		}
		return c.tx.Succeed(ino, old.ino())
	}, func(c *call) error { return c.settled(ino, p.f, &p.etag) })
}

// mark notes at the staged file that it is a publication, if it is.
func (p *putting) mark() error {
	if p.cond.Publish == nil {
		return nil
	}
	return p.v.at(p.staged, func(c *call) error {
		return c.tx.SetXattr(p.staged.Ino(), publishedAs, []byte(p.cond.Publish.Name), false, false)
	})
}

// unfragmented runs fn with the lock of node's volume. Where fn cannot exchange the
// content because the file is in too many extents, these are gathered, step by step
// and without the lock in between, and fn runs again.
func (v *View) unfragmented(node backend.NodeID, fn func(*call) error) error {
	err := v.at(node, fn)
	if !errors.Is(err, tree.ErrFragmented) {
		return err
	}
	for off, more := uint64(0), true; more; more = off != 0 {
		err := v.at(node, func(c *call) (err error) {
			off, err = c.tx.Gather(node.Ino(), off)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err = v.at(node, fn); errors.Is(err, tree.ErrFragmented) {
		err = &backend.Error{Kind: backend.TooBig, Err: errors.New("it cannot be changed in one step: remove it first, or write it through a mount")}
	}
	return err
}
