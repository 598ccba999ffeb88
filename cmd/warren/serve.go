package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/feed"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/control/server"
	"github.com/warrenfs/warren/fusefs"
	"github.com/warrenfs/warren/fusefs/visitor"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
	"golang.org/x/sys/unix"
)

// daemon is a store with its door, registry, mounts and API: all that serves.
type daemon struct {
	store    *store
	space    *view.Space
	registry *workspace.Registry
	hub      *fusefs.Hub
	server   *server.Server
	listener net.Listener
	guests   net.Listener // agent.sock; nil: there is none
	metrics  *http.Server // nil: nobody asked for any
	log      *slog.Logger
	started  time.Time
	socket   string
	leave    bool // mounts stay when it stops
}

// openSpace puts the door before an open store and reads the registry. hub may
// be nil: nothing is mounted.
func openSpace(ctx context.Context, s *store, log *slog.Logger, notify func(*view.Space)) (*view.Space, *workspace.Registry, error) {
	engine, err := policy.New(log.With("part", "policy"))
	if err != nil {
		return nil, nil, err
	}
	space := view.New(s.tree, engine, log.With("part", "view"))
	notify(space)
	registry, err := workspace.Open(ctx, workspace.Options{Store: s.kv, Space: space, Clock: s.clock, Log: log.With("part", "registry")})
	if err != nil {
		return nil, nil, fmt.Errorf("open the registry: %w", err)
	}
	space.SetProjects(func(ctx context.Context, slug string) error {
		_, err := registry.CreateProject(ctx, slug, nil)
		return err
	})
	return space, registry, nil
}

// newDaemon opens everything, and refuses a store made with other content than
// as names, if it does; serve lets it answer. The sockets are the last
// things made, so whoever can connect gets answers.
func newDaemon(ctx context.Context, dir string, as newStore, socket string, log *slog.Logger) (_ *daemon, err error) {
	d := &daemon{log: log, started: time.Now().UTC(), socket: socket}
	if d.store, err = openStore(ctx, dir, as, log); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.close(ctx))
		}
	}()
	d.space, d.registry, err = openSpace(ctx, d.store, log, func(s *view.Space) {
		d.hub = fusefs.NewHub(s, log.With("part", "fuse"))
		d.hub.SetVisitor(visitor.New(selfExe(), log.With("part", "visitor")))
		s.SetNotifier(d.hub)
	})
	if err != nil {
		return nil, err
	}
	layer := workspace.NewLayer(workspace.LayerOptions{Registry: d.registry, Space: d.space,
		Config: filepath.Join(dir, storeConfigFile), Log: log.With("part", "layer")})
	d.hub.SetControl(controlFiles(layer))
	d.server = server.New(server.Options{Registry: d.registry, Space: d.space, Mounts: mounter{d.hub, d.log.With("part", "mounts")},
		Daemon: d.facts(), Layer: layer, Log: log.With("part", "api")})
	if d.listener, err = listen(socket); err != nil {
		return nil, err
	}
	if d.guests, err = listenAgents(socket, log); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *daemon) facts() server.Daemon {
	return server.Daemon{
		Version: versionText(), Started: d.started, Store: d.store.dir, Content: d.store.info.Content,
		Format: d.store.info.Format, Socket: d.socket, Runtime: filepath.Dir(filepath.Dir(d.socket)),
		UID: os.Geteuid(), Disk: d.store.disk, Check: d.store.check, Backup: d.store.backup, Notes: d.notes,
		Volumes: func() int { return len(d.store.tree.Volumes()) }, Figures: d.figures,
	}
}

// notes are what an administrator should know of this daemon.
func (d *daemon) notes() []string {
	var notes []string
	if err := d.store.failure(); err != nil {
		notes = append(notes, err.Error())
	} else if full := d.store.fullNote(); full != "" {
		notes = append(notes, full)
	}
	for _, m := range d.hub.Mounts() {
		if m.Stats().ShortTimeouts {
			return append(notes, "this kernel is older than 6.16: a change made in one mount may stay unseen in another for a second")
		}
	}
	return notes
}

