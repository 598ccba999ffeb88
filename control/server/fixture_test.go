package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/feed"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
	"github.com/warrenfs/warren/workspace"
	"golang.org/x/sys/unix"
)

// mounts is a Mounter that remembers what it is told.
type mounts struct {
	mu   sync.Mutex
	up   map[string]Mounting
	busy map[string]bool
	fail error // of the next Mount

	elsewhere bool // unmounting takes them out of the tree only
	covered   bool // something is mounted over them
}

func (m *mounts) Mount(_ context.Context, s Mounting) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return "", m.fail
	}
	if _, taken := m.up[s.Dir]; taken {
		return "", backend.Busy
	}
	m.up[s.Dir] = s
	return s.Dir, nil
}

func (m *mounts) Unmount(_ context.Context, dir string, force bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.up[dir]; !there {
		return backend.NotFound
	}
	if m.busy[dir] && !force {
		return backend.Busy
	}
	if m.covered {
		return coveredError{}
	}
	if m.elsewhere && !force { // it is alive, and in Mounted
		return ErrElsewhere
	}
	delete(m.up, dir)
	return nil
}

// coveredError is what an unmount fails with that ErrCovered is about.
type coveredError struct{}

func (coveredError) Error() string   { return "a tmpfs is mounted over it" }
func (coveredError) Unwrap() []error { return []error{ErrCovered, backend.Busy} }

func (m *mounts) Clear(string) error { return nil }

// TakeOver takes anything and has it until its peer closes: the end of a pipe is
// unmounted by closing the other.
func (m *mounts) TakeOver(_ context.Context, fd int, s Mounting) (Handed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		_ = unix.Close(fd)
		return Handed{}, m.fail
	}
	m.up[s.Dir] = s
	done, ended, f := make(chan struct{}), make(chan struct{}), os.NewFile(uintptr(fd), s.Dir)
	end := sync.OnceFunc(func() {
		m.mu.Lock()
		delete(m.up, s.Dir)
		m.mu.Unlock()
		close(done)
	})
	go func() {
		_, _ = io.Copy(io.Discard, f)
		_ = f.Close()
		end()
		close(ended)
	}()
	return Handed{End: end, Done: done, Ended: ended}, nil
}

func (m *mounts) Mounted() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for dir := range m.up {
		out = append(out, dir)
	}
	slices.Sort(out)
	return out
}

func (m *mounts) Elsewhere() []string {
	if !m.elsewhere {
		return nil
	}
	return m.Mounted()
}

// fixture is a server on a socket, over a store in memory.
type fixture struct {
	t      *testing.T
	store  *mem.Store
	space  *view.Space
	server *Server
	mounts *mounts
	client *control.Client
	http   *http.Client
	socket string
}

func newFixture(t *testing.T) *fixture { return newFixtureOn(t, mem.New(mem.Options{})) }

func newFixtureOn(t *testing.T, s *mem.Store) *fixture {
	t.Helper()
	changes, err := feed.Open(t.Context(), s, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = changes.Close() })
	tr, err := tree.Open(t.Context(), tree.Options{Store: s, Content: mem.Content{}, Feed: changes})
	if err != nil {
		t.Fatal(err)
	}
	e, err := policy.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	space := view.New(tr, e, nil)
	reg, err := workspace.Open(t.Context(), workspace.Options{Store: s, Space: space})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "srv") // short: a socket's path is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f := &fixture{t: t, store: s, space: space, mounts: &mounts{up: map[string]Mounting{}, busy: map[string]bool{}},
		socket: filepath.Join(dir, "admin.sock")}
	f.server = New(Options{Registry: reg, Space: space, Mounts: f.mounts, Daemon: Daemon{
		Version: "test", Store: "/store", Socket: f.socket, Runtime: dir, UID: os.Geteuid(),
		Disk: func() (uint64, uint64) { return 1, 2 }, Volumes: func() int { return len(tr.Volumes()) },
		Notes: func() []string { return nil },
		Figures: func(context.Context) control.Figures {
			return control.Figures{Requests: map[string]uint64{"LOOKUP": 3}}
		},
		Check: func(ctx context.Context, progress func(done, total uint64), report func(control.Problem)) error {
			return tr.Check(ctx, tree.CheckOptions{Content: true, Progress: progress}, func(p tree.Problem) { report(control.Problem{Text: p.Text}) })
		}}})
	l, err := net.Listen("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(l) }()
	f.client = control.NewClient(f.socket, "")
	f.http = &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", f.socket)
		}}}
	t.Cleanup(func() {
		f.client.Close()
		f.http.CloseIdleConnections()
		ctx, cancel := waits.Context(context.Background(), 10*time.Second)
		defer cancel()
		if err := f.server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
		_ = tr.Close()
	})
	return f
}

// send makes one raw request.
func (f *fixture) send(method, path string, body io.Reader) (int, string, http.Header) {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), method, "http://warren"+path, body)
	if err != nil {
		f.t.Fatal(err)
	}
	resp, err := f.http.Do(req)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, strings.TrimSpace(string(b)), resp.Header
}

func (f *fixture) soul(key string) {
	f.t.Helper()
	if _, err := f.client.AddAgent(f.t.Context(), control.AgentSpec{Key: key}); err != nil {
		f.t.Fatal(err)
	}
}

// link gives a file in an agent's workspace a second name.
func (f *fixture) link(agent, from, to string) {
	f.t.Helper()
	v, err := f.space.Open(view.Options{Agent: agent, UID: backend.OwnerID, GID: backend.OwnerID})
	if err != nil {
		f.t.Fatal(err)
	}
	a, err := v.Resolve("/agents/" + agent + "/workspace/" + from)
	if err != nil {
		f.t.Fatal(err)
	}
	dir, name, err := v.ResolveParent("/agents/" + agent + "/workspace/" + to)
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := v.Link(nil, a.Node, dir.Node, name); err != nil {
		f.t.Fatal(err)
	}
}

// take unmounts as umount(8) does. The function it gives tells the server.
func (m *mounts) take(dir string) (gone func()) {
	told := m.end(dir)
	return func() { told(true) }
}

// end ends a mount somehow.
func (m *mounts) end(dir string) (gone func(taken bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	gone = m.up[dir].Gone
	delete(m.up, dir)
	return gone
}

// contains tells whether the text of err has all of words.
func contains(err error, words ...string) bool {
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			return false
		}
	}
	return true
}
