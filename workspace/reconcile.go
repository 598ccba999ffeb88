package workspace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// create stores a new record, makes its volumes and publishes. On a failure
// all of it is undone as far as that succeeds; a crash in between is finished
// by reconcile. add and drop change the maps; mu is held for them. change held.
func (r *Registry) create(ctx context.Context, key string, rec any, vols []volume, add, drop func()) error {
	if err := r.put(ctx, map[string]any{key: rec}); err != nil {
		return err
	}
	err := r.ensure(ctx, vols)
	if err == nil {
		r.locked(add)
		if err = r.publish(ctx); err == nil {
			return nil
		}
		r.locked(drop)
	}
	undo := context.WithoutCancel(ctx)
	return errors.Join(err, r.dropVolumes(undo, vols), r.put(undo, map[string]any{key: nil}))
}

// replace stores changed records and publishes; a policy that refuses the new
// facts takes it all back. What is published is in the log, and on the disk when
// it returns. change held.
func (r *Registry) replace(ctx context.Context, next, old map[string]any, apply, undo func()) error {
	lsn, err := r.write(ctx, next)
	if err != nil {
		return err
	}
	r.locked(apply)
	if err = r.publish(ctx); err == nil {
		return r.store.WaitDurable(ctx, lsn)
	}
	r.locked(undo)
	return errors.Join(err, r.put(context.WithoutCancel(ctx), old))
}

// finishRemoval removes the volumes of a thing marked as being removed, and
// then its record.
func (r *Registry) finishRemoval(ctx context.Context, kind, name string, vols []volume, drop func()) error {
	if err := r.dropVolumes(ctx, vols); err != nil {
		return err
	}
	if err := r.put(ctx, map[string]any{string(recordKey(kind, name)): nil}); err != nil {
		return err
	}
	r.locked(drop)
	return nil
}

func (r *Registry) locked(fn func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fn()
}

// reconcile makes the volumes the records want, finishes removals and forgets
// tokens that are worth nothing. Nobody
// else uses the registry yet.
func (r *Registry) reconcile(ctx context.Context) error {
	if err := r.dropTokens(ctx); err != nil {
		return err
	}
	if err := r.ensure(ctx, storeVolumes()); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(r.users)) {
		err := r.settle(ctx, recUser, id, r.users[id].Removing, userVolumes(id), func() { delete(r.users, id) })
		if err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.agents)) {
		err := r.settle(ctx, recAgent, key, r.agents[key].Removing, agentVolumes(key), func() { delete(r.agents, key) })
		if err != nil {
			return err
		}
	}
	for _, slug := range slices.Sorted(maps.Keys(r.projects)) {
		if err := r.ensure(ctx, projectVolumes(slug)); err != nil {
			return err
		}
	}
	return r.settleWorkspaces(ctx)
}

func (r *Registry) settle(ctx context.Context, kind, name string, removing bool, vols []volume, drop func()) error {
	if !removing {
		if err := r.ensure(ctx, vols); err != nil {
			return fmt.Errorf("%s %q: %w", kind, name, err)
		}
		return nil
	}
	r.log.Warn("finishing a removal that was cut short", "kind", kind, "name", name)
	return r.finishRemoval(ctx, kind, name, vols, drop)
}
