package workspace

import (
	"bytes"
	"context"
	"strings"
	"unicode/utf8"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

const (
	maxSession = 64 << 20 // bytes of a session.md that is read
	// maxMessage is how long a message may be, in bytes: it is added as one
	// write, with its heading and a backslash for lines of it.
	maxMessage = 768 << 10
)

// Talk is a session with the workspace it belongs to.
type Talk struct {
	Session
	Workspace Workspace
	Path      string // tree path of the session.md
	New       bool   // there is no front matter yet
	Warning   string // why the file is not understood; "" if it is
}

// talkPlace finds the session.md of a device workspace, or of the asker's own
// home for "". NotFound: none in this view.
func (l *Layer) talkPlace(v *view.View, workspace string) (w Workspace, path string, err error) {
	if workspace == "" {
		a, err := l.agentOf(v)
		if err != nil {
			return w, "", err
		}
		w, err = l.reg.WorkspaceOf(a.Key)
		return w, "/agents/" + a.Key + "/session.md", err
	}
	unknown := fail(backend.NotFound, "no workspace %q", workspace)
	w, err = l.reg.Workspace(workspace)
	if err != nil {
		return w, "", unknown
	}
	switch w.Kind {
	case KindAgent:
		path = "/agents/" + w.Owner + "/session.md"
	case KindDevice:
		path = w.Path() + "/session.md"
	default:
		err = fail(backend.Invalid, "workspace %s is of kind %s, which has no session", workspace, w.Kind)
	}
	if _, hidden := v.Resolve(w.Path()); hidden != nil {
		return w, "", unknown
	}
	return w, path, err
}

// load reads the session at path. A file that is not understood is a warning and
// an empty session.
func (l *Layer) load(v *view.View, w Workspace, path string) (t Talk, data []byte, err error) {
	t = Talk{Workspace: w, Path: path}
	data, _, err = readHere(v, path, maxSession)
	switch {
	case isKind(err, backend.NotFound):
		t.New = true
		return t, nil, nil
	case isKind(err, backend.TooBig), isKind(err, backend.IsDir), isKind(err, backend.Invalid):
		t.Warning, err = "session.md is not understood: "+err.Error(), nil
	}
	if err != nil || t.Warning != "" {
		return t, nil, err
	}
	s, bad := decodeSession(data)
	switch {
	case bad != nil:
		t.Warning = "session.md is not understood: " + bad.Error()
		l.log.Warn("corrupt session", "path", path, "err", bad)
	case s == nil:
		t.New = true
	default:
		t.Session = *s
	}
	return t, data, nil
}

// ReadSession gives a session with its messages.
func (l *Layer) ReadSession(ctx context.Context, v *view.View, workspace string) (Talk, error) {
	w, path, err := l.talkPlace(v, workspace)
	if err != nil {
		return Talk{}, err
	}
	t, _, err := l.load(v, w, path)
	l.accessed(ctx, &w)
	return t, err
}

func (l *Layer) accessed(ctx context.Context, w *Workspace) {
	if w.Kind != KindDevice {
		return
	}
	if err := l.reg.Accessed(ctx, w.UUID); err != nil && !isKind(err, backend.NotFound) {
		l.log.Warn("an access was not noted", "workspace", w.UUID, "err", err)
	}
}

// defaults gives the provider and model that are configured, where none is
// given.
func (l *Layer) defaults(v *view.View, w *Workspace, provider, model string) (string, string) {
	if provider == "" {
		provider = w.Provider
	}
	if provider != "" && model != "" {
		return provider, model
	}
	where := ""
	if w.Kind == KindDevice {
		where = w.UUID
	}
	c, err := l.Config(v, where, nil)
	if err != nil {
		return provider, model
	}
	if provider == "" {
		provider = c.text("provider")
	}
	if model == "" && provider != "" {
		model = c.text("providers." + tomlKey(provider) + ".model")
	}
	return provider, model
}

// NewSession opens a session: what is there goes on, and provider and model, if
// given, hold from now on; a file with nothing in it gets its front matter.
func (l *Layer) NewSession(ctx context.Context, v *view.View, workspace, provider, model string) (Talk, error) {
	for what, s := range map[string]string{"provider": provider, "model": model} {
		if err := checkText(what, s, 200); err != nil {
			return Talk{}, err
		}
	}
	w, path, err := l.talkPlace(v, workspace)
	if err != nil {
		return Talk{}, err
	}
	defer l.lock(path)()
	t, data, err := l.load(v, w, path)
	if err != nil || t.Warning != "" {
		return t, err
	}
	l.accessed(ctx, &w)
	if t.New {
		p, m := l.defaults(v, &w, provider, model)
		t.Session, t.New = *newSession(p, m, l.reg.now()), false
	} else {
		if provider != "" {
			t.Provider = provider
			t.set("provider", provider)
		}
		if model != "" {
			t.Model = model
			t.set("model", model)
		}
	}
	if next := t.encode(); !bytes.Equal(next, data) && (provider != "" || model != "" || len(data) == 0) {
		_, err = v.PutHere(path, bytes.NewReader(next), 0)
	}
	return t, err
}

// AppendSession adds one message, as one step for all readers. Invalid: a role
// that is not kept, or text that is none; Conflict: the file is corrupt, and
// stays as it is.
func (l *Layer) AppendSession(ctx context.Context, v *view.View, workspace string, m Message) (path string, err error) {
	switch {
	case roleHeading(m.Role) == "":
		return "", fail(backend.Invalid, "role %q is not one of user, assistant, system: only their messages are kept", m.Role)
	case len(m.Text) > maxMessage:
		return "", fail(backend.TooBig, "a message has at most %d bytes", maxMessage)
	case !utf8.ValidString(m.Text) || strings.ContainsRune(m.Text, 0):
		return "", fail(backend.Invalid, "a message is UTF-8 text without NUL")
	}
	w, path, err := l.talkPlace(v, workspace)
	if err != nil {
		return "", err
	}
	defer l.lock(path)()
	t, data, err := l.load(v, w, path)
	if err != nil {
		return "", err
	}
	if t.Warning != "" {
		return "", fail(backend.Conflict, "%s: %s; it is left as it is (session clear begins a new one)", path, t.Warning)
	}
	l.accessed(ctx, &w)
	add := m.encode()
	switch {
	case t.New:
		p, model := l.defaults(v, &w, "", "")
		add = append(newSession(p, model, l.reg.now()).encode(), add...)
		_, err = v.PutHere(path, bytes.NewReader(add), 0)
		return path, err
	case !bytes.HasSuffix(data, []byte("\n")): // somebody's editor
		add = append([]byte("\n"), add...)
	}
	f, err := v.Find(path, false)
	for len(add) > 0 && err == nil {
		var res view.WriteResult
		if res, err = v.Append(nil, f.Attr.Node, add); err == nil {
			add = add[res.N:]
		}
	}
	return path, err
}

// ClearSession leaves a session with its front matter and no messages; a corrupt
// one gets new front matter.
func (l *Layer) ClearSession(ctx context.Context, v *view.View, workspace string) (Talk, error) {
	w, path, err := l.talkPlace(v, workspace)
	if err != nil {
		return Talk{}, err
	}
	defer l.lock(path)()
	t, _, err := l.load(v, w, path)
	if err != nil {
		return t, err
	}
	l.accessed(ctx, &w)
	if t.New || t.Warning != "" {
		p, m := l.defaults(v, &w, "", "")
		t.Session, t.New, t.Warning = *newSession(p, m, l.reg.now()), false, ""
	}
	t.Messages = nil
	_, err = v.PutHere(path, bytes.NewReader(t.encode()), 0)
	return t, err
}
