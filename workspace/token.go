package workspace

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/uptime"
)

// Token lets its bearer ask as one agent. The record of one: the secret itself
// is nowhere, only its hash.
type Token struct {
	ID      string     `json:"id"`
	Agent   string     `json:"agent"`
	Hash    string     `json:"hash"` // SHA-256 of the secret, in hexadecimal
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty"` // nil: never

	end uptime.Deadline // of Expires, by both clocks
}

// Expired reports whether a token has expired, by the wall clock or by the time that has
// really passed.
func (r *Registry) Expired(t *Token) bool { return r.clock.Over(t.end) }

// Lasting returns a context that ends when the token expires.
func (r *Registry) Lasting(ctx context.Context, t *Token) (context.Context, context.CancelFunc) {
	return r.clock.WithDeadline(ctx, t.end)
}

// A token's text is warren_<id>_<secret>: the id finds the record, the secret
// is 32 random bytes in the URL's base64.
const (
	tokenPrefix = "warren_"
	secretBytes = 32
)

// maxTokens bounds the tokens of one agent.
const maxTokens = 1000

// Tokens lists all tokens by id, those that have expired too.
func (r *Registry) Tokens() []Token {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return sorted(r.tokens, nil)
}

// CreateToken makes a token for an agent that is worth something for ttl (0:
// until it is revoked), and gives its text, which nobody can ask for again. What
// has expired of the agent's is forgotten. NotFound: no such agent; Invalid: a
// negative ttl; Quota: it has 1,000.
func (r *Registry) CreateToken(ctx context.Context, agent string, ttl time.Duration) (t Token, text string, err error) {
	r.change.Lock()
	defer r.change.Unlock()
	if ttl < 0 {
		return Token{}, "", fail(backend.Invalid, "a token cannot last for %s", ttl)
	}
	if _, err := r.Agent(agent); err != nil {
		return Token{}, "", err
	}
	now := r.now().UTC()
	records, have := map[string]any{}, 0
	for _, old := range r.Tokens() {
		switch {
		case old.Agent != agent:
		case r.Expired(&old):
			records[string(recordKey(recToken, old.ID))] = nil
		default:
			have++
		}
	}
	if have >= maxTokens {
		return Token{}, "", fail(backend.Quota, "agent %q has %d tokens; revoke some (`warren token list` lists them)", agent, have)
	}
	id, err := newID()
	if err != nil {
		return Token{}, "", err
	}
	var secret [secretBytes]byte
	if _, err := rand.Read(secret[:]); err != nil {
		return Token{}, "", err
	}
	hash := sha256.Sum256(secret[:])
	t = Token{ID: id, Agent: agent, Hash: hex.EncodeToString(hash[:]), Created: now}
	if ttl > 0 {
		end := now.Add(ttl)
		t.Expires, t.end = &end, r.clock.Until(now, end)
	}
	records[string(recordKey(recToken, id))] = &t
	if err := r.put(ctx, records); err != nil {
		return Token{}, "", err
	}
	r.locked(func() { r.tokens = withTokens(r.tokens, records) })
	r.log.Info("token created", "token", id, "agent", agent, "expires", t.Expires)
	return t, tokenPrefix + id + "_" + base64.RawURLEncoding.EncodeToString(secret[:]), nil
}

// withTokens gives tokens after records were stored.
func withTokens(tokens map[string]*Token, records map[string]any) map[string]*Token {
	out := maps.Clone(tokens)
	for key, rec := range records {
		id, isToken := strings.CutPrefix(key, string(recordKey(recToken, "")))
		if !isToken {
			continue
		}
		if t, ok := rec.(*Token); ok {
			out[id] = t
		} else {
			delete(out, id)
		}
	}
	return out
}

// RevokeToken ends a token. When it returns, Authenticate takes it no more, also
// after a crash. NotFound: there is none.
func (r *Registry) RevokeToken(ctx context.Context, id string) (Token, error) {
	r.change.Lock()
	defer r.change.Unlock()
	r.mu.RLock()
	t := r.tokens[id]
	r.mu.RUnlock()
	if t == nil {
		return Token{}, fail(backend.NotFound, "no token %q; `warren token list` lists them", id)
	}
	records := map[string]any{string(recordKey(recToken, id)): nil}
	if err := r.put(ctx, records); err != nil {
		return Token{}, err
	}
	r.locked(func() { r.tokens = withTokens(r.tokens, records) })
	r.log.Info("token revoked", "token", id, "agent", t.Agent)
	return *t, nil
}

// ErrToken is the error of Authenticate.
func ErrToken() error { return &backend.Error{Kind: backend.Denied, Err: errToken} }

// errToken is the one answer to all that is no token of an agent.
var errToken = errors.New("the token is not known, or not worth anything any more; ask the administrator for another (`warren token create`)")

// Authenticate gives the token with this text, and its agent. The time it takes
// tells nothing of the secret. Denied: it is no token, or was revoked, has
// expired, or its agent is gone; which of these is not told.
func (r *Registry) Authenticate(text string) (Token, Agent, error) {
	refused := ErrToken()
	id, encoded, _ := strings.Cut(strings.TrimPrefix(text, tokenPrefix), "_")
	secret, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(secret) != secretBytes || !strings.HasPrefix(text, tokenPrefix) {
		return Token{}, Agent{}, refused
	}
	got := sha256.Sum256(secret)
	r.mu.RLock()
	defer r.mu.RUnlock()
	t := r.tokens[id]
	want := make([]byte, len(got)) // of a token that is not there
	if t != nil {
		if _, err := hex.Decode(want, []byte(t.Hash)); err != nil {
			return Token{}, Agent{}, refused
		}
	}
	if subtle.ConstantTimeCompare(got[:], want) != 1 || t == nil || r.Expired(t) {
		return Token{}, Agent{}, refused
	}
	a, err := r.agent(t.Agent)
	if err != nil {
		return Token{}, Agent{}, refused
	}
	return *t, a, nil
}

// checkTokens refuses records that no version wrote.
func checkTokens(tokens map[string]*Token) error {
	for id, t := range tokens {
		if b, err := hex.DecodeString(t.Hash); err != nil || len(b) != sha256.Size || t.Agent == "" {
			return &backend.Error{Op: "read record", Path: string(recordKey(recToken, id)), Kind: backend.IO,
				Err: errors.New("its hash or its agent is damaged")}
		}
	}
	return nil
}

// dropTokens forgets, at the start, tokens that are worth nothing: expired, or
// of no agent. Nobody else uses the registry yet.
func (r *Registry) dropTokens(ctx context.Context) error {
	records := map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(r.tokens)) {
		t := r.tokens[id]
		if a := r.agents[t.Agent]; a == nil || a.Removing || r.Expired(t) {
			records[string(recordKey(recToken, id))] = nil
		}
	}
	if len(records) == 0 {
		return nil
	}
	if err := r.put(ctx, records); err != nil {
		return err
	}
	r.tokens = withTokens(r.tokens, records)
	return nil
}
