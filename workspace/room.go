package workspace

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// The kinds of workspace.
const (
	KindAgent   = "agent"
	KindUser    = "user"
	KindProject = "project"
	KindDevice  = "device"
)

// accessGrain is how exactly the time of the last access is kept.
const accessGrain = time.Minute

// Path is the tree path at which w's volume is.
func (w Workspace) Path() string {
	switch w.Kind {
	case KindAgent:
		return "/agents/" + w.Owner + "/workspace"
	case KindUser:
		return "/users/" + w.Owner
	case KindProject:
		return "/projects/" + w.Owner
	}
	return "/workspaces/" + w.Owner
}

// Workspaces lists all workspaces: by kind, then by owner.
func (r *Registry) Workspaces() []Workspace {
	r.mu.RLock()
	defer r.mu.RUnlock()
	out := []Workspace{}
	for _, a := range r.agents {
		if !a.Removing {
			out = append(out, r.derived(KindAgent, a.Key, cmp.Or(a.Name, a.Key), a.Created))
		}
	}
	for _, u := range r.users {
		if !u.Removing {
			out = append(out, r.derived(KindUser, u.ID, cmp.Or(u.Name, u.ID), u.Created))
		}
	}
	for _, p := range r.projects {
		out = append(out, r.derived(KindProject, p.Slug, p.Slug, p.Created))
	}
	for _, w := range r.workspaces {
		if w.Kind == KindDevice && !w.Removing {
			out = append(out, *w)
		}
	}
	slices.SortFunc(out, func(a, b Workspace) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Owner, b.Owner))
	})
	return out
}

// derived is the workspace of an agent, a user or a project: there is a record
// only of what was changed of it. mu held.
func (r *Registry) derived(kind, owner, name string, created time.Time) Workspace {
	w := Workspace{UUID: derivedUUID(kind, owner, created), Kind: kind, Owner: owner, Name: name, Created: created, Accessed: created}
	if kept := r.workspaces[w.UUID]; kept != nil {
		w.Name, w.Provider, w.Accessed = cmp.Or(kept.Name, w.Name), kept.Provider, kept.Accessed
	}
	return w
}

// Workspace gives one workspace by its UUID. NotFound.
func (r *Registry) Workspace(uuid string) (Workspace, error) {
	for _, w := range r.Workspaces() {
		if w.UUID == uuid {
			return w, nil
		}
	}
	return Workspace{}, fail(backend.NotFound, "no workspace %q", uuid)
}

// WorkspaceOf gives the workspace of an agent. NotFound: there is no such agent.
func (r *Registry) WorkspaceOf(agent string) (Workspace, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	a, err := r.agent(agent)
	if err != nil {
		return Workspace{}, err
	}
	return r.derived(KindAgent, a.Key, cmp.Or(a.Name, a.Key), a.Created), nil
}

// CreateWorkspace makes a device workspace.
func (r *Registry) CreateWorkspace(ctx context.Context, name, provider string) (Workspace, error) {
	r.change.Lock()
	defer r.change.Unlock()
	return r.makeRoom(ctx, name, provider, "")
}

// makeRoom makes a device workspace and, unless device is "", its binding, both
// or neither. change held.
func (r *Registry) makeRoom(ctx context.Context, name, provider, device string) (Workspace, error) {
	if err := checkText("name", name, 200); err != nil {
		return Workspace{}, err
	}
	if err := checkText("provider", provider, 200); err != nil {
		return Workspace{}, err
	}
	uuid, err := newUUID()
	if err != nil {
		return Workspace{}, err
	}
	now := r.now().UTC()
	w := &Workspace{UUID: uuid, Kind: KindDevice, Owner: uuid, Name: cmp.Or(name, uuid), Provider: provider, Created: now, Accessed: now}
	b := &Binding{Device: device, Workspace: uuid, Bound: now}
	records := map[string]any{string(recordKey(recWorkspace, uuid)): w}
	undo := map[string]any{string(recordKey(recWorkspace, uuid)): nil}
	if device != "" {
		records[string(recordKey(recDevice, device))] = b
		undo[string(recordKey(recDevice, device))] = nil
	}
	if err := r.put(ctx, records); err != nil {
		return Workspace{}, err
	}
	if err := r.ensure(ctx, deviceVolumes(uuid)); err != nil {
		ctx := context.WithoutCancel(ctx)
		_ = r.dropVolumes(ctx, deviceVolumes(uuid))
		_ = r.put(ctx, undo)
		return Workspace{}, err
	}
	r.locked(func() {
		r.workspaces[uuid] = w
		if device != "" {
			r.devices[device] = b
		}
	})
	r.log.Info("workspace made", "workspace", uuid)
	return *w, nil
}

// SetWorkspace changes a workspace's name or provider; what is nil stays.
func (r *Registry) SetWorkspace(ctx context.Context, uuid string, name, provider *string) (Workspace, error) {
	r.change.Lock()
	defer r.change.Unlock()
	w, err := r.Workspace(uuid)
	if err != nil {
		return w, err
	}
	for what, to := range map[string]*string{"name": name, "provider": provider} {
		if to == nil {
			continue
		}
		if err := checkText(what, *to, 200); err != nil {
			return w, err
		}
	}
	if name != nil {
		if *name == "" {
			return w, fail(backend.Invalid, "a workspace's name cannot be empty")
		}
		w.Name = *name
	}
	if provider != nil {
		w.Provider = *provider
	}
	if err := r.put(ctx, map[string]any{string(recordKey(recWorkspace, uuid)): &w}); err != nil {
		return w, err
	}
	r.locked(func() { r.workspaces[uuid] = &w })
	return w, nil
}

