package view

import (
	"errors"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// Answer is what a view tells its own agent of what it may do.
type Answer struct {
	Action string `json:"action"`
	Path   string `json:"path"`
	Allow  bool   `json:"allow"`
	// Rules are those that decided, with file and line; an orchestrator is told.
	Rules []AnswerRule `json:"rules,omitempty"`
	Note  string       `json:"note"`
}

// AnswerRule is a rule that decided.
type AnswerRule struct {
	ID   string `json:"id"`
	File string `json:"file"`
	Line int    `json:"line"`
}

// Ask tells how policy decides about an action (see, read, write, create, remove,
// move, link) of the view's own agent, through a mount such as this, at a tree
// path; mode bits and quotas are not looked at. It does not look behind the view:
// what is hidden is found as little, and as fast, as what does not exist; whether a
// name may be made depends on the name and its directory alone. Symlinks
// in the path are followed, one at its end is not. For create and remove of what
// is no directory, the directory that it stands in counts. Invalid: no action, or
// no absolute path.
func (v *View) Ask(action, path string) (Answer, error) {
	out := Answer{Action: action, Path: path}
	a, known := policy.ParseAction(action)
	if !known {
		return out, backend.Invalid
	}
	x, at, err := v.ask(a, path)
	switch {
	case isNotFound(err) || errors.Is(err, backend.NotDir):
		out.Note = "it does not exist"
		return out, nil
	case err != nil:
		return out, err
	}
	out.Allow = x.Allow
	out.Note = note(x, at)
	if v.Role() == string(policy.Orchestrator) {
		for _, r := range x.Rules {
			out.Rules = append(out.Rules, AnswerRule{ID: string(r.ID), File: r.File, Line: r.Line})
		}
	}
	return out, nil
}

// note words a decision about a tree path for the agent that it is about, a refusal
// with the reason that the deed would be refused with.
func note(x policy.Explanation, path string) string {
	if x.Allow {
		return "policy permits it"
	}
	why := "nothing permits it"
	for _, rule := range x.Rules {
		if text := reason(rule, path); text != "" {
			why = text
			break
		}
	}
	return "policy denies it: " + why
}

// ask also gives the tree path that the answer is about, without symlinks.
func (v *View) ask(a policy.Action, path string) (x policy.Explanation, at string, err error) {
	f, err := v.Find(path, false)
	if isNotFound(err) && a == policy.Create {
		var dir backend.Attr
		if dir, f.Name, err = v.ResolveParent(path); err == nil {
			at = join(trimLast(path), f.Name)
			x, err = v.askName(a, dir.Node, f.Name)
		}
		return x, at, err
	}
	if err != nil {
		return x, path, err
	}
	if !f.Attr.IsDir() && (a == policy.Create || a == policy.Remove) {
		x, err = v.askName(a, f.Dir, f.Name)
		return x, f.Path, err
	}
	c := v.begin("explain", nil)
	defer c.end()
	c.watch, c.silent = nil, true
	err = c.in(f.Attr.Node, func(c *call) error {
		var pl place
		if err := c.seen(f.Attr.Node.Ino(), &pl); err != nil {
			return err
		}
		if a == policy.See { // it was found
			x.Allow = true
			if y := c.explainPlace(a, &pl); y.Allow {
				x = y
			}
			return nil
		}
		x = c.explainPlace(a, &pl)
		return nil
	})
	return x, f.Path, err
}

// askName is about making or removing name in directory dir.
func (v *View) askName(a policy.Action, dir backend.NodeID, name string) (x policy.Explanation, err error) {
	c := v.begin("explain", nil)
	defer c.end()
	c.watch, c.silent = nil, true
	err = c.in(dir, func(c *call) error {
		var pl place
		if err := c.dir(dir.Ino(), &pl); err != nil {
			return err
		}
		x, err = c.explainName(a, dir.Ino(), name)
		return err
	})
	return x, err
}
