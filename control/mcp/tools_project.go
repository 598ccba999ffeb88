package mcp

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/warrenfs/warren/control"
)

const inProject = " In the active project, unless project names another."

func projectTools() []tool {
	named := func(names ...string) func(*jsonschema.Schema) {
		return func(s *jsonschema.Schema) {
			for _, n := range names {
				length(s, n, 1, 1000)
			}
		}
	}
	return []tool{
		define(about{name: "workspaces", group: "projects", title: "List projects and workspaces", effect: reads,
			text: "List the projects that this agent works in, with the one that is active, and the workspaces that it sees."}, listWorkspaces),
		define(about{name: "workspace_info", group: "projects", title: "Show a project", effect: reads,
			text: "Show a project: name, path, and, where it is a git repository, remote, branch and HEAD." + inProject}, showProject),
		define(about{name: "workspace_switch", group: "projects", title: "Switch to a project", effect: addsOnce, limits: named("name"),
			text: "Make a project the active one: journal, inbox, decisions and what is new are its own from now on, also in later sessions."}, switchProject),
		define(about{name: "workspace_init", group: "projects", title: "Make a project", effect: addsOnce, limits: named("name"),
			text: "Make a project with README.md, journal.md, inbox.md and directories for research, drafts, comments, decisions and assets, or put those that are missing into one that is there. It is the active one then."}, initProject),
		define(about{name: "journal_append", group: "projects", title: "Add to the journal", effect: adds, limits: named("summary"),
			text: "Tell the project's other agents what you did: an entry at the end of journal.md, with what is left to do." + inProject}, appendJournal),
		define(about{name: "journal_read", group: "projects", title: "Read the journal", effect: reads,
			limits: func(s *jsonschema.Schema) { bounds(s, "n", 1, 10_000) },
			text:   "Read the last entries of the project's journal, 20 unless told." + inProject}, readJournal),
		define(about{name: "inbox_add", group: "projects", title: "Add an inbox item", effect: adds, limits: named("title"),
			text: "Ask another agent, or anyone, for something: an item in inbox.md with an id of its own." + inProject}, addInbox),
		define(about{name: "inbox_close", group: "projects", title: "Close an inbox item", effect: replaces, limits: named("id", "resolution"),
			text: "Close an item of the inbox, with what came of it." + inProject}, closeInbox),
		define(about{name: "decision_add", group: "projects", title: "Write down a decision", effect: adds, limits: named("title", "decision"),
			text: "Write a decision into a file of its own, decisions/DATE-TITLE.md." + inProject}, addDecision),
		define(about{name: "whats_new", group: "projects", title: "What is new", effect: adds,
			text: "Tell what happened in the project since you asked last: files, journal, inbox. Moves your pointer to now." + inProject}, whatsNew),
	}
}

type inProjectIn struct {
	Project string `json:"project,omitempty" jsonschema:"name of a directory of your workspace or of a shared project, or a tree path; left out: the active one"`
}

// in is the project that a tool means.
func (s *Server) in(project string) string {
	if project == "" {
		return s.o.Project
	}
	return project
}

type workspaceOut struct {
	UUID string `json:"uuid"`
	Kind string `json:"kind" jsonschema:"agent, user, project or device"`
	Name string `json:"name"`
	Path string `json:"path"`
}

type workspacesOut struct {
	Projects   []control.ProjectPlace `json:"projects"`
	Workspaces []workspaceOut         `json:"workspaces"`
}

