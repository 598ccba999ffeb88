package view

import (
	"slices"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// Owners (Options.Owners). A file stored as "the owner's" belongs to the agent that made it.
// The view shows the files of its own agent, and those without an agent, as the mount's user;
// another agent's under the uid that `warren run` gives that agent. So what checks owners, such as git
// and ssh, sees which agent's files it would act on. The owner is nobody where that protects:
//
//   - for a file that another agent changed last;
//   - for a directory of a volume that other agents may write to: one of them may have changed
//     what is in it, as in .git/config;
//   - for a file of an agent that was removed, or that the view is not allowed to know of.
//
// Agents above the view's own count as the view's agent if they only change its files. So do the
// members of a project where trust is set (policy.Facts.Trusts).

// nobody is the uid and gid of files that no single agent answers for.
const nobody = 65534

// ownKey reports whether key is the view's agent, or empty.
func (c *call) ownKey(key string) bool { return key == "" || key == c.v.o.Agent }

// trusts reports whether the view's agent trusts what another agent made in this volume.
func (c *call) trusts(f *policy.Facts, key string) bool {
	return c.label.Kind == KindProject && f.Trusts(c.label.Owner, c.v.o.Agent, key)
}

// shownUID returns the uid of pl's owner as the view shows it.
func (c *call) shownUID(pl *place) uint32 { return c.shownID(pl, pl.attr.UID, c.v.o.UID) }

// shownGID returns the gid of pl's group as the view shows it.
func (c *call) shownGID(pl *place) uint32 { return c.shownID(pl, pl.attr.GID, c.v.o.GID) }

// shownID returns the id shown for a stored id. The mount's user has the id mine.
func (c *call) shownID(pl *place, stored, mine uint32) uint32 {
	switch {
	case !c.v.o.Owners && stored == backend.OwnerID:
		return mine
	case !c.v.o.Owners:
		return stored
	case stored != backend.OwnerID:
		if own, ok := c.agentID(c.v.o.Agent); ok && stored == own {
			return mine
		}
		return stored
	case pl.hollow() || c.vol == c.v.s.root:
		return mine
	}
	if id, other := c.holder(pl); other {
		return id
	}
	return mine
}

// agentID returns the uid of an agent, which is also its gid.
func (c *call) agentID(key string) (id uint32, ok bool) {
	a := c.v.s.engine.Facts().Agents[key]
	return a.UID, a.UID != 0
}

// holder returns the id of the agent that owns pl, or nobody. other is false if pl counts
// as the view's own.
func (c *call) holder(pl *place) (id uint32, other bool) {
	strange := uint32(nobody)
	if c.v.o.UID == strange {
		strange--
	}
	p, err := c.tx.Provenance(pl.ino())
	if err != nil {
		return strange, true
	}
	f := c.v.s.engine.Facts()
	a, there := f.Agents[p.CreatedBy]
	switch {
	case p.CreatedBy == "":
	case !there || before(p.CreatedAt, a):
		return strange, true
	case p.CreatedBy == c.v.o.Agent, c.trusts(f, p.CreatedBy):
	case a.UID == 0 || c.shownAgent(p.CreatedBy, p.CreatedAt, pl) == stranger:
		return strange, true
	default:
		return a.UID, true
	}
	if c.mixed(f, pl, p.ModifiedBy) {
		return strange, true
	}
	return 0, false
}

// mixed reports whether agents that the view's own does not trust may have a part in pl.
func (c *call) mixed(f *policy.Facts, pl *place, modifiedBy string) bool {
	foreign := func(key string) bool {
		return !c.ownKey(key) && !f.Commands(key, c.v.o.Agent) && !c.trusts(f, key)
	}
	if foreign(modifiedBy) {
		return true
	}
	return pl.attr.IsDir() && slices.ContainsFunc(writers(f, c.label), foreign)
}

// storedID returns the id to store when pl is given id and the mount's user has the id mine:
// backend.OwnerID for the agent that made pl, another agent's own uid, or id itself.
func (c *call) storedID(pl *place, id, mine uint32) uint32 {
	if !c.v.o.Owners {
		if id == mine {
			return backend.OwnerID
		}
		return id
	}
	p, err := c.tx.Provenance(pl.ino())
	if err != nil {
		return id
	}
	if id == mine {
		if own, ok := c.agentID(c.v.o.Agent); ok && !c.ownKey(p.CreatedBy) {
			return own
		}
		return backend.OwnerID
	}
	if maker, ok := c.agentID(p.CreatedBy); ok && id == maker && p.CreatedBy != c.v.o.Agent {
		return backend.OwnerID
	}
	return id
}

// writers lists the agents that the view rules let write to all of a volume, without those that
// are above others, in order.
func writers(f *policy.Facts, l Label) (keys []string) {
	for key, a := range f.Agents {
		writes := false
		switch l.Kind {
		case KindHome, KindWorkspace, KindScratch:
			writes = key == l.Owner
		case KindProject:
			writes = f.Projects[l.Owner][key] == "write"
		case KindUser:
			writes = a.User == l.Owner && a.Role == policy.Soul
		case KindDevice:
			writes = true
		}
		if writes {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// ownersSignature changes when other owners may be shown in a volume.
func ownersSignature(f *policy.Facts, l Label) string {
	if l.Kind != KindProject && l.Kind != KindUser {
		return ""
	}
	trust := ""
	if l.Kind == KindProject {
		trust = strings.Join(f.Trust[l.Owner], " ")
	}
	return strings.Join(writers(f, l), " ") + "; " + trust
}
