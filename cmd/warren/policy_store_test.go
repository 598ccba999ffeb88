package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
)

// TestRefusedPolicyLeavesAWayOut: a store whose policy file is refused does not
// open, says so, and opens again when the file has been taken out of it.
func TestRefusedPolicyLeavesAWayOut(t *testing.T) {
	ctx, dir := t.Context(), filepath.Join(t.TempDir(), "store")
	log := offlineLog(io.Discard)
	s, err := openStore(ctx, dir, newStore{Make: true}, log)
	if err != nil {
		t.Fatal(err)
	}
	lsn, err := s.kv.Update(ctx, func(tx backend.Tx) error {
		return tx.Set([]byte("gpolicy/old.cedar"), []byte(`{"name":"old.cedar","text":"@id(\"old\") permit (principal, action, resource) when { resource.gone };","loaded":"2026-01-01T00:00:00Z"}`))
	})
	if err == nil {
		err = s.kv.WaitDurable(ctx, lsn)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err = openSpace(ctx, s, log, func(*view.Space) {}); err == nil || !strings.Contains(err.Error(), "old.cedar:1:1") || !strings.Contains(err.Error(), "policy rm NAME --store") {
		t.Errorf("it is open: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	a := newApp()
	a.stdout, a.stderr = io.Discard, io.Discard
	files, err := storedPolicies(ctx, a, dir)
	if err != nil || len(files) != 1 || files[0].Name != "old.cedar" {
		t.Errorf("%+v, %v", files, err)
	}
	if err := runPolicyRemove(ctx, a, "old.cedar", dir); err != nil {
		t.Fatal(err)
	}
	if err := runPolicyRemove(ctx, a, "old.cedar", dir); control.KindOf(err) != control.KindNotFound {
		t.Errorf("once more: %v", err)
	}
	if s, err = openStore(ctx, dir, newStore{}, log); err != nil {
		t.Fatal(err)
	}
	if _, r, err := openSpace(ctx, s, log, func(*view.Space) {}); err != nil {
		t.Error(err)
	} else {
		r.Close()
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