func listWorkspaces(ctx context.Context, s *Server, _ struct{}) (workspacesOut, said, error) {
	out := workspacesOut{Workspaces: []workspaceOut{}}
	var err error
	if out.Projects, err = s.o.Client.ProjectPlaces(ctx, s.o.Agent); err != nil {
		return out, said{}, err
	}
	ws, err := s.o.Client.Workspaces(ctx, s.o.Agent)
	if err != nil {
		return out, said{}, err
	}
	var text strings.Builder
	for _, p := range out.Projects {
		active := ""
		if p.Active {
			active = " (active)"
		}
		fmt.Fprintf(&text, "project %s at %s%s\n", onOneLine(p.Name), onOneLine(p.Path), active)
	}
	for _, w := range ws {
		out.Workspaces = append(out.Workspaces, workspaceOut{UUID: w.UUID, Kind: w.Kind, Name: w.Name, Path: w.Path})
		fmt.Fprintf(&text, "%s workspace %s at %s\n", w.Kind, w.Name, w.Path)
	}
	return out, said{text: text.String()}, nil
}

func placeOf(p control.ProjectPlace, err error) (control.ProjectPlace, said, error) {
	text := fmt.Sprintf("project %s at %s", onOneLine(p.Name), onOneLine(p.Path))
	if p.Active {
		text += ", active"
	}
	if p.Head != "" {
		text += fmt.Sprintf("; git: HEAD %s, branch %s, remote %s", p.Head, onOneLine(p.Branch), onOneLine(p.Remote))
	}
	return p, said{text: text + "\n"}, err
}

func showProject(ctx context.Context, s *Server, in inProjectIn) (control.ProjectPlace, said, error) {
	return placeOf(s.o.Client.ProjectPlace(ctx, s.o.Agent, s.in(in.Project)))
}

type switchIn struct {
	Name string `json:"name" jsonschema:"name of a directory of your workspace or of a shared project, or a tree path"`
}

func switchProject(ctx context.Context, s *Server, in switchIn) (control.ProjectPlace, said, error) {
	return placeOf(s.o.Client.SwitchProject(ctx, control.ProjectSwitch{Agent: s.o.Agent, Project: in.Name}))
}

type initIn struct {
	Name   string `json:"name" jsonschema:"a-z, 0-9, _ and -"`
	Remote string `json:"remote_url,omitempty" jsonschema:"git repository to clone it from; it must not be there yet"`
	Path   string `json:"local_path,omitempty" jsonschema:"tree path where it is; left out: the directory of that name in your workspace"`
}

func initProject(ctx context.Context, s *Server, in initIn) (control.ProjectPlace, said, error) {
	if in.Remote != "" {
		if err := s.clone(ctx, in.Remote, in.Name, in.Path); err != nil {
			return control.ProjectPlace{}, said{}, err
		}
	}
	return placeOf(s.o.Client.InitProject(ctx, control.ProjectInit{Agent: s.o.Agent, Name: in.Name, Path: in.Path}))
}

type journalIn struct {
	Summary string         `json:"summary" jsonschema:"what you did, in a sentence or two"`
	Details string         `json:"details,omitempty"`
	Todos   []control.Todo `json:"todos,omitempty" jsonschema:"what is left to do; for: the key of the agent who is to do it, left out: anyone"`
	inProjectIn
}

func appendJournal(ctx context.Context, s *Server, in journalIn) (control.JournalAppended, said, error) {
	got, err := s.o.Client.AppendJournal(ctx, control.JournalNote{Agent: s.o.Agent, Project: s.in(in.Project),
		Summary: in.Summary, Details: in.Details, Todos: in.Todos})
	return got, said{text: fmt.Sprintf("added to %s: %s\n", got.Path, got.Entry)}, err
}

type readJournalIn struct {
	N int `json:"n,omitempty" jsonschema:"how many entries; 20 if left out"`
	inProjectIn
}

func readJournal(ctx context.Context, s *Server, in readJournalIn) (control.Journal, said, error) {
	if in.N == 0 {
		in.N = 20
	}
	got, err := s.o.Client.Journal(ctx, s.o.Agent, s.in(in.Project), in.N)
	return got, said{text: entriesText(got.Entries)}, err
}

