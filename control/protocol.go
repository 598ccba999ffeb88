package control

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// Where a method takes a project, "" is the agent's active one, a tree path is
// what is there, and NAME is a directory of the agent's workspace or else
// /projects/NAME.

// ProjectPlace is a project as an agent works in it.
type ProjectPlace struct {
	Name   string `json:"name"`
	Path   string `json:"path"`   // tree path
	Shared bool   `json:"shared"` // at /projects, else in an agent's workspace
	Active bool   `json:"active"` // of the agent that asks
	Made   bool   `json:"made,omitempty"`
	// Remote, Branch and Head are those of the project's git repository; "" where
	// there is none. A remote's password is left out.
	Remote string `json:"remote"`
	Branch string `json:"branch"`
	Head   string `json:"head"` // hash of a commit
}

// ProjectSwitch chooses an agent's active project.
type ProjectSwitch struct {
	Agent   string `json:"agent"`
	Project string `json:"project"`
}

// ProjectInit asks for a project with the files of its protocol.
type ProjectInit struct {
	Agent string `json:"agent"`
	Name  string `json:"name"`           // a slug, if it is new
	Path  string `json:"path,omitempty"` // tree path; "": the directory Name of the agent's workspace
}

// Todo is a line of a journal that asks somebody for something.
type Todo struct {
	For  string `json:"for,omitempty"` // agent key; "" or "anyone"
	Text string `json:"text"`
}

// JournalNote asks for an entry of a journal.
type JournalNote struct {
	Agent   string `json:"agent"`
	Project string `json:"project,omitempty"`
	Summary string `json:"summary"`
	Details string `json:"details,omitempty"`
	Todos   []Todo `json:"todos,omitempty"`
}

// JournalEntry is one entry of a journal.
type JournalEntry struct {
	At    time.Time `json:"at"`    // UTC, to the minute
	Agent string    `json:"agent"` // as the file says
	Name  string    `json:"name,omitempty"`
	Text  string    `json:"text"` // without its todos
	Todos []Todo    `json:"todos,omitempty"`
}

// JournalAppended answers a note.
type JournalAppended struct {
	Path  string `json:"path"`        // tree path of the journal
	Entry string `json:"journal_ref"` // when it was, as the journal says
}

// Journal is the end of a journal.
type Journal struct {
	Path    string         `json:"path"`
	Entries []JournalEntry `json:"entries"` // oldest first
}

// JournalArchiving asks for old entries to be moved to the archive.
type JournalArchiving struct {
	Agent   string `json:"agent"`
	Project string `json:"project,omitempty"`
	Before  string `json:"before,omitempty"` // YYYY-MM: the first month that stays; "": this month
}

// JournalArchived tells what was moved.
type JournalArchived struct {
	Entries int      `json:"entries"`
	Files   []string `json:"files"` // tree paths
}

// InboxNote asks for an item of an inbox.
type InboxNote struct {
	Agent   string `json:"agent"`
	Project string `json:"project,omitempty"`
	Title   string `json:"title"`
	Body    string `json:"body,omitempty"`
	For     string `json:"for,omitempty"` // agent key; "": anyone
}

// InboxItem is one item of an inbox. What the file does not say is left out.
type InboxItem struct {
	ID         string     `json:"id"` // INB-014
	For        string     `json:"for,omitempty"`
	Title      string     `json:"title"`
	Body       string     `json:"body,omitempty"`
	AddedAt    *time.Time `json:"added_at,omitempty"`
	AddedBy    string     `json:"added_by,omitempty"`
	Closed     bool       `json:"closed"`
	ClosedAt   *time.Time `json:"closed_at,omitempty"`
	ClosedBy   string     `json:"closed_by,omitempty"`
	Resolution string     `json:"resolution,omitempty"`
}

// InboxAdded answers a note.
type InboxAdded struct {
	ID   string `json:"id"`
	Path string `json:"path"` // tree path of the inbox
}

// InboxClosing asks for an item to be closed.
type InboxClosing struct {
	Agent      string `json:"agent"`
	Project    string `json:"project,omitempty"`
	ID         string `json:"id"`
	Resolution string `json:"resolution"`
	JournalRef string `json:"journal_ref,omitempty"` // time of a journal's entry
}

// InboxClosed answers that.
type InboxClosed struct {
	ID         string `json:"id"`
	Path       string `json:"path"`
	Resolution string `json:"resolution"`
}

// Inbox is what an inbox has.
type Inbox struct {
	Path  string      `json:"path"`
	Items []InboxItem `json:"items"` // in the order of the file
}

// InboxQuery asks for items.
type InboxQuery struct {
	Agent, Project string
	For            string // only those for this agent, or for anyone
	Closed         bool   // closed ones too
}

// DecisionNote asks for a decision to be written down.
type DecisionNote struct {
	Agent        string `json:"agent"`
	Project      string `json:"project,omitempty"`
	Title        string `json:"title"`
	Context      string `json:"context,omitempty"`
	Decision     string `json:"decision"`
	Consequences string `json:"consequences,omitempty"`
	DecidedBy    string `json:"decided_by,omitempty"` // keys, parted by commas; "": the agent
}

