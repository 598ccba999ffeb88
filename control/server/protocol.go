package server

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

const (
	defaultEntries = 20
	maxEntries     = 10_000
)

// textOf is s as JSON can say it.
func textOf(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (s *Server) apiPlace(v *view.View, p workspace.ProjectDir) control.ProjectPlace {
	git := s.Layer.Git(v, p)
	return control.ProjectPlace{Name: textOf(p.Name), Path: textOf(p.Path), Shared: p.Shared, Active: p.Path == s.Layer.ActiveProject(v),
		Remote: textOf(git.Remote), Branch: textOf(git.Branch), Head: git.Head}
}

func apiEntries(in []workspace.JournalEntry) []control.JournalEntry {
	out := []control.JournalEntry{}
	for _, e := range in {
		c := control.JournalEntry{At: e.At, Agent: textOf(e.Agent), Name: textOf(e.Name), Text: textOf(e.Text)}
		for _, t := range e.Todos {
			c.Todos = append(c.Todos, control.Todo{For: textOf(t.For), Text: textOf(t.Text)})
		}
		out = append(out, c)
	}
	return out
}

func apiItems(in []workspace.InboxItem) []control.InboxItem {
	out := []control.InboxItem{}
	for _, it := range in {
		out = append(out, control.InboxItem{ID: it.ID, For: textOf(it.For), Title: textOf(it.Title), Body: textOf(it.Body),
			AddedAt: timeOf(it.Added), AddedBy: textOf(it.By), Closed: it.Closed, ClosedAt: timeOf(it.ClosedAt),
			ClosedBy: textOf(it.ClosedBy), Resolution: textOf(it.Resolution)})
	}
	return out
}

func (s *Server) listPlaces(w http.ResponseWriter, r *http.Request) error {
	v, err := s.files(r.URL.Query().Get("agent"))
	if err != nil {
		return err
	}
	list, err := s.Layer.MyProjects(v)
	if err != nil {
		return err
	}
	out := []control.ProjectPlace{}
	for _, p := range list {
		out = append(out, s.apiPlace(v, p))
	}
	return reply(w, out)
}

func (s *Server) showPlace(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	v, err := s.files(q.Get("agent"))
	if err != nil {
		return err
	}
	p, err := s.Layer.ProjectDir(v, q.Get("project"))
	if err != nil {
		return err
	}
	return reply(w, s.apiPlace(v, p))
}

func (s *Server) switchPlace(w http.ResponseWriter, r *http.Request) error {
	var c control.ProjectSwitch
	if err := input(r, &c); err != nil {
		return err
	}
	if c.Project == "" {
		return invalid("switch to which project? the request names none")
	}
	v, err := s.files(c.Agent)
	if err != nil {
		return err
	}
	p, err := s.Layer.SwitchProject(r.Context(), v, c.Project)
	if err != nil {
		return err
	}
	return reply(w, s.apiPlace(v, p))
}

func (s *Server) initPlace(w http.ResponseWriter, r *http.Request) error {
	var c control.ProjectInit
	if err := input(r, &c); err != nil {
		return err
	}
	v, err := s.files(c.Agent)
	if err != nil {
		return err
	}
	p, made, err := s.Layer.InitProject(r.Context(), v, c.Name, c.Path)
	if err != nil {
		return err
	}
	out := s.apiPlace(v, p)
	out.Made = made
	return reply(w, out)
}

func (s *Server) readJournal(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	n := defaultEntries
	if t := q.Get("n"); t != "" {
		var err error
		if n, err = strconv.Atoi(t); err != nil || n < 1 || n > maxEntries {
			return invalid("n %q is not a number from 1 to %d", t, maxEntries)
		}
	}
	v, err := s.files(q.Get("agent"))
	if err != nil {
		return err
	}
	entries, path, err := s.Layer.ReadJournal(v, q.Get("project"), n)
	if err != nil {
		return err
	}
	return reply(w, control.Journal{Path: textOf(path), Entries: apiEntries(entries)})
}

func (s *Server) appendJournal(w http.ResponseWriter, r *http.Request) error {
	var c control.JournalNote
	if err := input(r, &c); err != nil {
		return err
	}
	v, err := s.files(c.Agent)
	if err != nil {
		return err
	}
	n := workspace.Note{Summary: c.Summary, Details: c.Details}
	for _, t := range c.Todos {
		n.Todos = append(n.Todos, workspace.Todo(t))
	}
	e, path, err := s.Layer.AppendJournal(v, c.Project, n)
	if err != nil {
		return err
	}
	return reply(w, control.JournalAppended{Path: textOf(path), Entry: e.Ref()})
}

func (s *Server) archiveJournal(w http.ResponseWriter, r *http.Request) error {
	var c control.JournalArchiving
	if err := input(r, &c); err != nil {
		return err
	}
	before := time.Now().UTC()
	if c.Before != "" {
		var err error
		if before, err = time.Parse("2006-01", c.Before); err != nil {
			return invalid("before %q is not a month such as 2026-05", c.Before)
		}
	}
	v, err := s.files(c.Agent)
	if err != nil {
		return err
	}
	got, err := s.Layer.ArchiveJournal(v, c.Project, before)
	if err != nil {
		return err
	}
	out := control.JournalArchived{Entries: got.Entries, Files: []string{}}
	for _, f := range got.Files {
		out.Files = append(out.Files, textOf(f))
	}
	return reply(w, out)
}

func (s *Server) readInbox(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	v, err := s.files(q.Get("agent"))
	if err != nil {
		return err
	}
	items, path, err := s.Layer.Inbox(v, q.Get("project"), q.Get("for"), q.Get("closed") == "true")
	if err != nil {
		return err
	}
	return reply(w, control.Inbox{Path: textOf(path), Items: apiItems(items)})
}

func (s *Server) addInbox(w http.ResponseWriter, r *http.Request) error {
	var c control.InboxNote
	if err := input(r, &c); err != nil {
		return err
	}
	v, err := s.files(c.Agent)
	if err != nil {
		return err
	}
	it, path, err := s.Layer.AddInbox(r.Context(), v, c.Project, workspace.Ask{Title: c.Title, Body: c.Body, For: c.For})
	if err != nil {
		return err
	}
	return reply(w, control.InboxAdded{ID: it.ID, Path: textOf(path)})
}

func (s *Server) closeInbox(w http.ResponseWriter, r *http.Request) error {
	var c control.InboxClosing
	if err := input(r, &c); err != nil {
		return err
	}
	v, err := s.files(c.Agent)
	if err != nil {
		return err
	}
	it, path, err := s.Layer.CloseInbox(v, c.Project, c.ID, c.Resolution, c.JournalRef)
	if err != nil {
		return err
	}
	return reply(w, control.InboxClosed{ID: it.ID, Path: textOf(path), Resolution: textOf(it.Resolution)})
}

func (s *Server) addDecision(w http.ResponseWriter, r *http.Request) error {
	var c control.DecisionNote
	if err := input(r, &c); err != nil {
		return err
	}
	v, err := s.files(c.Agent)
	if err != nil {
		return err
	}
	path, err := s.Layer.AddDecision(v, c.Project, workspace.Decision{Title: c.Title, Context: c.Context, Decision: c.Decision,
		Consequences: c.Consequences, By: c.DecidedBy})
	if err != nil {
		return err
	}
	return reply(w, control.DecisionAdded{Path: textOf(path)})
}

func (s *Server) whatsNew(w http.ResponseWriter, r *http.Request) error {
	var c control.NewsQuery
	if err := input(r, &c); err != nil {
		return err
	}
	v, err := s.files(c.Agent)
	if err != nil {
		return err
	}
	n, err := s.Layer.WhatsNew(r.Context(), v, c.Project)
	if err != nil {
		return err
	}
	return reply(w, control.News{Project: s.apiPlace(v, n.Project), Since: timeOf(n.Since), Changes: apiChanges(&n.Changes),
		Journal: apiEntries(n.Journal), Opened: apiItems(n.Opened), Closed: apiItems(n.Closed), Mine: apiItems(n.Mine),
		OldHead: textOf(n.OldHead), More: n.More, Warning: textOf(n.Warning)})
}
