package workspace_test

import (
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/uptime"
	"github.com/warrenfs/warren/workspace"
)

// TestTokenIsOneAgents: only its own text proves it, and only until it is
// revoked; what is stored does not have the secret.
func TestTokenIsOneAgents(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.addSoul(t, "a")
	w.addSoul(t, "b")
	tok, text, err := w.reg.CreateToken(ctx, "a", 0)
	if err != nil {
		t.Fatal(err)
	}
	other, otherText, err := w.reg.CreateToken(ctx, "b", 0)
	if err != nil {
		t.Fatal(err)
	}
	_, secret, _ := strings.Cut(strings.TrimPrefix(text, "warren_"), "_")
	_, otherSecret, _ := strings.Cut(strings.TrimPrefix(otherText, "warren_"), "_")
	if len(secret) != 43 || secret == otherSecret {
		t.Errorf("secrets %q, %q", secret, otherSecret)
	}
	for _, reg := range []*workspace.Registry{w.reg, mustOpen(t, w.store.CrashClone(0)).reg} {
		got, a, err := reg.Authenticate(text)
		if err != nil || got.ID != tok.ID || a.Key != "a" {
			t.Fatalf("%+v %+v %v", got, a, err)
		}
	}
	refused := func(text string) {
		t.Helper()
		if _, a, err := w.reg.Authenticate(text); !errors.Is(err, backend.Denied) || a.Key != "" || strings.Contains(err.Error(), text) && text != "" {
			t.Errorf("%.80q: %v %v", text, a.Key, err)
		}
	}
	flipped := "A" + secret[1:]
	if flipped == secret {
		flipped = "B" + secret[1:]
	}
	for _, bad := range []string{"", "warren_", text[7:], strings.ToUpper(text), text + "A", text[:len(text)-1], text + "=", " " + text,
		"warren_" + other.ID + "_" + secret, "warren_" + tok.ID + "_" + otherSecret, "warren_" + tok.ID + "_" + flipped,
		"warren_" + tok.ID + "_" + tok.Hash, "warren_" + tok.ID + "_", "warren_000000000000_" + secret, "warren__" + secret, strings.Repeat("x", 1<<20)} {
		refused(bad)
	}
	if _, err := w.reg.RevokeToken(ctx, tok.ID); err != nil {
		t.Fatal(err)
	}
	refused(text)
	if _, err := w.reg.RevokeToken(ctx, tok.ID); !errors.Is(err, backend.NotFound) {
		t.Errorf("revoked twice: %v", err)
	}
	if _, _, err := mustOpen(t, w.store.CrashClone(0)).reg.Authenticate(text); !errors.Is(err, backend.Denied) {
		t.Errorf("revoked, after a power cut: %v", err)
	}
	if _, _, err := w.reg.Authenticate(otherText); err != nil {
		t.Errorf("another's: %v", err)
	}
	stored, err := json.Marshal(w.reg.Tokens())
	if err != nil || strings.Contains(string(stored), otherSecret) {
		t.Errorf("the record has the secret: %s %v", stored, err)
	}
}

// TestTokensGoWithTheirAgent: who gets its key next is not who had the token.
func TestTokensGoWithTheirAgent(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.addSoul(t, "a")
	_, text, err := w.reg.CreateToken(ctx, "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.reg.RemoveAgent(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	w.addSoul(t, "a")
	for _, reg := range []*workspace.Registry{w.reg, mustOpen(t, w.store.CrashClone(0)).reg} {
		if _, _, err := reg.Authenticate(text); !errors.Is(err, backend.Denied) || len(reg.Tokens()) != 0 {
			t.Errorf("%v, %v", err, reg.Tokens())
		}
	}
	if _, _, err := w.reg.CreateToken(ctx, "nobody", 0); !errors.Is(err, backend.NotFound) {
		t.Errorf("for nobody: %v", err)
	}
	if _, _, err := w.reg.CreateToken(ctx, "a", -time.Second); !errors.Is(err, backend.Invalid) {
		t.Errorf("for a time that is over: %v", err)
	}
}

// TestTokensExpire at their time, and are then forgotten.
func TestTokensExpire(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	var ahead atomic.Int64
	reg, err := workspace.Open(ctx, workspace.Options{Store: w.store, Space: w.space,
		Clock: uptime.New(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }, nil)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reg.AddAgent(ctx, workspace.AgentSpec{Key: "a"}); err != nil {
		t.Fatal(err)
	}
	old, text, err := reg.CreateToken(ctx, "a", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := reg.Authenticate(text); err != nil {
		t.Fatal(err)
	}
	ahead.Store(int64(time.Hour))
	if _, _, err := reg.Authenticate(text); !errors.Is(err, backend.Denied) {
		t.Errorf("expired: %v", err)
	}
	if _, _, err := reg.CreateToken(ctx, "a", 0); err != nil {
		t.Fatal(err)
	}
	if got := reg.Tokens(); len(got) != 1 || got[0].ID == old.ID {
		t.Errorf("tokens: %+v", got)
	}
}

// TestFormatRule14Tokens: a token's record that is damaged is an error, and none
// that is worth something by chance.
func TestFormatRule14Tokens(t *testing.T) {
	for _, value := range []string{
		`{"id":"0123456789ab","agent":"a","hash":"","created":"2026-01-01T00:00:00Z"}`,
		`{"id":"0123456789ab","agent":"a","hash":"zz","created":"2026-01-01T00:00:00Z"}`,
		`{"id":"0123456789ab","agent":"","hash":"` + strings.Repeat("0", 64) + `","created":"2026-01-01T00:00:00Z"}`,
		`{"id":"other","agent":"a","hash":"` + strings.Repeat("0", 64) + `","created":"2026-01-01T00:00:00Z"}`,
	} {
		s := mem.New(mem.Options{})
		if _, err := s.Update(t.Context(), func(tx backend.Tx) error {
			return tx.Set([]byte("gtoken/0123456789ab"), []byte(value))
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := open(t, s); !errors.Is(err, backend.IO) {
			t.Errorf("%s: %v", value, err)
		}
	}
}
