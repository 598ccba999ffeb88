package workspace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// Agent is a principal. The record of one.
type Agent struct {
	Key      string      `json:"key"`
	Role     policy.Role `json:"role"`
	User     string      `json:"user,omitempty"`
	Parent   string      `json:"parent,omitempty"`
	Access   string      `json:"access"` // rw, ro, none
	OnlyUser string      `json:"only_user,omitempty"`
	Mode     string      `json:"mode,omitempty"` // how it works under its parent; see ModeOwn
	Name     string      `json:"name,omitempty"`
	Email    string      `json:"email"`
	Active   string      `json:"active,omitempty"`  // tree path of the project that it works in
	Publish  string      `json:"publish,omitempty"` // what publications may replace; see PublishOwn
	RunUID   uint32      `json:"run_uid"`           // its own uid on the host, for commands run as it by root
	Created  time.Time   `json:"created"`
	Removing bool        `json:"removing,omitempty"`
}

// User is a person who owns agents.
type User struct {
	ID       string    `json:"id"`
	Name     string    `json:"name,omitempty"`
	Email    string    `json:"email,omitempty"`
	Created  time.Time `json:"created"`
	Removing bool      `json:"removing,omitempty"`
}

// Project is a tree shared by its members.
type Project struct {
	Slug    string            `json:"slug"`
	Members map[string]string `json:"members"` // agent key -> read, write
	// Trust are the agents that take the members' files for their own; policy.Everyone: each member.
	Trust   []string  `json:"trust,omitempty"`
	Created time.Time `json:"created"`
}

// Workspace is a volume people work in. Of a device's there is always a record;
// of an agent's, a user's and a project's only what was changed of it.
type Workspace struct {
	UUID     string    `json:"uuid"` // "default" for the one that is there from the start
	Kind     string    `json:"kind"` // agent, user, project, device
	Owner    string    `json:"owner"`
	Name     string    `json:"name"`
	Provider string    `json:"provider,omitempty"`
	Created  time.Time `json:"created"`
	Accessed time.Time `json:"accessed"`
	Removing bool      `json:"removing,omitempty"`
}

// Binding says which workspace a device has.
type Binding struct {
	Device    string    `json:"device"`
	Workspace string    `json:"workspace"` // UUID
	Bound     time.Time `json:"bound"`
}

// Mount is a mount that is to be there whenever the daemon runs.
type Mount struct {
	ID         string    `json:"id"`
	Agent      string    `json:"agent"`
	Dir        string    `json:"dir"`            // absolute, clean; unique
	Root       string    `json:"root"`           // tree path, when it was mounted
	Node       uint64    `json:"node,omitempty"` // Root's (backend.NodeID), which a rename does not change; 0: not known
	Access     string    `json:"access"`         // rw, ro
	UID        uint32    `json:"uid"`
	GID        uint32    `json:"gid"`
	AllowOther bool      `json:"allow_other,omitempty"`
	ACL        bool      `json:"acl,omitempty"`
	Owner      string    `json:"owner,omitempty"` // as control.MountSpec.Owner; "": agent
	Created    time.Time `json:"created"`
}

// Settings hold for the whole store.
type Settings struct {
	// DenyNames replaces the default name deny-list unless it is nil.
	DenyNames  []string        `json:"deny_names"` // null: the default; []: none
	Exceptions []NameException `json:"exceptions,omitempty"`
	NameRules  []NameRule      `json:"name_rules,omitempty"`
	// Retention says how long the kinds of file that are collected by age are
	// kept (ParseAge); what is not in it has its default.
	Retention map[string]string `json:"retention,omitempty"`
}

// NameRule denies names to one agent ("": to all), under one tree path ("":
// everywhere), or both.
type NameRule struct {
	Name  string `json:"name"`
	Agent string `json:"agent,omitempty"`
	Under string `json:"under,omitempty"`
}

// NameException lets a name of the deny-list be used under one tree path.
type NameException struct {
	Name  string `json:"name"`
	Under string `json:"under"`
}

// The kinds of record; each is a part of the key.
const (
	recAgent    = "agent"
	recUser     = "user"
	recProject  = "project"
	recMount    = "mount"
	recToken    = "token"
	recSettings = "settings"
	recGrant    = "grant"
	recPolicy   = "policy"
	recFeedKey  = "feedkey"
	recInbox    = "inbox"
	recUptime   = "uptime"

	recWorkspace = "workspace"
	recDevice    = "device"
)

// recordKey is 'g', the kind, '/' and the name.
func recordKey(kind, name string) []byte { return []byte("g" + kind + "/" + name) }

// encode gives a record's value. Records hold only what JSON can say.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("workspace: record %T: %v", v, err))
	}
	return b
}

// decode reads one record strictly: unknown fields, trailing bytes and wrong
// types are errors of kind IO that name the key.
func decode(key, value []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(value))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil && d.More() {
		err = fmt.Errorf("bytes after the record")
	}
	if err != nil {
		return &backend.Error{Op: "read record", Path: string(key), Kind: backend.IO, Err: err}
	}
	return nil
}

// loadAll decodes every record of a kind; name gives the name the record must
// be filed under.
func loadAll[T any](tx backend.Tx, kind string, name func(*T) string) (map[string]*T, error) {
	out := map[string]*T{}
	prefix := recordKey(kind, "")
	err := tx.Scan(prefix, backend.PrefixEnd(prefix), func(k, v []byte) error {
		rec := new(T)
		if err := decode(k, v, rec); err != nil {
			return err
		}
		n := string(k[len(prefix):])
		if name(rec) != n {
			return &backend.Error{Op: "read record", Path: string(k), Kind: backend.IO,
				Err: fmt.Errorf("it says it is %q", name(rec))}
		}
		out[n] = rec
		return nil
	})
	return out, err
}
