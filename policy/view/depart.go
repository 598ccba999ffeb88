package view

import (
	"slices"

	"github.com/warrenfs/warren/backend"
)

// departures are nodes that a rename or an unlink takes out of the part of the
// tree that other views are rooted in, while they live on elsewhere: to those
// views they are revoked.
type departures []departure

type departure struct {
	v       *View
	edge    Edge
	granted bool // v has grants on parts of the volume, and saw the node
}

// note lists the views in whose part e stands, before the change. The
// volume's lock is held.
func (d *departures) note(c *call, e Edge) {
	rooted := func(v *View) bool { return v.root.Volume() == c.vol && v.root.Ino() != backend.RootIno }
	for _, v := range c.v.s.told(func(v *View) bool { return rooted(v) || v.parts(c.label) }) {
		if rooted(v) {
			if in, err := c.tx.Within(e.Parent.Ino(), v.root.Ino()); in && err == nil {
				*d = append(*d, departure{v: v, edge: e})
				continue
			}
		}
		if v.parts(c.label) && c.as(v).sights(e.Node.Ino()) {
			*d = append(*d, departure{v: v, edge: e, granted: true})
		}
	}
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

// settle keeps those that really left. The change is done, the lock still held.
func (d *departures) settle(c *call) error {
	left := (*d)[:0]
	for _, x := range *d {
		a, err := c.tx.Attr(x.edge.Node.Ino())
		if err != nil {
			return err
		}
		gone := false
		if !x.granted {
			in, err := c.below(a.Node.Ino(), a.Nlink, x.v.root.Ino())
			if err != nil {
				return err
			}
			gone = !in
		}
		if !gone && a.Nlink > 0 && x.v.parts(c.label) { // without a name it stays what it was
			gone = !c.as(x.v).sights(a.Node.Ino())
		}
		if gone {
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
		v.o.Observer.(Revoker).Revoked(Revocation{Changed: []backend.VolumeID{vol}, Standing: v.standing})
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
			v.o.Observer.(Revoker).Revoked(Revocation{Changed: []backend.VolumeID{vol}, Standing: v.standing})
		}
	}
}
