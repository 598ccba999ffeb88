package view

import (
	"errors"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
)

// homeZone is the strictest zone that a name of the inode stands in.
func (c *call) homeZone(ino backend.Ino, a *backend.Attr) (policy.Zone, error) {
	if a.Nlink == 1 {
		top, err := c.tx.Top(ino)
		if errors.Is(err, backend.NotFound) { // a removed directory, or what is in one
			return c.v.s.orphanZone(a.Node), nil
		}
		return policy.HomeZone(top), err
	}
	if a.Nlink == 0 {
		return c.v.s.orphanZone(a.Node), nil
	}
	return c.strictest(ino, tree.Link{}, policy.ZoneHomeFixed)
}

// strictest is the strictest zone of ino's names, none of which is in one
// stricter than least. It looks for that near a name that is gone first.
func (c *call) strictest(ino backend.Ino, gone tree.Link, least policy.Zone) (policy.Zone, error) {
	zone := policy.ZoneHomeCaches // they are numbered from the strictest on
	err := c.tx.EachLink(ino, gone, func(l tree.Link) error {
		z, err := c.nameZone(l)
		if err != nil {
			return err
		}
		if zone = min(zone, z); zone <= least {
			return backend.ErrStop
		}
		return nil
	})
	return zone, err
}

// nameZone is the zone of a home that one name stands in.
func (c *call) nameZone(l tree.Link) (policy.Zone, error) {
	if l.Parent == backend.RootIno {
		return policy.HomeZone(l.Name), nil
	}
	top, err := c.tx.Top(l.Parent)
	return policy.HomeZone(top), err
}

// recheckNames brings what is remembered of inodes that got or lost a name up
// to date, as far as the call has not done so yet. It does not judge them by all
// their names: a file may have thousands.
//
//   - That the deny-list held for it is forgotten. That it did not stays true:
//     new names have been checked.
//   - In a home, a name that came, but for the first, can only make its zone stricter; one that went
//     can only make it laxer, and only if it stood in the strictest.
func (c *call) recheckNames() {
	changes := c.tx.Changes()
	for ; c.checked < len(changes); c.checked++ {
		ch := &changes[c.checked]
		if ch.Kind != EntryAdded && ch.Kind != EntryRemoved || ch.Child.Volume() != c.vol {
			continue
		}
		ino := ch.Child.Ino()
		m := memo(c.tx.Memo(ino))
		switch {
		case !m.valid(c.epoch(), c.tx.DirGeneration()): // judged when it is asked for
		case m.denied():
			c.tx.SetMemo(ino, 0)
		case c.label.Kind == KindHome:
			c.tx.SetMemo(ino, uint64(c.rezone(m, ino, ch)))
		}
	}
}

// rezone is m after one of a home's inode's names came or went; 0 where it must
// be judged anew.
func (c *call) rezone(m memo, ino backend.Ino, ch *Change) memo {
	a, err := c.tx.Attr(ino)
	if err != nil || a.Nlink == 0 || a.IsDir() {
		return 0
	}
	l := tree.Link{Parent: ch.Node.Ino(), Name: ch.Name}
	z, err := c.nameZone(l)
	switch {
	case err != nil:
		return 0
	case ch.Kind == EntryAdded && a.Nlink == 1: // its first name: what it was without one is over
	case ch.Kind == EntryAdded:
		z = min(z, m.zone())
	case z > m.zone():
		return m
	default:
		if z, err = c.strictest(ino, l, m.zone()); err != nil {
			return 0
		}
	}
	return newMemo(z, false).stamp(c.epoch(), c.tx.DirGeneration())
}
