package view

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/feed"
	"github.com/warrenfs/warren/policy"
)

// maxEventPath bounds a path that the feed keeps, in bytes.
const maxEventPath = 4096

// The ops of the feed that stand for several operations.
const (
	opWrite = "write" // content: write, truncate, allocate, copy
	opAttr  = "attr"  // mode, owner, times
	opXattr = "xattr"
)

// note lets the next change of names go into the feed: op on name in dir; to is
// the new path of a rename or link. To be called right before the change.
func (c *call) note(op string, dir backend.Ino, name, to string, node backend.NodeID) {
	if c.v.s.feed == nil {
		return
	}
	path, err := c.treePath(dir, name)
	if err != nil {
		return // in a removed directory: nobody finds it
	}
	c.noted(op, path, to, node)
}

func (c *call) noted(op, path, to string, node backend.NodeID) {
	c.tx.Op.Event = &feed.Event{Op: op, Agent: c.v.author(), Mount: c.v.o.Mount, Path: cutPath(path), To: cutPath(to), Node: node}
}

// noteTo is note for a rename or a link, whose new name is in another directory.
func (c *call) noteTo(op string, pl *place, from *place, name string, dir backend.Ino, newName string) {
	if c.v.s.feed == nil {
		return
	}
	to, err := c.treePath(dir, newName)
	if err != nil {
		return
	}
	path := ""
	if from != nil {
		path, err = c.treePath(from.ino(), name)
	} else {
		path, err = c.shownPath(pl, "")
	}
	if err != nil { // a file without a name gets one
		op, path, to = "create", to, ""
	}
	c.noted(op, path, to, pl.attr.Node)
}

// noteChange is note for a change of the node at pl. Content and attributes that
// one agent changes again before anybody read of it are noted once a second.
func (c *call) noteChange(op string, pl *place) {
	f := c.v.s.feed
	if f == nil || f.Fresh(pl.attr.Node, c.v.author(), op) {
		return
	}
	path, err := c.shownPath(pl, "")
	if pl.kept { // by a name that the view does not know: its reader sees only what it may
		path, err = c.treePath(pl.ino(), "")
	}
	if err != nil { // without a name
		return
	}
	c.noted(op, path, "", pl.attr.Node)
}

func cutPath(p string) string {
	if len(p) > maxEventPath {
		return p[:maxEventPath]
	}
	return p
}

// deny puts a denial into the feed, too.
func (s *Space) deny(x Denial, mount string, hidden bool) {
	s.denials.add(x, hidden)
	if s.feed == nil {
		return
	}
	e := feed.Event{Op: x.Op, Agent: x.Agent, Mount: mount, Path: cutPath(x.Path), Rule: x.Rule}
	if hidden {
		e.Flags |= feed.Hidden
	}
	s.feed.Note(e)
}

// Event is an entry of the feed as a view may know it.
type Event struct {
	Seq    uint64
	Time   time.Time
	Op     string
	Agent  string // "" is the administrator; "unknown" one that the view may not know of
	Mount  string
	Path   string // any bytes
	To     string
	Rule   string
	Count  uint64
	Denied bool
	// Replaced tells of a rename that something stood at To, and is gone.
	Replaced bool
}

// ErrNoFeed is what reading the feed of a store without one gives.
var ErrNoFeed = errors.New("this store keeps no feed")

// Feed gives what the view may know of up to limit events after a number, oldest
// first, and the number to go on after. There may be none of them in it though
// there are more.
func (v *View) Feed(ctx context.Context, after uint64, limit int) (out []Event, next uint64, err error) {
	if v.s.feed == nil {
		return nil, after, &backend.Error{Op: "log", Kind: backend.Unsupported, Err: ErrNoFeed}
	}
	p := v.principal()
	next, err = v.s.feed.Read(ctx, after, limit, func(e *feed.Event) error {
		if x, ok := v.event(p, e); ok {
			out = append(out, x)
		}
		return nil
	})
	return out, next, err
}

// FeedSince gives the number after which events are not older than t.
func (v *View) FeedSince(ctx context.Context, t time.Time) (uint64, error) {
	if v.s.feed == nil {
		return 0, &backend.Error{Op: "log", Kind: backend.Unsupported, Err: ErrNoFeed}
	}
	return v.s.feed.Since(ctx, backend.TimeOf(t))
}

// FeedWait returns when the feed has an event after a number, whether or not the
// view may know of it, or ctx ends.
func (v *View) FeedWait(ctx context.Context, after uint64) error {
	if v.s.feed == nil {
		return &backend.Error{Op: "log", Kind: backend.Unsupported, Err: ErrNoFeed}
	}
	return v.s.feed.Wait(ctx, after)
}