// DecisionAdded answers that.
type DecisionAdded struct {
	Path string `json:"path"` // tree path of its file
}

// NewsQuery asks what is new in a project.
type NewsQuery struct {
	Agent   string `json:"agent"`
	Project string `json:"project,omitempty"`
}

// News is what happened in a project since its agent asked last.
type News struct {
	Project ProjectPlace   `json:"project"`
	Since   *time.Time     `json:"since,omitempty"` // when the agent asked last; left out: never
	Changes Changes        `json:"changes"`         // without .git and .pointers
	Journal []JournalEntry `json:"journal"`         // new entries
	Opened  []InboxItem    `json:"opened"`          // new items
	Closed  []InboxItem    `json:"closed"`
	Mine    []InboxItem    `json:"mine"`               // all open ones for this agent or for anyone
	OldHead string         `json:"old_head,omitempty"` // commit as of the last time
	// Commits since then, newest first, 100 at most. The daemon runs no git:
	// `warren whatsnew` and `warren mcp` add them where they may run it.
	Commits []Commit `json:"commits,omitempty"`
	More    bool     `json:"more"` // ask again
	Warning string   `json:"warning,omitempty"`
}

// Commit is one of a git repository's.
type Commit struct {
	SHA     string    `json:"sha"`
	Author  string    `json:"author"`
	Email   string    `json:"email"`
	At      time.Time `json:"at"`
	Message string    `json:"message"`
}

// ProjectPlaces lists the projects that an agent works in.
func (c *Client) ProjectPlaces(ctx context.Context, agent string) ([]ProjectPlace, error) {
	var out []ProjectPlace
	return out, c.call(ctx, http.MethodGet, "/v1/project/list", query("agent", agent), nil, &out)
}

// ProjectPlace tells about one. KindNotFound: there is none, or none is active.
func (c *Client) ProjectPlace(ctx context.Context, agent, project string) (ProjectPlace, error) {
	var out ProjectPlace
	return out, c.call(ctx, http.MethodGet, "/v1/project", query("agent", agent, "project", project), nil, &out)
}

// SwitchProject makes a project the agent's active one, until the next switch.
func (c *Client) SwitchProject(ctx context.Context, s ProjectSwitch) (ProjectPlace, error) {
	var out ProjectPlace
	return out, c.call(ctx, http.MethodPut, "/v1/project", nil, s, &out)
}

// InitProject makes a project with the files of its protocol, or puts those that
// are missing into one that is there, and makes it the active one.
func (c *Client) InitProject(ctx context.Context, p ProjectInit) (ProjectPlace, error) {
	var out ProjectPlace
	return out, c.call(ctx, http.MethodPost, "/v1/project", nil, p, &out)
}

// Journal gives the last n entries of a project's journal and its archive.
func (c *Client) Journal(ctx context.Context, agent, project string, n int) (Journal, error) {
	var out Journal
	return out, c.call(ctx, http.MethodGet, "/v1/journal", query("agent", agent, "project", project, "n", strconv.Itoa(n)), nil, &out)
}

// AppendJournal adds an entry as one step, also beside other writers.
func (c *Client) AppendJournal(ctx context.Context, n JournalNote) (JournalAppended, error) {
	var out JournalAppended
	return out, c.call(ctx, http.MethodPost, "/v1/journal", nil, n, &out)
}

// ArchiveJournal moves the entries of old months into journal-archive/YYYY-MM.md.
func (c *Client) ArchiveJournal(ctx context.Context, q JournalArchiving) (JournalArchived, error) {
	var out JournalArchived
	return out, c.call(ctx, http.MethodPost, "/v1/journal/archive", nil, q, &out)
}

// Inbox lists the items of a project's inbox.
func (c *Client) Inbox(ctx context.Context, q InboxQuery) (Inbox, error) {
	var out Inbox
	v := query("agent", q.Agent, "project", q.Project, "for", q.For)
	if q.Closed {
		v.Set("closed", "true")
	}
	return out, c.call(ctx, http.MethodGet, "/v1/inbox", v, nil, &out)
}

// AddInbox adds an item with an id of its own.
func (c *Client) AddInbox(ctx context.Context, n InboxNote) (InboxAdded, error) {
	var out InboxAdded
	return out, c.call(ctx, http.MethodPost, "/v1/inbox", nil, n, &out)
}

// CloseInbox closes an item. KindNotFound: there is none of that id;
// KindConflict: it is closed already.
func (c *Client) CloseInbox(ctx context.Context, q InboxClosing) (InboxClosed, error) {
	var out InboxClosed
	return out, c.call(ctx, http.MethodPost, "/v1/inbox/close", nil, q, &out)
}

// AddDecision writes a decision into a file of its own.
func (c *Client) AddDecision(ctx context.Context, n DecisionNote) (DecisionAdded, error) {
	var out DecisionAdded
	return out, c.call(ctx, http.MethodPost, "/v1/decisions", nil, n, &out)
}

// WhatsNew tells what happened in a project since the agent's pointer there, and
// moves the pointer.
func (c *Client) WhatsNew(ctx context.Context, q NewsQuery) (News, error) {
	var out News
	err := c.call(ctx, http.MethodPost, "/v1/news", nil, q, &out)
	out.Changes.decode()
	return out, err
}
