package view

import (
	"container/list"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

const (
	maxDenials    = 1000 // kept for each agent, and for the administrator
	maxDenialPath = 1024 // bytes of a path that are kept
)

// denials keeps what was refused, by agent; "" is the administrator's list.
type denials struct {
	refused, hidden atomic.Uint64

	mu  sync.Mutex
	log map[string]*denialLog // guarded by mu
}

// denialLog is one list, oldest first, with equal refusals counted in one.
type denialLog struct {
	order *list.List // of *Denial
	index map[Denial]*list.Element
}

// add notes one refusal. If hidden, only the administrator gets to know.
func (d *denials) add(x Denial, hidden bool) {
	if hidden {
		d.hidden.Add(1)
	} else {
		d.refused.Add(1)
	}
	if len(x.Path) > maxDenialPath {
		x.Path = strings.Clone(x.Path[:maxDenialPath]) + "..."
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now().UTC()
	d.note("", x, now)
	if agent := x.Agent; !hidden && agent != "" {
		x.Agent = ""
		d.note(agent, x, now)
	}
}

// note adds key, which has neither time nor count, to a list. mu is held.
func (d *denials) note(agent string, key Denial, now time.Time) {
	l := d.log[agent]
	if l == nil {
		l = &denialLog{order: list.New(), index: map[Denial]*list.Element{}}
		if d.log == nil {
			d.log = map[string]*denialLog{}
		}
		d.log[agent] = l
	}
	e := l.index[key]
	if e == nil {
		if l.order.Len() >= maxDenials {
			old := *l.order.Remove(l.order.Front()).(*Denial)
			old.Time, old.Count = time.Time{}, 0
			delete(l.index, old)
		}
		x := key
		e = l.order.PushBack(&x)
		l.index[key] = e
	}
	x := e.Value.(*Denial)
	x.Time = now
	x.Count++
	l.order.MoveToBack(e)
}

// keep forgets what agents were refused that are not among those there are: who
// gets the key of one later is another.
func (d *denials) keep(there func(agent string) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.log, func(agent string, _ *denialLog) bool { return agent != "" && !there(agent) })
}

func (d *denials) list(agent string) []Denial {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.log[agent]
	if l == nil {
		return nil
	}
	out := make([]Denial, 0, l.order.Len())
	for e := l.order.Front(); e != nil; e = e.Next() {
		out = append(out, *e.Value.(*Denial))
	}
	return out
}

// Denials lists what the view's agent was refused below the view's root, as
// Space.Denials does.
func (v *View) Denials() []Denial {
	all := v.s.Denials(v.o.Agent)
	root := v.RootPath()
	if root == "/" {
		return all
	}
	return slices.DeleteFunc(all, func(d Denial) bool { return d.Path != root && !strings.HasPrefix(d.Path, root+"/") })
}

// hidden is the answer for what the view may not know of. The agent's own list
// does not tell of it; the administrator's tells the volume, or the name in a
// directory of the root volume.
func (c *call) hidden(l Label, dir *place, name string) error {
	if c.silent {
		return backend.NotFound
	}
	path := volumePath(l)
	if dir != nil && dir.top > 0 {
		path += "/" + topNames[dir.top-1]
	}
	if name != "" {
		path += "/" + name
	}
	c.v.s.deny(Denial{Agent: c.v.o.Agent, Op: c.op, Path: path}, c.v.o.Mount, true)
	return backend.NotFound
}

// refuse is the answer for what the view may see but not do. name is that of
// an entry of pl, or "". The lock is held.
func (c *call) refuse(a policy.Action, pl *place, name string, d policy.Decision) error {
	path, err := c.shownPath(pl, name)
	if err != nil {
		path = volumePath(c.label) + "/" // an unlinked file
	}
	c.v.s.deny(Denial{Agent: c.v.author(), Op: c.op, Path: path, Rule: string(d.Rule)}, c.v.o.Mount, c.p == nil) // nil: the agent is gone
	e := &backend.Error{Op: c.op, Path: path, Agent: c.v.o.Agent, Kind: backend.Denied}
	if c.v.o.Access == ReadOnly && a.Mutates() {
		e.Kind = backend.ReadOnly
	} else if ref, ok := c.v.s.engine.Rule(d.Rule); ok {
		if why := reason(ref, path); why != "" {
			e.Err = errors.New(why)
		}
	}
	return e
}

// reason words a rule that denies what is at a tree path, for whoever is denied it;
// "": it has none.
func reason(rule policy.RuleRef, path string) string {
	if rule.ID == denyNamesRule {
		return denyNameText(path)
	}
	return rule.Reason
}

const denyNamesRule policy.RuleID = "deny-names"

// denyNameText names the command that lets the file at path be used.
func denyNameText(path string) string {
	cut := strings.LastIndexByte(path, '/')
	dir, name := path[:max(cut, 0)], path[cut+1:]
	if dir == "" {
		dir = "/"
	}
	return "the name is on the deny-list; to allow it there: warren policy allow-name " +
		shellWord(name) + " --under " + shellWord(dir)
}

// shellWord quotes s for a shell if it needs to be.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
