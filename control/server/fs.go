package server

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
)

// chunk is how many bytes of a file are handled at once.
const chunk = 1 << 20

// files opens the view of an agent for one request.
func (s *Server) files(agent string) (*view.View, error) {
	if agent == "" {
		return nil, invalid("which agent? the request names none")
	}
	if _, err := s.Registry.Agent(agent); err != nil {
		return nil, err
	}
	return s.Space.Open(view.Options{Agent: agent, UID: backend.OwnerID, GID: backend.OwnerID})
}

// place makes a tree path of one that may start in the agent's workspace. It
// is not cleaned: what .. means is for the view to say, after symlinks.
func place(agent, p string) string {
	if strings.HasPrefix(p, "/") {
		return p
	}
	return "/agents/" + agent + "/workspace/" + p
}

// target is the view and the tree path that a request's query names.
func (s *Server) target(r *http.Request) (*view.View, string, error) {
	q := r.URL.Query()
	p := q.Get("path")
	if p == "" {
		return nil, "", invalid("which path? the request names none")
	}
	v, err := s.files(q.Get("agent"))
	return v, place(q.Get("agent"), p), err
}

func (s *Server) fsStat(w http.ResponseWriter, r *http.Request) error {
	v, p, err := s.target(r)
	if err != nil {
		return err
	}
	a, err := lookup(v, p, r.URL.Query().Get("follow") == "true")
	if err != nil {
		return err
	}
	n, err := node(v, a, path.Base(p))
	if err != nil {
		return err
	}
	for name, to := range map[string]*string{"created_by": &n.CreatedBy, "created_at": &n.CreatedAt,
		"modified_by": &n.ModifiedBy, "modified_at": &n.ModifiedAt} {
		if b, err := v.GetXattr(nil, a.Node, "user.warren."+name); err == nil {
			*to = string(b)
		}
	}
	return reply(w, n)
}

// lookup finds the node at p, and follows a symlink at its end only if asked.
func lookup(v *view.View, p string, follow bool) (backend.Attr, error) {
	last := path.Base(p)
	if follow || strings.HasSuffix(p, "/") || last == "." || last == ".." {
		return v.Resolve(p)
	}
	dir, name, err := v.ResolveParent(p)
	if err != nil {
		return backend.Attr{}, err
	}
	return v.Lookup(nil, dir.Node, name)
}

// node puts a node's facts into words.
func node(v *view.View, a backend.Attr, name string) (control.Node, error) {
	p, err := v.Path(a.Node)
	if err != nil {
		return control.Node{}, err
	}
	n := control.Node{Path: p, Name: name, Type: typeNames[a.Type], Mode: fmt.Sprintf("%04o", a.Mode),
		Size: a.Size, Links: a.Nlink, Inode: uint64(a.Node),
		Mtime: a.Mtime.Time(), Ctime: a.Ctime.Time(), Btime: a.Btime.Time()}
	if a.UID != backend.OwnerID {
		n.UID = &a.UID
	}
	if a.GID != backend.OwnerID {
		n.GID = &a.GID
	}
	if a.Type == backend.TypeSymlink {
		n.Target, err = v.Readlink(nil, a.Node)
	}
	return n, err
}

var typeNames = map[backend.FileType]string{
	backend.TypeRegular: "file", backend.TypeDir: "dir", backend.TypeSymlink: "symlink", backend.TypeFIFO: "fifo",
	backend.TypeSocket: "socket", backend.TypeChar: "char", backend.TypeBlock: "block",
}

func (s *Server) fsList(w http.ResponseWriter, r *http.Request) error {
	v, p, err := s.target(r)
	if err != nil {
		return err
	}
	a, err := v.Resolve(p)
	if err != nil {
		return err
	}
	out := []control.Node{}
	if !a.IsDir() {
		n, err := node(v, a, path.Base(p))
		if err != nil {
			return err
		}
		return reply(w, append(out, n))
	}
	names, err := v.List(nil, a.Node)
	if err != nil {
		return err
	}
	for _, e := range names {
		n, err := listed(v, a.Node, e.Name)
		if errors.Is(err, backend.NotFound) || errors.Is(err, backend.Stale) {
			continue // removed meanwhile
		}
		if err != nil {
			return err
		}
		out = append(out, n)
	}
	return reply(w, out)
}

func listed(v *view.View, dir backend.NodeID, name string) (control.Node, error) {
	a, err := v.Lookup(nil, dir, name)
	if err != nil {
		return control.Node{}, err
	}
	return node(v, a, name)
}

func (s *Server) fsMkdir(w http.ResponseWriter, r *http.Request) error {
	var c control.MakeDir
	if err := input(r, &c); err != nil {
		return err
	}
	v, err := s.files(c.Agent)
	if err != nil {
		return err
	}
	p, mode := strings.TrimRight(place(c.Agent, c.Path), "/"), c.Mode
	if mode == 0 {
		mode = 0o755
	}
	if c.Path == "" || mode > 0o7777 {
		return invalid("mkdir: no path, or mode %o", mode)
	}
	if c.Parents {
		if err := v.MkdirAll(p, mode); err != nil {
			return err
		}
		a, err := v.Resolve(p)
		if err != nil {
			return err
		}
		return replyNode(w, v, a, p)
	}
	dir, name, err := v.ResolveParent(p)
	if err != nil {
		return err
	}
	a, err := v.Mkdir(nil, dir.Node, name, mode)
	if err != nil {
		return err
	}
	return replyNode(w, v, a, p)
}

func replyNode(w http.ResponseWriter, v *view.View, a backend.Attr, p string) error {
	n, err := node(v, a, path.Base(p))
	if err != nil {
		return err
	}
	return reply(w, n)
}

func (s *Server) fsMove(w http.ResponseWriter, r *http.Request) error {
	var c control.Move
	if err := input(r, &c); err != nil {
		return err
	}
	v, err := s.files(c.Agent)
	if err != nil {
		return err
	}
	if c.From == "" || c.To == "" {
		return invalid("move: from where to where? both paths are needed")
	}
	from, to := strings.TrimRight(place(c.Agent, c.From), "/"), place(c.Agent, c.To)
	// As mv(1): into a directory that is there.
	if a, err := v.Resolve(to); err == nil && a.IsDir() {
		to = strings.TrimRight(to, "/") + "/" + path.Base(from)
	}
	fromDir, fromName, err := v.ResolveParent(from)
	if err != nil {
		return err
	}
	toDir, toName, err := v.ResolveParent(strings.TrimRight(to, "/"))
	if err != nil {
		return err
	}
	flags := view.NoReplace
	if c.Force {
		flags = 0
	}
	if err := v.Rename(nil, fromDir.Node, fromName, toDir.Node, toName, flags); err != nil {
		return err
	}
	n, err := listed(v, toDir.Node, toName)
	if err != nil {
		return err
	}
	return reply(w, n)
}

func (s *Server) fsRemove(w http.ResponseWriter, r *http.Request) error {
	v, p, err := s.target(r)
	if err != nil {
		return err
	}
	if err := v.Remove(p, r.URL.Query().Get("recursive") == "true"); err != nil {
		return err
	}
	return ok(w)
}

// queryMode reads the mode of a write; 0: none given.
func queryMode(r *http.Request) (uint32, error) {
	text := r.URL.Query().Get("mode")
	if text == "" {
		return 0, nil
	}
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode == 0 || mode > 0o7777 {
		return 0, invalid("mode %q is not octal permission bits", text)
	}
	return uint32(mode), nil
}
