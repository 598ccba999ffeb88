package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control/archive"
)

// attrs are owner, mode and times of an entry. The owner that the archive names
// becomes "the owner"; where an agent imports, everybody does.
func (i *importer) attrs(e *archive.Entry) backend.SetAttr {
	owner := i.owner
	if owner == nil {
		owner = i.in.Owner()
	}
	uid, gid, mode := e.Owner.UID, e.Owner.GID, e.Mode
	if owner != nil && uid == owner.UID {
		uid = backend.OwnerID
	}
	if owner != nil && gid == owner.GID {
		gid = backend.OwnerID
	}
	if !askerIn(i.ctx).administrator() { // what an agent says of other users proves nothing
		uid, gid = backend.OwnerID, backend.OwnerID
	}
	set := backend.SetAttr{UID: &uid, GID: &gid}
	if e.Type != archive.Symlink {
		set.Mode = &mode
	}
	if !e.Mtime.IsZero() {
		t := backend.TimeOf(e.Mtime)
		set.Mtime, set.Atime = &t, &t
	}
	if !e.Atime.IsZero() {
		t := backend.TimeOf(e.Atime)
		set.Atime = &t
	}
	return set
}

// setXattrs sets what can be set; the rest is reported.
func (i *importer) setXattrs(path string, n backend.NodeID, xattrs map[string][]byte) {
	for name, value := range xattrs {
		if strings.HasPrefix(name, "user.warren.") { // answered by warren, from what it knows itself
			continue
		}
		if i.v.Agent() != "" && (strings.HasPrefix(name, "trusted.") || strings.HasPrefix(name, "security.")) {
			if name != "security.selinux" { // every file of some hosts has it
				i.report.Skip(path, fmt.Sprintf("the extended attribute %q is not kept: only an administrator's import sets it", name))
			}
			continue
		}
		if err := i.v.SetXattr(nil, n, name, value, false, false); err != nil {
			i.report.Skip(path, fmt.Sprintf("the extended attribute %q is not kept: %s", name, text(err)))
		}
	}
}

// publish gives everything its name, in the archive's order.
func (i *importer) publish() error {
	err := i.plan.each(func(p *planned) error {
		if err := i.ctx.Err(); err != nil {
			return err
		}
		err := i.publishOne(p)
		switch {
		case err == nil:
			i.done++
			i.report.Entries++
			if p.Type == archive.File {
				i.report.Files++
			}
			return nil
		case i.policy(p.Path, err):
			return nil
		}
		switch backend.KindOf(err) {
		case backend.CrossVolume, backend.Exist, backend.NotDir, backend.IsDir, backend.NotFound, backend.TooManyLinks, backend.Busy, backend.Loop:
			i.report.Skip(p.Path, text(err)) // across volumes, or somebody was faster
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, d := range i.dirs {
		if _, err := i.v.Setattr(nil, d.node, d.set); err != nil && !errors.Is(err, backend.NotFound) {
			return err
		}
	}
	return nil
}

// publishOne makes one entry visible.
func (i *importer) publishOne(p *planned) error {
	at, err := i.locate(i.names(p.Path))
	if err != nil {
		return err
	}
	if err := i.fits(&p.Entry, &at); err != nil {
		return err
	}
	if p.Type == archive.Dir {
		return i.publishDir(p, &at)
	}
	if err := i.parents(&at); err != nil {
		return err
	}
	names := i.names(p.Path)
	name := names[len(names)-1]
	var n backend.NodeID
	if at.node.Node == 0 {
		n, err = i.make(p, at.dir, name)
	} else {
		n, err = i.replace(p, &at.node, at.dir, name)
	}
	if err != nil {
		return err
	}
	if _, wanted := i.links[p.Path]; wanted {
		i.links[p.Path] = n
	}
	return nil
}

// parents makes the directories above a spot that are missing.
func (i *importer) parents(at *spot) error {
	for len(at.rest) > 1 {
		a, err := i.v.Mkdir(nil, at.dir, at.rest[0], 0o755)
		if err != nil {
			return err
		}
		at.dir, at.rest = a.Node, at.rest[1:]
	}
	return nil
}

// publishDir makes a directory. One that is there stays as it is.
func (i *importer) publishDir(p *planned, at *spot) error {
	if at.node.Node != 0 {
		return nil
	}
	if err := i.parents(at); err != nil {
		return err
	}
	a, err := i.v.Mkdir(nil, at.dir, at.rest[0], p.Mode)
	if err != nil {
		return err
	}
	i.setXattrs(p.Path, a.Node, p.Xattrs)
	i.dirs = append(i.dirs, madeDir{a.Node, i.attrs(&p.Entry)})
	return nil
}

// make gives p its name, which nothing has.
func (i *importer) make(p *planned, dir backend.NodeID, name string) (n backend.NodeID, err error) {
	var a backend.Attr
	switch p.Type {
	case archive.File:
		a, err = i.v.NameNew(p.Node, dir, name)
		return a.Node, err
	case archive.Hardlink:
		to, err := i.linked(p)
		if err != nil {
			return 0, err
		}
		a, err = i.v.Link(nil, to, dir, name)
		return a.Node, err
	case archive.Symlink:
		a, err = i.v.Symlink(nil, dir, name, p.Link)
	case archive.FIFO:
		a, err = i.v.Mknod(nil, dir, name, backend.TypeFIFO, p.Mode, 0)
	}
	if err != nil {
		return 0, err
	}
	i.setXattrs(p.Path, a.Node, p.Xattrs)
	_, err = i.v.Setattr(nil, a.Node, i.attrs(&p.Entry))
	return a.Node, err
}

// replace puts p in the place of the file old that has its name. A file's content takes
// the place of a file's: that stays the one it is, with its other names.
func (i *importer) replace(p *planned, old *backend.Attr, dir backend.NodeID, name string) (backend.NodeID, error) {
	n := p.Node
	switch {
	case p.Type == archive.File && old.Type == backend.TypeRegular && n.Volume() == old.Node.Volume():
		if err := i.v.TakeContent(old.Node, n); err != nil {
			return 0, err
		}
		i.setXattrs(p.Path, old.Node, p.Xattrs)
		_, err := i.v.Setattr(nil, old.Node, i.attrs(&p.Entry))
		return old.Node, err
	case p.Type == archive.File:
	case p.Type == archive.Hardlink:
		var err error
		if n, err = i.linked(p); err != nil {
			return 0, err
		}
	default:
		return i.replaceMade(p, dir, name)
	}
	return n, i.v.Supplant(n, dir, name)
}

// replaceMade is replace for what cannot be made without a name.
func (i *importer) replaceMade(p *planned, dir backend.NodeID, name string) (backend.NodeID, error) {
	temp := ".warren-" + rand.Text()
	n, err := i.make(p, dir, temp)
	if err == nil {
		err = i.v.Rename(nil, dir, temp, dir, name, 0)
	}
	if err == nil {
		return n, nil
	}
	if left := i.v.Unlink(nil, dir, temp); left != nil && !errors.Is(left, backend.NotFound) {
		err = errors.Join(err, left)
	}
	return 0, err
}

// linked finds what a hard link is to.
func (i *importer) linked(p *planned) (backend.NodeID, error) {
	if to := i.links[p.Link]; to != 0 {
		return to, nil
	}
	return 0, &backend.Error{Op: "link", Path: p.Path, Kind: backend.NotFound, Err: fmt.Errorf("%q was left out", p.Link)}
}
