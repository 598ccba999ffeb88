package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/control/archive"
	"github.com/warrenfs/warren/policy/view"
)

// archiveView opens the view that an import or export goes through: the agent's,
// or the administrator's, and the tree path in it.
func (s *Server) archiveView(r *http.Request) (*view.View, string, error) {
	q := r.URL.Query()
	agent, p := q.Get("agent"), q.Get("path")
	if p == "" {
		return nil, "", invalid("which path? the request names none")
	}
	if agent != "" {
		v, err := s.files(agent)
		return v, place(agent, p), err
	}
	if !strings.HasPrefix(p, "/") {
		return nil, "", invalid("path %q: without an agent it starts with /", p)
	}
	v, err := s.Space.Open(view.Options{Administrator: true, UID: backend.OwnerID, GID: backend.OwnerID})
	return v, p, err
}

// queryOwner reads whose files are "the owner's"; nil: the request does not say.
func queryOwner(r *http.Request) (*archive.ID, error) {
	text := r.URL.Query().Get("owner")
	if text == "" {
		return nil, nil
	}
	var o archive.ID
	var rest string
	if n, err := fmt.Sscanf(text+" .", "%d:%d %s", &o.UID, &o.GID, &rest); n != 3 || err != nil || o.UID == backend.OwnerID || o.GID == backend.OwnerID {
		return nil, invalid("owner %q is not UID:GID", text)
	}
	return &o, nil
}

// treeImport makes the tree of a tar stream. The body is read to its end, into
// files without names, before anything gets one: so what is refused has changed
// nothing, and a daemon that dies leaves nothing.
func (s *Server) treeImport(w http.ResponseWriter, r *http.Request) error {
	v, p, err := s.archiveView(r)
	if err != nil {
		return err
	}
	owner, err := queryOwner(r)
	if err != nil {
		return err
	}
	start := time.Now()
	i := &importer{s: s, v: v, ctx: r.Context(), owner: owner, force: r.URL.Query().Get("force") == "true",
		in: archive.NewReader(r.Body, archive.Limits{}), links: map[string]backend.NodeID{}, buf: make([]byte, chunk)}
	if err := i.find(p); err != nil {
		return err
	}
	_ = http.NewResponseController(w).EnableFullDuplex() // a refusal need not wait for the rest
	err = i.run()
	i.report.Millis = time.Since(start).Milliseconds()
	if err != nil {
		w.Header().Set("Connection", "close")
		s.fail(w, r, refusal(err))
		_ = http.NewResponseController(w).Flush()
		s.drain(w, r, maxRest) // ends when the client has read the answer
		return nil
	}
	if !s.drain(w, r, maxPadding) {
		w.Header().Set("Connection", "close")
	}
	return reply(w, i.report)
}

// Bounds of what is read of a body behind its archive: what tar pads its last
// block with, and what a client sends that does not look at a refusal.
const (
	maxPadding = 8 << 20
	maxRest    = 1 << 30
	drainTime  = 10 * time.Second
)

// drain reads r's body to its end, and tells whether it got there: not where the
// body is longer than limit or takes longer than drainTime. In full duplex the
// server leaves that to us, and cannot use the connection again without.
func (s *Server) drain(w http.ResponseWriter, r *http.Request, limit int64) bool {
	ctl := http.NewResponseController(w)
	_ = ctl.SetReadDeadline(time.Now().Add(s.drainTime))
	if n, err := io.CopyN(io.Discard, r.Body, limit+1); n <= limit && err == io.EOF {
		return ctl.SetReadDeadline(time.Time{}) == nil
	}
	_ = ctl.SetReadDeadline(time.Now()) // the server's own attempt ends too
	return false
}

// refusal gives an archive's fault its kind.
func refusal(err error) error {
	var bad *archive.Error
	if errors.As(err, &bad) {
		return invalid("%v; nothing was changed", bad)
	}
	return err
}

// importer is one import under way.
type importer struct {
	s     *Server
	v     *view.View
	ctx   context.Context
	in    *archive.Reader
	owner *archive.ID
	force bool

	base   backend.NodeID // an existing directory
	prefix []string       // what the top of the archive is called below it; nothing: base itself
	path   string         // tree path of the top

	plan    *plan
	links   map[string]backend.NodeID // what later entries are hard links to, by path
	report  control.Transfer
	refused error // the first refusal of policy
	done    int64
	dirs    []madeDir
	buf     []byte
}

// madeDir is a directory whose times are set when everything is in it.
type madeDir struct {
	node backend.NodeID
	set  backend.SetAttr
}

// find finds where the archive's top goes.
func (i *importer) find(p string) error {
	f, err := i.v.Find(p, true)
	if err == nil {
		if !f.Attr.IsDir() {
			return &backend.Error{Op: "import", Path: p, Kind: backend.NotDir}
		}
		i.base, i.path = f.Attr.Node, f.Path
		i.report.Path = i.path
		return nil
	}
	if !errors.Is(err, backend.NotFound) {
		return err
	}
	dir, name, err := i.v.ResolveParent(p)
	if err != nil {
		return err
	}
	if !dir.IsDir() {
		return &backend.Error{Op: "import", Path: p, Kind: backend.NotDir}
	}
	i.base, i.prefix = dir.Node, []string{name}
	up, err := i.v.Path(dir.Node)
	i.path = strings.TrimSuffix(up, "/") + "/" + name
	i.report.Path = i.path
	return err
}

func (i *importer) run() error {
	var err error
	if i.plan, err = newPlan(); err != nil {
		return err
	}
	defer i.plan.close()
	defer i.drop()
	if err := i.stage(); err != nil {
		return err
	}
	if err := i.publish(); err != nil {
		if i.done > 0 {
			return &backend.Error{Op: "import", Path: i.path, Kind: backend.KindOf(err),
				Err: fmt.Errorf("after %d entries: %w", i.done, err)}
		}
		return err
	}
	if i.done == 0 && i.refused != nil {
		return i.refused
	}
	return i.s.Space.Sync(i.ctx)
}

