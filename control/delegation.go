package control

import (
	"context"
	"net/http"
)

// FileChange is what became of one file.
type FileChange struct {
	Path      string   `json:"path"` // tree path; of a removed one, the one that it had
	PathBytes []byte   `json:"path_base64,omitempty"`
	From      string   `json:"from,omitempty"` // of a renamed one: the path that it had
	FromBytes []byte   `json:"from_base64,omitempty"`
	By        []string `json:"by"` // agent keys; "" the administrator
}

// Changes are what became of the files of a directory between two moments. A path
// is in one list at most. What was renamed and stands where a file was is told as
// changed there, and as removed where it was.
type Changes struct {
	Added       []FileChange `json:"added"`
	Changed     []FileChange `json:"changed"` // written to, or another file now
	Renamed     []FileChange `json:"renamed"`
	Removed     []FileChange `json:"removed"`
	Attributes  []FileChange `json:"attributes"` // only mode, owner, times or extended attributes were set
	MadeDirs    []FileChange `json:"made_dirs"`
	RemovedDirs []FileChange `json:"removed_dirs"`
}

// DelegationSpec begins a delegation.
type DelegationSpec struct {
	Agent    string `json:"agent,omitempty"` // who delegates; "" is the administrator
	Delegate string `json:"delegate"`        // who is to work
	// Project is where: a directory of the delegate's workspace, gone on with or
	// made; or /projects/NAME. "": a fresh one.
	Project string `json:"project,omitempty"`
}

// Delegation is one that began.
type Delegation struct {
	ID        string `json:"delegation"` // to ask for its changes with
	Delegate  string `json:"delegate"`
	Project   string `json:"project"`   // name
	Workspace string `json:"workspace"` // tree path of the project
	Fresh     bool   `json:"fresh"`     // it was made for this
}

// DelegationQuery asks what a delegation changed.
type DelegationQuery struct {
	Agent string // as in the DelegationSpec
	ID    string
	All   bool // what anybody changed there, not only the delegate
}

// DelegationChanges are what a delegate changed in its project.
type DelegationChanges struct {
	Delegate  string  `json:"delegate"`
	Project   string  `json:"project"`
	Workspace string  `json:"workspace"`
	Changes   Changes `json:"changes"`
}

// Delegate begins a delegation. KindNotFound: no such agent, or none that the
// asker may know of; KindDenied: one that it may not set to work.
func (c *Client) Delegate(ctx context.Context, s DelegationSpec) (Delegation, error) {
	var out Delegation
	return out, c.call(ctx, http.MethodPost, "/v1/delegations", nil, s, &out)
}

// DelegationChanges tells what was changed since a delegation began. It may be
// asked again and again.
func (c *Client) DelegationChanges(ctx context.Context, q DelegationQuery) (DelegationChanges, error) {
	var out DelegationChanges
	v := query("agent", q.Agent, "delegation", q.ID)
	if q.All {
		v.Set("all", "true")
	}
	err := c.call(ctx, http.MethodGet, "/v1/delegations/changes", v, nil, &out)
	out.Changes.decode()
	return out, err
}

// Lists gives the lists of changes with their names.
func (c *Changes) Lists() []ChangeList {
	return []ChangeList{{"added", &c.Added}, {"changed", &c.Changed}, {"renamed", &c.Renamed}, {"removed", &c.Removed},
		{"attributes", &c.Attributes}, {"made_dirs", &c.MadeDirs}, {"removed_dirs", &c.RemovedDirs}}
}

// ChangeList is one list of changes.
type ChangeList struct {
	Name string
	List *[]FileChange
}

// decode puts the bytes of paths that are not UTF-8 where the others are, too.
func (c *Changes) decode() {
	for _, l := range c.Lists() {
		for i := range *l.List {
			x := &(*l.List)[i]
			if x.PathBytes != nil {
				x.Path = string(x.PathBytes)
			}
			if x.FromBytes != nil {
				x.From = string(x.FromBytes)
			}
		}
	}
}
