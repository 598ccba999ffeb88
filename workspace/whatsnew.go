package workspace

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/warrenfs/warren/policy/view"
)

const (
	// firstLook is how far back what is new goes for an agent without a pointer.
	firstLook = 30 * 24 * time.Hour
	// newsLimit bounds the events that one look goes through; the next look goes
	// on where it ended.
	newsLimit = 200_000
	// newsEntries bounds the journal's entries of one look, of the last newsLook.
	newsEntries, newsLook = 50, 10_000
)

// News is what happened in a project since its agent looked last.
type News struct {
	Project ProjectDir
	Since   time.Time // of the last look; zero: it is the first
	Changes Changes   // without those of .git and .pointers
	Journal []JournalEntry
	Left    int         // new entries before these, which are left out
	Opened  []InboxItem // since then
	Closed  []InboxItem
	Mine    []InboxItem // open ones for this agent or for anyone, old ones too
	Git     Git
	OldHead string // Git.Head as of the last look
	More    bool   // there is more: look again
	Warning string
}

// WhatsNew tells what happened in a project since the agent's pointer, and moves
// that.
func (l *Layer) WhatsNew(ctx context.Context, v *view.View, project string) (n News, err error) {
	defer l.turn(v)()
	p, err := l.ProjectDir(v, project)
	if err != nil {
		return n, err
	}
	now := l.reg.now() // what is added from now on, and not seen below, has a later time
	n, seq, err := l.news(ctx, v, p, newsLimit, maxProtocol)
	if err == nil {
		err = ctx.Err() // nobody hears of it: it is new yet
	}
	if err != nil || n.Warning != "" {
		return n, err
	}
	c, err := l.reg.Cursors(ctx, v.Agent())
	if err != nil {
		return n, err
	}
	to := pointer{SHA: n.Git.Head, Read: now}
	if to.Seq, err = c.Seal(seq); err != nil {
		return n, err
	}
	ok, err := l.movePointer(v, p, to)
	switch {
	case isRefusal(err):
		n.Warning, err = "the pointer was not moved: "+err.Error(), nil
	case err == nil && !ok:
		n.Warning = p.Path + "/" + pointerFile(v.Agent()) + " is not understood, and left as it is; remove it to begin anew"
	case err == nil && n.Left > 0:
		n.Warning = fmt.Sprintf("the journal has %d more new entries before these: read the last %d of it", n.Left, n.Left+len(n.Journal))
	}
	return n, err
}

// news collects what is new, and gives the number of the feed to go on after. It goes
// through so many events, and so many bytes of journals and inbox.
func (l *Layer) news(ctx context.Context, v *view.View, p ProjectDir, events, size int) (n News, seq uint64, err error) {
	n.Project = p
	at, warning, err := p.pointerOf(v)
	if err != nil {
		return n, 0, err
	}
	n.Since, n.OldHead, n.Warning = at.Read, at.SHA, warning
	if seq, err = l.pointerSeq(ctx, v, at); err != nil {
		return n, 0, err
	}
	n.Changes, seq, n.More, err = l.Changes(ctx, v, Span{After: seq, Under: p.Path, Limit: events})
	if err != nil {
		return n, 0, err
	}
	n.Changes.without(func(path string) bool {
		top, _, _ := strings.Cut(strings.TrimPrefix(path, p.Path+"/"), "/")
		return top == ".git" || top == pointersDir
	})
	since := n.Since.Truncate(time.Minute) // the files have no more
	entries, items, err := l.readNews(v, p, since, size)
	if err != nil {
		return n, 0, err
	}
	n.Journal = slices.DeleteFunc(entries, func(e JournalEntry) bool { return e.At.Before(since) })
	if left := len(n.Journal) - newsEntries; left > 0 {
		n.Journal, n.Left = n.Journal[left:], left
	}
	for _, it := range items {
		if !it.Closed && !it.Added.Before(since) {
			n.Opened = append(n.Opened, it)
		}
		if it.Closed && !it.ClosedAt.Before(since) {
			n.Closed = append(n.Closed, it)
		}
		if !it.Closed && (it.For == v.Agent() || it.For == anyone || it.For == "") {
			n.Mine = append(n.Mine, it)
		}
	}
	n.Git = p.git(v)
	return n, seq, nil
}

// readNews reads journal and inbox between the changes of the layer: an entry or item
// that is not there yet gets its time after this.
func (l *Layer) readNews(v *view.View, p ProjectDir, since time.Time, size int) (entries []JournalEntry, items []InboxItem, err error) {
	locked := func(name string, read func() error) error {
		defer l.lock(p.Path + "/" + name)()
		return read()
	}
	err = locked(journalName, func() (err error) { entries, err = p.journal(v, newsLook, since, size); return err })
	if err == nil {
		err = locked(inboxName, func() (err error) { items, err = p.inbox(v, "", true, size); return err })
	}
	return entries, items, err
}

// pointerSeq is where in the feed a pointer stands. A cursor that is none, of
// another store for one, is as good as the time of the last look.
func (l *Layer) pointerSeq(ctx context.Context, v *view.View, at pointer) (uint64, error) {
	if at.Seq != "" {
		c, err := l.reg.Cursors(ctx, v.Agent())
		if err != nil {
			return 0, err
		}
		if seq, err := c.Open(at.Seq); err == nil {
			return seq, nil
		}
	}
	since := l.reg.now().Add(-firstLook)
	if at.Read.After(since) {
		since = at.Read
	}
	return v.FeedSince(ctx, since)
}

// without takes paths out of all lists.
func (c *Changes) without(out func(path string) bool) {
	for _, list := range []*[]Change{&c.Added, &c.Changed, &c.Renamed, &c.Removed, &c.Attributes, &c.MadeDirs, &c.RemovedDirs} {
		*list = slices.DeleteFunc(*list, func(x Change) bool { return out(x.Path) })
	}
}
