package view

import (
	"errors"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
)

// place is a node as policy sees it, with its attributes as stored.
type place struct {
	res   policy.Resource
	attr  backend.Attr
	blank bool // the view's root, of which the view sees nothing: an empty directory
	// leads are, of a directory that is seen only as the way to what is granted
	// in it, the names that lead there; see leadsOn.
	leads []policy.Lead
	kept  bool // a file that the view has no name for any more, though there are others: see Space.kept
	top   int  // of a directory of the root volume: 1 + its index in topNames; 0: "/"
}

func (pl *place) ino() backend.Ino { return pl.attr.Node.Ino() }

// volumeResource is the place of a volume's root directory. A label nobody has
// gives a place nobody may see.
func volumeResource(l Label) policy.Resource {
	switch l.Kind {
	case tree.KindRoot:
		return policy.Resource{Zone: policy.ZoneRoot}
	case KindHome:
		return policy.Resource{Zone: policy.ZoneHomeFixed, Owner: l.Owner}
	case KindWorkspace:
		return policy.Resource{Zone: policy.ZoneWorkspace, Owner: l.Owner}
	case KindScratch:
		return policy.Resource{Zone: policy.ZoneScratch, Owner: l.Owner}
	case KindUser:
		return policy.Resource{Zone: policy.ZoneUser, Owner: l.Owner}
	case KindProject:
		return policy.Resource{Zone: policy.ZoneProject, Owner: l.Owner}
	case KindDevice:
		return policy.Resource{Zone: policy.ZoneDevice, Owner: l.Owner}
	}
	return policy.Resource{Zone: policy.ZoneHomeFixed}
}

// volumePath is the tree path at which a volume is attached, "" for the root
// volume.
func volumePath(l Label) string {
	switch l.Kind {
	case KindHome:
		return "/agents/" + l.Owner
	case KindWorkspace:
		return "/agents/" + l.Owner + "/workspace"
	case KindScratch:
		return "/agents/" + l.Owner + "/scratch"
	case KindUser:
		return "/users/" + l.Owner
	case KindProject:
		return "/projects/" + l.Owner
	case KindDevice:
		return "/workspaces/" + l.Owner
	}
	return ""
}

// seen fills pl with node ino of the call's volume, or fails with NotFound if
// the view may not see it. The lock is held.
func (c *call) seen(ino backend.Ino, pl *place) error {
	if err := c.place(ino, pl); err != nil {
		return err
	}
	if c.sees(pl) {
		return c.inside(pl)
	}
	if pl.attr.Node == c.v.root {
		pl.blank = true
		return nil
	}
	return c.hidden(c.label, nil, "")
}

// dir is seen for what must be a directory.
func (c *call) dir(ino backend.Ino, pl *place) error {
	if err := c.seen(ino, pl); err != nil {
		return err
	}
	if !pl.attr.IsDir() {
		return backend.NotDir
	}
	return nil
}

// sees tells whether the view may see pl.
func (c *call) sees(pl *place) bool {
	if pl.top > 0 {
		return c.topSeen(pl.top-1, pl.ino())
	}
	return len(pl.leads) > 0 || c.v.decide(c.p, policy.See, pl.res).Allow
}

// place fills pl without asking whether it may be seen.
func (c *call) place(ino backend.Ino, pl *place) error {
	err := c.judged(ino, pl)
	if err == nil && c.p.HasOwnNames() && pl.attr.Type == backend.TypeRegular {
		pl.res.Barred, err = c.nameBarred(&pl.attr)
	}
	if err == nil && c.g.Partial() {
		err = c.grant(ino, pl)
	}
	return err
}

// judged is place without grants on parts of the volume.
func (c *call) judged(ino backend.Ino, pl *place) error {
	*pl = place{res: volumeResource(c.label)}
	pl.res.Grants = c.g.Whole()
	c.recheckNames()
	var err error
	if pl.attr, err = c.tx.Attr(ino); err != nil {
		return err
	}
	if c.label.Kind == tree.KindRoot {
		return c.rootPlace(ino, pl)
	}
	if ino == backend.RootIno {
		return nil
	}
	home := c.label.Kind == KindHome
	if !home && pl.attr.Type != backend.TypeRegular {
		return nil
	}
	m := memo(c.tx.Memo(ino))
	epoch, moved := c.epoch(), c.tx.DirGeneration()
	if !m.valid(epoch, moved) {
		if m, err = c.judge(ino, &pl.attr, home); err != nil {
			return err
		}
		m = m.stamp(epoch, moved)
		c.tx.SetMemo(ino, uint64(m))
	}
	if home {
		pl.res.Zone = m.zone()
	}
	pl.res.Denied = m.denied()
	return nil
}

func (c *call) epoch() uint64 {
	if c.p == nil {
		return 0
	}
	return c.p.Epoch()
}

// judge finds the zone (in a home) of an inode and whether the deny-list holds
// for it, from all its names.
func (c *call) judge(ino backend.Ino, a *backend.Attr, home bool) (memo, error) {
	zone := policy.ZoneRoot
	if home {
		var err error
		if zone, err = c.homeZone(ino, a); err != nil {
			return 0, err
		}
	}
	denied := false
	if a.Type == backend.TypeRegular {
		var err error
		if denied, err = c.nameDenied(ino); err != nil {
			return 0, err
		}
	}
	return newMemo(zone, denied), nil
}

