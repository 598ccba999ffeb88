package view

import (
	"errors"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/feed"
	"github.com/warrenfs/warren/policy"
)

// Rename moves a name, replacing what newName led to. Flags: NoReplace, Whiteout,
// Exchange. Errors: those of rename(2); CrossVolume, also for a directory of which
// too much would have to be looked at (see maxFreed); Denied, ReadOnly; Busy for the
// root of a volume.
func (v *View) Rename(r *Request, parent backend.NodeID, name string, newParent backend.NodeID, newName string, flags RenameFlags) error {
	return v.rename(r, parent, name, newParent, newName, flags, nil)
}

// rename is Rename that asks before, if set, when all but the doing is decided,
// with the lock held.
func (v *View) rename(r *Request, parent backend.NodeID, name string, newParent backend.NodeID, newName string,
	flags RenameFlags, before func(*move) error) error {
	c := v.begin("rename", r)
	defer c.end()
	if err := checkName(name); err != nil {
		return err
	}
	if err := checkName(newName); err != nil {
		return err
	}
	if !flags.Valid() {
		return backend.Invalid
	}
	if parent.Volume() != newParent.Volume() {
		return c.across(parent, newParent)
	}
	var left departures
	dirs, shifted := false, false
	err := c.in(parent, func(c *call) error {
		m := move{c: c, flags: flags, from: end{name: name}, to: end{name: newName}}
		if err := c.dir(parent.Ino(), &m.from.dir); err != nil {
			return err
		}
		if err := c.dir(newParent.Ino(), &m.to.dir); err != nil {
			return err
		}
		if err := m.allowed(); err != nil {
			return err
		}
		if before != nil {
			if err := before(&m); err != nil {
				return err
			}
		}
		for _, e := range []*end{&m.from, &m.to} {
			if !e.there {
				continue
			}
			edge := Edge{Parent: e.dir.attr.Node, Name: e.name, Node: e.node.attr.Node}
			if err := left.note(c, edge, e == &m.from || flags&Exchange != 0); err != nil {
				return err
			}
		}
		if err := m.do(); err != nil {
			left = nil
			return err
		}
		dirs, shifted = m.movesDir(), m.shifts()
		return left.settle(c)
	})
	left.send()
	if dirs {
		v.s.shifted(parent.Volume(), !shifted)
	}
	if err == nil {
		v.s.barred(parent.Volume(), name, newName)
	}
	return err
}

// move is one rename: two ends, each a name in a directory.
type move struct {
	c        *call
	flags    RenameFlags
	from, to end
}

type end struct {
	dir   place
	name  string
	node  place // of what the name leads to, if there
	there bool
}

// load finds what e's name leads to. A name that is not there is no error.
func (m *move) load(e *end) error {
	id, err := m.c.find(&e.dir, e.name)
	if errors.Is(err, backend.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if id.Volume() != m.c.vol {
		return backend.Busy // the root of a volume stays where it is
	}
	e.there = true
	return m.c.place(id.Ino(), &e.node)
}

// allowed decides: a name is removed here and created there, a file moves; in
// an exchange both ways.
func (m *move) allowed() error {
	c := m.c
	if err := c.need(policy.Remove, &m.from.dir, m.from.name); err != nil {
		return err
	}
	if err := c.need(policy.Create, &m.to.dir, m.to.name); err != nil {
		return err
	}
	if err := m.load(&m.from); err != nil {
		return err
	}
	if !m.from.there {
		return backend.NotFound
	}
	if err := m.load(&m.to); err != nil {
		return err
	}
	if err := m.moves(&m.from, &m.to); err != nil {
		return err
	}
	if err := m.stays(&m.from, &m.to); err != nil {
		return err
	}
	if err := m.permit(); err != nil {
		return err
	}
	if m.flags&Whiteout != 0 {
		if err := c.needName(&m.from.dir, m.from.name, backend.TypeChar); err != nil {
			return err
		}
	}
	switch {
	case m.flags&Exchange != 0 && !m.to.there:
		return backend.NotFound
	case m.flags&Exchange != 0:
		if err := c.need(policy.Create, &m.from.dir, m.from.name); err != nil {
			return err
		}
		if err := c.need(policy.Remove, &m.to.dir, m.to.name); err != nil {
			return err
		}
		if err := m.moves(&m.to, &m.from); err != nil {
			return err
		}
		return m.stays(&m.to, &m.from)
	case m.to.there && m.flags&NoReplace == 0:
		if err := c.need(policy.Remove, &m.to.dir, m.to.name); err != nil || m.to.node.attr.Node == m.from.node.attr.Node {
			return err
		}
		return c.needBound(&m.to.dir, m.to.name, m.to.node.ino())
	}
	return nil
}

// moves decides whether what is at a may be called as b says.
func (m *move) moves(a, b *end) error {
	if err := m.c.need(policy.Move, &a.node, ""); err != nil {
		return err
	}
	return m.c.needName(&b.dir, b.name, a.node.attr.Type)
}

// permit checks mode bits: both directories change, and a directory that gets
// another one above it changes too.
func (m *move) permit() error {
	for _, e := range []*end{&m.from, &m.to} {
		taken := e == &m.from || m.to.there && m.flags&NoReplace == 0
		if !taken {
			if err := m.c.permitNames(&e.dir); err != nil {
				return err
			}
			continue
		}
		if err := m.c.permitTaking(&e.dir, &e.node); err != nil {
			return err
		}
		moves := e == &m.from || m.flags&Exchange != 0
		if moves && e.node.attr.IsDir() && m.from.dir.attr.Node != m.to.dir.attr.Node {
			if err := m.c.permit(&e.node, MayWrite); err != nil {
				return err
			}
		}
	}
	return nil
}

// shifts tells whether what stands below a directory that moved may be another
// place to policy now: in a home by its first component, anywhere by an
// part of the deny-list that holds under a path.
func (m *move) shifts() bool {
	return m.movesDir() && (m.c.p.NamesByPath() || m.c.label.Kind == KindHome && m.zone(&m.from) != m.zone(&m.to))
}

// movesDir tells whether a directory moves.
func (m *move) movesDir() bool {
	return m.from.node.attr.IsDir() || m.flags&Exchange != 0 && m.to.node.attr.IsDir()
}

// zone is the one of what stands under e's name in a home.
func (m *move) zone(e *end) policy.Zone {
	if e.dir.ino() == backend.RootIno {
		return policy.HomeZone(e.name)
	}
	return e.dir.res.Zone
}

func (m *move) do() error {
	c, kept := m.c, false
	replaces := m.to.there && m.flags&(NoReplace|Exchange) == 0 && m.to.node.attr.Node != m.from.node.attr.Node
	if replaces {
		var err error
		if kept, err = c.losesName(&m.to.dir, m.to.name, m.to.node.ino()); err != nil {
			return err
		}
	}
	op := "rename"
	if m.flags&Exchange != 0 {
		op = "exchange"
	}
	c.noteTo(op, &m.from.node, &m.from.dir, m.from.name, m.to.dir.ino(), m.to.name)
	if e := c.tx.Op.Event; e != nil && replaces {
		e.Flags |= feed.Replaced
	}
	err := c.tx.Rename(m.from.dir.ino(), m.from.name, m.to.dir.ino(), m.to.name, m.flags)
	if err != nil && kept {
		c.v.s.forgetZone(m.to.node.attr.Node)
	}
	return err
}
