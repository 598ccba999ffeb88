package view

import (
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
)

// The directories of the root volume, below "/", and the kind of volume each
// one's names lead to.
const numTops = 4

var topNames = [numTops]string{"agents", "users", "projects", "workspaces"}
var topKinds = [numTops]VolumeKind{KindHome, KindUser, KindProject, KindDevice}

// topMemo remembers whether anything below a directory of the root volume is
// seen.
type topMemo struct {
	epoch, attached uint64
	known, seen     bool
}

// topIndex finds a name of "/"; -1: there is none.
func topIndex(name string) int {
	for i, t := range topNames {
		if t == name {
			return i
		}
	}
	return -1
}

// rootPlace completes the place of a directory of the root volume.
func (c *call) rootPlace(ino backend.Ino, pl *place) error {
	if ino == backend.RootIno {
		return nil
	}
	name, err := c.tx.Top(ino)
	if err != nil {
		return err
	}
	i := topIndex(name)
	if i < 0 { // not made by this version: nobody's
		return backend.NotFound
	}
	pl.top, pl.res.Owner = 1+i, name
	return nil
}

// topSeen tells whether directory topNames[i] exists for the view: policy lets
// it see the directory as such, or something that is in it. The root volume's
// lock is held.
func (c *call) topSeen(i int, dir backend.Ino) bool {
	if c.v.decide(c.p, policy.See, policy.Resource{Zone: policy.ZoneRoot, Owner: topNames[i]}).Allow {
		return true
	}
	m := &c.v.tops[i]
	epoch, attached := c.epoch(), c.v.s.attached.Load()
	if m.known && m.epoch == epoch && m.attached == attached {
		return m.seen
	}
	*m = topMemo{epoch: epoch, attached: attached, known: true}
	if c.v.leads(c.p, c.p.Tops(topNames[i])) != nil {
		m.seen = true
		return true
	}
	list, err := c.tx.List(dir)
	if err != nil {
		*m = topMemo{}
		return false
	}
	for _, e := range list {
		if c.v.listsVolume(c.p, topChild(i, e.Name)) {
			m.seen = true
			break
		}
	}
	return m.seen
}

// topChild is the label of what name in directory topNames[i] leads to, whether
// it exists or not.
func topChild(i int, name string) Label { return Label{Kind: topKinds[i], Owner: name} }

// nameSeen tells whether the view may see what name in dir leads to, as far as
// the name alone tells; it is asked before the name is looked up.
func (c *call) nameSeen(dir *place, name string) bool {
	switch {
	case dir.blank:
		return false
	case len(dir.leads) > 0:
		leads, _ := c.leadsOn(dir, name)
		return leads
	case c.label.Kind == tree.KindRoot && dir.top == 0:
		i := topIndex(name)
		if i < 0 {
			return false
		}
		id, _, err := c.tx.Lookup(backend.RootIno, name)
		return err == nil && c.topSeen(i, id.Ino())
	case c.label.Kind == tree.KindRoot:
		return c.v.seesVolume(c.p, topChild(dir.top-1, name))
	case c.label.Kind == KindHome && dir.ino() == backend.RootIno:
		return c.homeChildSeen(name)
	}
	return true
}

// homeChildSeen tells whether the view sees what name in a home leads to.
func (c *call) homeChildSeen(name string) bool {
	switch name {
	case "workspace":
		return c.v.seesVolume(c.p, Label{Kind: KindWorkspace, Owner: c.label.Owner})
	case "scratch":
		return c.v.seesVolume(c.p, Label{Kind: KindScratch, Owner: c.label.Owner})
	}
	r := policy.Resource{Zone: policy.HomeZone(name), Owner: c.label.Owner, Grants: c.g.At(name)}
	return c.v.decide(c.p, policy.See, r).Allow
}
