package view

import (
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
)

// Explain tells how policy decides about an action of agent at a tree path,
// and why. It looks behind the agent's view: it is for the administrator and
// for whoever sees path. Symlinks are not followed. For create and remove of a
// path that is not a directory, the directory it stands in counts. Errors:
// NotFound (the agent, or nothing there to decide about), Invalid.
func (s *Space) Explain(agent string, a policy.Action, path string) (policy.Explanation, error) {
	if _, known := s.engine.Principal(agent, policy.ReadWrite); !known {
		return policy.Explanation{}, &backend.Error{Op: "explain", Agent: agent, Kind: backend.NotFound}
	}
	if !strings.HasPrefix(path, "/") {
		return policy.Explanation{}, pathError("explain", path, backend.Invalid)
	}
	v := &View{s: s, o: Options{Agent: agent, UID: backend.OwnerID, GID: backend.OwnerID}, root: s.tree.Root(), rootPath: "/"}
	c := v.begin("explain", nil)
	defer c.end()
	c.silent = true
	node, rest := s.tree.Root(), parts(path)
	for {
		var x policy.Explanation
		next := backend.NodeID(0)
		err := s.tree.With(node.Volume(), func(tx *tree.Txn) (err error) {
			c.enter(tx)
			next, rest, x, err = c.explain(a, node.Ino(), rest)
			return err
		})
		if err != nil {
			return x, pathError("explain", path, c.kind(err))
		}
		if next == 0 {
			return x, nil
		}
		node = next
	}
}

// explain walks rest from ino. next is the root of another volume that the
// walk goes on in; 0: it ended.
func (c *call) explain(a policy.Action, ino backend.Ino, rest []string) (next backend.NodeID, left []string, x policy.Explanation, err error) {
	for len(rest) > 0 {
		var dir place
		if err := c.place(ino, &dir); err != nil {
			return 0, nil, x, err
		}
		if !c.sees(&dir) { // what is in it is not reached
			return 0, nil, c.explainPlace(policy.See, &dir), nil
		}
		last := len(rest) == 1
		id, typ, err := c.tx.Lookup(ino, rest[0])
		if last && (isNotFound(err) && a == policy.Create || err == nil && typ != backend.TypeDir && (a == policy.Create || a == policy.Remove)) {
			x, err = c.explainName(a, ino, rest[0])
			return 0, nil, x, err
		}
		if err != nil {
			return 0, nil, x, err
		}
		rest = rest[1:]
		if id.Volume() != c.vol {
			return id, rest, x, nil
		}
		ino = id.Ino()
	}
	var pl place
	if err := c.place(ino, &pl); err != nil {
		return 0, nil, x, err
	}
	if !c.sees(&pl) {
		a = policy.See
	}
	return 0, nil, c.explainPlace(a, &pl), nil
}

// explainPlace is about the node at pl.
func (c *call) explainPlace(a policy.Action, pl *place) policy.Explanation {
	x := c.v.s.engine.Explain(c.p, a, pl.res)
	if a != policy.See || x.Allow || len(x.Errors) > 0 {
		return x
	}
	if pl.top > 0 {
		return c.explainTop(pl, x)
	}
	for _, l := range pl.leads { // seen as the way to what is granted
		if y := c.v.s.engine.Explain(c.p, a, l.Place); y.Allow {
			return y
		}
	}
	return x
}

// explainName is about making or removing name in directory ino.
func (c *call) explainName(a policy.Action, ino backend.Ino, name string) (policy.Explanation, error) {
	var dir place
	if err := c.place(ino, &dir); err != nil {
		return policy.Explanation{}, err
	}
	if a == policy.Remove {
		id, _, err := c.tx.Lookup(ino, name)
		if err != nil {
			return policy.Explanation{}, err
		}
		free, err := c.frees(ino, name, id.Ino())
		if err != nil {
			return policy.Explanation{}, err
		}
		if free { // refused as making it would be: see needBound
			a = policy.Create
		}
	}
	if a == policy.Create {
		var err error
		if dir.res.Denied, err = c.linkDenied(ino, name); err != nil {
			return policy.Explanation{}, err
		}
		if dir.res.Barred, err = c.linkBarred(ino, name); err != nil {
			return policy.Explanation{}, err
		}
	}
	return c.v.s.engine.Explain(c.p, a, dir.res), nil
}

// explainTop is about a directory of the root volume: it is seen because of
// something in it.
func (c *call) explainTop(pl *place, x policy.Explanation) policy.Explanation {
	list, err := c.tx.List(pl.ino())
	if err != nil {
		return x
	}
	for _, l := range c.p.Tops(topNames[pl.top-1]) {
		if y := c.v.s.engine.Explain(c.p, policy.See, l.Place); y.Allow {
			return y
		}
	}
	for _, e := range list {
		if y := c.v.s.engine.Explain(c.p, policy.See, volumeResource(topChild(pl.top-1, e.Name))); y.Allow {
			return y
		}
	}
	return x
}
