package policy

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Role is what kind of agent an agent is.
type Role string

// The roles.
const (
	Orchestrator Role = "orchestrator"
	Soul         Role = "soul"
	Shared       Role = "shared"
)

// AccessMode is what an agent, or a mount, may do at most. The zero value is
// ReadWrite.
type AccessMode uint8

// The access modes.
const (
	ReadWrite AccessMode = iota
	ReadOnly
	NoAccess
	numAccess
)

var accessText = [numAccess]string{"rw", "ro", "none"}

// String gives the command line's spelling: rw, ro, none.
func (m AccessMode) String() string {
	if m < numAccess {
		return accessText[m]
	}
	return fmt.Sprintf("access(%d)", uint8(m))
}

// ParseAccess reads what String gives.
func ParseAccess(s string) (AccessMode, error) {
	if i := slices.Index(accessText[:], s); i >= 0 {
		return AccessMode(i), nil
	}
	return ReadWrite, fmt.Errorf("access mode %q is not one of rw, ro, none", s)
}

// Agent is a principal as the registry knows it.
type Agent struct {
	Key      string
	Role     Role
	User     string // "" or the user it belongs to
	Parent   string // "" or the agent above it
	Access   AccessMode
	UID      uint32 // its own on the host, and its gid; 0: it has no uid
	OnlyUser string // an orchestrator limited to this user's agents
	HomeOnly bool   // it has its home, to read, its scratch, and nothing else
	// Since is when the agent was added: what is older and bears its key is of
	// a removed agent that had the key before. Zero: no other had it.
	Since time.Time
}

// NameException lets a name of the deny-list be used under one directory.
type NameException struct {
	Name  string // glob, as in the deny-list
	Under string // absolute tree path; "/a" and "/a/" mean the same
}

// NameRule puts names on the deny-list for one agent, in one place, or both.
type NameRule struct {
	Name  string // glob, as in the deny-list
	Agent string // key; "": for everybody
	Under string // absolute tree path; "": everywhere
}

// Settings are the simple ones that hold for the whole store.
type Settings struct {
	// DenyNames are globs (path.Match, any case) of regular files' names. nil
	// is DefaultDenyNames; empty but not nil is no deny-list.
	DenyNames []string
	// Rules are the rest of the deny-list: each for an agent or under a path.
	Rules []NameRule
	// Exceptions hold against DenyNames and the Rules for everybody, not
	// against what is denied to one agent.
	Exceptions []NameException
}

// File is one Cedar file of an expert.
type File struct {
	Name, Text string
	// Tried: its examples held when it was loaded. They are not run again: the
	// agents that they speak of may be others by now.
	Tried bool
}

// Facts is all that decisions depend on, at one moment. Swap copies it.
type Facts struct {
	Agents map[string]Agent
	Users  map[string]bool
	// UsersSince is when a user was added, where that is known: what is older in the
	// user's space is of a removed one that had the id before.
	UsersSince map[string]time.Time
	Projects   map[string]map[string]string // slug -> agent key -> "read" or "write"
	Trust      map[string][]string          // slug -> agents that trust the members, or Everyone
	Grants     []Grant
	Settings   Settings
	Extra      []File
}

