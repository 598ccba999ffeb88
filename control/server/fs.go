package server

import (
	"errors"
	"fmt"
	"net/http"
	"path"
	"sort"
	"strconv"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
)

// chunk is how many bytes of a file are read at once.
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
	f, err := v.Find(p, r.URL.Query().Get("follow") == "true")
	if err != nil {
		return err
	}
	n, err := nodeOf(v, f)
	if err != nil {
		return err
	}
	for name, to := range map[string]*string{"created_by": &n.CreatedBy, "created_at": &n.CreatedAt,
		"modified_by": &n.ModifiedBy, "modified_at": &n.ModifiedAt} {
		if b, err := v.GetXattr(nil, f.Attr.Node, "user.warren."+name); err == nil {
			*to = string(b)
		}
	}
	return reply(w, n)
}

// octal is how permission bits are written.
func octal(mode uint32) string { return fmt.Sprintf("%04o", mode) }

// nodeOf puts a node's facts into words.
func nodeOf(v *view.View, f view.Found) (control.Node, error) {
	etag, err := v.Etag(f.Attr.Node)
	if err != nil {
		return control.Node{}, err
	}
	return nodeAt(v, f, etag)
}

// nodeAt is nodeOf with an etag that is known.
func nodeAt(v *view.View, f view.Found, etag string) (control.Node, error) {
	a := &f.Attr
	n := control.Node{Etag: etag, Path: f.Path, Name: path.Base(f.Path), Type: typeNames[a.Type], Mode: octal(a.Mode),
		Size: a.Size, Links: a.Nlink, Inode: uint64(a.Node),
		Mtime: a.Mtime.Time(), Ctime: a.Ctime.Time(), Btime: a.Btime.Time()}
	if a.UID != backend.OwnerID {
		n.UID = &a.UID
	}
	if a.GID != backend.OwnerID {
		n.GID = &a.GID
	}
	var err error
	if a.Type == backend.TypeSymlink {
		n.Target, err = v.Readlink(nil, a.Node)
	}
	n.SetBytes()
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
	f, err := v.Find(p, true)
	if err != nil {
		return err
	}
	if !f.Attr.IsDir() {
		n, err := nodeOf(v, f)
		if err != nil {
			return err
		}
		return reply(w, []control.Node{n})
	}
	names, err := v.List(nil, f.Attr.Node)
	if err != nil {
		return err
	}
	limit, names, err := page(r, names)
	if err != nil {
		return err
	}
	list := &listWriter{w: w}
	for _, e := range names {
		if limit > 0 && list.n == limit {
			break
		}
		n, err := listed(v, f, e.Name)
		if errors.Is(err, backend.NotFound) || errors.Is(err, backend.Stale) {
			continue // removed meanwhile
		}
		if err != nil {
			return s.cutOff(list, p, err)
		}
		if list.add(n) != nil {
			return nil // the client hung up
		}
	}
	return list.end()
}

// page leaves out of names, which are sorted, those that the query does not ask
// for. limit 0: all.
func page(r *http.Request, names []view.Dirent) (limit int, left []view.Dirent, err error) {
	q := r.URL.Query()
	if q.Has("limit") {
		if limit, err = strconv.Atoi(q.Get("limit")); err != nil || limit < 1 {
			return 0, nil, invalid("limit %q is no number of names", q.Get("limit"))
		}
	}
	after := q.Get("after")
	first := sort.Search(len(names), func(i int) bool { return names[i].Name > after })
	return limit, names[first:], nil
}

// listed tells about one name in a directory.
func listed(v *view.View, dir view.Found, name string) (control.Node, error) {
	a, err := v.Lookup(nil, dir.Attr.Node, name)
	if err != nil {
		return control.Node{}, err
	}
	return nodeOf(v, view.Found{Attr: a, Dir: dir.Attr.Node, Name: name, Path: path.Join(dir.Path, name)})
}

