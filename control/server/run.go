package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// run is a mount held by one open request.
type run struct {
	agent string
	mount control.Mount
	stop  chan struct{} // closed: take the mount away
	gone  chan struct{} // closed: it is away
	once  sync.Once
}

func (r *run) end() { r.once.Do(func() { close(r.stop) }) }

// startRun mounts a view for one command, answers where, and holds it until
// the caller hangs up, endRun is asked for or the daemon stops.
func (s *Server) startRun(w http.ResponseWriter, r *http.Request) error {
	var c control.RunSpec
	if err := input(r, &c); err != nil {
		return err
	}
	a, err := s.Registry.Agent(c.Agent)
	if err != nil {
		return err
	}
	if a.Access == view.None.String() {
		return failf(backend.Denied, "agent %q has access none: it sees nothing, so no command can work as it; "+
			"`warren agent set %s --access rw` (or ro) lets it in", a.Key, a.Key)
	}
	uid, gid, err := runIDs(r, c, a)
	if err != nil {
		return err
	}
	access, err := mountAccess(c.Access)
	if err != nil {
		return err
	}
	at, err := s.readyRun(a, c, uid, gid)
	if err != nil {
		return err
	}
	id, dir, err := s.runDir(uid, gid)
	if err != nil {
		return err
	}
	m := Mounting{Dir: dir, View: view.Options{Agent: a.Key, Access: access, UID: uid, GID: gid, Owners: true}}
	s.mounting.Lock()
	if _, err = s.Mounts.Mount(r.Context(), m); err != nil {
		removeRunDir(dir)
	}
	s.mounting.Unlock()
	if err != nil {
		return err
	}
	held := &run{agent: a.Key, stop: make(chan struct{}), gone: make(chan struct{}), mount: control.Mount{
		ID: id, Dir: dir, Agent: a.Key, Root: "/", Access: access.String(), UID: uid, GID: gid,
		Owner: ownerAgent, Run: true, Since: time.Now().UTC(), State: stateUp}}
	s.mu.Lock()
	s.runs[id] = held
	s.mu.Unlock()
	defer s.dropRun(context.WithoutCancel(r.Context()), held)
	s.Log.Info("run started", "agent", a.Key, "id", id, "uid", uid)
	delegation, err := s.begin(r, "", a.Key, at.work)
	if err != nil { // a store without a feed
		s.Log.Debug("a run's changes are not told", "agent", a.Key, "err", err)
	}
	answer := control.Run{Delegation: delegation, ID: id, Dir: dir, UID: uid, GID: gid, Agent: apiAgent(a), Hide: s.hide(),
		Work: at.work, Home: at.home, Parts: at.parts}
	if err := reply(w, answer); err != nil {
		return nil // the caller hung up
	}
	if err := http.NewResponseController(w).Flush(); err != nil {
		return nil
	}
	select {
	case <-r.Context().Done():
	case <-held.stop:
	case <-s.done:
	}
	return nil
}

// hide lists the host's directories that a command must not see.
func (s *Server) hide() []string {
	return []string{s.Daemon.Store, s.Daemon.Runtime, filepath.Dir(s.Daemon.Socket)}
}

// dropRun takes a run's mount away.
func (s *Server) dropRun(ctx context.Context, r *run) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	s.mounting.Lock()
	err := s.Mounts.Unmount(ctx, r.mount.Dir, true)
	if errors.Is(err, backend.NotFound) {
		err = nil // somebody else was faster
	}
	if err == nil {
		removeRunDir(r.mount.Dir)
	}
	s.mounting.Unlock()
	if err != nil {
		s.Log.Error("run's mount did not go", "id", r.mount.ID, "dir", r.mount.Dir, "err", err)
	}
	s.mu.Lock()
	delete(s.runs, r.mount.ID)
	s.mu.Unlock()
	close(r.gone)
	s.Log.Info("run ended", "agent", r.agent, "id", r.mount.ID)
}

// removeRunDir removes a run's mountpoint, and the directory of its uid if that
// was its last. Both are empty.
func removeRunDir(dir string) {
	_ = os.Remove(dir)
	_ = os.Remove(filepath.Dir(dir))
}

