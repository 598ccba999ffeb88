package mcp

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/scripts/waits"
)

// TestLoad: calls beyond what runs at once wait, those beyond what may wait are
// refused, and all end with the server.
func TestLoad(t *testing.T) {
	l := newLoad()
	var ends []func()
	for range maxRunning {
		_, done, err := l.begin(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, done)
	}
	failed := make(chan error, maxCalls)
	for range maxCalls - maxRunning {
		go func() {
			_, _, err := l.begin(t.Context(), 1)
			failed <- err
		}()
	}
	for end := waits.In(time.Minute); ; time.Sleep(time.Millisecond) {
		l.mu.Lock()
		n := l.calls
		l.mu.Unlock()
		if n == maxCalls {
			break
		}
		if end.Passed() {
			t.Fatalf("%d calls wait", n)
		}
	}
	if _, _, err := l.begin(t.Context(), 0); control.KindOf(err) != control.KindUnavailable {
		t.Errorf("one more: %v", err)
	}
	l.end()
	for range maxCalls - maxRunning {
		if err := <-failed; control.KindOf(err) != control.KindInterrupted {
			t.Fatal(err)
		}
	}
	for _, done := range ends {
		done()
	}
	if l.calls != 0 || l.bytes != 0 {
		t.Errorf("left: %d calls, %d bytes", l.calls, l.bytes)
	}
	l = newLoad()
	ctx, done, err := l.begin(t.Context(), maxCallBytes+1) // one is never too much
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.begin(t.Context(), 1); control.KindOf(err) != control.KindUnavailable {
		t.Errorf("more bytes: %v", err)
	}
	l.end()
	<-ctx.Done()
	done()
}

// TestGitConfiguration: what names a program under a name of the repository's choice
// is taken out, also what newer versions of git know; an answer that is cut is none.
func TestGitConfiguration(t *testing.T) {
	keys, files := configKeys("file:.git/config\x00core.bare\x00file:.git/config\x00hook.a\nb.command\x00file:/etc/x\x00branch.m.mergeoptions\x00command line:\x00a.b\x00")
	if !slices.Equal(files, []string{".git/config", "/etc/x"}) || len(keys) != 4 {
		t.Errorf("%q %q", keys, files)
	}
	set, _ := overrides(keys)
	if !slices.Equal(set, []setting{{"hook.a\nb.command", "true"}, {"branch.m.mergeoptions", ""}}) {
		t.Errorf("%q", set)
	}
	r := &repo{agent: &control.Agent{Key: "a"}, s: &Server{o: Options{Agent: "a", Git: func(context.Context, GitCall) (GitAnswer, error) {
		return GitAnswer{Out: []byte("part"), Cut: true}, nil
	}}}}
	var e *control.Error
	if _, err := r.must(t.Context(), "status"); !errors.As(err, &e) || e.Kind != control.KindInvalid {
		t.Errorf("cut: %v", err)
	}
}
