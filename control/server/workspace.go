package server

import (
	"context"
	"net/http"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// ownView opens the view of who asks: the agent's of the token, or the
// administrator's; that one may name an agent to look through its eyes.
func (s *Server) ownView(r *http.Request, agent string) (*view.View, error) {
	if a := askerOf(r); !a.administrator() {
		return s.files(a.agent)
	}
	if agent != "" {
		return s.files(agent)
	}
	return s.Space.Open(view.Options{Administrator: true, UID: backend.OwnerID, GID: backend.OwnerID})
}

// deviceView is ownView for changes of device workspaces as such: the asker must
// have them in its view, and may write there.
func (s *Server) deviceView(r *http.Request) (*view.View, error) {
	v, err := s.ownView(r, "")
	if err != nil {
		return nil, err
	}
	if !managesDevices(v) {
		return nil, failf(backend.Denied, "device workspaces are not this agent's to manage")
	}
	return v, nil
}

func managesDevices(v *view.View) bool {
	d, seen := v.Sees("/workspaces/" + workspace.DefaultWorkspace)
	return seen && v.Allows(policy.Create, d.Node)
}

// deviceRoom finds the workspace of a device for who works through v: whoever
// manages devices gets a new one for a device that has none; to others there are
// those in their view. NotFound.
func (s *Server) deviceRoom(ctx context.Context, v *view.View, device string) (uuid string, err error) {
	if managesDevices(v) {
		room, _, err := s.Registry.ResolveDevice(ctx, device)
		return room.UUID, err
	}
	for _, b := range s.Registry.Devices() {
		if b.Device != device {
			continue
		}
		if w, err := s.Registry.Workspace(b.Workspace); err == nil {
			if _, seen := v.Sees(w.Path()); seen {
				return w.UUID, nil
			}
		}
	}
	return "", failf(backend.NotFound, "device %q has no workspace", device)
}

func (s *Server) apiWorkspace(w workspace.Workspace) control.Workspace {
	c := control.Workspace{UUID: w.UUID, Kind: w.Kind, Name: w.Name, Owner: w.Owner, Path: w.Path(),
		CreatedAt: w.Created, LastAccessed: w.Accessed, Provider: w.Provider}
	if w.Kind == workspace.KindDevice {
		for _, b := range s.Registry.Devices() {
			if b.Workspace == w.UUID {
				c.Devices = append(c.Devices, b.Device)
			}
		}
	}
	return c
}

func (s *Server) apiWorkspaces(ws []workspace.Workspace) []control.Workspace {
	out := []control.Workspace{}
	for _, w := range ws {
		out = append(out, s.apiWorkspace(w))
	}
	return out
}

func (s *Server) listWorkspaces(w http.ResponseWriter, r *http.Request) error {
	v, err := s.ownView(r, r.URL.Query().Get("agent"))
	if err != nil {
		return err
	}
	return reply(w, s.apiWorkspaces(s.Layer.SeenWorkspaces(v)))
}

func (s *Server) showWorkspace(w http.ResponseWriter, r *http.Request) error {
	v, err := s.ownView(r, r.URL.Query().Get("agent"))
	if err != nil {
		return err
	}
	room, err := s.Layer.SeenWorkspace(v, r.PathValue("uuid"))
	if err != nil {
		return err
	}
	return reply(w, s.apiWorkspace(room))
}

func (s *Server) createWorkspace(w http.ResponseWriter, r *http.Request) error {
	var c control.WorkspaceSpec
	if err := input(r, &c); err != nil {
		return err
	}
	if _, err := s.deviceView(r); err != nil {
		return err
	}
	room, err := s.Registry.CreateWorkspace(r.Context(), c.Name, c.Provider)
	if err != nil {
		return err
	}
	out := s.apiWorkspace(room)
	out.Created = true
	return reply(w, out)
}

func (s *Server) setWorkspace(w http.ResponseWriter, r *http.Request) error {
	var c control.WorkspaceChange
	if err := input(r, &c); err != nil {
		return err
	}
	v, err := s.ownView(r, "")
	if err != nil {
		return err
	}
	room, err := s.Layer.SetWorkspace(r.Context(), v, r.PathValue("uuid"), c.Name, c.Provider)
	if err != nil {
		return err
	}
	return reply(w, s.apiWorkspace(room))
}

func (s *Server) deleteWorkspace(w http.ResponseWriter, r *http.Request) error {
	v, err := s.deviceView(r)
	if err != nil {
		return err
	}
	room, err := s.Layer.SeenWorkspace(v, r.PathValue("uuid"))
	if err != nil {
		return err
	}
	s.mounting.Lock()
	defer s.mounting.Unlock()
	if room.Kind == workspace.KindDevice && s.mountsShow(room.Path()) {
		return failf(backend.Busy, "workspace %s is mounted; unmount it first", room.UUID)
	}
	if err := s.Registry.DeleteWorkspace(r.Context(), room.UUID, room.Accessed); err != nil {
		return err
	}
	return ok(w)
}

// mountsShow tells whether a recorded mount has its root at path or below. mounting
// is held, so that none comes meanwhile.
func (s *Server) mountsShow(path string) bool {
	for _, m := range s.Registry.Mounts() {
		if m.Root == path || strings.HasPrefix(m.Root, path+"/") {
			return true
		}
	}
	return false
}

func (s *Server) collectWorkspaces(w http.ResponseWriter, r *http.Request) error {
	var c control.Collection
	if err := input(r, &c); err != nil {
		return err
	}
	v, err := s.deviceView(r)
	if err != nil {
		return err
	}
	s.mounting.Lock()
	defer s.mounting.Unlock()
	gone, err := s.Layer.Collect(r.Context(), v, c.MaxAge, c.DryRun, s.mountsShow)
	if err != nil {
		return err
	}
	return reply(w, control.Collected{Removed: s.apiWorkspaces(gone), DryRun: c.DryRun})
}
