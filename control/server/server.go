package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// ErrElsewhere is what Mounter.Unmount fails with when the mount is out of the
// tree, but something elsewhere, such as a bind mount, keeps it alive.
var ErrElsewhere = errors.New("a bind mount, another mount namespace or open files keep it alive")

// ErrCovered is what Mounter.Unmount fails with when something is mounted over the
// mount, and would go in its place.
var ErrCovered = errors.New("it is covered")

// Mounter mounts views. The daemon hands it in; fusefs does the work.
type Mounter interface {
	// Mount mounts a view at an empty directory, clears what a dead daemon left
	// there, and gives the directory free of symlinks. NotFound, NotDir,
	// NotEmpty or Busy tell what is wrong with it.
	Mount(ctx context.Context, m Mounting) (dir string, err error)
	// Unmount takes a mount away. Busy: it is in use and force is not set;
	// ErrElsewhere too: it is out of the tree all the same. Busy and ErrCovered:
	// something is mounted over it, also with force.
	// NotFound: there is none of ours.
	Unmount(ctx context.Context, dir string, force bool) error
	// Clear takes away what a daemon that died left mounted at dir, if it did.
	Clear(dir string) error
	// TakeOver serves the mount behind a descriptor of /dev/fuse, which it takes
	// over also when it fails; m.Dir is what the mount is called. Invalid: it is no
	// fresh mount; Busy: it is served already.
	TakeOver(ctx context.Context, fd int, m Mounting) (Handed, error)
	// Mounted lists the mountpoints that are up, and what was taken over.
	Mounted() []string
	// Elsewhere lists those of Mounted that are out of the host's tree and go on
	// for what ErrElsewhere tells; and what was taken over, which never was in it.
	Elsewhere() []string
}

// Mounting is one mount to be made.
type Mounting struct {
	Dir string
	// Recorded: Dir is where the mount was before. A symbolic link on the way
	// to it now is Denied: who may rename what is above it would choose where
	// root mounts.
	Recorded bool
	// Gone, if set, is called once when the mount is gone. taken: it was taken out
	// of the host's tree, by Unmount or an umount(8); else its connection was
	// ended.
	Gone       func(taken bool)
	View       view.Options // without Observer
	AllowOther bool
}

// Daemon tells what the API cannot know by itself.
type Daemon struct {
	Version string
	Started time.Time
	Store   string // directory
	Content string // driver
	Format  int
	Socket  string
	Runtime string // directory that runs' mounts are placed under
	UID     int    // the daemon's own
	Disk    func() (free, total uint64)
	Volumes func() int
	Notes   func() []string
	Figures func(context.Context) control.Figures
	Check   CheckFunc
	// Backup writes a backup of the store, with the index of an earlier one what
	// changed since.
	Backup func(ctx context.Context, w io.Writer, index io.Reader) error
}

// Options are what a server needs; all but Layer and Log must be set.
type Options struct {
	Registry *workspace.Registry
	Space    *view.Space
	Mounts   Mounter
	Daemon   Daemon
	Layer    *workspace.Layer // nil: one is made; a daemon has one only
	Log      *slog.Logger     // nil discards
}

// Server answers the API.
type Server struct {
	Options
	http   *http.Server // of admin.sock
	agents *http.Server // of agent.sock
	guests *guests      // on agent.sock
	pace   pace         // of agent.sock

	done chan struct{} // closed when shutting down
	once sync.Once

	forget     time.Duration // how long after an umount(8) the record goes
	searchTime time.Duration // of the processor, for one search
	drainTime  time.Duration // for what a client sends behind an archive
	mounting   sync.Mutex    // one mount or unmount at a time

	mu       sync.Mutex
	runs     map[string]*run    // by id
	failed   map[string]string  // recorded mounts that are not up: id -> why
	handed   map[string]*handed // mounts made elsewhere, by id
	handedOf map[string]int     // how many of an agent's the kernel has
}

// New makes a server; Serve lets it answer.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Layer == nil {
		o.Layer = workspace.NewLayer(workspace.LayerOptions{Registry: o.Registry, Space: o.Space, Log: o.Log})
	}
	s := &Server{Options: o, done: make(chan struct{}), forget: forgetAfter, drainTime: drainTime, searchTime: searchTime,
		runs: map[string]*run{}, failed: map[string]string{}, handed: map[string]*handed{}, handedOf: map[string]int{}, guests: newGuests(o.Registry.Lasting), pace: agentPace}
	s.agents = s.newAgentServer()
	s.http = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ConnContext:       withPeer,
		ErrorLog:          slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
	}
	return s
}

// Serve answers connections of l until Shutdown.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown ends all runs, then waits for the requests under way until ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	s.once.Do(func() { close(s.done) })
	var errs []error
	for _, h := range []*http.Server{s.agents, s.http} {
		if err := h.Shutdown(ctx); err != nil {
			errs = append(errs, err, h.Close())
		}
	}
	return errors.Join(errs...)
}

// handler is what the admin socket answers with: routes, behind the check of who
// asks.
func (s *Server) handler() http.Handler {
	mux := s.router(s.routes(), asker{}.of)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.admit(r); err != nil {
			s.fail(w, r, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// answer turns a handler's error into an answer.
func (s *Server) answer(do func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := do(w, r); err != nil {
			s.fail(w, r, err)
		}
	}
}

// reply writes one JSON value.
func reply(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	return encode(w, v)
}

func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// ok answers a request that has nothing to tell.
func ok(w http.ResponseWriter) error { return reply(w, struct{}{}) }

func invalid(format string, args ...any) error {
	return &backend.Error{Kind: backend.Invalid, Err: fmt.Errorf(format, args...)}
}
