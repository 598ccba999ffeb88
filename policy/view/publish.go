package view

import (
	"context"
	"errors"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
)

// Publish puts new facts into force, in every view and mount at once: when it
// returns, nothing is answered by the old ones any more, and no kernel shows
// what its view may not see. An error (the facts are refused) changes nothing.
func (s *Space) Publish(ctx context.Context, f policy.Facts) error {
	s.change.Lock()
	defer s.change.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	before := s.surveys()
	names := s.engine.Facts().Settings
	if err := s.engine.Swap(f); err != nil {
		return &backend.Error{Op: "publish", Kind: backend.Invalid, Err: err}
	}
	// Whoever decided by the old rules holds a volume's lock: wait for them.
	for _, info := range s.tree.Volumes() {
		err := s.tree.With(info.ID, func(*tree.Txn) error { return nil })
		if err != nil && !errors.Is(err, backend.Stale) {
			return err
		}
	}
	s.denials.keep(func(agent string) bool {
		_, there := s.engine.Principal(agent, policy.ReadWrite)
		return there
	})
	s.revoke(before, renamed(names, s.engine.Facts().Settings))
	return nil
}

// renamed gives what tells of a volume's tree path whether other names may be
// used there after the settings changed.
func renamed(was, now policy.Settings) func(path string) bool {
	if !reflect.DeepEqual(was.DenyNames, now.DenyNames) {
		return func(string) bool { return true }
	}
	var places []string
	for _, d := range [][2][]policy.NameRule{{was.Rules, now.Rules}, {now.Rules, was.Rules}} {
		for _, x := range d[0] {
			if !slices.Contains(d[1], x) {
				places = append(places, strings.TrimSuffix(path.Clean("/"+x.Under), "/")+"/")
			}
		}
	}
	for _, d := range [][2][]policy.NameException{{was.Exceptions, now.Exceptions}, {now.Exceptions, was.Exceptions}} {
		for _, x := range d[0] {
			if !slices.Contains(d[1], x) {
				places = append(places, strings.TrimSuffix(path.Clean("/"+x.Under), "/")+"/")
			}
		}
	}
	return func(volume string) bool {
		return slices.ContainsFunc(places, func(under string) bool {
			return strings.HasPrefix(under, volume+"/") || strings.HasPrefix(volume+"/", under)
		})
	}
}

// survey is what one view sees of the names that lead to volumes, and what it
// may do in each.
type survey struct {
	epoch, attached uint64 // when it was so

	edges  map[Edge]bool
	rights map[backend.VolumeID]rights
	who    *policy.Principal
}

// rights are what may be done in one volume.
type rights struct {
	bits   uint64
	grants string // policy.VolumeGrants.Signature
	owners string // ownersSignature, where owners are shown
}

// surveys looks at what every view that can be told sees now.
func (s *Space) surveys() map[*View]*survey {
	s.mu.Lock()
	views := make([]*View, 0, len(s.views))
	for v := range s.views {
		views = append(views, v)
	}
	s.mu.Unlock()
	if len(views) == 0 {
		return nil
	}
	tops, volumes := s.topDirs(), s.tree.Volumes()
	out := make(map[*View]*survey, len(views))
	for _, v := range views {
		out[v] = v.survey(tops, volumes)
	}
	return out
}

// topDirs gives the nodes of the root volume's directories.
func (s *Space) topDirs() (tops [numTops]backend.NodeID) {
	err := s.tree.With(s.root, func(tx *tree.Txn) error {
		for i, name := range topNames {
			id, _, err := tx.Lookup(backend.RootIno, name)
			if err != nil {
				return err
			}
			tops[i] = id
		}
		return nil
	})
	if err != nil {
		s.log.Error("a directory of the root volume is missing", "err", err)
	}
	return tops
}

// survey looks at what v sees now. What it found is kept for the next time.
// Space.change is held.
func (v *View) survey(tops [numTops]backend.NodeID, volumes []tree.VolumeInfo) *survey {
	epoch, attached := v.s.engine.Epoch(), v.s.attached.Load()
	if last := v.seen; last != nil && last.epoch == epoch && last.attached == attached && !last.who.HasGrants() {
		return last
	}
	p := v.principal()
	out := &survey{epoch: epoch, attached: attached, edges: map[Edge]bool{}, rights: map[backend.VolumeID]rights{}, who: p}
	for t, dir := range tops { // those that are seen whatever is in them
		if v.rootPath == "/" && v.decide(p, policy.See, policy.Resource{Zone: policy.ZoneRoot, Owner: topNames[t]}).Allow {
			out.edges[Edge{Parent: v.s.tree.Root(), Name: topNames[t], Node: dir}] = true
		}
	}
	for i := range volumes {
		info := &volumes[i]
		if info.Parent == 0 || !v.within(info) || !v.listsVolume(p, info.Label) {
			continue
		}
		out.rights[info.ID] = v.rights(p, info.Label)
		out.edges[Edge{Parent: info.Parent, Name: info.Name, Node: backend.Node(info.ID, backend.RootIno)}] = true
		for t, dir := range tops {
			if info.Parent == dir && v.rootPath == "/" {
				out.edges[Edge{Parent: v.s.tree.Root(), Name: topNames[t], Node: dir}] = true
			}
		}
		if err := v.leadEdges(p, info, false, out.edges); err != nil {
			v.s.log.Error("what is granted cannot be looked at", "volume", volumePath(info.Label), "err", err)
		}
	}
	v.seen = out
	return out
}

