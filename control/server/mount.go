package server

import (
	"cmp"
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

// stateElsewhere is the state of one that an umount(8) took out of the tree only.
const stateElsewhere = "unmounted, but a bind mount, another mount namespace or open files keep it alive; `warren umount --force` ends that"

// listMounts lists all mounts, to an agent its own and those of agents below it.
func (s *Server) listMounts(w http.ResponseWriter, r *http.Request) error {
	up := s.Mounts.Mounted()
	out := []control.Mount{}
	s.mu.Lock()
	for _, r := range s.runs {
		out = append(out, r.mount)
	}
	for _, h := range s.handed {
		out = append(out, h.mount)
	}
	mounts := s.Registry.Mounts()
	for _, m := range mounts {
		out = append(out, apiMount(m, s.failed[m.ID]))
	}
	s.mu.Unlock()
	away := s.Mounts.Elsewhere()
	for i := range mounts {
		m := &out[len(out)-len(mounts)+i]
		m.Root, _ = s.rootOf(mounts[i])
		if m.State == stateUp && slices.Contains(away, m.Dir) {
			m.State = stateElsewhere
		}
	}
	if by := askerOf(r); !by.administrator() {
		out = slices.DeleteFunc(out, func(m control.Mount) bool { return !s.isBelow(m.Agent, by.agent) })
	}
	for i, m := range out {
		if m.State == stateUp && !m.Inside && !slices.Contains(up, m.Dir) {
			out[i].State = "gone: it was unmounted, and will be forgotten in a few seconds"
		}
	}
	slices.SortFunc(out, func(a, b control.Mount) int { return strings.Compare(a.Dir, b.Dir) })
	return reply(w, out)
}

// Owners that a mount can show other agents' files with.
const (
	ownerAgent = "agent"
	ownerMount = "mount"
)

// checkOwner fails if owner is not a value of control.MountSpec.Owner.
func checkOwner(owner string) error {
	switch owner {
	case "", ownerAgent, ownerMount:
		return nil
	}
	return invalid("owner %q is not agent or mount", owner)
}

// apiMount gives a recorded mount, up unless why tells what keeps it down.
func apiMount(m workspace.Mount, why string) control.Mount {
	if why == "" {
		why = stateUp
	}
	return control.Mount{ID: m.ID, Dir: m.Dir, Agent: m.Agent, Root: m.Root, Access: m.Access,
		UID: m.UID, GID: m.GID, AllowOther: m.AllowOther, ACL: m.ACL, Owner: cmp.Or(m.Owner, ownerAgent), Since: m.Created, State: why}
}

func (s *Server) mount(w http.ResponseWriter, r *http.Request) error {
	var c control.MountSpec
	if err := input(r, &c); err != nil {
		return err
	}
	cred := peer(r)
	m := workspace.Mount{Agent: c.Agent, Dir: c.Dir, Root: c.Root, Access: c.Access,
		UID: cred.Uid, GID: cred.Gid, AllowOther: c.AllowOther, ACL: c.ACL, Owner: c.Owner}
	if err := checkOwner(c.Owner); err != nil {
		return err
	}
	if c.UID != nil {
		m.UID = *c.UID
	}
	if c.GID != nil {
		m.GID = *c.GID
	}
	if m.Root == "" {
		m.Root = "/"
	}
	_, m.Node = s.rootOf(m)
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
	if m.Dir, err = s.up(r.Context(), m, false); err != nil {
		return err
	}
	if err := s.forgetAt(r.Context(), m.Dir); err != nil { // one that was here before and is gone
		return errors.Join(err, s.Mounts.Unmount(context.WithoutCancel(r.Context()), m.Dir, true))
	}
	rec, err := s.Registry.AddMount(r.Context(), m)
	if err != nil {
		return errors.Join(err, s.Mounts.Unmount(context.WithoutCancel(r.Context()), m.Dir, true))
	}
	if err := s.Registry.AccessedPath(r.Context(), m.Root); err != nil && !errors.Is(err, backend.NotFound) {
		s.Log.Warn("an access was not noted", "root", m.Root, "err", err)
	}
	s.Log.Info("mounted", "agent", m.Agent, "dir", m.Dir, "root", m.Root, "access", m.Access, "uid", m.UID)
	return reply(w, apiMount(rec, ""))
}

// rootOf finds the directory that a mount shows: its node, if it is known and
// still there for the agent, wherever it is now; else what is at the recorded
// path. path is that one again where the agent sees no directory there.
func (s *Server) rootOf(m workspace.Mount) (path string, node uint64) {
	v, err := s.Space.Open(view.Options{Agent: m.Agent, UID: backend.OwnerID, GID: backend.OwnerID})
	if err != nil {
		return m.Root, m.Node
	}
	if m.Node != 0 {
		id := backend.NodeID(m.Node)
		if a, err := v.Getattr(nil, id); err == nil && a.IsDir() {
			if now, err := v.Path(id); err == nil {
				return now, m.Node
			}
		}
	}
	f, err := v.Find(m.Root, true)
	if err != nil || !f.Attr.IsDir() {
		return m.Root, m.Node
	}
	return f.Path, uint64(f.Attr.Node)
}

// up makes a mount and tells where it really is. mounting held.
func (s *Server) up(ctx context.Context, m workspace.Mount, recorded bool) (string, error) {
	access, err := mountAccess(m.Access)
	if err != nil {
		return "", err
	}
	dir := "" // guarded by mounting
	dir, err = s.Mounts.Mount(ctx, Mounting{Dir: m.Dir, Recorded: recorded, AllowOther: m.AllowOther,
		Gone: func(taken bool) { s.gone(&dir, taken) },
		View: view.Options{Agent: m.Agent, Root: m.Root, Access: access, UID: m.UID, GID: m.GID, ACL: m.ACL, Owners: m.Owner != ownerMount}})
	return dir, err
}

// forgetAfter is how long the record of a mount outlives its umount(8). When
// the host goes down, mounts go and the daemon is told to stop in any order; the
// next start must bring them back.
const forgetAfter = 5 * time.Second

// gone forgets the mount at *dir, which its user has unmounted, unless the
// daemon stops, or something is mounted there again. One whose connection somebody
// ended, and that was not unmounted, is remembered.
func (s *Server) gone(dir *string, taken bool) {
	after := s.forget
	if !taken {
		after = 0
	}
	select {
	case <-s.done:
		return
	case <-time.After(after):
	}
	s.mounting.Lock()
	defer s.mounting.Unlock()
	select {
	case <-s.done:
		return
	default:
	}
	if slices.Contains(s.Mounts.Mounted(), *dir) {
		return
	}
	if !taken {
		s.aborted(*dir)
		return
	}
	if err := s.forgetAt(context.Background(), *dir); err != nil {
		s.Log.Error("a mount that was unmounted stays recorded", "dir", *dir, "err", err)
	}
}

// aborted notes why what is recorded for dir is not up. mounting held.
func (s *Server) aborted(dir string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.Registry.Mounts() {
		if m.Dir == dir {
			s.failed[m.ID] = "its connection was ended by another than the daemon; `warren mount`, or the next start, makes it anew"
			s.Log.Error("a mount has lost its connection", "agent", m.Agent, "dir", dir)
		}
	}
}

// forgetAt forgets what is recorded for dir. mounting held.
func (s *Server) forgetAt(ctx context.Context, dir string) error {
	for _, m := range s.Registry.Mounts() {
		if m.Dir != dir {
			continue
		}
		if err := s.Registry.RemoveMount(ctx, m.ID); err != nil {
			return err
		}
		s.mu.Lock()
		delete(s.failed, m.ID)
		s.mu.Unlock()
		s.Log.Info("mount forgotten: it was unmounted by another than the daemon", "agent", m.Agent, "dir", dir)
	}
	return nil
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
	if i < 0 && !s.lingers(dir) {
		return failf(backend.NotFound, "no mount at %q; `warren mounts` lists them", dir)
	}
	err := s.Mounts.Unmount(r.Context(), dir, force)
	if errors.Is(err, backend.NotFound) {
		err = nil // recorded, but not up
	}
	var out control.Unmounted
	if errors.Is(err, ErrElsewhere) {
		out.Note = ErrElsewhere.Error() + "; with --force they get errors, and the directory can be mounted again"
		s.Log.Warn("what was unmounted is still in use elsewhere", "dir", dir)
		err = nil
	}
	if errors.Is(err, ErrCovered) {
		return err
	}
	if errors.Is(err, backend.Busy) {
		return failf(backend.Busy, "%s is in use; end the processes in it (`fuser -m %s` lists them), or say --force", dir, dir)
	}
	if err != nil {
		return err
	}
	if i < 0 {
		return reply(w, out)
	}
	if err := s.Registry.RemoveMount(r.Context(), mounts[i].ID); err != nil {
		return err
	}
	s.mu.Lock()
	delete(s.failed, mounts[i].ID)
	s.mu.Unlock()
	s.Log.Info("unmounted", "agent", mounts[i].Agent, "dir", dir)
	return reply(w, out)
}

// lingers tells whether a mount at dir that was unmounted, and forgotten, is kept
// alive elsewhere, so that nothing can be mounted there.
func (s *Server) lingers(dir string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		if r.mount.Dir == dir {
			return false
		}
	}
	return filepath.IsAbs(dir) && slices.Contains(s.Mounts.Mounted(), dir)
}

// Restore mounts the recorded mounts again; what a daemon that died left at
// their mountpoints is cleared. One that does not come back stays recorded;
// `warren mounts` tells why.
func (s *Server) Restore(ctx context.Context) {
	s.mounting.Lock()
	defer s.mounting.Unlock()
	for _, m := range s.Registry.Mounts() {
		start := time.Now()
		m.Root, _ = s.rootOf(m)
		if _, err := s.up(ctx, m, true); err != nil {
			s.Log.Error("mount did not come back", "agent", m.Agent, "dir", m.Dir, "err", err)
			s.mu.Lock()
			s.failed[m.ID] = text(err)
			s.mu.Unlock()
			continue
		}
		s.Log.Info("mounted again", "agent", m.Agent, "dir", m.Dir, "took", time.Since(start))
	}
}
