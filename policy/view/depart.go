package view

import (
	"github.com/warrenfs/warren/backend"
)

// departures are nodes that a rename or an unlink takes out of the part of the
// tree that other views are rooted in, while they live on elsewhere: to those
// views they are revoked.
type departures []departure

type departure struct {
	v    *View
	edge Edge
}

// note lists the views in whose part e stands, before the change. The
// volume's lock is held.
func (d *departures) note(c *call, e Edge) {
	s := c.v.s
	s.mu.Lock()
	defer s.mu.Unlock()
	for v := range s.views {
		if v.root.Volume() != c.vol || v.root.Ino() == backend.RootIno {
			continue
		}
		if in, err := c.tx.Within(e.Parent.Ino(), v.root.Ino()); in && err == nil {
			*d = append(*d, departure{v, e})
		}
	}
}

// settle keeps those that really left. The change is done, the lock still held.
func (d *departures) settle(c *call) error {
	left := (*d)[:0]
	for _, x := range *d {
		a, err := c.tx.Attr(x.edge.Node.Ino())
		if err != nil {
			return err
		}
		in, err := c.below(a.Node.Ino(), a.Nlink, x.v.root.Ino())
		if err != nil {
			return err
		}
		if !in {
			left = append(left, x)
		}
	}
	*d = left
	return nil
}

// send tells the views. No lock is held.
func (d departures) send() {
	for _, x := range d {
		x.v.o.Observer.(Revoker).Revoked(Revocation{Gone: []Edge{x.edge}, Standing: x.v.standing})
	}
}

// shifted tells the views that see volume vol that what they may do with its
// nodes, and so the modes they are shown, may have changed. No lock is held.
func (s *Space) shifted(vol backend.VolumeID) {
	info, ok := s.tree.Volume(vol)
	if !ok {
		return
	}
	s.mu.Lock()
	var views []*View
	for v := range s.views {
		if v.within(&info) && v.lists(v.principal(), volumeResource(info.Label)) {
			views = append(views, v)
		}
	}
	s.mu.Unlock()
	for _, v := range views {
		v.o.Observer.(Revoker).Revoked(Revocation{Changed: []backend.VolumeID{vol}, Standing: v.standing})
	}
}
