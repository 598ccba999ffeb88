package view

import (
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// Supplant gives the file node the name name in directory parent, in place of the
// file that has it, if one does, as one change: nobody, and no crash, leaves anything
// else behind. It is the API's: no Observer is told of an entry. Errors: those of Link
// but Exist, and of Rename.
func (v *View) Supplant(node, parent backend.NodeID, name string) error {
	return v.supplant(node, parent, name, func(*call, *place) error { return nil }, func(*call) error { return nil })
}

// supplant is Supplant that asks before when all but the doing is decided, with what
// has the name (nil: nothing), and calls after when it is done; both with the lock
// held.
func (v *View) supplant(node, parent backend.NodeID, name string, before func(*call, *place) error, after func(*call) error) error {
	c := v.begin(opWrite, nil)
	defer c.end()
	if err := checkName(name); err != nil {
		return err
	}
	if node.Volume() != parent.Volume() {
		return c.across(node, parent)
	}
	var left departures
	err := c.in(parent, func(c *call) error {
		var pl place
		to := end{name: name}
		if err := c.supplants(node, parent, &pl, &to); err != nil {
			return err
		}
		var old *place
		if to.there {
			old = &to.node
		}
		if err := before(c, old); err != nil {
			return err
		}
		kept := false
		if old != nil {
			err := left.note(c, Edge{Parent: parent, Name: name, Node: old.attr.Node}, false)
			if err != nil {
				return err
			}
			if kept, err = c.losesName(&to.dir, name, old.ino()); err != nil {
				return err
			}
		}
		c.note(opWrite, parent.Ino(), name, "", node)
		if _, err := c.tx.Replace(node.Ino(), parent.Ino(), name); err != nil {
			left = nil
			if kept {
				c.v.s.forgetZone(old.attr.Node)
			}
			return err
		}
		if pl.attr.Nlink == 0 {
			c.v.s.forgetZone(node)
		}
		if err := after(c); err != nil {
			return err
		}
		return left.settle(c)
	})
	left.send()
	if err == nil {
		v.s.barred(parent.Volume(), name)
	}
	return err
}

// supplants finds the two files of supplant and decides whether it may be done.
func (c *call) supplants(node, parent backend.NodeID, pl *place, to *end) error {
	if err := c.seen(node.Ino(), pl); err != nil {
		return err
	}
	if err := c.dir(parent.Ino(), &to.dir); err != nil {
		return err
	}
	if err := c.need(policy.Link, pl, ""); err != nil {
		return err
	}
	if err := c.need(policy.Remove, &to.dir, to.name); err != nil {
		return err
	}
	if err := c.needName(&to.dir, to.name, pl.attr.Type); err != nil {
		return err
	}
	if err := (&move{c: c}).load(to); err != nil || !to.there || to.node.attr.Node == node {
		return err
	}
	return c.needBound(&to.dir, to.name, to.node.ino())
}
