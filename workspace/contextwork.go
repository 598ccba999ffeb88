package workspace

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

const (
	contextWork   = 5      // projects whose inbox and news are told
	contextPaths  = 5      // paths of what is new in one
	contextEvents = 20_000 // events of the feed that are looked at for one
	// contextRead bounds what is read of a project's inbox, and of its journal, in
	// bytes: a context is made whenever somebody looks at its file.
	contextRead = 1 << 20
)

// contextProjectWork tells of the active project and the shared ones: what is
// open for the agent, and what is new since its pointer. What the agent itself
// did is not new to it.
func (l *Layer) contextProjectWork(b *strings.Builder, a *Agent, v *view.View) {
	var open, news strings.Builder
	for i, p := range l.workedIn(a, v) {
		if i == contextWork {
			break
		}
		l.contextInbox(&open, a, v, p)
		l.contextNews(&news, a, v, p)
	}
	if open.Len() > 0 {
		b.WriteString("\n## Open items for you\n\n" + open.String())
	}
	if news.Len() > 0 {
		b.WriteString("\n## New since you looked\n\nwhats_new, or `warren whatsnew`, tells all of it.\n\n" + news.String())
	}
}

// workedIn lists the active project, then the shared ones.
func (l *Layer) workedIn(a *Agent, v *view.View) (out []ProjectDir) {
	add := func(at string) {
		if d, seen := v.Sees(at); seen && d.IsDir() && !slices.ContainsFunc(out, func(p ProjectDir) bool { return p.Path == at }) {
			out = append(out, ProjectDir{Path: at, node: d.Node})
		}
	}
	if a.Active != "" {
		add(a.Active)
	}
	for _, p := range l.reg.Projects() {
		add("/projects/" + p.Slug)
	}
	return out
}

func (l *Layer) contextInbox(b *strings.Builder, a *Agent, v *view.View, p ProjectDir) {
	items, err := p.inbox(v, a.Key, false, contextRead)
	if isKind(err, backend.TooBig) {
		fmt.Fprintf(b, "- `%s/%s` is too big for this list: `warren inbox list` tells them\n", onOneLine(p.Path), inboxName)
	}
	if err != nil {
		return
	}
	for i, it := range items {
		if i == contextList {
			fmt.Fprintf(b, "- and %d more in `%s`\n", len(items)-i, onOneLine(p.Path))
			return
		}
		fmt.Fprintf(b, "- %s in `%s`: %s", it.ID, onOneLine(p.Path), short(strings.ToValidUTF8(it.Title, "")))
		if it.By != "" {
			fmt.Fprintf(b, " (from %s)", short(strings.ToValidUTF8(it.By, "")))
		}
		if it.For != a.Key {
			b.WriteString(", for anyone")
		}
		b.WriteByte('\n')
	}
}

func (l *Layer) contextNews(b *strings.Builder, a *Agent, v *view.View, p ProjectDir) {
	at, warning, err := p.pointerOf(v)
	if err != nil {
		return
	}
	if at.Read.IsZero() || warning != "" {
		fmt.Fprintf(b, "- `%s`: you have not looked yet\n", onOneLine(p.Path))
		return
	}
	n, _, err := l.news(context.Background(), v, p, contextEvents, contextRead)
	if isKind(err, backend.TooBig) {
		fmt.Fprintf(b, "- `%s`: more than there is room for here\n", onOneLine(p.Path))
	}
	if err != nil {
		return
	}
	files := 0
	var paths []string
	for _, list := range [][]Change{n.Changes.Added, n.Changes.Changed, n.Changes.Renamed, n.Changes.Removed} {
		for _, c := range list {
			if !slices.ContainsFunc(c.By, func(key string) bool { return key != a.Key }) {
				continue
			}
			if files++; len(paths) < contextPaths {
				paths = append(paths, short(strings.ToValidUTF8(strings.TrimPrefix(c.Path, p.Path+"/"), "")))
			}
		}
	}
	entries := slices.DeleteFunc(n.Journal, func(e JournalEntry) bool { return e.Agent == a.Key || e.At.Before(n.Since) })
	if files == 0 && len(entries) == 0 {
		return
	}
	fmt.Fprintf(b, "- `%s`: ", onOneLine(p.Path))
	if files > 0 {
		fmt.Fprintf(b, "%d files changed (%s)", files, list(paths, files-len(paths)))
	}
	if len(entries) > 0 {
		if files > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "%d new entries in the journal", len(entries))
	}
	b.WriteByte('\n')
}
