package view

import (
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// shownPath is treePath by a name of the node at pl that the view may be told
// (linkShown): another may tell of what is outside. NotFound: there is none.
func (c *call) shownPath(pl *place, name string) (string, error) {
	ino, root, parted := pl.ino(), c.v.root, c.parted()
	rooted := root.Volume() == c.vol && root.Ino() != backend.RootIno
	if !parted && !rooted || pl.attr.IsDir() && !rooted || ino == backend.RootIno {
		return c.treePath(ino, name)
	}
	if rooted && !parted || pl.attr.IsDir() {
		if in, err := c.tx.Within(ino, root.Ino()); in || err != nil {
			if err != nil {
				return "", err
			}
			return c.treePath(ino, name)
		}
	}
	links, err := c.tx.Links(ino)
	if err != nil {
		return "", err
	}
	for _, l := range links { // of a file: name is ""
		if shown, err := c.linkShown(l, pl.res, parted); shown || err != nil {
			if err != nil {
				return "", err
			}
			return c.treePath(l.Parent, l.Name)
		}
	}
	return "", backend.NotFound
}

// stranger is what an agent is called that the view may not know of.
const stranger = "unknown"

// shownAgent is the key of an agent that changed what is at pl at that time, as
// the view may know it; "" for the administrator. Who sees what is there is known to all who
// do: co-members of a project, the orchestrator to its souls. Views that see all
// agents see the names of those that are gone, whether or not another agent has
// the key now.
func (c *call) shownAgent(key string, at backend.Time, pl *place) string {
	if key == "" || c.may(policy.See, &place{res: policy.Resource{Zone: policy.ZoneRoot, Owner: "agents"}}) {
		return key
	}
	other, ok := c.v.s.engine.Principal(key, policy.ReadWrite)
	switch {
	case !ok || before(at, other.Agent()):
		return stranger
	case key == c.v.o.Agent,
		c.v.seesVolume(c.p, Label{Kind: KindHome, Owner: key}),
		c.seenBy(other, pl),
		c.published(pl):
		return key
	}
	return stranger
}

// seenBy tells whether another agent sees what is at pl.
func (c *call) seenBy(other *policy.Principal, pl *place) bool {
	o := call{v: c.v, tx: c.tx, p: other, vol: c.vol, label: c.label, checked: c.checked}
	at := *pl
	at.res.Grants, o.g = 0, other.Grants(volumeResource(c.label))
	if o.g != nil {
		if _, err := o.covered(pl.ino(), &at); err != nil {
			return false
		}
	}
	return c.v.s.engine.DecideListed(other, policy.See, at.res).Allow
}

// published tells whether pl is in a shared agent's workspace. What others made
// there they published, and who publishes gives its name with it.
func (c *call) published(pl *place) bool {
	if pl.res.Zone != policy.ZoneWorkspace {
		return false
	}
	owner, ok := c.v.s.engine.Principal(pl.res.Owner, policy.ReadWrite)
	return ok && owner.Agent().Role == policy.Shared
}

// stray remembers of a node that is about to lose its last name, and that a
// mount holds, which open views' roots in its volume it is not below: to them it
// stays hidden.
func (c *call) stray(node backend.NodeID, nlink uint32) error {
	s := c.v.s
	s.mu.Lock()
	roots := map[backend.Ino]bool{}
	for v := range s.views {
		if v.root.Volume() == c.vol && v.root.Ino() != backend.RootIno {
			roots[v.root.Ino()] = true
		}
	}
	s.mu.Unlock()
	for root := range roots {
		in, err := c.below(node.Ino(), nlink, root)
		if err != nil {
			return err
		}
		if in {
			delete(roots, root)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.strays, node)
	if len(roots) > 0 {
		s.strays[node] = roots
	}
	return nil
}

// strayed tells whether a nameless node was not below root when it lost its
// last name.
func (s *Space) strayed(node backend.NodeID, root backend.Ino) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.strays[node][root]
}