// onOneLine is a name, or a line of another's text, as it stands in an answer's text:
// what could pass for another line of the answer is written as Go writes it.
func onOneLine(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }) {
		return s
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`), `\t`, "\t")
}

// entriesText has the entries with their text set in, so that no line of it passes for
// what is around it.
func entriesText(entries []control.JournalEntry) string {
	var b strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&b, "## %s — %s", e.At.Format("2006-01-02 15:04"), e.Agent)
		if e.Name != "" {
			fmt.Fprintf(&b, " (%s)", e.Name)
		}
		b.WriteByte('\n')
		for line := range strings.SplitSeq(e.Text, "\n") {
			fmt.Fprintf(&b, "  %s\n", onOneLine(line))
		}
		for _, t := range e.Todos {
			fmt.Fprintf(&b, "TODO @%s: %s\n", t.For, t.Text)
		}
		b.WriteByte('\n')
	}
	if b.Len() == 0 {
		return "no entries\n"
	}
	return b.String()
}

type inboxIn struct {
	Title string `json:"title" jsonschema:"one line"`
	Body  string `json:"body,omitempty"`
	For   string `json:"for,omitempty" jsonschema:"key of the agent who is to look at it; left out: anyone"`
	inProjectIn
}

func addInbox(ctx context.Context, s *Server, in inboxIn) (control.InboxAdded, said, error) {
	got, err := s.o.Client.AddInbox(ctx, control.InboxNote{Agent: s.o.Agent, Project: s.in(in.Project), Title: in.Title, Body: in.Body, For: in.For})
	return got, said{text: fmt.Sprintf("added %s to %s\n", got.ID, got.Path)}, err
}

type closeIn struct {
	ID         string `json:"id" jsonschema:"such as INB-014"`
	Resolution string `json:"resolution" jsonschema:"what came of it, in one line"`
	JournalRef string `json:"journal_ref,omitempty" jsonschema:"time of the journal's entry about it, as journal_append answered"`
	inProjectIn
}

func closeInbox(ctx context.Context, s *Server, in closeIn) (control.InboxClosed, said, error) {
	got, err := s.o.Client.CloseInbox(ctx, control.InboxClosing{Agent: s.o.Agent, Project: s.in(in.Project), ID: in.ID,
		Resolution: in.Resolution, JournalRef: in.JournalRef})
	return got, said{text: fmt.Sprintf("closed %s: %s\n", got.ID, got.Resolution)}, err
}

type decisionIn struct {
	Title        string `json:"title" jsonschema:"one line"`
	Context      string `json:"context,omitempty" jsonschema:"what the question was"`
	Decision     string `json:"decision"`
	Consequences string `json:"consequences,omitempty" jsonschema:"what follows"`
	DecidedBy    string `json:"decided_by,omitempty" jsonschema:"keys of who decided, parted by commas; left out: you"`
	inProjectIn
}

func addDecision(ctx context.Context, s *Server, in decisionIn) (control.DecisionAdded, said, error) {
	got, err := s.o.Client.AddDecision(ctx, control.DecisionNote{Agent: s.o.Agent, Project: s.in(in.Project), Title: in.Title,
		Context: in.Context, Decision: in.Decision, Consequences: in.Consequences, DecidedBy: in.DecidedBy})
	return got, said{text: got.Path + "\n"}, err
}

func whatsNew(ctx context.Context, s *Server, in inProjectIn) (control.News, said, error) {
	n, err := s.o.Client.WhatsNew(ctx, control.NewsQuery{Agent: s.o.Agent, Project: s.in(in.Project)})
	if err != nil {
		return n, said{}, err
	}
	bare(&n.Changes)
	AddCommits(ctx, s.o, &n)
	var b strings.Builder
	fmt.Fprintf(&b, "%s", onOneLine(n.Project.Path))
	if n.Since != nil {
		fmt.Fprintf(&b, " since %s", n.Since.Format(time.RFC3339))
	}
	b.WriteString("\n" + changesText(&n.Changes, true))
	if n.Warning != "" {
		fmt.Fprintf(&b, "warning: %s\n", n.Warning)
	}
	if len(n.Commits) > 0 {
		b.WriteString("\nCommits:\n" + commitsText(n.Commits))
	}
	if len(n.Journal) > 0 {
		b.WriteString("\nJournal:\n" + entriesText(n.Journal))
	}
	for _, part := range []struct {
		title string
		items []control.InboxItem
	}{{"Opened", n.Opened}, {"Closed", n.Closed}, {"Open for you", n.Mine}} {
		for i, it := range part.items {
			if i == 0 {
				fmt.Fprintf(&b, "\n%s:\n", part.title)
			}
			fmt.Fprintf(&b, "%s @%s %s %s\n", it.ID, it.For, onOneLine(it.Title), onOneLine(it.Resolution))
		}
	}
	if n.More {
		b.WriteString("\nthere is more: ask again\n")
	}
	return n, said{text: b.String()}, nil
}

// bare leaves the bytes of paths that are not UTF-8 out.
func bare(c *control.Changes) {
	for _, l := range c.Lists() {
		for i := range *l.List {
			x := &(*l.List)[i]
			x.PathBytes, x.FromBytes = nil, nil
		}
	}
}

// changesText has a line for each file; by: with who did it.
func changesText(c *control.Changes, by bool) string {
	var b strings.Builder
	for _, l := range c.Lists() {
		for _, x := range *l.List {
			fmt.Fprintf(&b, "%s %s", strings.ReplaceAll(l.Name, "_", " "), onOneLine(x.Path))
			if x.From != "" {
				fmt.Fprintf(&b, " (from %s)", onOneLine(x.From))
			}
			if by {
				fmt.Fprintf(&b, " by %s", strings.Join(x.By, ", "))
			}
			b.WriteByte('\n')
		}
	}
	if b.Len() == 0 {
		return "no files changed\n"
	}
	return b.String()
}

func delegationTools() []tool {
	return []tool{
		define(about{name: "delegate_begin", group: "delegation", title: "Begin a delegation", effect: adds,
			limits: func(s *jsonschema.Schema) { length(s, "agent", 1, 63) },
			text: "Before you let another agent work: make its project ready, and get an id with which delegate_diff tells what it changed. " +
				"A project that is there is gone on with; without one a fresh one is made."}, beginDelegation),
		define(about{name: "delegate_diff", group: "delegation", title: "What a delegate changed", effect: reads,
			limits: func(s *jsonschema.Schema) { length(s, "delegation", 1, 20_000) },
			text:   "The exact list of files that a delegate added, changed, renamed and removed in its project since delegate_begin. The paths are tree paths that read takes."}, delegationDiff),
	}
}

type beginIn struct {
	Agent   string `json:"agent" jsonschema:"key of the agent that is to work"`
	Project string `json:"project,omitempty" jsonschema:"name of a directory of its workspace, or /projects/NAME; left out: a fresh one"`
}

func beginDelegation(ctx context.Context, s *Server, in beginIn) (control.Delegation, said, error) {
	d, err := s.o.Client.Delegate(ctx, control.DelegationSpec{Agent: s.o.Agent, Delegate: in.Agent, Project: in.Project})
	return d, said{text: fmt.Sprintf("%s works in %s; delegation %s\n", d.Delegate, onOneLine(d.Workspace), d.ID)}, err
}

type diffIn struct {
	Delegation string `json:"delegation" jsonschema:"as delegate_begin answered"`
	All        bool   `json:"all,omitempty" jsonschema:"what anybody changed there, not only the delegate"`
}

func delegationDiff(ctx context.Context, s *Server, in diffIn) (control.DelegationChanges, said, error) {
	d, err := s.o.Client.DelegationChanges(ctx, control.DelegationQuery{Agent: s.o.Agent, ID: in.Delegation, All: in.All})
	if err != nil {
		return d, said{}, err
	}
	bare(&d.Changes)
	return d, said{text: fmt.Sprintf("%s in %s:\n%s", d.Delegate, onOneLine(d.Workspace), changesText(&d.Changes, in.All))}, nil
}
