package workspace

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

const (
	maxSession = 16 << 20 // bytes of a session.md
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

	data []byte // of the file
	etag string // ""; there is no file, or none that could be read
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
func (l *Layer) load(v *view.View, w Workspace, path string) (t Talk, err error) {
	t = Talk{Workspace: w, Path: path}
	t.data, _, t.etag, err = readTagged(v, path, maxSession)
	switch {
	case isKind(err, backend.NotFound):
		t.New = true
		return t, nil
	case isKind(err, backend.TooBig), isKind(err, backend.IsDir), isKind(err, backend.Invalid):
		t.Warning, err = "session.md is not understood: "+err.Error(), nil
	}
	if err != nil || t.Warning != "" {
		return t, err
	}
	s, bad := decodeSession(t.data)
	switch {
	case bad != nil:
		t.Warning = "session.md is not understood: " + bad.Error()
		l.log.Warn("corrupt session", "path", path, "err", bad)
	case s == nil:
		t.New = true
	default:
		t.Session = *s
	}
	return t, nil
}

// changeTalk changes a session as often as it takes: what others write meanwhile, by
// a mount, is not lost. change is given the session and gives what its file is to
// have; nil: what it has.
func (l *Layer) changeTalk(ctx context.Context, v *view.View, workspace string, change func(*Talk) ([]byte, error)) (t Talk, err error) {
	defer l.turn(v)()
	w, path, err := l.talkPlace(v, workspace)
	if err != nil {
		return Talk{}, err
	}
	defer l.lock(path)()
	for range 256 {
		if t, err = l.load(v, w, path); err != nil {
			return t, err
		}
		absent := t.New && t.etag == ""
		next, err := change(&t)
		if err != nil {
			return t, err
		}
		l.accessed(ctx, &w)
		switch {
		case next == nil:
			return t, nil
		case absent:
			if _, err = v.MakeHere(path, bytes.NewReader(next), 0); isKind(err, backend.NotFound) {
				return t, err // the workspace is gone
			}
		case t.etag == "": // no file that could be read
			_, err = v.PutHere(path, bytes.NewReader(next), 0)
		default:
			err = amendFrom(v, path, t.data, next, t.etag)
		}
		if !changedMeanwhile(err) {
			return t, err
		}
	}
	return t, fail(backend.Conflict, "%s is being changed all the time; try again", path)
}

// ReadSession gives a session with its messages.
func (l *Layer) ReadSession(ctx context.Context, v *view.View, workspace string) (Talk, error) {
	defer l.turn(v)()
	w, path, err := l.talkPlace(v, workspace)
	if err != nil {
		return Talk{}, err
	}
	t, err := l.load(v, w, path)
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
	return l.changeTalk(ctx, v, workspace, func(t *Talk) ([]byte, error) {
		if t.New {
			p, m := l.defaults(v, &t.Workspace, provider, model)
			t.Session, t.New = *newSession(p, m, l.reg.now()), false
			return t.head(), nil
		}
		provider, model := cmp.Or(provider, t.Provider), cmp.Or(model, t.Model)
		if t.Warning != "" || provider == t.Provider && model == t.Model {
			return nil, nil
		}
		if provider != t.Provider {
			t.Provider = provider
			t.set("provider", provider)
		}
		if model != t.Model {
			t.Model = model
			t.set("model", model)
		}
		return append(t.head(), t.rest...), nil
	})
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
	t, err := l.changeTalk(ctx, v, workspace, func(t *Talk) ([]byte, error) {
		if t.Warning != "" {
			return nil, fail(backend.Conflict, "%s: %s; it is left as it is (session clear begins a new one)", t.Path, t.Warning)
		}
		next := t.data
		switch {
		case t.New:
			p, model := l.defaults(v, &t.Workspace, "", "")
			next = newSession(p, model, l.reg.now()).head()
		case !bytes.HasSuffix(next, []byte("\n")): // somebody's editor
			next = append(slices.Clip(next), '\n')
		}
		if next = append(slices.Clip(next), m.encode()...); len(next) > maxSession {
			return nil, fail(backend.TooBig, "%s would have more than %d bytes; session clear begins it anew", t.Path, maxSession)
		}
		return next, nil
	})
	return t.Path, err
}

// ClearSession leaves a session with its front matter and no messages; a corrupt
// one gets new front matter.
func (l *Layer) ClearSession(ctx context.Context, v *view.View, workspace string) (Talk, error) {
	return l.changeTalk(ctx, v, workspace, func(t *Talk) ([]byte, error) {
		if t.New || t.Warning != "" {
			p, m := l.defaults(v, &t.Workspace, "", "")
			t.Session, t.New, t.Warning = *newSession(p, m, l.reg.now()), false, ""
		}
		t.Messages = nil
		return t.head(), nil
	})
}
