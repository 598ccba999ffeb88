package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// stateUp is the state of a mount that works.
const stateUp = "up"

func (s *Server) listMounts(w http.ResponseWriter, _ *http.Request) error {
	up := s.Mounts.Mounted()
	out := []control.Mount{}
	s.mu.Lock()
	for _, r := range s.runs {
		out = append(out, r.mount)
	}
	for _, m := range s.Registry.Mounts() {
		out = append(out, apiMount(m, s.failed[m.ID]))
	}
	s.mu.Unlock()
	for i, m := range out {
		if m.State == stateUp && !slices.Contains(up, m.Dir) {
			out[i].State = "gone: it was unmounted behind the daemon's back"
		}
	}
	slices.SortFunc(out, func(a, b control.Mount) int { return strings.Compare(a.Dir, b.Dir) })
	return reply(w, out)
}

// apiMount gives a recorded mount, up unless why tells what keeps it down.
func apiMount(m workspace.Mount, why string) control.Mount {
	if why == "" {
		why = stateUp
	}
	return control.Mount{ID: m.ID, Dir: m.Dir, Agent: m.Agent, Root: m.Root, Access: m.Access,
		UID: m.UID, GID: m.GID, AllowOther: m.AllowOther, Since: m.Created, State: why}
}

func (s *Server) mount(w http.ResponseWriter, r *http.Request) error {
	var c control.MountSpec
	if err := input(r, &c); err != nil {
		return err
	}
	cred := peer(r)
	m := workspace.Mount{Agent: c.Agent, Dir: c.Dir, Root: c.Root, Access: c.Access,
		UID: cred.Uid, GID: cred.Gid, AllowOther: c.AllowOther}
	if c.UID != nil {
		m.UID = *c.UID
	}
	if c.GID != nil {
		m.GID = *c.GID
	}
	if m.Root == "" {
		m.Root = "/"
	}
	if m.Access == "" {
		m.Access = view.ReadWrite.String()
	}
	if _, err := s.Registry.Agent(m.Agent); err != nil {
		return err
	}
	if !filepath.IsAbs(m.Dir) {
		return invalid("mountpoint %q is not an absolute path", m.Dir)
	}
	s.mounting.Lock()
	defer s.mounting.Unlock()
	var err error
	if m.Dir, err = s.up(r.Context(), m); err != nil {
		return err
	}
	rec, err := s.Registry.AddMount(r.Context(), m)
	if err != nil {
		return errors.Join(err, s.Mounts.Unmount(context.WithoutCancel(r.Context()), m.Dir, true))
	}
	s.Log.Info("mounted", "agent", m.Agent, "dir", m.Dir, "root", m.Root, "access", m.Access, "uid", m.UID)
	return reply(w, apiMount(rec, ""))
}

// up makes a mount and tells where it really is. mounting held.
func (s *Server) up(ctx context.Context, m workspace.Mount) (string, error) {
	access, err := mountAccess(m.Access)
	if err != nil {
		return "", err
	}
	return s.Mounts.Mount(ctx, Mounting{Dir: m.Dir, AllowOther: m.AllowOther,
		View: view.Options{Agent: m.Agent, Root: m.Root, Access: access, UID: m.UID, GID: m.GID}})
}

// mountAccess reads a mount's access mode.
func mountAccess(s string) (view.Access, error) {
	switch s {
	case "", view.ReadWrite.String():
		return view.ReadWrite, nil
	case view.ReadOnly.String():
		return view.ReadOnly, nil
	}
	return 0, invalid("access mode %q of a mount is not rw or ro", s)
}

func failf(k backend.Kind, format string, args ...any) error {
	return &backend.Error{Kind: k, Err: fmt.Errorf(format, args...)}
}

func (s *Server) unmount(w http.ResponseWriter, r *http.Request) error {
	dir, force := r.URL.Query().Get("dir"), r.URL.Query().Get("force") == "true"
	s.mounting.Lock()
	defer s.mounting.Unlock()
	mounts := s.Registry.Mounts()
	i := slices.IndexFunc(mounts, func(m workspace.Mount) bool { return m.Dir == dir })
	if i < 0 {
		return failf(backend.NotFound, "no mount at %q; `warren mounts` lists them", dir)
	}
	err := s.Mounts.Unmount(r.Context(), dir, force)
	if errors.Is(err, backend.NotFound) {
		err = nil // recorded, but not up
	}
	if errors.Is(err, backend.Busy) {
		return failf(backend.Busy, "%s is in use; end the processes in it (`fuser -m %s` lists them), or say --force", dir, dir)
	}
	if err != nil {
		return err
	}
	if err := s.Registry.RemoveMount(r.Context(), mounts[i].ID); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.failed, mounts[i].ID)
	s.mu.Unlock()
	s.Log.Info("unmounted", "agent", mounts[i].Agent, "dir", dir)
	return ok(w)
}

// samePlace refuses a mountpoint whose recorded path, free of symlinks then, now
// leads through one: who may rename its parents would choose where it is mounted.
func samePlace(dir string) error {
	parent := filepath.Dir(dir)
	real, err := filepath.EvalSymlinks(parent)
	if err != nil || real == parent {
		return nil // what is missing, mounting says
	}
	return failf(backend.Denied, "%s now leads through a symbolic link to %s; `warren umount` it, and mount it where it should be", dir, real)
}

// Restore mounts the recorded mounts again; what a daemon that died left at
// their mountpoints is cleared. One that does not come back stays recorded;
// `warren mounts` tells why.
func (s *Server) Restore(ctx context.Context) {
	s.mounting.Lock()
	defer s.mounting.Unlock()
	for _, m := range s.Registry.Mounts() {
		start := time.Now()
		err := samePlace(m.Dir)
		if err == nil {
			_, err = s.up(ctx, m)
		}
		if err != nil {
			s.Log.Error("mount did not come back", "agent", m.Agent, "dir", m.Dir, "err", err)
			s.mu.Lock()
			s.failed[m.ID] = text(err)
			s.mu.Unlock()
			continue
		}
		s.Log.Info("mounted again", "agent", m.Agent, "dir", m.Dir, "took", time.Since(start))
	}
}
