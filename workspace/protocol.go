package workspace

import (
	"bytes"
	"context"
	"io"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

// The protocol of a project: the files by which agents that share one tell each
// other what they did, what is open and what was decided.
const (
	journalName  = "journal.md"
	inboxName    = "inbox.md"
	readmeName   = "README.md"
	archiveDir   = "journal-archive"
	decisionsDir = "decisions"
	pointersDir  = ".pointers"

	// clock is how the protocol's files write a time, in UTC.
	clock = "2006-01-02 15:04"
	// maxProtocol bounds a file of the protocol that is read whole, and what is read
	// of a journal and its archive, in bytes.
	maxProtocol = 16 << 20
	// maxProse bounds what one call adds to such a file, in bytes.
	maxProse = 256 << 10
)

// ProjectDir is a project as a place to work in: a directory of an agent's
// workspace, or one that agents share.
type ProjectDir struct {
	Name   string // of the directory
	Path   string // tree path
	Shared bool   // it is at /projects
	node   backend.NodeID
}

// ProjectDir finds a project that the view's agent means: "" the active one, a
// tree path what is there, NAME a directory of the agent's workspace or else
// /projects/NAME. NotFound: none, or none in this view.
func (l *Layer) ProjectDir(v *view.View, name string) (ProjectDir, error) {
	a, err := l.agentOf(v)
	if err != nil {
		return ProjectDir{}, err
	}
	switch {
	case name == "" && a.Active == "":
		return ProjectDir{}, fail(backend.NotFound, "no project is active: name one, or make one active (`warren project switch`, workspace_switch)")
	case name == "":
		p, err := findProject(v, a.Active)
		if isKind(err, backend.NotFound) {
			err = fail(backend.NotFound, "the active project %s is not there any more; make another one active", a.Active)
		}
		return p, err
	case strings.HasPrefix(name, "/"):
		return findProject(v, name)
	}
	if err := checkFileName("project", name); err != nil {
		return ProjectDir{}, err
	}
	p, err := findProject(v, "/agents/"+a.Key+"/workspace/"+name)
	if isKind(err, backend.NotFound) {
		p, err = findProject(v, "/projects/"+name)
	}
	if isKind(err, backend.NotFound) {
		err = NoProject(name)
	}
	return p, err
}

// findProject finds the directory at a tree path. NotFound: none in this view;
// Invalid: it is no place for a project.
func findProject(v *view.View, at string) (ProjectDir, error) {
	f, err := v.Find(at, true)
	if err == nil && !f.Attr.IsDir() {
		err = backend.NotDir
	}
	if isKind(err, backend.NotFound) || isKind(err, backend.NotDir) || isKind(err, backend.Denied) {
		return ProjectDir{}, NoProject(at)
	}
	if err != nil {
		return ProjectDir{}, err
	}
	if _, _, ok := policy.PlaceOf(f.Path); !ok {
		return ProjectDir{}, fail(backend.Invalid, "%s stands above the trees of agents, users and projects: it is no project", f.Path)
	}
	return ProjectDir{Name: path.Base(f.Path), Path: f.Path, Shared: strings.HasPrefix(f.Path, "/projects/"), node: f.Attr.Node}, nil
}

// SwitchProject makes a project the active one of the view's agent; it stays so
// until the next switch, also over restarts. NotFound.
func (l *Layer) SwitchProject(ctx context.Context, v *view.View, name string) (ProjectDir, error) {
	p, err := l.ProjectDir(v, name)
	if err != nil {
		return p, err
	}
	return p, l.reg.setActive(ctx, v.Agent(), p.Path)
}

// setActive notes an agent's active project.
func (r *Registry) setActive(ctx context.Context, agent, at string) error {
	r.change.Lock()
	defer r.change.Unlock()
	a, err := r.Agent(agent)
	if err != nil || a.Active == at {
		return err
	}
	a.Active = at
	if err := r.put(ctx, map[string]any{string(recordKey(recAgent, agent)): &a}); err != nil {
		return err
	}
	r.locked(func() { r.agents[agent] = &a })
	return nil
}

// MyProjects lists the projects that the view's agent works in: the directories
// of its workspace, then what it sees at /projects; each by name. Names with a dot
// in front are left out.
func (l *Layer) MyProjects(v *view.View) ([]ProjectDir, error) {
	a, err := l.agentOf(v)
	if err != nil {
		return nil, err
	}
	out := []ProjectDir{}
	if at, seen := v.Sees("/agents/" + a.Key + "/workspace"); seen {
		names, err := v.Children(at.Node)
		if err != nil {
			return nil, err
		}
		for _, c := range names {
			if c.Type == backend.TypeDir && !strings.HasPrefix(c.Name, ".") {
				out = append(out, ProjectDir{Name: c.Name, Path: "/agents/" + a.Key + "/workspace/" + c.Name, node: c.Node})
			}
		}
	}
	for _, p := range l.reg.Projects() {
		if at, seen := v.Sees("/projects/" + p.Slug); seen {
			out = append(out, ProjectDir{Name: p.Slug, Path: "/projects/" + p.Slug, Shared: true, node: at.Node})
		}
	}
	return out, nil
}

// ActiveProject is the tree path of the active project of the view's agent; "":
// none.
func (l *Layer) ActiveProject(v *view.View) string {
	a, err := l.agentOf(v)
	if err != nil {
		return ""
	}
	return a.Active
}

// file is the tree path of a file of a project's, once it is certain that no
// symlink on the way leads elsewhere. Invalid: one does.
func (p ProjectDir) file(v *view.View, rel string) (string, error) {
	at := p.Path + "/" + rel
	for up := at; len(up) > len(p.Path); up = path.Dir(up) {
		f, err := v.Find(up, false)
		if isKind(err, backend.NotFound) {
			continue
		}
		if err != nil {
			return "", err
		}
		if f.Path != up || f.Attr.Type == backend.TypeSymlink {
			return "", fail(backend.Invalid, "%s is a symbolic link: the files of a project's protocol are files of the project", up)
		}
	}
	return at, nil
}

// read gives a file of a project's with its etag; nil and "": there is none. TooBig:
// it has more than limit bytes.
func (p ProjectDir) read(v *view.View, rel string, limit int) (data []byte, etag string, err error) {
	at, err := p.file(v, rel)
	if err != nil {
		return nil, "", err
	}
	err = again(func() error {
		f, err := v.FindHere(at)
		switch {
		case isKind(err, backend.NotFound):
			data, etag = nil, ""
			return nil
		case err != nil:
			return err
		case f.Attr.Type != backend.TypeRegular:
			return fail(backend.Invalid, "%s is not a file", at)
		case f.Attr.Size > uint64(limit):
			return fail(backend.TooBig, "%s has more than %d bytes", at, limit)
		}
		buf := make([]byte, f.Attr.Size+4096) // it may have grown
		n, attr, tag, err := v.ReadAt(f.Attr.Node, buf, 0)
		if err == nil && attr.Size > uint64(n) {
			return backend.NotFound // it grew more: once again
		}
		data, etag = buf[:n], tag
		return err
	})
	return data, etag, err
}

// tail gives the last limit bytes of a file of a project's, from the beginning of a
// line on; nil: there is none.
func (p ProjectDir) tail(v *view.View, rel string, limit int) ([]byte, error) {
	at, err := p.file(v, rel)
	if err != nil {
		return nil, err
	}
	var buf []byte
	err = again(func() error {
		f, err := v.Find(at, false)
		switch {
		case isKind(err, backend.NotFound):
			buf = nil
			return nil
		case err != nil:
			return err
		case f.Attr.Type != backend.TypeRegular:
			return fail(backend.Invalid, "%s is not a file", at)
		}
		size := f.Attr.Size // what is added meanwhile comes after it
		from := size - min(size, uint64(limit))
		buf = make([]byte, size-from)
		n, err := v.Read(nil, f.Attr.Node, buf, from)
		if buf = buf[:n]; from > 0 {
			_, buf, _ = bytes.Cut(buf, []byte("\n"))
		}
		return err
	})
	return buf, err
}

// amend changes a file of a project's, which need not be there: change is given
// what it has, and gives what it is to have; it may be called again. What others
// change meanwhile is not lost. TooBig: it has more than limit bytes, or would.
func (l *Layer) amend(v *view.View, p ProjectDir, rel string, limit int, change func(old []byte) ([]byte, error)) error {
	at, err := p.file(v, rel)
	if err != nil {
		return err
	}
	defer l.lock(at)()
	for range 256 {
		old, etag, err := p.read(v, rel, limit)
		if err != nil {
			return err
		}
		next, err := change(old)
		if err != nil {
			return err
		}
		if len(next) > max(len(old), limit) {
			return fail(backend.TooBig, "%s would have more than %d bytes: take out of it what is done with", at, limit)
		}
		if etag == "" {
			_, err = v.MakeHere(at, bytes.NewReader(next), 0)
		} else {
			err = amendFrom(v, at, old, next, etag)
		}
		if !changedMeanwhile(err) {
			return err
		}
		if _, gone := v.Resolve(p.Path); gone != nil {
			return gone
		}
	}
	return fail(backend.Conflict, "%s is being changed all the time; try again", at)
}

// amendFrom makes next of a file that had old, with an etag, as one step and in
// place: what others append by a handle comes after it. Errors: those of
// view.AmendFile.
func amendFrom(v *view.View, at string, old, next []byte, etag string) error {
	same := 0
	for same < min(len(old), len(next)) && old[same] == next[same] {
		same++
	}
	if same == len(old) && same == len(next) {
		return nil
	}
	_, err := v.AmendFile(at, uint64(same), next[same:], view.Cond{Match: etag})
	return err
}

// changedMeanwhile tells whether a change failed since another came before it.
func changedMeanwhile(err error) bool {
	return isKind(err, backend.Conflict) || isKind(err, backend.Exist) || isKind(err, backend.NotFound)
}

// makeFile makes a file of a project's that must not be there, with the
// directories above it.
func (p ProjectDir) makeFile(v *view.View, rel string, body io.Reader) (string, error) {
	at, err := p.file(v, rel)
	if err != nil {
		return "", err
	}
	if err := v.MkdirHere(path.Dir(at), 0o755); err != nil {
		return "", err
	}
	_, err = v.MakeHere(at, body, 0)
	return at, err
}

// checkLine wants one line of text; empty only if it may be.
func checkLine(what, s string, may bool) error {
	if strings.TrimSpace(s) == "" && !may {
		return fail(backend.Invalid, "%s: it is missing", what)
	}
	return checkText(what, s, 1000)
}

// checkProse wants text of any lines.
func checkProse(what, s string) error {
	if len(s) > maxProse || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return fail(backend.Invalid, "%s: at most %d bytes of UTF-8 text without NUL", what, maxProse)
	}
	return nil
}

