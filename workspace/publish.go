package workspace

import (
	"bytes"
	"errors"
	"io"
	"path"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

// Publication is a copy of an item, or of a file, for a shared agent.
type Publication struct {
	Key, Path string // one of them
	Target    string // agent key
	TargetKey string // "": as the source is called
}

// publisher checks that the view's agent may publish at all.
func (l *Layer) publisher(v *view.View) (Agent, error) {
	a, err := l.agentOf(v)
	switch {
	case err != nil:
	case a.Role == policy.Shared:
		err = fail(backend.Denied, "agent %q is shared, and a shared agent cannot publish", a.Key)
	case v.Access() == view.None:
		err = fail(backend.Denied, "agent %q has no access", a.Key)
	}
	return a, err
}

// target checks that an agent can be published to. One that is not shared is
// told from one that does not exist only to those who see its home.
func (l *Layer) target(v *view.View, key string) error {
	t, err := l.reg.Agent(key)
	if err == nil && t.Role == policy.Shared {
		return nil
	}
	if err == nil {
		if _, err := v.Resolve("/agents/" + key); err == nil {
			return fail(backend.Invalid, "agent %q is not a shared agent; only to those can be published", key)
		}
	}
	return fail(backend.NotFound, "unknown target agent %q", key)
}

// SharedAgents lists the keys of the agents that the view's agent can publish
// to. Nobody can who is shared or has no access.
func (l *Layer) SharedAgents(v *view.View) []string {
	out := []string{}
	if _, err := l.publisher(v); err != nil {
		return out
	}
	for _, a := range l.reg.Agents() {
		if a.Role == policy.Shared {
			out = append(out, a.Key)
		}
	}
	return out
}

// Publish copies an item, or a file that the publisher may read, into a shared
// agent's workspace; there it is made or replaced whole, and the publisher is
// who made it. Errors: Denied (the publisher is shared or has no access; the
// deny-list), NotFound (the target is unknown, there is no such item), Invalid
// (the target is not shared; no key). The key it got is returned.
func (l *Layer) Publish(v *view.View, p Publication) (key string, err error) {
	if _, err := l.publisher(v); err != nil {
		return "", err
	}
	if err := l.target(v, p.Target); err != nil {
		return "", err
	}
	if (p.Key == "") == (p.Path == "") {
		return "", fail(backend.Invalid, "publish: give the key of an item or the path of a file, one of them")
	}
	from, id, name := p.Path, "", path.Base(p.Path)
	if p.Key != "" {
		if from, id, err = l.itemPath(v, p.Key); err != nil {
			return "", err
		}
		name = p.Key
	}
	if p.TargetKey != "" {
		name = p.TargetKey
	}
	if err := checkFileName("key", name); err != nil {
		return "", err
	}
	body, err := reader(v, from, id == "")
	if err != nil && id != "" {
		return "", itemError(err, p.Key, id)
	}
	if err != nil {
		return "", err
	}
	_, err = l.deliver(v, p.Target, name, body)
	return name, err
}

// MayPublish tells whether something can be published under a key: what
// PublishData would fail with before it writes.
func (l *Layer) MayPublish(v *view.View, target, key string) error {
	if _, err := l.publisher(v); err != nil {
		return err
	}
	if err := l.target(v, target); err != nil {
		return err
	}
	if err := checkFileName("key", key); err != nil {
		return err
	}
	s, err := l.space.Steward(v.Agent())
	if err != nil {
		return err
	}
	if err := s.MayMake("/agents/"+target+"/workspace", key); isKind(err, backend.Denied) {
		return denied(key, target)
	} else if err != nil {
		return fail(backend.NotFound, "unknown target agent %q", target)
	}
	return nil
}

func denied(key, target string) error {
	return fail(backend.Denied, "%q cannot be published to %q: the name is on the deny-list", key, target)
}

// PublishData is Publish of data that is at hand. made tells whether the key is
// new there.
func (l *Layer) PublishData(v *view.View, target, key string, data []byte) (made bool, err error) {
	if _, err := l.publisher(v); err != nil {
		return false, err
	}
	if err := l.target(v, target); err != nil {
		return false, err
	}
	if err := checkFileName("key", key); err != nil {
		return false, err
	}
	return l.deliver(v, target, key, func() io.Reader { return bytes.NewReader(data) })
}

// Withdraw takes back what the view's agent has just published under a key that
// was new there. It is no error if that is gone or another's by now.
func (l *Layer) Withdraw(v *view.View, target, key string) error {
	if _, err := l.publisher(v); err != nil {
		return err
	}
	s, err := l.space.Steward(v.Agent())
	if err != nil {
		return err
	}
	at := "/agents/" + target + "/workspace/" + key
	f, err := s.Find(at, false)
	if err != nil || f.Attr.Type != backend.TypeRegular {
		return nil
	}
	etag, err := s.Etag(f.Attr.Node)
	if err != nil {
		return nil
	}
	by, _, _, _ := provenance(s, f.Attr.Node)
	last, err := s.GetXattr(nil, f.Attr.Node, "user.warren.modified_by")
	if err != nil || by != v.Agent() || string(last) != by {
		return nil
	}
	err = s.RemoveIf(at, etag)
	if isKind(err, backend.NotFound) || isKind(err, backend.Conflict) { // another's by now
		return nil
	}
	return err
}

// maxCopies bounds how often what is too big to be read at once is copied anew, since
// it was changed meanwhile.
const maxCopies = 3

// deliver writes an item into a shared agent's workspace. It follows no symlink
// that the shared agent may have put there.
func (l *Layer) deliver(v *view.View, target, key string, body func() io.Reader) (made bool, err error) {
	s, err := l.space.Steward(v.Agent())
	if err != nil {
		return false, err
	}
	at := "/agents/" + target + "/workspace/" + key
	_, err = s.Find(at, false)
	made = isKind(err, backend.NotFound)
	for range maxCopies {
		err = again(func() error {
			_, err := s.PutHere(at, body(), 0)
			return err
		})
		if !errors.Is(err, errChanging) {
			break
		}
	}
	switch {
	case errors.Is(err, errChanging):
		err = &backend.Error{Op: "publish", Path: key, Kind: backend.Conflict, Err: errChanging}
	case err == nil:
		l.log.Info("published", "agent", v.Agent(), "to", target)
	case isKind(err, backend.NotFound):
		err = fail(backend.NotFound, "unknown target agent %q", target)
	case isKind(err, backend.Denied):
		err = denied(key, target)
	case isKind(err, backend.IsDir), isKind(err, backend.Invalid), isKind(err, backend.NotDir):
		err = fail(backend.Conflict, "%q cannot be published to %q: a directory, a link or something else that is no file has that name there; "+
			"publish it under another one", key, target)
	}
	return made, err
}

// reader reads the regular file at path, each time from its start: a small one as
// it is at one moment. follow: also where a symlink leads.
func reader(v *view.View, path string, follow bool) (func() io.Reader, error) {
	f, err := v.Find(path, follow)
	if err != nil {
		return nil, err
	}
	b, a, err := readHere(v, f.Path, MaxItem)
	if err == nil {
		return func() io.Reader { return bytes.NewReader(b) }, nil
	}
	if !isKind(err, backend.TooBig) {
		return nil, err
	}
	if _, err := v.Open(nil, a.Node, view.OpenFlags{Read: true}); err != nil {
		return nil, err
	}
	return func() io.Reader { return &nodeReader{v: v, node: a.Node} }, nil
}

// nodeReader reads a file from its start, as it is at one moment.
type nodeReader struct {
	v    *view.View
	node backend.NodeID
	off  uint64
	etag string // when it was begun
}

// errChanging says that what is read in steps was changed between them.
var errChanging = errors.New("it is being changed while it is copied; try again when it rests")

// Read reads on. A Conflict takes the place of io.EOF where the file was changed
// since the first Read.
func (r *nodeReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, _, etag, err := r.v.ReadAt(r.node, p, r.off)
	if r.off == 0 {
		r.etag = etag
	}
	r.off += uint64(n)
	switch {
	case err != nil:
	case etag != r.etag:
		err = &backend.Error{Kind: backend.Conflict, Err: errChanging}
	case n == 0:
		err = io.EOF
	}
	return n, err
}
