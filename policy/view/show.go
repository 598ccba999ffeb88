package view

import (
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
)

const (
	writeBits = 0o222
	// maxCounted bounds the names that are looked at to tell a link count.
	maxCounted = 1000
)

// show puts pl's attributes into c.attr as the view shows them: the owner as
// the mount's user, no w bits where the view may not write, no set-id bits of
// others, of a file's names only those that the view may know of counted, and of a
// directory above volumes nothing that tells of what is hidden in it. The
// volume's lock is held.
func (c *call) show(pl *place) {
	a := &c.attr
	*a = pl.attr
	hollow := pl.hollow() || pl.attr.Node.Volume() == c.v.s.root && !c.seesAll(pl)
	switch {
	case hollow:
		created := c.v.s.tree.Created()
		*a = backend.Attr{Node: a.Node, Type: backend.TypeDir, Mode: 0o555, UID: c.v.o.UID, GID: c.v.o.GID,
			Nlink: 1, Size: a.Size, Atime: created, Mtime: created, Ctime: created, Btime: created}
	case a.Type == backend.TypeSymlink: // its mode is nobody's concern
	case !c.mayWrite(pl):
		a.Mode &^= writeBits
	}
	if c.armed(pl) && !c.made(pl) {
		a.Mode &^= setIDBits
	}
	switch {
	case pl.kept:
		a.Nlink = 0
	case a.Nlink > 1:
		a.Nlink = c.namesInside(pl)
	}
	if !hollow {
		a.UID, a.GID = c.shownUID(pl), c.shownGID(pl)
	}
}

// namesInside counts pl's names that stand below the view's root, and in what is
// granted where that is all the view has of the volume: each costs a
// walk up the tree. Of more than maxCounted names, in the view or not, it tells
// 1, as it does where it cannot tell. In homes nothing else has to be left out:
// a file with a name in a hidden part is hidden.
func (c *call) namesInside(pl *place) uint32 {
	root, parted := c.v.root, c.parted()
	if !parted && (root.Ino() == backend.RootIno || root.Volume() != pl.attr.Node.Volume()) {
		return pl.attr.Nlink
	}
	if pl.attr.Nlink > maxCounted {
		return 1
	}
	n, res := uint32(0), pl.res
	err := c.tx.EachLink(pl.ino(), tree.Link{}, func(l tree.Link) error {
		in, err := c.linkShown(l, res, parted)
		if in && err == nil {
			n++
		}
		return err
	})
	if err != nil {
		return 1
	}
	return max(n, 1)
}

// seesAll tells whether the view sees everything that stands in a directory of
// the root volume, so that its times and size tell nothing.
func (c *call) seesAll(pl *place) bool {
	r := pl.res
	if pl.top == 0 {
		r.Owner = topNames[0]
	}
	return c.v.decide(c.p, policy.See, r).Allow
}

// hollow tells whether the view sees nothing of pl but that it is there.
func (pl *place) hollow() bool { return pl.blank || len(pl.leads) > 0 }

func (c *call) may(a policy.Action, pl *place) bool { return c.v.decide(c.p, a, pl.res).Allow }

// mayWrite reports whether the view may change pl's content, or a directory's names.
func (c *call) mayWrite(pl *place) bool {
	if pl.attr.IsDir() {
		return c.may(policy.Create, pl) || c.may(policy.Remove, pl)
	}
	return c.may(policy.Write, pl)
}

// mayRead reports whether the view may read a file's content.
func (c *call) mayRead(pl *place) bool { return c.may(policy.Read, pl) }

// storedUID is how a uid of this view is stored.
func (v *View) storedUID(uid uint32) uint32 {
	if uid == v.o.UID {
		return backend.OwnerID
	}
	return uid
}

func (v *View) storedGID(gid uint32) uint32 {
	if gid == v.o.GID {
		return backend.OwnerID
	}
	return gid
}
