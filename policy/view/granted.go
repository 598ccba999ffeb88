package view

import (
	"errors"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
)

// A grant covers what stands at its path or below it, by any of a node's names.
// The directories on the way to that path are bridges for the agent: it sees
// them as empty directories (0555, fixed times) but for the names that lead on,
// and what else is in them does not exist. Bridges ask nothing of who else has
// grants: only agents with a grant on a part of a volume pay for it.

// volumePlace is what policy knows of the root of the volume labelled l, for p.
func volumePlace(p *policy.Principal, l Label) (policy.Resource, *policy.VolumeGrants) {
	r := volumeResource(l)
	g := p.Grants(r)
	r.Grants = g.Whole()
	return r, g
}

// seesVolume tells whether p sees the root of the volume labelled l: all of it,
// or as a bridge.
func (v *View) seesVolume(p *policy.Principal, l Label) bool {
	r, g := volumePlace(p, l)
	return v.decide(p, policy.See, r).Allow || v.leads(p, g.Leads("")) != nil
}

// listsVolume is seesVolume for whoever goes through all volumes.
func (v *View) listsVolume(p *policy.Principal, l Label) bool {
	r, g := volumePlace(p, l)
	return v.lists(p, r) || v.leads(p, g.Leads("")) != nil
}

// leads gives those of some names that lead to what p may see; nil: none.
func (v *View) leads(p *policy.Principal, all []policy.Lead) []policy.Lead {
	for i, l := range all {
		if v.decide(p, policy.See, l.Place).Allow {
			if i == 0 {
				return all
			}
			return all[i:] // each is asked about again where it counts
		}
	}
	return nil
}

// leadsOn finds name among the leads of a bridge. final: what is granted stands
// under that very name.
func (c *call) leadsOn(dir *place, name string) (leads, final bool) {
	for _, l := range dir.leads {
		if l.Name == name && c.v.decide(c.p, policy.See, l.Place).Allow {
			leads, final = true, final || l.Final
		}
	}
	return leads, final
}

// grant completes the place of a node in a volume of which the view's agent has
// grants on parts: which of them cover it, and whether it is a bridge.
func (c *call) grant(ino backend.Ino, pl *place) error {
	rel, err := c.covered(ino, pl)
	if err != nil || c.decides(policy.See, pl) {
		return err
	}
	if !pl.attr.IsDir() {
		if path, ok := c.v.s.kept.path(c.v, pl.attr.Node); ok {
			pl.res.Grants = c.g.At(path)
			pl.kept = c.decides(policy.See, pl)
		}
		return nil
	}
	pl.leads = c.v.leads(c.p, c.g.Leads(rel))
	return nil
}

func (c *call) decides(a policy.Action, pl *place) bool { return c.v.decide(c.p, a, pl.res).Allow }

// covered finds the grants that cover a node, by each of its names; without any,
// by the last that it had. rel is the path of a directory.
func (c *call) covered(ino backend.Ino, pl *place) (rel string, err error) {
	switch {
	case pl.attr.Nlink == 0:
		pl.res.Grants = c.g.At(c.v.s.orphanPath(pl.attr.Node))
		return "", nil
	case pl.attr.IsDir() || pl.attr.Nlink == 1:
		rel, err = c.tx.Path(ino)
		if errors.Is(err, backend.NotFound) { // removed, or in what is
			rel, err = c.v.s.orphanPath(pl.attr.Node), nil
		}
		pl.res.Grants = c.g.At(rel)
		return rel, err
	}
	pl.res.Grants, err = c.coveredLinks(ino)
	return "", err
}

// coveredLinks finds the grants that cover any name of ino.
func (c *call) coveredLinks(ino backend.Ino) (set uint32, err error) {
	set = c.g.Whole()
	err = c.tx.EachLink(ino, tree.Link{}, func(l tree.Link) error {
		rel, err := c.linkPath(l)
		set = c.g.Union(set, c.g.At(rel))
		return err
	})
	return set, err
}

