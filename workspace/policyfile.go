package workspace

import (
	"context"
	"maps"
	"regexp"
	"time"
	"unicode/utf8"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// PolicyFile is a file of Cedar policies that an expert loaded. The record of
// one.
type PolicyFile struct {
	Name   string    `json:"name"`
	Text   string    `json:"text"`
	Loaded time.Time `json:"loaded"`
}

// Bounds of the policy files: a record is one value of the store.
const (
	maxPolicyFiles = 100
	maxPolicyText  = 32 << 10 // bytes, as JSON writes them
)

var policyFileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.cedar$`)

// PolicyFiles lists the loaded files by name.
func (r *Registry) PolicyFiles() []PolicyFile {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return sorted(r.policies.files, nil)
}

// CheckPolicy tells whether LoadPolicy would take a file. Nothing changes.
func (r *Registry) CheckPolicy(name, text string) error {
	_, err := r.withPolicy(name, text)
	return err
}

// withPolicy is the files with one more, or another in its place, if all of them
// together hold.
func (r *Registry) withPolicy(name, text string) (*PolicyFile, error) {
	file := &PolicyFile{Name: name, Text: text, Loaded: r.now().UTC()}
	switch {
	case !policyFileName.MatchString(name):
		return nil, fail(backend.Invalid, "%q is no name for a policy file: letters, digits, . _ and -, and .cedar at the end", name)
	case !utf8.ValidString(text):
		return nil, fail(backend.Invalid, "%s: it is not UTF-8", name)
	case len(encode(file)) > maxPolicyText:
		return nil, fail(backend.TooBig, "%s: a policy file has at most %d KiB; make two of it", name, maxPolicyText>>10)
	}
	facts := r.facts()
	files := facts.Extra[:0:0]
	for _, f := range facts.Extra {
		if f.Name != name {
			files = append(files, f)
		}
	}
	if len(files) >= maxPolicyFiles {
		return nil, fail(backend.Quota, "there are %d policy files; remove some (`warren policy list` lists them)", len(files))
	}
	facts.Extra = append(files, policy.File{Name: name, Text: text})
	return file, r.space.Check(facts)
}

// LoadPolicy checks a file of Cedar policies, strictly and by its own examples,
// and puts it in force, in the place of one of the same name. It holds in every
// mount when it returns. Invalid: with file, line and column of all that is
// wrong; nothing has changed then.
func (r *Registry) LoadPolicy(ctx context.Context, name, text string) (PolicyFile, error) {
	r.change.Lock()
	defer r.change.Unlock()
	file, err := r.withPolicy(name, text)
	if err != nil {
		return PolicyFile{}, err
	}
	if err := r.setPolicy(ctx, name, file); err != nil {
		return PolicyFile{}, err
	}
	r.log.Info("policy file loaded", "file", name)
	return *file, nil
}

// RemovePolicy takes a policy file out of force. NotFound.
func (r *Registry) RemovePolicy(ctx context.Context, name string) error {
	r.change.Lock()
	defer r.change.Unlock()
	r.mu.RLock()
	there := r.policies.files[name] != nil
	r.mu.RUnlock()
	if !there {
		return fail(backend.NotFound, "no policy file %q; `warren policy list` lists them", name)
	}
	err := r.setPolicy(ctx, name, nil)
	if err == nil {
		r.log.Info("policy file removed", "file", name)
	}
	return err
}

// setPolicy stores a file, or (nil) its end, and publishes. change held.
func (r *Registry) setPolicy(ctx context.Context, name string, file *PolicyFile) error {
	r.mu.RLock()
	old := r.policies.files
	r.mu.RUnlock()
	next, key := maps.Clone(old), string(recordKey(recPolicy, name))
	record, undo := map[string]any{key: nil}, map[string]any{key: nil}
	delete(next, name)
	if file != nil {
		next[name], record[key] = file, file
	}
	if was := old[name]; was != nil {
		undo[key] = was
	}
	return r.replace(ctx, record, undo, func() { r.policies.files = next }, func() { r.policies.files = old })
}

// StoredPolicies lists the policy files that a store has, whether or not they can
// be in force: for a store that no registry has open.
func StoredPolicies(ctx context.Context, store backend.Store) (out []PolicyFile, err error) {
	err = store.View(ctx, func(tx backend.Tx) error {
		files, err := loadAll(tx, recPolicy, func(f *PolicyFile) string { return f.Name })
		out = sorted(files, nil)
		return err
	})
	return out, err
}

// DropPolicy takes a policy file out of a store that no registry has open: the way
// out where the files are refused, and no daemon starts. NotFound.
func DropPolicy(ctx context.Context, store backend.Store, name string) error {
	key := recordKey(recPolicy, name)
	lsn, err := store.Update(ctx, func(tx backend.Tx) error {
		if _, err := tx.Get(key); err != nil {
			return err
		}
		return tx.Delete(key)
	})
	if isKind(err, backend.NotFound) {
		return fail(backend.NotFound, "no policy file %q in the store", name)
	}
	if err != nil {
		return err
	}
	return store.WaitDurable(ctx, lsn)
}