// drop lets go of the nameless files: those without a name by now are gone.
func (i *importer) drop() {
	err := i.plan.each(func(p *planned) error {
		if p.Node != 0 {
			i.s.Space.Dropped(p.Node)
		}
		return nil
	})
	if err != nil {
		i.s.Log.Warn("import: nameless files stay until the next start", "err", err)
	}
}

// stage reads the whole archive.
func (i *importer) stage() error {
	for {
		if err := i.ctx.Err(); err != nil {
			return err
		}
		e, err := i.in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return i.bodyError(err)
		}
		p := planned{Entry: *e}
		if err := i.stageOne(&p); err != nil {
			if !i.policy(e.Path, err) {
				return err
			}
			continue
		}
		if err := i.plan.add(&p); err != nil {
			return err
		}
	}
}

// bodyError tells a fault of the archive from one of the connection.
func (i *importer) bodyError(err error) error {
	var bad *archive.Error
	if errors.As(err, &bad) {
		return err
	}
	if i.ctx.Err() != nil {
		return i.ctx.Err()
	}
	return invalid("read the archive: %v", err)
}

// policy notes an entry that policy refuses, and tells whether err is that.
func (i *importer) policy(path string, err error) bool {
	switch backend.KindOf(err) {
	case backend.Denied, backend.NotPermitted, backend.ReadOnly:
	default:
		return false
	}
	if i.refused == nil {
		i.refused = err
	}
	i.report.Skip(path, text(err))
	return true
}

// names are the components of an archive's path below base.
func (i *importer) names(p string) []string {
	if p == "." {
		return i.prefix
	}
	return append(i.prefix[:len(i.prefix):len(i.prefix)], strings.Split(p, "/")...)
}

// spot is where an entry goes.
type spot struct {
	dir  backend.NodeID // the deepest directory on the way that is there
	rest []string       // what is missing below it; nothing: node is there
	node backend.Attr   // what is there
}

// locate walks to where names lead, through directories only. Errors: Conflict
// where something else is in the way, Loop where it is a symlink.
func (i *importer) locate(names []string) (spot, error) {
	at := spot{dir: i.base}
	if len(names) == 0 {
		a, err := i.v.Getattr(nil, i.base)
		at.node = a
		return at, err
	}
	for n, name := range names {
		a, err := i.v.Lookup(nil, at.dir, name)
		if errors.Is(err, backend.NotFound) {
			at.rest = names[n:]
			return at, nil
		}
		if err != nil {
			return at, err
		}
		if n == len(names)-1 {
			at.node = a
			return at, nil
		}
		if !a.IsDir() {
			kind, why := backend.NotDir, "it is there already and is no directory"
			if a.Type == backend.TypeSymlink {
				kind, why = backend.Loop, "it is a symlink that is there already, and the archive would be written through it"
			}
			return at, &backend.Error{Op: "import", Path: strings.Join(names[:n+1], "/"), Kind: kind, Err: errors.New(why)}
		}
		at.dir = a.Node
	}
	return at, nil
}

// fits checks that e may take the place of what is at its spot.
func (i *importer) fits(e *archive.Entry, at *spot) error {
	if at.node.Node == 0 {
		return nil
	}
	isDir := e.Type == archive.Dir
	switch {
	case isDir && at.node.IsDir(), !isDir && !at.node.IsDir() && i.force:
		return nil
	case !isDir && !at.node.IsDir():
		return &backend.Error{Op: "import", Path: e.Path, Kind: backend.Exist, Err: errors.New("nothing was imported; --force replaces files")}
	}
	return &backend.Error{Op: "import", Path: e.Path, Kind: backend.Exist, Err: errors.New("one is a directory and the other is not")}
}

// stageOne checks where an entry goes and takes a file's content in.
func (i *importer) stageOne(p *planned) error {
	at, err := i.locate(i.names(p.Path))
	if err != nil {
		return err
	}
	if err := i.fits(&p.Entry, &at); err != nil {
		return err
	}
	switch p.Type {
	case archive.Hardlink:
		i.links[p.Link] = 0
	case archive.File:
		a, err := i.v.Tmpfile(nil, at.dir, p.Mode)
		if err != nil {
			return err
		}
		p.Node = a.Node
		if err := i.fill(p); err != nil {
			i.s.Space.Dropped(a.Node) // it is in no plan yet
			return err
		}
	}
	return nil
}

// fill writes a file's content, owner, mode, times and extended attributes.
func (i *importer) fill(p *planned) error {
	size := uint64(0)
	for {
		if err := i.ctx.Err(); err != nil {
			return err
		}
		n, rerr := view.ReadFull(i.in, i.buf)
		err := archive.Holes(i.buf[:n], int64(size), func(b []byte, off int64) error { return i.v.WriteFull(p.Node, b, uint64(off)) })
		if err != nil {
			return err
		}
		size += uint64(n)
		if errors.Is(rerr, io.EOF) {
			break
		}
		if rerr != nil {
			return i.bodyError(rerr)
		}
	}
	i.setXattrs(p.Path, p.Node, p.Xattrs)
	set := i.attrs(&p.Entry)
	a, err := i.v.Getattr(nil, p.Node)
	if err == nil && a.Size != size {
		_, err = i.v.Setattr(nil, p.Node, backend.SetAttr{Size: &size})
	}
	if err == nil {
		_, err = i.v.Setattr(nil, p.Node, set)
	}
	i.report.Bytes += int64(size)
	return err
}
