package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// answering listens on a socket and answers every request by h.
func answering(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl") // short: a socket's path is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	c := NewClient(l.Addr().String(), "secret")
	t.Cleanup(c.Close)
	return c
}

func TestErrorsKeepTheirKind(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		kind   Kind
		text   string
	}{
		{404, `{"error":"no such thing","kind":"not_found"}`, KindNotFound, "no such thing"},
		{507, `{"error":"full","kind":"quota"}`, KindQuota, "full"},
		{409, `{"error":"new kind of thing","kind":"something_new"}`, "something_new", "new kind of thing"},
		{500, `oops`, KindFailed, "500"},
		{502, ``, KindFailed, "502"},
		{200, `{"key":`, KindUnavailable, "went away"},
	} {
		cl := answering(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer secret" {
				t.Errorf("token: %q", r.Header.Get("Authorization"))
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		})
		_, err := cl.Agent(t.Context(), "a")
		if KindOf(err) != c.kind || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%d %s: %v (%s)", c.status, c.body, err, KindOf(err))
		}
	}
}

func TestNoDaemon(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close()
	for _, socket := range []string{filepath.Join(dir, "none"), stale} {
		_, err := NewClient(socket, "").Status(t.Context())
		if KindOf(err) != KindUnavailable || !strings.Contains(err.Error(), "warren serve") || !strings.Contains(err.Error(), socket) {
			t.Errorf("%s: %v", socket, err)
		}
	}
}

// TestWaitTellsLateFromCancelled: a deadline that passes at whatever moment means
// that there is no daemon; only a caller who gives up interrupts.
func TestWaitTellsLateFromCancelled(t *testing.T) {
	none := NewClient(filepath.Join(t.TempDir(), "none"), "")
	hung := answering(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	for _, c := range []*Client{none, hung} {
		for _, wait := range []time.Duration{0, time.Millisecond, 60 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			if err := c.Wait(ctx); KindOf(err) != KindUnavailable || !strings.Contains(err.Error(), c.Socket()) {
				t.Errorf("%s, within %v: %v (%s)", c.Socket(), wait, err, KindOf(err))
			}
			cancel()
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, cancel)
		if err := c.Wait(ctx); KindOf(err) != KindInterrupted {
			t.Errorf("%s, cancelled: %v (%s)", c.Socket(), err, KindOf(err))
		}
	}
}

func TestInterruptedIsItsOwnKind(t *testing.T) {
	c := answering(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Sync(ctx); KindOf(err) != KindInterrupted {
		t.Errorf("%v (%s)", err, KindOf(err))
	}
}

// TestNamesStayOneComponent: a name cannot reach another resource.
func TestNamesStayOneComponent(t *testing.T) {
	var got string
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.URL.Path
		_, _ = io.WriteString(w, `{}`)
	})
	for _, bad := range []string{"", ".", "..", "a/b", "../users/x"} {
		got = ""
		if _, err := c.Agent(t.Context(), bad); KindOf(err) != KindInvalid || got != "" {
			t.Errorf("%q: %v, asked for %q", bad, err, got)
		}
	}
	for _, odd := range []string{"a?b", "a b", "a%2fb", "ä", "a#b"} {
		if _, err := c.Agent(t.Context(), odd); err != nil || got != "/v1/agents/"+odd {
			t.Errorf("%q: %v, asked for %q", odd, err, got)
		}
	}
}

// TestReadThatBreaksOffIsAnError: a client does not take a part for the whole.
func TestReadThatBreaksOffIsAnError(t *testing.T) {
	c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "part")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	var b strings.Builder
	if err := c.Read(t.Context(), "a", "f", &b); KindOf(err) != KindUnavailable {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestKindOf(t *testing.T) {
	e := Errorf(KindDenied, "no %d", 7)
	for _, c := range []struct {
		err  error
		want Kind
	}{
		{e, KindDenied}, {fmt.Errorf("x: %w", e), KindDenied}, {errors.Join(errors.New("y"), e), KindDenied},
		{errors.New("z"), KindFailed}, {&Error{Text: "no kind"}, KindFailed},
	} {
		if got := KindOf(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
	if e.Error() != "no 7" {
		t.Error(e)
	}
}