func (s *Server) endRun(w http.ResponseWriter, r *http.Request) error {
	s.mu.Lock()
	held := s.runs[r.PathValue("id")]
	s.mu.Unlock()
	if held == nil {
		return ok(w) // it went by itself
	}
	held.end()
	select {
	case <-held.gone:
		return ok(w)
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

// noID is the number that means "leave it as it is" to chown(2).
const noID = ^uint32(0)

// runIDs decides who a command runs as: by default a uid of the agent's own
// where root asks, else the caller itself. Nobody but root may name another.
// Neither is 0 for what root runs: files of root's group are often readable to
// it. A caller who is in group 0 already gains nothing by it, and may.
func runIDs(r *http.Request, c control.RunSpec, a workspace.Agent) (uid, gid uint32, err error) {
	cred := peer(r)
	uid, gid = a.RunUID, a.RunUID
	if cred.Uid != 0 {
		uid, gid = cred.Uid, cred.Gid
	}
	if c.UID != nil {
		uid = *c.UID
		if cred.Uid == 0 {
			gid = uid
		}
	}
	if c.GID != nil {
		gid = *c.GID
	}
	switch {
	case cred.Uid != 0 && (uid != cred.Uid || gid != cred.Gid):
		return 0, 0, failf(backend.Denied, "only root may run a command as another user; run it as yourself")
	case uid == noID || gid == noID:
		return 0, 0, invalid("%d is no uid or gid", noID)
	case cred.Uid == 0 && uid != 0 && gid == 0:
		return 0, 0, failf(backend.Denied, "a command is not run in root's group: its files of the host may be readable to it; name another --gid")
	case uid == 0:
		return 0, 0, failf(backend.Denied, "a command is not run as root: root of the host reads what it likes")
	}
	return uid, gid, nil
}

// readyHome makes the directories that a command of a's has as home and /tmp.
func readyHome(v *view.View, a workspace.Agent, home string) error {
	for _, d := range []struct {
		path, use string
		linked    bool // a link to a directory does
	}{{home, "HOME", true}, {"/agents/" + a.Key + "/scratch/tmp", "/tmp", false}} {
		err := v.MkdirAll(d.path, 0o700)
		f, ferr := v.Find(d.path, false)
		if ferr == nil && !f.Attr.IsDir() && (err != nil || !d.linked) {
			what := "no directory"
			if f.Attr.Type == backend.TypeSymlink {
				what = "a symlink"
			}
			return failf(backend.Invalid, "a command of agent %q has %s as its %s, and that is %s; "+
				"remove it (`warren fs rm --agent %s %s`), and it is made anew", a.Key, d.path, d.use, what, a.Key, d.path)
		}
		if err != nil {
			return failf(backend.KindOf(err), "agent %q cannot have %s: %w", a.Key, d.path, err)
		}
	}
	return nil
}

// runDir makes the directory a run's mount is placed at, below one that only
// its user can enter.
func (s *Server) runDir(uid, gid uint32) (id, dir string, err error) {
	var b [6]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", "", err
	}
	id = hex.EncodeToString(b[:])
	top := filepath.Join(s.Daemon.Runtime, "runs")
	own := filepath.Join(top, strconv.FormatUint(uint64(uid), 10))
	s.mounting.Lock() // against dropRun removing it
	defer s.mounting.Unlock()
	if err := os.MkdirAll(top, 0o711); err != nil {
		return "", "", err
	}
	dir = filepath.Join(own, id)
	for _, d := range []string{own, dir} {
		if err := os.Mkdir(d, 0o700); err != nil && !os.IsExist(err) {
			return "", "", err
		}
		if err := os.Lchown(d, int(uid), int(gid)); err != nil {
			return "", "", err
		}
	}
	return id, dir, nil
}

// ClearRuns takes away the mounts of runs that a daemon which died left.
func (s *Server) ClearRuns() error {
	dirs, err := filepath.Glob(filepath.Join(s.Daemon.Runtime, "runs", "*", "*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range dirs {
		if err := s.Mounts.Clear(d); err != nil {
			errs = append(errs, err)
			continue
		}
		removeRunDir(d)
	}
	return errors.Join(errs...)
}