// nameDenied tells whether a name of the regular file ino is, or by its mark
// was, on the deny-list with no exception in force.
func (c *call) nameDenied(ino backend.Ino) (bool, error) {
	if marked, err := c.tx.DeniedMark(ino); marked || err != nil {
		return marked, err
	}
	denied := false
	err := c.tx.EachLink(ino, tree.Link{}, func(l tree.Link) (err error) {
		if denied, err = c.linkDenied(l.Parent, l.Name); denied && err == nil {
			err = backend.ErrStop
		}
		return err
	})
	return denied, err
}

// linkDenied tells whether a regular file may not be called name in dir.
func (c *call) linkDenied(dir backend.Ino, name string) (bool, error) {
	if c.p == nil {
		return true, nil
	}
	denied, byPath := c.p.NameJudged(name)
	if !byPath {
		return denied, nil
	}
	path, err := c.treePath(dir, name)
	if errors.Is(err, backend.NotFound) { // in a removed directory: no exception covers that
		return true, nil
	}
	return c.p.NameDeniedAt(path), err
}

// nameBarred reports whether a name of a regular file is on the view's own deny-list.
// For a file without names, such as one that the view keeps, it checks the last name.
// The result is not remembered, because others may give the file another name.
func (c *call) nameBarred(a *backend.Attr) (barred bool, err error) {
	if a.Nlink == 0 {
		file, named := c.v.s.orphanFile(a.Node)
		return named && c.p.NameBarredAt(volumePath(c.label)+"/"+file), nil
	}
	if path, ok := c.v.s.kept.path(c.v, a.Node); ok && c.p.NameBarredAt(volumePath(c.label)+"/"+path) {
		return true, nil
	}
	err = c.tx.EachLink(a.Node.Ino(), tree.Link{}, func(l tree.Link) (err error) {
		if barred, err = c.linkBarred(l.Parent, l.Name); barred && err == nil {
			err = backend.ErrStop
		}
		return err
	})
	return barred, err
}

// linkBarred is linkDenied for the view's own deny-list.
func (c *call) linkBarred(dir backend.Ino, name string) (bool, error) {
	if !c.p.HasOwnNames() {
		return false, nil
	}
	barred, byPath := c.p.NameBarred(name)
	if !byPath || barred {
		return barred, nil
	}
	path, err := c.treePath(dir, name)
	if errors.Is(err, backend.NotFound) {
		return true, nil
	}
	return c.p.NameBarredAt(path), err
}

// treePath is the tree path of name ("": none) in node ino of the volume.
func (c *call) treePath(ino backend.Ino, name string) (string, error) {
	path, err := c.tx.Path(ino)
	if err != nil {
		return "", err
	}
	full := volumePath(c.label)
	if path != "" {
		full += "/" + path
	}
	if name != "" {
		full += "/" + name
	}
	if full == "" {
		full = "/"
	}
	return full, nil
}

// within tells whether a volume hangs below the view's root, or the root is in
// it. Volumes are attached to the root volume's directories and to homes only,
// and stay where they are.
func (v *View) within(info *tree.VolumeInfo) bool {
	if v.rootPath == "/" || info.ID == v.root.Volume() {
		return true
	}
	for at := info; at.Parent != 0; {
		if at.Parent == v.root {
			return true
		}
		up, ok := v.s.tree.Volume(at.Parent.Volume())
		if !ok {
			return false
		}
		at = &up
	}
	return false
}

// inside makes sure that a node of the volume in which the view's root stands
// is below that root, by any of its names. Files without a name pass if they
// were when they lost the last.
func (c *call) inside(pl *place) error {
	root := c.v.root
	if root.Volume() != c.vol || root.Ino() == backend.RootIno {
		return nil
	}
	in, err := c.below(pl.ino(), pl.attr.Nlink, root.Ino())
	if err == nil && !in {
		if _, pl.kept = c.v.s.kept.path(c.v, pl.attr.Node); pl.kept {
			return nil
		}
		err = c.hidden(c.label, nil, "")
	}
	return err
}

// below tells whether ino is dir, stands below it by any of its names, or has
// no name and did not stray before.
func (c *call) below(ino backend.Ino, nlink uint32, dir backend.Ino) (bool, error) {
	in, err := c.tx.Within(ino, dir)
	if nlink == 0 || errors.Is(err, backend.NotFound) {
		return !c.v.s.strayed(backend.Node(c.vol, ino), dir), nil
	}
	if in {
		return true, nil
	}
	if err != nil || nlink == 1 {
		return false, err
	}
	err = c.tx.EachLink(ino, tree.Link{}, func(l tree.Link) (err error) {
		if in, err = c.tx.Within(l.Parent, dir); in && err == nil {
			err = backend.ErrStop
		}
		return err
	})
	return in, err
}

func (s *Space) orphanZone(node backend.NodeID) policy.Zone {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.orphans[node]; ok {
		return o.zone
	}
	return policy.ZoneHomeFixed
}

// memo is what is kept with a cached inode: bit 0 set, 4 bits of zone, the
// deny-list's word, 29 bits of the directory generation, 29 of the epoch.
type memo uint64

const (
	memoMoved = 29
	memoEpoch = 29
)

func newMemo(z policy.Zone, denied bool) memo {
	m := memo(1) | memo(z)<<1
	if denied {
		m |= 1 << 5
	}
	return m
}

func (m memo) zone() policy.Zone { return policy.Zone(m >> 1 & 15) }
func (m memo) denied() bool      { return m&(1<<5) != 0 }

func (m memo) stamp(epoch, moved uint64) memo {
	return m&63 | memo(moved&(1<<memoMoved-1))<<6 | memo(epoch&(1<<memoEpoch-1))<<(6+memoMoved)
}

func (m memo) valid(epoch, moved uint64) bool { return m&1 != 0 && m == m.stamp(epoch, moved) }
