package workspace

import (
	"errors"
	"hash/fnv"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// Layer is what agents share and keep beyond plain files: items, fields,
// sessions, configuration, context. Each method takes the view of the agent that
// asks and does what that view may; what a rule of the layer lets an agent do
// besides, it does through a steward of that agent (publishing, the values of
// its fields). Methods may be called from any goroutine.
type Layer struct {
	reg    *Registry
	space  *view.Space
	config string // the store's config.toml on the host; "": there is none
	log    *slog.Logger

	locks [64]sync.Mutex // of read-change-write on one file, by its path

	mu      sync.Mutex
	schemas map[string]*fieldSchema  // by agent; guarded by mu
	turns   map[string]chan struct{} // by agent, of what may take much memory; guarded by mu
}

// LayerOptions are what a layer needs.
type LayerOptions struct {
	Registry *Registry
	Space    *view.Space
	Config   string       // path of the store's config.toml on the host; it need not exist
	Log      *slog.Logger // nil discards
}

// NewLayer makes the layer of one daemon. There must be one only: it orders the
// changes of fields and sessions.
func NewLayer(o LayerOptions) *Layer {
	l := &Layer{reg: o.Registry, space: o.Space, config: o.Config, log: o.Log, schemas: map[string]*fieldSchema{}, turns: map[string]chan struct{}{}}
	if l.log == nil {
		l.log = slog.New(slog.DiscardHandler)
	}
	return l
}

// maxTurns is how many calls that may take much memory (some 100 MiB: a long journal
// or session, a directory of a million items) one agent may have under way.
const maxTurns = 2

// turn waits until another such call of the view's agent may begin. It comes before
// all locks.
func (l *Layer) turn(v *view.View) (done func()) {
	l.mu.Lock()
	c := l.turns[v.Agent()]
	if c == nil { // there are as many as agents
		c = make(chan struct{}, maxTurns)
		l.turns[v.Agent()] = c
	}
	l.mu.Unlock()
	c <- struct{}{}
	return func() { <-c }
}

// lock holds the file at path against other changes by the layer.
func (l *Layer) lock(path string) (unlock func()) {
	h := fnv.New32a()
	_, _ = h.Write([]byte(path))
	m := &l.locks[h.Sum32()%uint32(len(l.locks))]
	m.Lock()
	return m.Unlock
}

// agentOf gives the record of the agent whose view it is. Invalid for the
// administrator's.
func (l *Layer) agentOf(v *view.View) (Agent, error) {
	if v.Agent() == "" {
		return Agent{}, fail(backend.Invalid, "which agent? the request names none")
	}
	return l.reg.Agent(v.Agent())
}

// isKind tells whether err is of kind k.
func isKind(err error, k backend.Kind) bool { return errors.Is(err, k) }

// checkFileName refuses what can be no file's name in UTF-8.
func checkFileName(what, s string) error {
	switch {
	case s == "" || s == "." || s == "..":
		return fail(backend.Invalid, "%s %q is no name", what, s)
	case len(s) > backend.MaxName:
		return fail(backend.Invalid, "%s: a name has at most %d bytes, and this one has %d", what, backend.MaxName, len(s))
	case strings.ContainsAny(s, "/\x00"):
		return fail(backend.Invalid, "%s %q: a name has no / and no NUL", what, s)
	}
	return nil
}

// looksText tells whether b, the beginning of a file, is UTF-8 text, but for a
// character that the end of b cuts.
func looksText(b []byte, whole bool) bool {
	for len(b) > 0 {
		if b[0] == 0 {
			return false
		}
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			return !whole && len(b) < utf8.UTFMax && !utf8.FullRune(b)
		}
		b = b[n:]
	}
	return true
}

// provenance tells who made the node and when, and when it was last changed,
// as far as the view may know. NotFound: it is gone.
func provenance(v *view.View, node backend.NodeID) (by string, made, changed time.Time, err error) {
	get := func(what string) string {
		b, e := v.GetXattr(nil, node, "user.warren."+what)
		if e != nil {
			err = e
		}
		return string(b)
	}
	made, _ = time.Parse(time.RFC3339Nano, get("created_at"))
	changed, _ = time.Parse(time.RFC3339Nano, get("modified_at"))
	return get("created_by"), made, changed, err
}

// readHere reads the regular file at a tree path, as it was at one moment, and
// follows no symlink at its end: who may make files beside those of the layer could
// lead others to what is theirs alone. Errors: NotFound; IsDir; Invalid for what is
// no regular file; TooBig for more than limit bytes, with the attributes.
func readHere(v *view.View, path string, limit uint64) (data []byte, a backend.Attr, err error) {
	data, a, _, err = readTagged(v, path, limit)
	return data, a, err
}

// readTagged is readHere that also gives the etag.
func readTagged(v *view.View, path string, limit uint64) (data []byte, a backend.Attr, etag string, err error) {
	for range 16 {
		f, err := v.Find(path, false)
		if err != nil {
			return nil, a, "", err
		}
		data, a, etag, err = readNode(v, &f.Attr, limit)
		if k, ok := err.(backend.Kind); ok {
			err = &backend.Error{Op: "read", Path: path, Kind: k}
		}
		if !isKind(err, backend.NotFound) {
			return data, a, etag, err
		}
	} // it was replaced each time
	return nil, a, "", fail(backend.Conflict, "%s changes too often to be read", path)
}

// readNode reads all of a file, which may grow meanwhile, and gives its etag.
// NotFound: it is gone.
func readNode(v *view.View, f *backend.Attr, limit uint64) (data []byte, a backend.Attr, etag string, err error) {
	a = *f
	switch {
	case a.IsDir():
		return nil, a, "", backend.IsDir
	case a.Type != backend.TypeRegular:
		return nil, a, "", backend.Invalid
	}
	for size := a.Size; size <= limit; size = a.Size {
		data = make([]byte, size+1)
		n := 0
		if n, a, etag, err = v.ReadAt(f.Node, data, 0); err != nil || uint64(n) <= size {
			return data[:n], a, etag, err
		}
	}
	return nil, a, "", backend.TooBig
}

// again does something anew that found a file which was then replaced.
func again(do func() error) error {
	var err error
	for range 16 {
		if err = do(); !isKind(err, backend.NotFound) {
			break
		}
	}
	return err
}
