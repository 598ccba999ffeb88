package main

import (
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/waits"
)

// lockedText is written by several at once, and read.
type lockedText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lockedText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestWhatLibrariesPrintGoesToTheLog: a daemon writes to stderr by its log alone,
// and of a request that makes no sense it does not tell what was in it.
func TestWhatLibrariesPrintGoesToTheLog(t *testing.T) {
	t.Setenv("GOMEMLIMIT", "off") // serve would set it for the tests' own process
	for _, level := range []string{"debug", "info"} {
		raw := &lockedText{}
		before := log.Writer()
		log.SetOutput(raw)
		text := servedLog(t, level, func() {
			log.Printf("Short read for %v: %q", "WRITE", "TOPSECRETNAME") // as go-fuse does
			log.Print("something else")
		})
		if log.Writer() != raw {
			t.Error("the daemon has ended, and still has what libraries print")
		}
		log.SetOutput(before)
		if raw.String() != "" {
			t.Errorf("%s: printed past the log: %q", level, raw)
		}
		if strings.Contains(text, "TOPSECRET") || strings.Contains(text, `cut short" kind=WRITE`) != (level == "debug") {
			t.Errorf("%s: the log has:\n%s", level, text)
		}
		if !strings.Contains(text, `level=WARN msg="a library says" line="something else"`) {
			t.Errorf("%s: what nobody expects is not in the log:\n%s", level, text)
		}
	}
}

// servedLog gives what a daemon in this process logs, that is up while f runs.
func servedLog(t *testing.T, level string, f func()) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "w") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store := filepath.Join(dir, "store")
	s, err := openStore(t.Context(), store, newStore{Make: true}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := closeWithin(s, time.Minute); err != nil {
		t.Fatal(err)
	}
	told := &lockedText{}
	a := &app{socket: filepath.Join(dir, "run", "admin", "admin.sock"), stdin: strings.NewReader(""), stdout: told, stderr: told,
		getenv: func(string) string { return "" }}
	ctx, stop := waits.Context(t.Context(), time.Minute)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- runServe(ctx, a, &serveOptions{Store: store, Level: level, FeedAge: "1d", Memory: defaultMemory, ReadyFD: -1,
			OnStop: "unmount", Transport: "own"})
	}()
	for !strings.Contains(told.String(), "warren: ready") && len(ended) == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	f()
	stop()
	if err := <-ended; err != nil {
		t.Fatalf("serve: %v\n%s", err, told)
	}
	return told.String()
}
