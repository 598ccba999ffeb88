package view

import (
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
)

// A file that is on a deny-list must not come off it by what is done with other
// names than its own. A denied file is not moved or linked (policy.Move, Link), and
// one that loses a name that is denied to everybody is marked. What is left is
// here: an agent that takes the name which is denied to it from a file that has
// others, and directories that are moved out of where a rule holds. An exception is
// for a place, whatever comes there.

// maxFreed bounds how many names of a directory that moves are looked at.
const maxFreed = 10_000

// frees tells whether the file ino would come off the view's own deny-list without
// name in dir: it has other names, none of which is on it. Without any name it is
// what it was.
func (c *call) frees(dir backend.Ino, name string, ino backend.Ino) (bool, error) {
	if !c.p.HasOwnNames() {
		return false, nil
	}
	a, err := c.tx.Attr(ino)
	if err != nil || a.Type != backend.TypeRegular || a.Nlink < 2 {
		return false, err
	}
	if barred, err := c.linkBarred(dir, name); !barred || err != nil {
		return false, err
	}
	still := false
	err = c.tx.EachLink(ino, tree.Link{}, func(l tree.Link) (err error) {
		if l.Parent == dir && l.Name == name {
			return nil
		}
		if still, err = c.linkBarred(l.Parent, l.Name); still && err == nil {
			err = backend.ErrStop
		}
		return err
	})
	return !still, err
}

// needBound refuses to take name from the file ino if that frees it.
func (c *call) needBound(dir *place, name string, ino backend.Ino) error {
	free, err := c.frees(dir.ino(), name, ino)
	if !free || err != nil {
		return err
	}
	return c.deniedName(policy.Remove, *dir, name, false, true)
}

// deniedName refuses a for name in dir, by the deny-list of all or by the view's
// own.
func (c *call) deniedName(a policy.Action, dir place, name string, denied, barred bool) error {
	dir.res.Denied, dir.res.Barred = denied, barred
	d := c.v.decide(c.p, policy.Create, dir.res)
	if d.Allow {
		return nil
	}
	return c.refuse(a, &dir, name, d)
}

// stays refuses to move the directory at a to where b is, if a file in it would come
// off a deny-list there. With more names in it than are looked at, it is
// CrossVolume: whoever moves it copies it, as far as it may be read.
func (m *move) stays(a, b *end) error {
	if !a.node.attr.IsDir() {
		return nil
	}
	from, err := m.c.treePath(a.dir.ino(), a.name)
	if err != nil {
		return err
	}
	to, err := m.c.treePath(b.dir.ino(), b.name)
	if err != nil || !m.c.p.NamesDiffer(from, to) {
		return err
	}
	left := maxFreed
	return m.c.bound(a.node.ino(), from, to, &left)
}

// bound refuses if a file below the directory ino, which moves from a path to
// another, would come off a deny-list. left counts down the names it looks at.
func (c *call) bound(ino backend.Ino, from, to string, left *int) error {
	list, err := c.tx.List(ino)
	if err != nil {
		return err
	}
	if *left -= len(list); *left < 0 {
		return backend.CrossVolume
	}
	for _, e := range list {
		f, t := from+"/"+e.Name, to+"/"+e.Name
		switch {
		case e.Node.Volume() != c.vol:
		case e.Type == backend.TypeDir:
			err = c.bound(e.Node.Ino(), f, t, left)
		case e.Type == backend.TypeRegular:
			denied := c.p.NameDeniedAt(f) && !c.p.NameDeniedAt(t) && !c.p.NameExcepted(t)
			barred := c.p.NameBarredAt(f) && !c.p.NameBarredAt(t)
			if !denied && !barred {
				continue
			}
			var dir place
			if err = c.place(ino, &dir); err == nil {
				err = c.deniedName(policy.Move, dir, e.Name, denied, barred)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