// serve answers until ctx ends, then lets go of everything in order: API; mounts,
// so that no program can write any more; store.
func (d *daemon) serve(ctx context.Context, ready func()) error {
	if err := d.server.ClearRuns(); err != nil {
		d.log.Error("left-over mounts of runs stay", "err", err)
	}
	d.server.Restore(ctx)
	go d.store.watchFull(ctx, d.log)
	go d.store.watchDisk(ctx, d.log)
	stop := d.collect(ctx)
	failed := make(chan error, 2)
	go func() { failed <- d.server.Serve(d.listener) }()
	if d.guests != nil {
		go func() { failed <- d.server.ServeAgents(d.guests) }()
	}
	ready()
	var err error
	select {
	case <-ctx.Done():
		d.log.Info("stopping", "mounts", len(d.hub.Mounts()), "keep", d.leave)
		tellManager(os.Getenv, "STOPPING=1")
	case err = <-failed:
	}
	stop()
	return errors.Join(err, d.close(context.WithoutCancel(ctx)))
}

// takePrinted sends to the daemon's log what libraries print by the log package of
// the standard library, which would write to stderr: back undoes that.
func takePrinted(to *slog.Logger) (back func()) {
	writer, flags := log.Writer(), log.Flags()
	log.SetFlags(0)
	log.SetOutput(fusefs.LibraryLog(to))
	return func() {
		log.SetOutput(writer)
		log.SetFlags(flags)
	}
}

// collectEvery is how often old files are collected.
const collectEvery = time.Hour

// collect starts collecting old files. stop ends it, and waits until it has.
func (d *daemon) collect(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	c := workspace.Collector{Registry: d.registry, Door: d.space, Log: d.log.With("part", "collector")}
	go func() {
		defer close(done)
		c.Run(ctx, collectEvery)
	}()
	return func() {
		cancel()
		<-done
	}
}

// close lets go of what is there. It may be called on a daemon half made.
func (d *daemon) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var errs []error
	if d.metrics != nil {
		errs = append(errs, d.metrics.Close())
	}
	if d.listener != nil {
		api, stop := context.WithTimeout(ctx, 5*time.Second)
		errs = append(errs, d.server.Shutdown(api))
		stop()
		_ = os.Remove(d.socket)
		if d.guests != nil {
			removeAgents(agentSocketOf(d.socket))
		}
	}
	if d.hub != nil && d.leave {
		d.hub.Leave(ctx)
	} else if d.hub != nil {
		errs = append(errs, d.hub.Close(ctx))
	}
	if d.registry != nil {
		d.registry.Close()
	}
	if d.store.tree != nil {
		errs = append(errs, closeWithin(d.store, storeCloseTime))
	}
	return errors.Join(errs...)
}

// maxSocketPath is how many bytes the path of a unix socket may have (sun_path).
const maxSocketPath = 107

// listen makes the admin socket, in a directory that only this user can enter.
func listen(socket string) (net.Listener, error) {
	admin := filepath.Dir(socket)
	if err := os.MkdirAll(filepath.Dir(admin), 0o755); err != nil {
		return nil, localError(err)
	}
	if err := os.MkdirAll(admin, 0o700); err != nil {
		return nil, localError(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(admin, &st); err != nil {
		return nil, localError(err)
	}
	if st.Uid != uint32(os.Geteuid()) || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil, control.Errorf(control.KindDenied, "%s is not this user's own directory; name another place with --socket", admin)
	}
	if st.Mode&0o077 != 0 {
		return nil, control.Errorf(control.KindDenied,
			"%s may be entered by others (mode %04o); the admin socket needs a directory of mode 0700", admin, st.Mode&0o7777)
	}
	if err := clearSocket(socket); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("make the admin socket: %w", err)
	}
	return l, os.Chmod(socket, 0o600)
}

// clearSocket removes what a daemon that is gone left at socket. Error: nobody
// can listen there, or another daemon does.
func clearSocket(socket string) error {
	if len(socket) > maxSocketPath {
		return control.Errorf(control.KindInvalid, "%s: a socket's path has at most %d bytes; name a shorter one with --socket", socket, maxSocketPath)
	}
	if c, err := net.Dial("unix", socket); err == nil {
		_ = c.Close()
		return control.Errorf(control.KindConflict, "another daemon listens on %s; stop it first, or name another socket with --socket", socket)
	}
	if fi, err := os.Lstat(socket); err == nil && fi.Mode()&os.ModeSocket == 0 {
		return control.Errorf(control.KindInvalid, "%s is there and is no socket; name another place with --socket", socket)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return localError(err)
	}
	return nil
}

