package view

import (
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
)

// Getattr tells node's attributes as the view shows them.
func (v *View) Getattr(r *Request, node backend.NodeID) (backend.Attr, error) {
	c := v.begin("getattr", r)
	defer c.end()
	err := c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		c.answerAttr(&pl)
		return nil
	})
	if err != nil {
		return backend.Attr{}, err
	}
	return c.attr, nil
}

// storeIDs makes the owner and the group that s sets what is stored for them.
func (c *call) storeIDs(pl *place, s *backend.SetAttr) {
	if s.UID != nil {
		uid := c.storedID(pl, *s.UID, c.v.o.UID)
		s.UID = &uid
	}
	if s.GID != nil {
		gid := c.storedID(pl, *s.GID, c.v.o.GID)
		s.GID = &gid
	}
}

func (c *call) answerAttr(pl *place) {
	c.show(pl)
	if c.watch != nil {
		c.watch.Attr(&c.attr)
	}
}

// Setattr changes attributes. Whether the caller's uid may chmod, chown or set
// times is decided here with Options.Modes, else by the view's reader. A mode is set
// without set-id bits on a file that another agent made. Errors: Denied, NotPermitted, ReadOnly, IsDir, Invalid, TooBig.
func (v *View) Setattr(r *Request, node backend.NodeID, s backend.SetAttr) (backend.Attr, error) {
	c := v.begin("setattr", r)
	defer c.end()
	hides := false
	err := c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		if s == (backend.SetAttr{}) { // chown to -1, -1; or a write, which takes the bits itself
			mode := tree.KillPriv(pl.attr.Mode)
			stranger := !c.own && c.r.UID != 0 && c.tx.Op.UID != pl.attr.UID
			if !c.armed(&pl) || mode == pl.attr.Mode || stranger {
				c.answerAttr(&pl)
				return nil
			}
			s.Mode = &mode
		}
		if err := c.need(policy.Write, &pl, ""); err != nil {
			return err
		}
		if err := c.permitSet(&pl, &s); err != nil {
			return err
		}
		c.storeIDs(&pl, &s)
		if err := c.restrain(&pl, &s); err != nil {
			return err
		}
		if s.Size != nil {
			c.noteChange(opWrite, &pl)
		} else {
			c.noteChange(opAttr, &pl)
		}
		a, err := c.tx.Setattr(node.Ino(), s)
		if err != nil {
			return err
		}
		hides = losesSearch(&pl, s.Mode)
		pl.attr = a
		c.answerAttr(&pl)
		return nil
	})
	if err == nil && hides {
		v.s.unsearchable(node.Volume())
	}
	if err != nil {
		return backend.Attr{}, err
	}
	return c.attr, nil
}

// Readlink gives a symlink's target. Invalid for anything else.
func (v *View) Readlink(r *Request, node backend.NodeID) (target string, err error) {
	c := v.begin("readlink", r)
	defer c.end()
	err = c.in(node, func(c *call) error {
		if err := c.allowed(policy.Read, node.Ino()); err != nil {
			return err
		}
		target, err = c.tx.Readlink(node.Ino())
		return err
	})
	return target, err
}

// Statfs tells the use and the limits of the volume node is in.
func (v *View) Statfs(r *Request, node backend.NodeID) (st VolumeStat, err error) {
	c := v.begin("statfs", r)
	defer c.end()
	err = c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		st = c.tx.Stat()
		if c.vol == v.s.root || pl.hollow() { // what the root volume holds tells of everybody
			st.Limits = tree.Limits{}
			st.FreeBytes, st.FreeInodes = c.tx.Free()
			st.UsedInodes, st.Inodes = numTops+1, st.FreeInodes+numTops+1
			st.UsedBytes, st.Bytes = 0, st.FreeBytes
		}
		return nil
	})
	return st, err
}

// List gives the names of a directory that the view may see, sorted, without .
// and .. Errors: NotFound, NotDir.
func (v *View) List(r *Request, dir backend.NodeID) (list []Dirent, err error) {
	c := v.begin("list", r)
	defer c.end()
	err = c.in(dir, func(c *call) error {
		list, err = c.list(dir.Ino())
		if err == nil && c.watch != nil {
			c.watch.Listing(dir)
		}
		return err
	})
	return list, err
}

func (c *call) list(ino backend.Ino) ([]Dirent, error) {
	var dir place
	if err := c.dir(ino, &dir); err != nil || dir.blank {
		return nil, err
	}
	all, err := c.tx.List(ino)
	if err != nil {
		return nil, err
	}
	if len(dir.leads) == 0 && c.vol != c.v.s.root && (c.label.Kind != KindHome || ino != backend.RootIno) {
		return all, nil
	}
	seen := all[:0]
	for _, e := range all {
		if c.listed(&dir, &e) {
			seen = append(seen, e)
		}
	}
	return seen, nil
}

// listed tells whether an entry of a directory of which the view may not see all
// is in its listing.
func (c *call) listed(dir *place, e *Dirent) bool {
	switch {
	case dir.top > 0:
		return c.v.listsVolume(c.p, topChild(dir.top-1, e.Name))
	case len(dir.leads) > 0:
		leads, final := c.leadsOn(dir, e.Name)
		return final || leads && e.Type == backend.TypeDir
	}
	return c.nameSeen(dir, e.Name)
}

// Parent gives the directory that node's first name is in, for "..". The view's
// root is its own. NotFound for a file without a name, and where the parent is
// not in the view.
func (v *View) Parent(r *Request, node backend.NodeID) (up backend.NodeID, err error) {
	if node == v.root {
		return node, nil
	}
	c := v.begin("parent", r)
	defer c.end()
	err = c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		if node.Ino() == backend.RootIno {
			up = c.tx.Info().Parent
			return nil
		}
		ino, err := c.tx.Parent(node.Ino())
		if err != nil {
			return err
		}
		up = backend.Node(c.vol, ino)
		return c.seen(ino, &pl)
	})
	if err != nil || up.Volume() == node.Volume() {
		return up, err
	}
	err = c.in(up, func(c *call) error {
		var pl place
		return c.seen(up.Ino(), &pl)
	})
	return up, err
}

// Path gives the tree path of node's first name in the view.
func (v *View) Path(node backend.NodeID) (path string, err error) {
	c := v.begin("path", nil)
	defer c.end()
	err = c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		path, err = c.shownPath(&pl, "")
		return err
	})
	return path, err
}
