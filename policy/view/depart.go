package view

import (
	"slices"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
)

// departures are names that a change takes out of the part of the tree that other
// views are rooted in, or that is granted to them, while the node lives on
// elsewhere. A node that was moved away is revoked; one that only lost its name is
// kept by the mounts that hold it.
type departures []departure

type departure struct {
	v     *View
	edge  Edge
	path  string // of the name, in its volume
	moved bool   // the name stands elsewhere now; else it was removed
}

// note lists the views that see the name e, which is about to be moved or removed.
// The volume's lock is held.
func (d *departures) note(c *call, e Edge, moved bool) error {
	views := c.v.s.told(func(v *View) bool {
		return v.root.Volume() == c.vol && v.root.Ino() != backend.RootIno || v.parts(c.label)
	})
	if len(views) == 0 {
		return nil
	}
	path, err := c.linkPath(tree.Link{Parent: e.Parent.Ino(), Name: e.Name})
	if err != nil {
		return err
	}
	for _, v := range views {
		if c.as(v).shows(e) {
			*d = append(*d, departure{v: v, edge: e, path: path, moved: moved})
		}
	}
	return nil
}

// shows reports whether the call's view sees the node of e by that name.
func (c *call) shows(e Edge) bool {
	var pl place
	if c.seen(e.Node.Ino(), &pl) != nil || pl.blank {
		return false
	}
	if pl.attr.IsDir() {
		return true
	}
	shown, err := c.linkShown(tree.Link{Parent: e.Parent.Ino(), Name: e.Name}, pl.res, c.parted())
	return shown && err == nil
}

// parts tells whether the view's agent has grants on parts of a volume.
func (v *View) parts(l Label) bool {
	_, g := volumePlace(v.principal(), l)
	return g.Partial()
}

// told lists the views that can be told of revocations and are of interest.
func (s *Space) told(of func(*View) bool) (out []*View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for v := range s.views {
		if of(v) {
			out = append(out, v)
		}
	}
	return out
}

// settle reduces d to the views that do not see the new place of a moved node. The other
// views keep the nodes that their kernels hold. The change is done, and the lock is
// still held.
func (d *departures) settle(c *call) error {
	left := (*d)[:0]
	for _, x := range *d {
		a, err := c.tx.Attr(x.edge.Node.Ino())
		if err != nil {
			return err
		}
		c.v.s.kept.drop(x.v, a.Node)
		switch {
		case a.Nlink == 0, c.as(x.v).sights(a.Node.Ino()): // without a name it stays what it was
		case x.moved:
			left = append(left, x)
		case x.v.holds(a.Node):
			c.v.s.kept.keep(x.v, a.Node, x.path)
		}
	}
	*d = left
	return nil
}

// send tells the views. No lock is held.
func (d departures) send() {
	for _, x := range d {
		x.v.o.Observer.(Revoker).Revoked(Revocation{Gone: []Edge{x.edge}, Standing: x.v.standing, Above: x.v.above})
	}
}

// shifted tells the views that see volume vol that what they may do with its
// nodes, and so the modes they are shown, may have changed. granted: only those
// that have grants on parts of it. No lock is held.
func (s *Space) shifted(vol backend.VolumeID, granted bool) {
	info, ok := s.tree.Volume(vol)
	if !ok {
		return
	}
	for _, v := range s.told(func(v *View) bool {
		return (!granted || v.parts(info.Label)) && v.within(&info) && v.listsVolume(v.principal(), info.Label)
	}) {
		v.o.Observer.(Revoker).Revoked(Revocation{Changed: []backend.VolumeID{vol}, Standing: v.standing, Above: v.above})
	}
}

// barred tells the views that see volume vol, and on whose own deny-list one of
// names is, that their rights to its nodes may have changed: a file got or lost
// the name. No lock is held.
func (s *Space) barred(vol backend.VolumeID, names ...string) {
	views := s.told(func(v *View) bool {
		p := v.principal()
		return p.HasOwnNames() && slices.ContainsFunc(names, func(name string) bool {
			barred, byPath := p.NameBarred(name)
			return barred || byPath
		})
	})
	if len(views) == 0 {
		return
	}
	info, ok := s.tree.Volume(vol)
	if !ok {
		return
	}
	for _, v := range views {
		if v.within(&info) && v.listsVolume(v.principal(), info.Label) {
			v.o.Observer.(Revoker).Revoked(Revocation{Changed: []backend.VolumeID{vol}, Standing: v.standing, Above: v.above})
		}
	}
}
