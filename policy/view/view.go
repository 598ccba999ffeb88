package view

import (
	"strings"
	"sync/atomic"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// View is one agent's tree. Its methods may be called from any goroutine; a
// nil Request is a call of the view's own user.
type View struct {
	s        *Space
	o        Options
	root     backend.NodeID
	rootPath string

	who  atomic.Pointer[policy.Principal]
	tops [numTops]topMemo // guarded by the root volume's lock
	seen *survey          // guarded by Space.change
}

// Close takes the view off those that are told of revocations. Its methods
// still work.
func (v *View) Close() {
	v.s.mu.Lock()
	delete(v.s.views, v)
	v.s.mu.Unlock()
	v.s.kept.dropView(v)
}

// Root is the node of the view's root.
func (v *View) Root() backend.NodeID { return v.root }

// Agent is the key of the agent whose view this is.
func (v *View) Agent() string { return v.o.Agent }

// Role is the agent's role; "" when the agent is gone.
func (v *View) Role() string {
	if p := v.principal(); p != nil {
		return string(p.Agent().Role)
	}
	return ""
}

// User is the user the agent belongs to, or "".
func (v *View) User() string {
	if p := v.principal(); p != nil {
		return p.Agent().User
	}
	return ""
}

// Access is the narrower of the mount's access and the agent's own; None when
// the agent is gone.
func (v *View) Access() Access {
	if p := v.principal(); p != nil {
		return max(v.o.Access, Access(p.Agent().Access))
	}
	return None
}

// RootPath is the tree path of the view's root as it is now, "/" for all of it;
// as it was when the view was opened where the view sees nothing there any more.
func (v *View) RootPath() string {
	path := v.rootPath
	if path == "/" {
		return path
	}
	c := v.begin("path", nil)
	defer c.end()
	_ = c.in(v.root, func(c *call) error {
		var pl place
		if err := c.seen(v.root.Ino(), &pl); err != nil || pl.blank {
			return err
		}
		if now, err := c.shownPath(&pl, ""); err == nil {
			path = now
		}
		return nil
	})
	return path
}

// Below returns the path of a directory from the view's root, without a slash at
// its start; "" for the root itself. Errors: NotFound where the view does not see
// it, NotDir.
func (v *View) Below(dir backend.NodeID) (path string, err error) {
	c := v.begin("path", nil)
	defer c.end()
	c.watch, c.silent = nil, true
	err = c.in(dir, func(c *call) error {
		var pl place
		if err := c.dir(dir.Ino(), &pl); err != nil {
			return err
		}
		full, err := c.treePath(dir.Ino(), "")
		if err != nil {
			return err
		}
		root := v.rootPath
		if v.root.Volume() == c.vol {
			if root, err = c.treePath(v.root.Ino(), ""); err != nil {
				return err
			}
		}
		below, ok := strings.CutPrefix(full+"/", strings.TrimSuffix(root, "/")+"/")
		if !ok {
			return backend.NotFound
		}
		path = strings.TrimSuffix(below, "/")
		return nil
	})
	return path, err
}

// UID is the mount's user; backend.OwnerID for an API session.
func (v *View) UID() uint32 { return v.o.UID }

// GID is the mount's group.
func (v *View) GID() uint32 { return v.o.GID }

// principal is the view's in the newest epoch; nil when its agent is gone.
func (v *View) principal() *policy.Principal {
	p := v.who.Load()
	if p != nil && p.Epoch() == v.s.engine.Epoch() {
		return p
	}
	p, ok := v.s.resolve(&v.o)
	if !ok {
		return nil
	}
	v.who.Store(p)
	return p
}

// decide asks the policy for p, which may be nil, by the rules of p's epoch: an
// operation is decided by those of its call's principal, also if others come into
// force meanwhile. Publish waits for it.
func (v *View) decide(p *policy.Principal, a policy.Action, r policy.Resource) policy.Decision {
	return v.s.engine.Decide(p, a, r)
}

// lists is decide about seeing one of all that there is: it leaves no trace of
// what exists where names that are asked for are decided about.
func (v *View) lists(p *policy.Principal, r policy.Resource) bool {
	return v.s.engine.DecideListed(p, policy.See, r).Allow
}