// ValidKey tells whether s may be the key of an agent, the id of a user or
// the slug of a project: [a-z0-9][a-z0-9_-]{0,62}.
func ValidKey(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '_' || s[0] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func (f *Facts) clone() *Facts {
	c := *f
	c.Agents = maps.Clone(f.Agents)
	c.Users, c.UsersSince = maps.Clone(f.Users), maps.Clone(f.UsersSince)
	c.Projects = make(map[string]map[string]string, len(f.Projects))
	for slug, members := range f.Projects {
		c.Projects[slug] = maps.Clone(members)
	}
	c.Trust = make(map[string][]string, len(f.Trust))
	for slug, list := range f.Trust {
		c.Trust[slug] = slices.Clone(list)
	}
	c.Grants = slices.Clone(f.Grants)
	c.Settings.DenyNames = slices.Clone(f.Settings.DenyNames)
	c.Settings.Rules = slices.Clone(f.Settings.Rules)
	c.Settings.Exceptions = slices.Clone(f.Settings.Exceptions)
	c.Extra = slices.Clone(f.Extra)
	return &c
}

// validate finds everything that is wrong, not only the first.
func (f *Facts) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for id := range f.Users {
		if !ValidKey(id) {
			bad("user %q: not a valid id", id)
		}
	}
	for key, a := range f.Agents {
		if err := f.validateAgent(key, a); err != nil {
			errs = append(errs, err)
		}
	}
	for slug, members := range f.Projects {
		if !ValidKey(slug) {
			bad("project %q: not a valid slug", slug)
		}
		for key, right := range members {
			if _, ok := f.Agents[key]; !ok {
				bad("project %q: member %q is not an agent", slug, key)
			}
			if right != "read" && right != "write" {
				bad("project %q: right %q of member %q is not read or write", slug, right, key)
			}
		}
	}
	ids := map[string]bool{}
	for _, g := range f.Grants {
		if err := g.validate(f); err != nil {
			errs = append(errs, err)
		}
		if ids[g.ID] {
			bad("grant %q: there are two", g.ID)
		}
		ids[g.ID] = true
	}
	for _, g := range f.Settings.DenyNames {
		if err := validGlob(g); err != nil {
			bad("deny-list: %w", err)
		}
	}
	for _, x := range f.Settings.Rules {
		if err := x.validate(f); err != nil {
			bad("deny-list: %w", err)
		}
	}
	for _, x := range f.Settings.Exceptions {
		if err := x.validate(); err != nil {
			bad("exception: %w", err)
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

func (f *Facts) validateAgent(key string, a Agent) error {
	switch {
	case !ValidKey(key):
		return fmt.Errorf("agent %q: not a valid key", key)
	case a.Key != key:
		return fmt.Errorf("agent %q: filed under %q", a.Key, key)
	case a.Role != Orchestrator && a.Role != Soul && a.Role != Shared:
		return fmt.Errorf("agent %q: role %q is not orchestrator, soul or shared", key, a.Role)
	case a.Access >= numAccess:
		return fmt.Errorf("agent %q: unknown access mode", key)
	case a.User != "" && !f.Users[a.User]:
		return fmt.Errorf("agent %q: unknown user %q", key, a.User)
	case a.OnlyUser != "" && a.Role != Orchestrator:
		return fmt.Errorf("agent %q: only an orchestrator is limited to a user's agents", key)
	case a.OnlyUser != "" && !f.Users[a.OnlyUser]:
		return fmt.Errorf("agent %q: unknown user %q", key, a.OnlyUser)
	}
	seen := map[string]bool{key: true}
	for p := a.Parent; p != ""; p = f.Agents[p].Parent {
		if _, ok := f.Agents[p]; !ok {
			return fmt.Errorf("agent %q: unknown parent %q", key, p)
		}
		if seen[p] {
			return fmt.Errorf("agent %q: its parents form a circle", key)
		}
		seen[p] = true
	}
	if p, ok := f.Agents[a.Parent]; ok && a.Role == Orchestrator && p.Role != Orchestrator {
		return fmt.Errorf("agent %q: an orchestrator under %q, which is none", key, a.Parent)
	}
	return nil
}

// ancestors gives the agents above key, nearest first.
func (f *Facts) ancestors(key string) []string {
	var up []string
	for p := f.Agents[key].Parent; p != ""; p = f.Agents[p].Parent {
		up = append(up, p)
	}
	return up
}

func (x NameException) validate() error {
	if err := validGlob(x.Name); err != nil {
		return err
	}
	if !strings.HasPrefix(x.Under, "/") || !utf8.ValidString(x.Under) || strings.ContainsRune(x.Under, 0) {
		return fmt.Errorf("%q is not a tree path", x.Under)
	}
	for part := range strings.SplitSeq(x.Under, "/") {
		if part == "." || part == ".." {
			return fmt.Errorf("%q is not a clean tree path", x.Under)
		}
	}
	return nil
}

func (x NameRule) validate(f *Facts) error {
	if _, known := f.Agents[x.Agent]; !known && x.Agent != "" {
		return fmt.Errorf("%q for the unknown agent %q", x.Name, x.Agent)
	}
	if x.Under == "" {
		return validGlob(x.Name)
	}
	return NameException{Name: x.Name, Under: x.Under}.validate()
}

func validGlob(g string) error {
	if g == "" || len(g) > 255 || !utf8.ValidString(g) || strings.ContainsAny(g, "/\x00") {
		return fmt.Errorf("%q is not a pattern for a name", g)
	}
	if _, err := path.Match(g, "x"); err != nil {
		return fmt.Errorf("%q: %w", g, err)
	}
	return nil
}