// rights packs what may be done in a volume.
func (v *View) rights(p *policy.Principal, l Label) (out rights) {
	whole, g := volumePlace(p, l)
	out.grants = g.Signature()
	if v.o.Owners {
		out.owners = ownersSignature(v.s.engine.Facts(), l)
	}
	res := []policy.Resource{whole}
	if l.Kind == KindHome {
		for _, top := range []string{"session.md", "notes", "caches"} {
			res = append(res, policy.Resource{Zone: policy.HomeZone(top), Owner: l.Owner, Grants: whole.Grants})
		}
	}
	for _, r := range res {
		for _, a := range []policy.Action{policy.See, policy.Read, policy.Write, policy.Create, policy.Remove} {
			out.bits <<= 1
			if v.decide(p, a, r).Allow {
				out.bits |= 1
			}
		}
	}
	return out
}

// revoke tells the views that were surveyed before a change what it means to
// them. changed: whether what may be done changed in the volume at a tree path,
// though its rights did not; nil: nowhere. No lock but s.change is held.
func (s *Space) revoke(before map[*View]*survey, changed func(path string) bool) {
	if len(before) == 0 {
		return
	}
	tops, volumes := s.topDirs(), s.tree.Volumes()
	touched := map[backend.VolumeID]bool{}
	for _, info := range volumes {
		touched[info.ID] = changed != nil && changed(volumePath(info.Label))
	}
	for v, old := range before {
		now := v.survey(tops, volumes)
		for i := range volumes { // what has come to stand where grants that ended led to
			if err := v.leadEdges(old.who, &volumes[i], true, old.edges); err != nil {
				s.log.Error("what was granted cannot be looked at", "volume", volumePath(volumes[i].Label), "err", err)
			}
		}
		r := Revocation{Standing: v.standing, Above: v.above}
		lost := map[backend.NodeID]bool{}
		for e := range old.edges {
			if !now.edges[e] {
				lost[e.Node] = true
			}
		}
		for e := range old.edges {
			if lost[e.Node] && !lost[e.Parent] { // a top
				r.Gone = append(r.Gone, e)
			}
		}
		for e := range now.edges {
			if !old.edges[e] {
				r.Came = append(r.Came, e)
			}
		}
		for id, rights := range now.rights {
			was, seen := old.rights[id]
			if seen && (touched[id] || was != rights) {
				r.Changed = append(r.Changed, id)
			}
			r.Names = r.Names || seen && was.grants != rights.grants
		}
		if len(r.Gone)+len(r.Came)+len(r.Changed) > 0 {
			v.o.Observer.(Revoker).Revoked(r)
		}
	}
}

// above returns the name that leads to a directory.
func (v *View) above(dir backend.NodeID) (e Edge, ok bool) {
	if dir.Ino() == backend.RootIno {
		info, there := v.s.tree.Volume(dir.Volume())
		return Edge{Parent: info.Parent, Name: info.Name, Node: dir}, there && info.Parent != 0
	}
	err := v.s.tree.With(dir.Volume(), func(tx *tree.Txn) error {
		a, err := tx.Attr(dir.Ino())
		if err != nil || !a.IsDir() {
			return err
		}
		return tx.EachLink(dir.Ino(), tree.Link{}, func(l tree.Link) error {
			e, ok = Edge{Parent: backend.Node(dir.Volume(), l.Parent), Name: l.Name, Node: dir}, true
			return backend.ErrStop
		})
	})
	return e, ok && err == nil
}

// standing tells what the view may do with node now.
func (v *View) standing(node backend.NodeID) Standing {
	c := v.begin("standing", nil)
	defer c.end()
	c.watch, c.silent = nil, true
	st := Hidden
	err := c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		switch {
		case pl.blank:
		case c.may(policy.Read, &pl):
			st = Visible
		default:
			st = Unreadable
		}
		return nil
	})
	if err != nil {
		return Hidden
	}
	return st
}
