package view

import (
	"context"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/feed"
	"github.com/warrenfs/warren/policy"
)

// Steward opens a view that may do what the administrator may, for what a rule
// of the workspace layer lets agent do where its own view does not reach: to
// publish, to set its fields. What is made and changed through it is recorded as
// agent's, and so are refusals (the deny-list holds). The caller decides, by
// those rules, what it may be used for.
func (s *Space) Steward(agent string) (*View, error) {
	return s.Open(Options{Administrator: true, UID: backend.OwnerID, GID: backend.OwnerID, onBehalf: agent})
}

// Happened puts an event of a kind of its own into the feed: agent's doing, about
// path, which need not exist. Whoever sees what is at path is told.
func (s *Space) Happened(ctx context.Context, op, agent, path string) error {
	if s.feed == nil {
		return nil
	}
	return s.feed.Add(ctx, &feed.Event{Op: op, Agent: agent, Path: cutPath(path)})
}

// Author returns the agent that changes and refusals are recorded as.
func (v *View) Author() string { return v.author() }

// author returns the same as Author.
func (v *View) author() string {
	if v.o.onBehalf != "" {
		return v.o.onBehalf
	}
	return v.o.Agent
}

// Allows tells whether the view may do a at node; false where it does not see
// it. Nothing is noted of it as a denial.
func (v *View) Allows(a policy.Action, node backend.NodeID) bool { return v.allows(a, node) }

// MayMake tells whether the view may make a regular file under name in the
// directory at a tree path. Errors: Denied, which is noted; NotFound.
func (v *View) MayMake(dir, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	d, err := v.Resolve(dir)
	if err != nil {
		return err
	}
	c := v.begin("create", nil)
	defer c.end()
	return c.in(d.Node, func(c *call) error {
		var pl place
		if err := c.dir(d.Node.Ino(), &pl); err != nil {
			return err
		}
		return c.needName(&pl, name, backend.TypeRegular)
	})
}

// Sees finds what a tree path leads to, without a symlink at the end being
// followed. Nothing is noted where it is hidden: the layer asks of its own accord.
func (v *View) Sees(path string) (backend.Attr, bool) {
	f, err := v.find(path, &walk{v: v, stop: true, quiet: true})
	return f.Attr, err == nil
}

// Peek is Lookup whose answer goes to no kernel: the Observer is not told.
func (v *View) Peek(r *Request, parent backend.NodeID, name string) (backend.Attr, error) {
	c := v.begin("lookup", r)
	defer c.end()
	c.watch = nil
	if err := c.lookup(parent, name); err != nil {
		return backend.Attr{}, err
	}
	return c.attr, nil
}