// Accessed notes that the workspace was used now. It is kept to the minute, and
// not waited for.
func (r *Registry) Accessed(ctx context.Context, uuid string) error {
	r.change.Lock()
	defer r.change.Unlock()
	w, err := r.Workspace(uuid)
	if err != nil {
		return err
	}
	now := r.now().UTC()
	if now.Sub(w.Accessed) < accessGrain {
		return nil
	}
	w.Accessed = now
	_, err = r.store.Update(ctx, func(tx backend.Tx) error { return tx.Set(recordKey(recWorkspace, uuid), encode(&w)) })
	if err == nil {
		r.locked(func() { r.workspaces[uuid] = &w })
	}
	return err
}

// AccessedPath is Accessed for the device workspace that a tree path is in, if
// it is in one.
func (r *Registry) AccessedPath(ctx context.Context, path string) error {
	rest, in := strings.CutPrefix(path, "/workspaces/")
	if !in {
		return nil
	}
	uuid, _, _ := strings.Cut(rest, "/")
	return r.Accessed(ctx, uuid)
}

// DeleteWorkspace removes a device workspace with its bindings, its session and
// all its files. Invalid: it is of another kind, or the default one. since, if
// not zero, is what the time of its last access must be: Conflict.
func (r *Registry) DeleteWorkspace(ctx context.Context, uuid string, since time.Time) error {
	r.change.Lock()
	defer r.change.Unlock()
	w, err := r.Workspace(uuid)
	switch {
	case err != nil:
		return err
	case w.Kind != KindDevice:
		return fail(backend.Invalid, "workspace %s is of kind %s and goes with its %s", uuid, w.Kind, w.Kind)
	case uuid == DefaultWorkspace:
		return fail(backend.Invalid, "the default workspace stays")
	case !since.IsZero() && !w.Accessed.Equal(since):
		return fail(backend.Conflict, "workspace %s was used meanwhile", uuid)
	}
	w.Removing = true
	records := map[string]any{string(recordKey(recWorkspace, uuid)): &w}
	r.mu.RLock()
	devices := maps.Clone(r.devices)
	r.mu.RUnlock()
	for id, b := range devices {
		if b.Workspace == uuid {
			delete(devices, id)
			records[string(recordKey(recDevice, id))] = nil
		}
	}
	settings, fewer := r.Settings().without(w.Path())
	if fewer {
		records[string(recordKey(recSettings, ""))] = &settings
	}
	if err := r.put(ctx, records); err != nil {
		return err
	}
	r.locked(func() { r.workspaces[uuid], r.devices, r.settings = &w, devices, settings })
	if fewer {
		if err := r.publish(ctx); err != nil {
			return err
		}
	}
	r.log.Info("workspace removed", "workspace", uuid)
	return r.finishRemoval(ctx, recWorkspace, uuid, deviceVolumes(uuid), func() { delete(r.workspaces, uuid) })
}

// settleWorkspaces brings device workspaces and what is kept of the others in
// line with the records: it makes the default one's, finishes removals, and
// forgets what belongs to agents, users and projects that are gone.
func (r *Registry) settleWorkspaces(ctx context.Context) error {
	if r.workspaces[DefaultWorkspace] == nil {
		now := r.now().UTC()
		w := &Workspace{UUID: DefaultWorkspace, Kind: KindDevice, Owner: DefaultWorkspace, Name: DefaultWorkspace, Created: now, Accessed: now}
		if err := r.put(ctx, map[string]any{string(recordKey(recWorkspace, DefaultWorkspace)): w}); err != nil {
			return err
		}
		r.workspaces[DefaultWorkspace] = w
	}
	live := map[string]bool{}
	for _, w := range r.Workspaces() {
		live[w.UUID] = true
	}
	for _, uuid := range slices.Sorted(maps.Keys(r.workspaces)) {
		w := r.workspaces[uuid]
		drop := func() { delete(r.workspaces, uuid) }
		if w.Kind == KindDevice {
			if err := r.settle(ctx, recWorkspace, uuid, w.Removing, deviceVolumes(uuid), drop); err != nil {
				return err
			}
		} else if !live[uuid] {
			if err := r.finishRemoval(ctx, recWorkspace, uuid, nil, drop); err != nil {
				return err
			}
		}
	}
	return nil
}

// deviceVolumes is a device workspace's one.
func deviceVolumes(uuid string) []volume {
	return []volume{{Label: view.Label{Kind: view.KindDevice, Owner: uuid}, Mode: 0o755, Stock: []view.Stock{
		{Name: "session.md"},
		{Name: "config.toml"},
		{Name: "mcp", Dir: true},
		{Name: "skills", Dir: true},
		{Name: "memory", Dir: true},
	}}}
}

// newUUID draws a UUID of version 4.
func newUUID() (string, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return uuidText(b, 4), nil
}

// derivedUUID is the UUID, of version 8, of a workspace that has no record of
// its own: the same as long as its owner lives.
func derivedUUID(kind, owner string, created time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "warren workspace %s %s %d", kind, owner, created.UnixNano()))
	return uuidText([16]byte(sum[:16]), 8)
}

func uuidText(b [16]byte, version byte) string {
	b[6] = b[6]&0x0f | version<<4
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