// FeedVerify follows the chain of the whole feed. It fails with Denied for a view that is
// not allowed to know of all of it, because the result counts what others do.
func (v *View) FeedVerify(ctx context.Context) (feed.Verdict, error) {
	switch {
	case v.s.feed == nil:
		return feed.Verdict{}, &backend.Error{Op: "log", Kind: backend.Unsupported, Err: ErrNoFeed}
	case !v.knowsAll(v.principal()):
		return feed.Verdict{}, &backend.Error{Op: "log verify", Kind: backend.Denied}
	}
	return v.s.feed.Verify(ctx)
}

// event is e as the view may know it, if it may.
func (v *View) event(p *policy.Principal, e *feed.Event) (Event, bool) {
	x := Event{Seq: e.Seq, Time: e.Time.Time(), Op: e.Op, Agent: e.Agent, Mount: e.Mount, Path: e.Path, To: e.To, Rule: e.Rule,
		Count: e.Count, Denied: e.Flags&feed.Denied != 0, Replaced: e.Flags&feed.Replaced != 0}
	if v.knowsAll(p) {
		return x, true
	}
	if p == nil {
		return x, false
	}
	if x.Denied {
		own := e.Agent == v.o.Agent && e.Agent != "" && !before(e.Time, p.Agent())
		if !own && !v.seesAgent(p, e.Agent, e.Time) || e.Flags&feed.Hidden != 0 || e.Path != "" && !v.seesPath(p, e.Path, e.Time) {
			return x, false
		}
	} else if !v.narrow(p, e, &x) {
		return x, false
	}
	if e.Agent != "" && !v.knowsAuthor(p, e, &x) {
		x.Agent = stranger
	}
	if x.Agent != v.o.Agent {
		x.Mount = ""
	}
	return x, true
}

// narrow takes out of a change what the view does not see; false: all of it.
func (v *View) narrow(p *policy.Principal, e *feed.Event, x *Event) bool {
	from, to := e.Path != "" && v.seesPath(p, e.Path, e.Time), e.To != "" && v.seesPath(p, e.To, e.Time)
	switch {
	case e.To == "" || from && to || to && e.Path == "":
	case e.Op == "rename" && from:
		x.Op, x.To = "leave", ""
	case e.Op == "rename" && to:
		x.Op, x.Path, x.To = "enter", e.To, ""
	case e.Op == "link" && to:
		x.Path = ""
	case e.Op == "exchange": // something else stands there now
		x.Op, x.Path, x.To = "enter", e.Path, ""
		if to {
			x.Path = e.To
		}
	case from: // a link to where it does not see
		return false
	}
	return from || to
}

// knowsAll tells whether the view sees every agent: the administrator's and an
// orchestrator's that is not limited.
func (v *View) knowsAll(p *policy.Principal) bool {
	return v.decide(p, policy.See, policy.Resource{Zone: policy.ZoneRoot, Owner: "agents"}).Allow
}

// seesAgent tells whether the view knows of an agent by its home, at a time.
func (v *View) seesAgent(p *policy.Principal, key string, at backend.Time) bool {
	other, ok := v.s.engine.Principal(key, policy.ReadWrite)
	return ok && !before(at, other.Agent()) && v.listsVolume(p, Label{Kind: KindHome, Owner: key})
}

// knowsAuthor tells whether the view may know who made a change: one that it
// knows of, or that sees the place too.
func (v *View) knowsAuthor(p *policy.Principal, e *feed.Event, x *Event) bool {
	other, ok := v.s.engine.Principal(e.Agent, policy.ReadWrite)
	if !ok || before(e.Time, other.Agent()) {
		return false
	}
	path := x.Path
	if path == "" {
		path = x.To
	}
	return e.Agent == v.o.Agent || v.seesAgent(p, e.Agent, e.Time) || v.seesPath(other, path, e.Time)
}

// seesPath tells whether p sees what was at a tree path at a time, as far as the
// path tells. What is older than the agent, or the user, whose tree it is was
// another's.
func (v *View) seesPath(p *policy.Principal, path string, at backend.Time) bool {
	vol, rel, ok := policy.PlaceOf(path)
	if !ok {
		return false
	}
	g := p.Grants(vol)
	r := vol
	r.Grants = g.At(rel)
	switch vol.Zone {
	case policy.ZoneHomeFixed:
		top, _, _ := strings.Cut(rel, "/")
		if rel != "" {
			r.Zone = policy.HomeZone(top)
		}
		fallthrough
	case policy.ZoneWorkspace, policy.ZoneScratch:
		owner, ok := v.s.engine.Principal(vol.Owner, policy.ReadWrite)
		if !ok || before(at, owner.Agent()) {
			return false
		}
	case policy.ZoneUser:
		if since := v.s.engine.Facts().UsersSince[vol.Owner]; !since.IsZero() && at < backend.TimeOf(since) {
			return false
		}
	}
	return v.lists(p, r)
}
