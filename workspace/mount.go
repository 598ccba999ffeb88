package workspace

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"path/filepath"
	"slices"

	"github.com/warrenfs/warren/backend"
)

// Mounts lists the recorded mounts by id.
func (r *Registry) Mounts() []Mount {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return sorted(r.mounts, nil)
}

// AddMount records a mount, so that it comes back after a restart; it gets an
// id if it has none. Exist: one is recorded for that directory; NotFound: no
// such agent.
func (r *Registry) AddMount(ctx context.Context, m Mount) (Mount, error) {
	r.change.Lock()
	defer r.change.Unlock()
	if !filepath.IsAbs(m.Dir) || filepath.Clean(m.Dir) != m.Dir {
		return Mount{}, fail(backend.Invalid, "mountpoint %q is not a clean absolute path", m.Dir)
	}
	if m.Access != "rw" && m.Access != "ro" {
		return Mount{}, fail(backend.Invalid, "access mode %q of a mount is not rw or ro", m.Access)
	}
	if _, err := r.Agent(m.Agent); err != nil {
		return Mount{}, err
	}
	for _, other := range r.Mounts() {
		if other.Dir == m.Dir {
			return Mount{}, fail(backend.Exist, "%s is a mountpoint of agent %q already; `warren umount %s` frees it",
				m.Dir, other.Agent, m.Dir)
		}
	}
	if m.ID == "" {
		id, err := newID()
		if err != nil {
			return Mount{}, err
		}
		m.ID = id
	}
	m.Created = r.now().UTC()
	if err := r.put(ctx, map[string]any{string(recordKey(recMount, m.ID)): &m}); err != nil {
		return Mount{}, err
	}
	r.mu.Lock()
	r.mounts[m.ID] = &m
	r.mu.Unlock()
	return m, nil
}

// RemoveMount forgets a recorded mount; one that is not there is no error.
func (r *Registry) RemoveMount(ctx context.Context, id string) error {
	r.change.Lock()
	defer r.change.Unlock()
	if err := r.put(ctx, map[string]any{string(recordKey(recMount, id)): nil}); err != nil {
		return err
	}
	r.mu.Lock()
	delete(r.mounts, id)
	r.mu.Unlock()
	return nil
}

// StoredMounts counts the mounts that are recorded in a store that no registry has
// open; with forget it takes them out.
func StoredMounts(ctx context.Context, store backend.Store, forget bool) (n int, err error) {
	lsn, err := store.Update(ctx, func(tx backend.Tx) error {
		var keys [][]byte
		prefix := recordKey(recMount, "")
		if err := tx.ScanKeys(prefix, backend.PrefixEnd(prefix), func(key []byte) error {
			keys = append(keys, slices.Clone(key))
			return nil
		}); err != nil {
			return err
		}
		for n = 0; n < len(keys); n++ {
			if !forget {
				continue
			}
			if err := tx.Delete(keys[n]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return n, store.WaitDurable(ctx, lsn)
}

// newID gives 12 random hexadecimal digits.
func newID() (string, error) {
	var b [6]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(b[:]), nil
}
