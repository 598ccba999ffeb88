package workspace

import (
	"context"
	"errors"
	"maps"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// Users lists all users by id.
func (r *Registry) Users() []User {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return sorted(r.users, func(u *User) bool { return !u.Removing })
}

// User gives one user. NotFound; Invalid: not an id at all.
func (r *Registry) User(id string) (User, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.user(id)
}

// user: mu held.
func (r *Registry) user(id string) (User, error) {
	if !policy.ValidKey(id) {
		return User{}, badKey("user id", id)
	}
	if u := r.users[id]; u != nil && !u.Removing {
		return *u, nil
	}
	return User{}, NoUser(id)
}

// NoUser is the error for an id that is no user's, or none's that whoever asks
// may know of: the words are the same.
func NoUser(id string) error {
	return fail(backend.NotFound, "no user %q; `warren user add %s` adds one", id, id)
}

// AddUser adds a user with the volume at /users/<id>. Exist: there is one.
func (r *Registry) AddUser(ctx context.Context, id, name, email string) (User, error) {
	r.change.Lock()
	defer r.change.Unlock()
	if !policy.ValidKey(id) {
		return User{}, badKey("user id", id)
	}
	if err := errors.Join(checkText("name", name, 200), checkEmail(email)); err != nil {
		return User{}, err
	}
	r.mu.RLock()
	old := r.users[id]
	r.mu.RUnlock()
	if old != nil {
		return User{}, fail(backend.Exist, "there is a user %q already", id)
	}
	u := &User{ID: id, Name: name, Email: email, Created: r.now().UTC()}
	err := r.create(ctx, string(recordKey(recUser, id)), u, userVolumes(id),
		func() { r.users[id] = u }, func() { delete(r.users, id) })
	if err != nil {
		return User{}, err
	}
	r.log.Info("user added", "user", id)
	return *u, nil
}

// RemoveUser removes a user, /users/<id> with all in it, the grants and the exceptions to
// the deny-list there. Busy: an agent is still theirs.
func (r *Registry) RemoveUser(ctx context.Context, id string) error {
	r.change.Lock()
	defer r.change.Unlock()
	r.mu.RLock()
	u, err := r.user(id)
	for _, a := range r.agents {
		if err == nil && !a.Removing && (a.User == id || a.OnlyUser == id) {
			err = fail(backend.Busy, "agent %q belongs to user %q; remove it first, or give it another user", a.Key, id)
		}
	}
	r.mu.RUnlock()
	if err != nil {
		return err
	}
	u.Removing = true
	records := map[string]any{string(recordKey(recUser, id)): &u}
	settings, fewer := r.Settings().without("/users/" + id)
	if fewer {
		records[string(recordKey(recSettings, ""))] = &settings
	}
	grants, ended := r.withoutGrants(grantsUnder("/users/" + id))
	maps.Copy(records, ended)
	others, fewerMapped := r.withoutMapped("/users/" + id)
	maps.Copy(records, fewerMapped)
	if _, err := r.write(ctx, records); err != nil { // finishRemoval waits
		return err
	}
	r.mu.Lock()
	maps.Copy(r.agents, others)
	r.policies.grants = grants
	r.users[id], r.settings = &u, settings
	r.mu.Unlock()
	if err := r.publish(ctx); err != nil {
		return err
	}
	r.log.Info("user removed", "user", id)
	return r.finishRemoval(ctx, recUser, id, userVolumes(id), func() { delete(r.users, id) })
}