// mounter lets the API mount by fusefs.
type mounter struct {
	hub *fusefs.Hub
	log *slog.Logger
}

var _ server.Mounter = mounter{}

func (m mounter) Mount(ctx context.Context, s server.Mounting) (string, error) {
	o := s.View
	var inside []int
	if s.Recorded {
		inside = processesBelow(s.Dir)
	}
	got, err := m.hub.Mount(ctx, fusefs.Config{Agent: o.Agent, Root: o.Root, Access: o.Access, Dir: s.Dir, Exact: s.Recorded,
		UID: o.UID, GID: o.GID, AllowOther: s.AllowOther, ACL: o.ACL, Owners: o.Owners})
	if err != nil {
		return "", err
	}
	if len(inside) > 0 {
		m.log.Warn("processes are still in the mount of the daemon before: there they get ENOTCONN "+
			"(Transport endpoint is not connected) until they enter the directory anew (cd) and open their files again",
			"dir", got.Dir(), "pids", inside)
	}
	if s.Gone != nil {
		go func() {
			got.Wait()
			s.Gone(got.Taken())
		}()
	}
	return got.Dir(), nil
}

func (m mounter) find(dir string) *fusefs.Mount {
	for _, got := range m.hub.Mounts() {
		if got.Dir() == dir {
			return got
		}
	}
	return nil
}

func (m mounter) Unmount(ctx context.Context, dir string, force bool) error {
	got := m.find(dir)
	if got == nil {
		return &backend.Error{Op: "unmount", Path: dir, Kind: backend.NotFound}
	}
	err := got.Unmount(ctx, force)
	if errors.Is(err, fusefs.ErrElsewhere) {
		return errors.Join(server.ErrElsewhere, err)
	}
	if errors.Is(err, fusefs.ErrCovered) {
		return coveredError{err}
	}
	return err
}

// coveredError is an error of fusefs that the API knows as well.
type coveredError struct{ error }

// Unwrap gives both.
func (e coveredError) Unwrap() []error { return []error{server.ErrCovered, e.error} }

func (m mounter) TakeOver(ctx context.Context, fd int, s server.Mounting) (server.Handed, error) {
	o := s.View
	got, err := m.hub.TakeOver(ctx, fd, fusefs.Config{Agent: o.Agent, Root: o.Root, Access: o.Access, Dir: s.Dir,
		UID: o.UID, GID: o.GID, AllowOther: s.AllowOther, Owners: o.Owners})
	if err != nil {
		return server.Handed{}, err
	}
	return server.Handed{End: got.CutOff, Done: got.Done(), Ended: got.Ended()}, nil
}

func (m mounter) Clear(dir string) error { return fusefs.ClearDead(dir) }

func (m mounter) Mounted() []string {
	var dirs []string
	for _, got := range m.hub.Mounts() {
		dirs = append(dirs, got.Dir())
	}
	return dirs
}

func (m mounter) Elsewhere() []string {
	var dirs []string
	for _, got := range m.hub.Mounts() {
		if got.Elsewhere() {
			dirs = append(dirs, got.Dir())
		}
	}
	return dirs
}

// feedEvent is what an event of the feed takes in the store, about, in bytes.
const feedEvent = 150

// keptFeed reads how much of the feed is kept; "" is the default.
func keptFeed(age, size string) (kept feed.Options, err error) {
	if age != "" {
		if kept.MaxAge, err = workspace.ParseAge(age); err != nil {
			return kept, usagef("--feed-age %s: give a time of a minute at least, such as 30d or 36h, or never", age)
		}
		if kept.MaxAge == 0 {
			kept.MaxAge = math.MaxInt64
		}
	}
	if size != "" {
		bytes, err := parseAmount(size, 1024)
		if err != nil || bytes < 1<<20 {
			return kept, usagef("--feed-size %s: give a size of 1M at least, such as 300M or 2G", size)
		}
		kept.MaxEvents = bytes / feedEvent
	}
	return kept, nil
}
