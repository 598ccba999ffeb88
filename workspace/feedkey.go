package workspace

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/warrenfs/warren/backend"
)

// feedKey is the record of the key that hides from agents how far the feed is.
type feedKey struct {
	Key []byte `json:"key"`
}

// FeedKey gives 16 secret bytes that stay the same for the store. They are made
// when they are first asked for.
func (r *Registry) FeedKey(ctx context.Context) ([]byte, error) {
	r.change.Lock()
	defer r.change.Unlock()
	name, rec := recordKey(recFeedKey, ""), feedKey{}
	err := r.store.View(ctx, func(tx backend.Tx) error {
		b, err := tx.Get(name)
		if err != nil {
			return err
		}
		return decode(name, b, &rec)
	})
	if err == nil || !errors.Is(err, backend.NotFound) {
		return rec.Key, err
	}
	rec.Key = make([]byte, 16)
	if _, err := rand.Read(rec.Key); err != nil {
		return nil, err
	}
	return rec.Key, r.put(ctx, map[string]any{string(name): &rec})
}
