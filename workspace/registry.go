package workspace

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/uptime"
	"github.com/warrenfs/warren/policy"
)

// Registry is the store's agents, users, projects, mounts and settings. Its
// methods may be called from any goroutine.
type Registry struct {
	store backend.Store
	space Space
	log   *slog.Logger
	clock *uptime.Clock

	change sync.Mutex // one change at a time

	mu       sync.RWMutex // guards the maps below; records in them are never changed, only replaced
	agents   map[string]*Agent
	users    map[string]*User
	projects map[string]*Project
	mounts   map[string]*Mount // by id
	tokens   map[string]*Token // by id; the map is replaced too
	settings Settings
	policies policies

	workspaces map[string]*Workspace // by UUID
	devices    map[string]*Binding   // by device id; the map is replaced too
}

// Options are what a registry needs.
type Options struct {
	Store backend.Store
	Space Space
	Log   *slog.Logger  // nil discards
	Clock *uptime.Clock // nil is the system's
}

// Open reads the records, finishes what a crash left half done and publishes
// the facts. Kind IO: a record is damaged or from a newer version.
func Open(ctx context.Context, o Options) (*Registry, error) {
	r := &Registry{store: o.Store, space: o.Space, log: o.Log, clock: o.Clock}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.clock == nil {
		r.clock = uptime.System()
	}
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	r.resumeEnds()
	if err := r.reconcile(ctx); err != nil {
		return nil, err
	}
	if err := r.publish(ctx); err != nil {
		if len(r.policies.files) > 0 && isKind(err, backend.Invalid) {
			err = fmt.Errorf("%w\n(while no daemon runs, `warren policy list --store DIR` lists the loaded files and `warren policy rm NAME --store DIR` takes one out)", err)
		}
		return nil, err
	}
	r.schedule()
	return r, nil
}

func (r *Registry) load(ctx context.Context) error {
	return r.store.View(ctx, func(tx backend.Tx) (err error) {
		if r.agents, err = loadAll(tx, recAgent, func(a *Agent) string { return a.Key }); err != nil {
			return err
		}
		if r.users, err = loadAll(tx, recUser, func(u *User) string { return u.ID }); err != nil {
			return err
		}
		if r.projects, err = loadAll(tx, recProject, func(p *Project) string { return p.Slug }); err != nil {
			return err
		}
		if r.mounts, err = loadAll(tx, recMount, func(m *Mount) string { return m.ID }); err != nil {
			return err
		}
		if r.policies.grants, err = loadAll(tx, recGrant, func(g *Grant) string { return g.ID }); err != nil {
			return err
		}
		if r.policies.files, err = loadAll(tx, recPolicy, func(f *PolicyFile) string { return f.Name }); err != nil {
			return err
		}
		if r.tokens, err = loadAll(tx, recToken, func(t *Token) string { return t.ID }); err != nil {
			return err
		}
		if err = checkTokens(r.tokens); err != nil {
			return err
		}
		if r.workspaces, err = loadAll(tx, recWorkspace, func(w *Workspace) string { return w.UUID }); err != nil {
			return err
		}
		if r.devices, err = loadAll(tx, recDevice, func(b *Binding) string { return b.Device }); err != nil {
			return err
		}
		all, err := loadAll(tx, recSettings, func(*Settings) string { return "" })
		if s := all[""]; s != nil {
			r.settings = *s
		}
		return err
	})
}

// put stores records (nil value: deletes) in one transaction and waits until
// they are on disk.
func (r *Registry) put(ctx context.Context, records map[string]any) error {
	lsn, err := r.write(ctx, records)
	if err != nil {
		return err
	}
	return r.store.WaitDurable(ctx, lsn)
}

// write is put that does not wait: a right that ends does not last for as long as
// a disk is busy.
func (r *Registry) write(ctx context.Context, records map[string]any) (backend.LSN, error) {
	return r.store.Update(ctx, func(tx backend.Tx) error {
		for _, k := range slices.Sorted(maps.Keys(records)) {
			var err error
			if v := records[k]; v == nil {
				err = tx.Delete([]byte(k))
			} else {
				err = tx.Set([]byte(k), encode(v))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// publish tells every mount the facts as the maps are now. change held, or
// nobody else there yet.
func (r *Registry) publish(ctx context.Context) error {
	return r.space.Publish(ctx, r.facts())
}

// facts builds what policy decisions depend on. Things being removed are not
// there any more.
func (r *Registry) facts() policy.Facts {
	r.mu.RLock()
	defer r.mu.RUnlock()
	f := policy.Facts{
		Agents: map[string]policy.Agent{},
		Users:  map[string]bool{}, UsersSince: map[string]time.Time{},
		Projects: map[string]map[string]string{}, Trust: map[string][]string{},
		Settings: policy.Settings{DenyNames: slices.Clone(r.settings.DenyNames)},
	}
	for _, x := range r.settings.Exceptions {
		f.Settings.Exceptions = append(f.Settings.Exceptions, policy.NameException(x))
	}
	for _, x := range r.settings.NameRules {
		f.Settings.Rules = append(f.Settings.Rules, policy.NameRule(x))
	}
	for id, u := range r.users {
		if !u.Removing {
			f.Users[id], f.UsersSince[id] = true, u.Created
		}
	}
	for key, a := range r.agents {
		if a.Removing {
			continue
		}
		access, _ := policy.ParseAccess(a.Access) // checked when it was set
		f.Agents[key] = policy.Agent{Key: key, Role: a.Role, User: a.User, Parent: a.Parent,
			Access: access, OnlyUser: a.OnlyUser, UID: a.RunUID, Since: a.Created, HomeOnly: a.Mode == ModeHomeOnly}
	}
	for slug, p := range r.projects {
		f.Projects[slug], f.Trust[slug] = maps.Clone(p.Members), slices.Clone(p.Trust)
	}
	f.Grants = r.grantFacts()
	for _, key := range slices.Sorted(maps.Keys(f.Agents)) {
		f.Grants = append(f.Grants, r.modeGrants(r.agents[key])...)
	}
	for _, x := range sorted(r.policies.files, nil) {
		f.Extra = append(f.Extra, policy.File{Name: x.Name, Text: x.Text, Tried: true})
	}
	return f
}

// sorted copies a map's values in the order of its keys. mu held.
func sorted[T any](m map[string]*T, keep func(*T) bool) []T {
	out := []T{}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if keep == nil || keep(m[k]) {
			out = append(out, *m[k])
		}
	}
	return out
}

func fail(k backend.Kind, format string, args ...any) error {
	return &backend.Error{Kind: k, Err: fmt.Errorf(format, args...)}
}

// badKey words a key that is none.
func badKey(what, key string) error {
	return fail(backend.Invalid, "%s %q: use 1 to 63 of a-z, 0-9, _ and -, starting with a letter or digit", what, key)
}