func (s *Server) fsMkdir(w http.ResponseWriter, r *http.Request) error {
	var c control.MakeDir
	if err := input(r, &c); err != nil {
		return err
	}
	if err := c.Plain(); err != nil {
		return invalid("%v", err)
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
		err = v.MkdirAll(p, mode)
	} else {
		var dir backend.Attr
		var name string
		if dir, name, err = v.ResolveParent(p); err == nil {
			_, err = v.Mkdir(nil, dir.Node, name, mode)
		}
	}
	if err != nil {
		return err
	}
	f, err := v.Find(p, true)
	if err != nil {
		return err
	}
	return replyNode(w, v, f)
}

func replyNode(w http.ResponseWriter, v *view.View, f view.Found) error {
	n, err := nodeOf(v, f)
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
	if err := c.Plain(); err != nil {
		return invalid("%v", err)
	}
	v, err := s.files(c.Agent)
	if err != nil {
		return err
	}
	if c.From == "" || c.To == "" {
		return invalid("move: from where to where? both paths are needed")
	}
	from, fromName, err := movedName(v, place(c.Agent, c.From))
	if err != nil {
		return err
	}
	to, toName, err := moveTarget(v, place(c.Agent, c.To), fromName)
	if err != nil {
		return err
	}
	flags := view.NoReplace
	if c.Force {
		flags = 0
	}
	if c.IfMatch == "" {
		err = v.Rename(nil, from.Attr.Node, fromName, to.Attr.Node, toName, flags)
	} else {
		err = v.RenameIf(from.Attr.Node, fromName, to.Attr.Node, toName, flags, c.IfMatch)
	}
	if c.IfMatch != "" && errors.Is(err, backend.Conflict) {
		return s.moved(v, place(c.Agent, c.From), &backend.Error{Op: "move", Path: c.From, Kind: backend.Conflict, Err: err})
	}
	if errors.Is(err, backend.CrossVolume) {
		return failf(backend.CrossVolume, "%s and %s are in different volumes, and a rename stays in one; "+
			"copy what is there (`warren fs cat` and `fs put`, or cp in a mount) and then remove it", c.From, c.To)
	}
	if err != nil {
		return err
	}
	n, err := listed(v, to, toName)
	if err != nil {
		return err
	}
	return reply(w, n)
}

// movedName finds the directory and name of what is to be moved; a symlink at
// the end is moved itself. A slash at the end is for directories only.
func movedName(v *view.View, p string) (dir view.Found, name string, err error) {
	plain := strings.TrimRight(p, "/")
	if dir, name, err = parentOf(v, plain); err != nil || plain == p {
		return dir, name, err
	}
	f, err := v.Find(plain, false)
	if err == nil && !f.Attr.IsDir() {
		err = &backend.Error{Op: "move", Path: p, Kind: backend.NotDir}
	}
	return dir, name, err
}

// moveTarget finds where what is called name goes: as with mv(1), into a
// directory that is there.
func moveTarget(v *view.View, p, name string) (view.Found, string, error) {
	if f, err := v.Find(p, true); err == nil && f.Attr.IsDir() {
		return f, name, nil
	}
	return parentOf(v, strings.TrimRight(p, "/"))
}

// parentOf is ResolveParent with the parent's path.
func parentOf(v *view.View, p string) (view.Found, string, error) {
	_, name, err := v.ResolveParent(p)
	if err != nil {
		return view.Found{}, "", err
	}
	dir, err := v.Find(p[:len(p)-len(name)], true)
	return dir, name, err
}

func (s *Server) fsRemove(w http.ResponseWriter, r *http.Request) error {
	v, p, err := s.target(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	recursive, etag := q.Get("recursive") == "true", q.Get("if_match")
	switch {
	case etag == "":
		err = v.RemoveUntil(r.Context(), p, recursive)
	case recursive:
		err = invalid("remove: if_match is for one file, recursive for a directory")
	default:
		err = s.moved(v, p, v.RemoveIf(p, etag))
	}
	if err != nil {
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
