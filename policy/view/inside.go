package view

import (
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// shownPath is treePath by a name of ino that is below the view's root: another
// may tell of what is outside. NotFound: there is none.
func (c *call) shownPath(ino backend.Ino, name string) (string, error) {
	root := c.v.root
	if root.Volume() != c.vol || root.Ino() == backend.RootIno {
		return c.treePath(ino, name)
	}
	if in, err := c.tx.Within(ino, root.Ino()); in || err != nil {
		if err != nil {
			return "", err
		}
		return c.treePath(ino, name)
	}
	links, err := c.tx.Links(ino)
	if err != nil {
		return "", err
	}
	for _, l := range links { // of a file: name is ""
		if in, err := c.tx.Within(l.Parent, root.Ino()); in || err != nil {
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

// shownAgent is an agent's key as the view may know it, "" for the
// administrator. Views that see all agents see the names of those that are gone.
func (c *call) shownAgent(key string) string {
	if key == "" || key == c.v.o.Agent ||
		c.may(policy.See, &place{res: policy.Resource{Zone: policy.ZoneRoot, Owner: "agents"}}) ||
		c.may(policy.See, &place{res: volumeResource(Label{Kind: KindHome, Owner: key})}) {
		return key
	}
	return stranger
}
