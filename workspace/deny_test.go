package workspace_test

import (
	"testing"

	"github.com/warrenfs/warren/workspace"
)

// TestEmptyDenyListLasts: a list that was emptied is not the default again.
func TestEmptyDenyListLasts(t *testing.T) {
	w := grantWorld(t)
	if err := w.reg.DenyName(t.Context(), workspace.NameRule{Name: "*.pem"}, false); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"*.PEM", ".env", ".env.local", "id_rsa", "id_ed25519", ".netrc"} {
		if err := w.reg.DenyName(t.Context(), workspace.NameRule{Name: name}, true); err != nil {
			t.Fatal(err)
		}
	}
	again := mustOpen(t, w.store.CrashClone(w.store.DurableLSN()))
	t.Cleanup(again.reg.Close)
	if glob, denied := again.space.Engine().NameDenied(".env"); denied {
		t.Errorf("%s is denied again after a restart", glob)
	}
}