// linkPath is where a name stands in the volume.
func (c *call) linkPath(l tree.Link) (string, error) {
	dir, err := c.tx.Path(l.Parent)
	if dir == "" {
		return l.Name, err
	}
	return dir + "/" + l.Name, err
}

// parted tells whether the view sees no more of the volume than what is granted
// of it.
func (c *call) parted() bool {
	if !c.g.Partial() {
		return false
	}
	r, _ := volumePlace(c.p, c.label)
	return !c.v.decide(c.p, policy.See, r).Allow
}

// linkShown tells whether a name of a node with place res may be told: it is below the
// view's root, and, where the view has only parts of the volume, in one of them.
func (c *call) linkShown(l tree.Link, res policy.Resource, parted bool) (bool, error) {
	if root := c.v.root; root.Volume() == c.vol && root.Ino() != backend.RootIno {
		in, err := c.tx.Within(l.Parent, root.Ino())
		if !in || err != nil {
			return false, err
		}
	}
	if !parted {
		return true, nil
	}
	rel, err := c.linkPath(l)
	if err != nil {
		return false, err
	}
	res.Grants = c.g.At(rel)
	return c.v.decide(c.p, policy.See, res).Allow, nil
}

// leadEdges adds the names inside a volume by which grants are reached. all:
// also those that lead to what the view does not see now.
func (v *View) leadEdges(p *policy.Principal, info *tree.VolumeInfo, all bool, to map[Edge]bool) error {
	r, g := volumePlace(p, info.Label)
	if !g.Partial() || !all && v.lists(p, r) {
		return nil
	}
	err := v.s.tree.With(info.ID, func(tx *tree.Txn) error {
		var walk func(ino backend.Ino, rel string) error
		walk = func(ino backend.Ino, rel string) error {
			for _, l := range g.Leads(rel) {
				if !all && !v.lists(p, l.Place) {
					continue
				}
				id, typ, err := tx.Lookup(ino, l.Name)
				if isNotFound(err) {
					continue
				}
				if err != nil {
					return err
				}
				to[Edge{Parent: backend.Node(info.ID, ino), Name: l.Name, Node: id}] = true
				if typ == backend.TypeDir && id.Volume() == info.ID && !l.Final {
					next := l.Name
					if rel != "" {
						next = rel + "/" + l.Name
					}
					if err := walk(id.Ino(), next); err != nil {
						return err
					}
				}
			}
			return nil
		}
		return walk(backend.RootIno, "")
	})
	if errors.Is(err, backend.Stale) { // the volume went
		return nil
	}
	return err
}

// orphan is what is remembered of a node without a name, for as long as a mount
// holds it.
type orphan struct {
	zone policy.Zone // in a home
	path string      // in its volume, of its last name; where that counts
	file bool        // path is of a name, not of the directory that it was made in
}

func (s *Space) orphanPath(node backend.NodeID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.orphans[node].path
}

// orphanFile is orphanPath for a file that had a name.
func (s *Space) orphanFile(node backend.NodeID) (path string, named bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.orphans[node]
	return o.path, o.file
}

// as is c's view of the volume through another view, under the same lock, to ask
// what that one sees.
func (c *call) as(v *View) *call {
	c.recheckNames()
	o := &call{v: v, op: "standing", own: true, silent: true, tx: c.tx, p: v.principal(), vol: c.vol, label: c.label, checked: c.checked}
	_, o.g = volumePlace(o.p, o.label)
	return o
}

// sights tells whether the call's view sees node ino, but for an empty root.
func (c *call) sights(ino backend.Ino) bool {
	var pl place
	return c.seen(ino, &pl) == nil && !pl.blank
}

// MayChange tells whether the view may write a node's data, or change the names
// in a directory. It is noted nowhere.
func (v *View) MayChange(node backend.NodeID) bool {
	a, err := v.Getattr(nil, node)
	if err != nil {
		return false
	}
	if a.IsDir() {
		return v.allows(policy.Create, node)
	}
	return v.allows(policy.Write, node)
}
