package workspace

import (
	"context"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

// DefaultMaxAge is for how many days a device workspace may be unused before it
// is collected, unless told otherwise.
const DefaultMaxAge = 90

// Collect removes the device workspaces in the asker's view that are not mounted
// and were not accessed for so many days: no mount, session, binding or write. Never
// the default one. dry: it only tells which. mounted tells whether a mount shows
// a tree path or what is below it.
func (l *Layer) Collect(ctx context.Context, v *view.View, days int, dry bool, mounted func(path string) bool) ([]Workspace, error) {
	if days < 0 || days > 100_000 {
		return nil, fail(backend.Invalid, "an age of %d days", days)
	}
	if days == 0 {
		days = DefaultMaxAge
	}
	oldest := l.reg.clock.Before(time.Duration(days) * 24 * time.Hour)
	out := []Workspace{}
	for _, w := range l.reg.Workspaces() {
		if w.Kind != KindDevice || w.UUID == DefaultWorkspace || !w.Accessed.Before(oldest) || mounted(w.Path()) {
			continue
		}
		d, err := v.Resolve(w.Path())
		if isKind(err, backend.NotFound) {
			continue // not in this view
		}
		if err != nil {
			return out, err
		}
		written, err := newest(ctx, v, d)
		if err != nil {
			return out, err
		}
		if !written.Before(oldest) {
			continue
		}
		if !dry {
			err := l.reg.DeleteWorkspace(ctx, w.UUID, w.Accessed)
			if isKind(err, backend.Conflict) || isKind(err, backend.NotFound) {
				continue // used, or removed, meanwhile
			}
			if err != nil {
				return out, err
			}
		}
		out = append(out, w)
	}
	return out, nil
}

// newest is the time of the last change below a, itself included.
func newest(ctx context.Context, v *view.View, a backend.Attr) (time.Time, error) {
	last := a.Ctime.Time()
	if !a.IsDir() {
		return last, nil
	}
	if err := ctx.Err(); err != nil {
		return last, err
	}
	names, err := v.List(nil, a.Node)
	if err != nil {
		return last, err
	}
	for _, e := range names {
		child, err := v.Lookup(nil, a.Node, e.Name)
		if isKind(err, backend.NotFound) {
			continue
		}
		if err != nil {
			return last, err
		}
		t, err := newest(ctx, v, child)
		if err != nil {
			return last, err
		}
		if t.After(last) {
			last = t
		}
	}
	return last, nil
}

// SeenWorkspaces lists the workspaces whose volumes are in the asker's view.
func (l *Layer) SeenWorkspaces(v *view.View) []Workspace {
	out := []Workspace{}
	for _, w := range l.reg.Workspaces() {
		if _, seen := v.Sees(w.Path()); seen {
			out = append(out, w)
		}
	}
	return out
}

// SetWorkspace changes the name or provider of a workspace that is in the asker's
// view; nil stays. Denied: it may not write there.
func (l *Layer) SetWorkspace(ctx context.Context, v *view.View, uuid string, name, provider *string) (Workspace, error) {
	w, err := l.SeenWorkspace(v, uuid)
	if err != nil {
		return w, err
	}
	if !l.MayChange(v, uuid) {
		return w, fail(backend.Denied, "workspace %s is not this agent's to change", uuid)
	}
	return l.reg.SetWorkspace(ctx, uuid, name, provider)
}

// MayChange tells whether a workspace is in the asker's view and may be written.
func (l *Layer) MayChange(v *view.View, uuid string) bool {
	w, err := l.SeenWorkspace(v, uuid)
	if err != nil {
		return false
	}
	d, seen := v.Sees(w.Path())
	return seen && v.Allows(policy.Create, d.Node)
}

// SeenWorkspace gives one of SeenWorkspaces. NotFound.
func (l *Layer) SeenWorkspace(v *view.View, uuid string) (Workspace, error) {
	w, err := l.reg.Workspace(uuid)
	if err == nil {
		if _, seen := v.Sees(w.Path()); seen {
			return w, nil
		}
	}
	return Workspace{}, fail(backend.NotFound, "no workspace %q", uuid)
}
