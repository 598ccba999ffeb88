package view

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
)

// Amount is what a volume holds of bytes or of inodes, and what it may hold.
type Amount struct {
	Used uint64 `json:"used"`
	Free uint64 `json:"free"`           // what may still be added; of the store's space all volumes share
	Hard uint64 `json:"hard,omitempty"` // 0: no limit
	Soft uint64 `json:"soft,omitempty"`
	Over bool   `json:"over,omitempty"` // Used is over Soft
}

// Quota is what one volume holds and may hold.
type Quota struct {
	Path   string `json:"path"` // tree path
	Bytes  Amount `json:"bytes"`
	Inodes Amount `json:"inodes"`
}

// QuotaChange sets limits; what is nil stays, 0 takes a limit away.
type QuotaChange struct{ Bytes, SoftBytes, Inodes, SoftInodes *uint64 }

// Quotas tells of all volumes that the view sees something of its own in, by
// path.
func (v *View) Quotas() ([]Quota, error) {
	out := []Quota{}
	p := v.principal()
	for _, info := range v.s.tree.Volumes() {
		if info.Parent == 0 || !v.lists(p, volumeResource(info.Label)) || !v.within(&info) {
			continue
		}
		at := backend.Node(info.ID, backend.RootIno)
		if v.root.Volume() == info.ID {
			at = v.root
		}
		q, err := v.quota(at, nil)
		switch {
		case err == nil:
			out = append(out, q)
		case !isNotFound(err) && !errors.Is(err, backend.Denied):
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b Quota) int { return strings.Compare(a.Path, b.Path) })
	return out, nil
}

// Quota tells of the volume that path is in. Errors: Resolve's; NotFound where
// the view sees nothing of the volume but that it is there.
func (v *View) Quota(path string) (Quota, error) {
	f, err := v.Find(path, true)
	if err != nil {
		return Quota{}, err
	}
	return v.quota(f.Attr.Node, nil)
}

// SetQuota changes the limits of the volume whose root is at path. The
// administrator and orchestrators set all limits of what they see; other agents
// soft ones, of their own home, workspace and scratch. Errors: Quota's; Invalid
// (no volume's root, or limits that make no sense), Denied, ReadOnly.
func (v *View) SetQuota(path string, ch QuotaChange) (Quota, error) {
	f, err := v.Find(path, true)
	if err != nil {
		return Quota{}, err
	}
	return v.quota(f.Attr.Node, &ch)
}

// quota tells of the volume that node is in, after changing it.
func (v *View) quota(node backend.NodeID, ch *QuotaChange) (q Quota, err error) {
	c := v.begin("quota", nil)
	defer c.end()
	c.silent = true
	err = c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		if c.vol == v.s.root || pl.hollow() {
			return &backend.Error{Op: "quota", Kind: backend.NotFound, Err: errors.New("it is in no volume that you have a part in")}
		}
		if ch != nil {
			if err := c.setQuota(node, *ch); err != nil {
				return err
			}
		}
		q = quotaOf(volumePath(c.label), c.tx.Stat())
		return nil
	})
	return q, err
}

func (c *call) setQuota(node backend.NodeID, ch QuotaChange) error {
	if node.Ino() != backend.RootIno {
		return &backend.Error{Op: "set quota", Kind: backend.Invalid,
			Err: fmt.Errorf("a quota is a whole volume's; the volume of that path is %s", volumePath(c.label))}
	}
	if err := c.mayLimit(ch); err != nil {
		return err
	}
	l := c.tx.Stat().Limits
	for _, s := range []struct{ to, from *uint64 }{
		{&l.Bytes, ch.Bytes}, {&l.SoftBytes, ch.SoftBytes}, {&l.Inodes, ch.Inodes}, {&l.SoftInodes, ch.SoftInodes},
	} {
		if s.from != nil {
			*s.to = *s.from
		}
	}
	return c.tx.SetLimits(l)
}

// mayLimit tells whether the view may make a change of limits in the call's
// volume, which it sees.
func (c *call) mayLimit(ch QuotaChange) error {
	deny := func(k backend.Kind, text string) error {
		return &backend.Error{Op: "set quota", Agent: c.v.o.Agent, Kind: k, Err: errors.New(text)}
	}
	if c.v.o.Access != ReadWrite {
		return deny(backend.ReadOnly, "the view is read-only")
	}
	if c.v.Access() != ReadWrite {
		return deny(backend.Denied, "the agent may change nothing")
	}
	if c.v.o.Administrator || c.v.Role() == string(policy.Orchestrator) {
		return nil
	}
	switch c.label.Kind {
	case KindHome, KindWorkspace, KindScratch:
		if c.label.Owner != c.v.o.Agent {
			return deny(backend.Denied, "it is another agent's")
		}
	default:
		return deny(backend.Denied, "it is not the agent's own")
	}
	if ch.Bytes != nil || ch.Inodes != nil {
		return deny(backend.Denied, "hard limits are set by the administrator or an orchestrator; soft ones are the agent's own to set")
	}
	return nil
}

func quotaOf(path string, st tree.VolumeStat) Quota {
	l := st.Limits
	overBytes, overInodes := l.Over(st.Use())
	return Quota{Path: path,
		Bytes:  Amount{Used: st.UsedBytes, Free: st.FreeBytes, Hard: l.Bytes, Soft: l.SoftBytes, Over: overBytes},
		Inodes: Amount{Used: st.UsedInodes, Free: st.FreeInodes, Hard: l.Inodes, Soft: l.SoftInodes, Over: overInodes}}
}
