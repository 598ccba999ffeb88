package main

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestAStoreThatDoesNotCloseDoesNotHoldTheDaemon: on a disk that fails closing
// may take for ever, and a daemon that was told to end must.
func TestAStoreThatDoesNotCloseDoesNotHoldTheDaemon(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	log := slog.New(slog.DiscardHandler)
	s, err := openStore(t.Context(), dir, newStore{Make: true}, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := closeWithin(s, time.Nanosecond); err == nil || !strings.Contains(err.Error(), dir+" does not close") {
		t.Errorf("%v", err)
	}
	// This one does close, behind it.
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if s, err = openStore(t.Context(), dir, newStore{}, log); err == nil {
			break
		}
		if time.Since(start) > time.Minute {
			t.Fatal(err)
		}
	}
	if err := closeWithin(s, time.Minute); err != nil {
		t.Error(err)
	}
}
