package view

import (
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// Unlink removes a name that is not a directory's. Errors: NotFound, IsDir,
// Denied, ReadOnly.
func (v *View) Unlink(r *Request, parent backend.NodeID, name string) error {
	return v.remove("unlink", r, parent, name, false, nil)
}

// Rmdir removes an empty directory. Errors: NotFound, NotDir, NotEmpty, Denied,
// ReadOnly; Busy for the root of a volume.
func (v *View) Rmdir(r *Request, parent backend.NodeID, name string) error {
	return v.remove("rmdir", r, parent, name, true, nil)
}

// Older tells whether content and attributes of a changed last before a time.
func Older(a *backend.Attr, before backend.Time) bool { return max(a.Mtime, a.Ctime) < before }

// RemoveOlder is Unlink, or Rmdir for a directory, if what is there is Older and the
// directory that it is in stands, in its volume, where at says (nil: anywhere):
// Conflict if it is not so.
func (v *View) RemoveOlder(parent backend.NodeID, name string, isDir bool, before backend.Time, at func(dir string) bool) error {
	return v.remove("collect", nil, parent, name, isDir, func(c *call, ino backend.Ino) error {
		a, err := c.tx.Attr(ino)
		if err != nil {
			return err
		}
		dir := ""
		if at != nil {
			dir, err = c.tx.Path(parent.Ino())
		}
		if err == nil && (!Older(&a, before) || at != nil && !at(dir)) {
			err = backend.Conflict
		}
		return err
	})
}

// remove removes a name; ok, if that is not nil, may refuse it for what is there.
func (v *View) remove(op string, r *Request, parent backend.NodeID, name string, isDir bool, ok func(*call, backend.Ino) error) error {
	c := v.begin(op, r)
	defer c.end()
	if err := checkName(name); err != nil {
		return err
	}
	var left departures
	err := c.in(parent, func(c *call) error {
		var dir place
		if err := c.dir(parent.Ino(), &dir); err != nil {
			return err
		}
		if !c.nameSeen(&dir, name) {
			return c.hidden(c.label, &dir, name)
		}
		if err := c.need(policy.Remove, &dir, name); err != nil {
			return err
		}
		id, _, err := c.tx.Lookup(dir.ino(), name)
		if err != nil {
			return err
		}
		if id.Volume() != c.vol && !isDir {
			return backend.IsDir
		}
		if id.Volume() != c.vol {
			return backend.Busy
		}
		if err := c.permitTakingNode(&dir, id.Ino()); err != nil {
			return err
		}
		if ok != nil {
			if err := ok(c, id.Ino()); err != nil {
				return err
			}
		}
		if err := c.needBound(&dir, name, id.Ino()); err != nil {
			return err
		}
		undo, err := c.losesName(&dir, name, id.Ino())
		if err != nil {
			return err
		}
		if err := left.note(c, Edge{Parent: parent, Name: name, Node: id}, false); err != nil {
			return err
		}
		c.note(op, dir.ino(), name, "", id)
		if isDir {
			err = c.tx.Rmdir(dir.ino(), name)
		} else {
			err = c.tx.Unlink(dir.ino(), name)
		}
		if err != nil {
			left = nil
			if undo {
				c.v.s.forgetZone(id)
			}
			return err
		}
		return left.settle(c)
	})
	left.send()
	return err
}

// losesName prepares for name in dir being taken from ino: a denied name
// leaves its mark, and the zone of what a mount still holds is remembered.
// kept tells that it was.
func (c *call) losesName(dir *place, name string, ino backend.Ino) (kept bool, err error) {
	a, err := c.tx.Attr(ino)
	if err != nil {
		return false, err
	}
	last := a.Nlink <= 1
	held := last && c.v.s.notifier != nil && c.v.s.notifier.InUse(a.Node)
	if a.Type == backend.TypeRegular && (!last || held) {
		denied, err := c.linkDenied(dir.ino(), name)
		if err != nil {
			return false, err
		}
		if denied {
			if err := c.tx.MarkDenied(ino); err != nil {
				return false, err
			}
		}
	}
	if held {
		if err := c.stray(a.Node, a.Nlink); err != nil {
			return false, err
		}
	}
	if !held || !c.keepsPlaces() {
		return false, nil
	}
	var pl place
	if err := c.place(ino, &pl); err != nil {
		return false, err
	}
	return true, c.keepPlace(a.Node, pl.res.Zone, dir.ino(), name)
}