// checkWhom wants what may follow an @: an agent's key, or "anyone".
func checkWhom(s string) error {
	if s != "" && (len(s) > 63 || strings.ContainsFunc(s, func(r rune) bool {
		return r != '_' && r != '-' && r != '.' && !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9')
	})) {
		return fail(backend.Invalid, "for %q: name one agent by its key, or leave it out for anyone", s)
	}
	return nil
}

// eol is how the lines of a text end.
func eol(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// lines gives each line of a text with where it starts and where the next one
// does; without its end.
func lines(text string, fn func(line string, start, end int)) {
	for start := 0; start < len(text); {
		end := len(text)
		if i := strings.IndexByte(text[start:], '\n'); i >= 0 {
			end = start + i + 1
		}
		fn(strings.TrimSuffix(strings.TrimSuffix(text[start:end], "\n"), "\r"), start, end)
		start = end
	}
}

// parseClock reads a time as hands may write it: a date, perhaps with a time of
// the day. ok: it is one.
func parseClock(s string) (t time.Time, ok bool) {
	s = strings.TrimSuffix(strings.Replace(strings.Join(strings.Fields(s), " "), "T", " ", 1), "Z")
	for _, layout := range []string{clock, "2006-01-02 15:04:05", "2006-01-02", "2006-01-02 3:04"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return t, false
}

// slug makes a part of a file name of a title.
func slug(title string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= 60 {
			break
		}
	}
	return strings.Trim(b.String(), "-")
}
