package workspace

import (
	"bytes"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

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
// agent's workspace. It creates the file there, or replaces all of what the publisher
// published under that name before. The publisher is its creator. The version before stays in
// HistoryDir. Errors: Conflict (the name is taken by anything else), Denied (the publisher is shared or has no access; the
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
	if err := l.publishable(v, p.Target, name); err != nil {
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
	return l.publishable(v, target, key)
}

// publishable does the same as MayPublish for an agent that may publish to target.
func (l *Layer) publishable(v *view.View, target, key string) error {
	s, err := l.space.Steward(v.Agent())
	if err != nil {
		return err
	}
	top := "/agents/" + target + "/workspace"
	if err := s.MayMake(top, key); isKind(err, backend.Denied) {
		return denied(key, target)
	} else if isKind(err, backend.NotFound) {
		return fail(backend.NotFound, "unknown target agent %q", target)
	}
	if err := checkPublished(key); err != nil {
		return err
	}
	old, err := s.Find(top+"/"+key, false)
	if err == nil {
		err = mayReplace(s, old, &view.Publication{Name: key, Own: !l.replaceable(target)})
	}
	if err != nil && !isKind(err, backend.NotFound) {
		return taken(key, target)
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
	if err := l.publishable(v, target, key); err != nil {
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

// maxCopies bounds how often what is too big to be read at once is copied again
// because it was changed, and how often a delivery that another overtook is tried.
const maxCopies = 3

// deliver writes an item into a shared agent's workspace, in place of what the
// publisher published under that name before. It follows no symlink that the shared
// agent may have put there.
func (l *Layer) deliver(v *view.View, target, key string, body func() io.Reader) (made bool, err error) {
	s, err := l.space.Steward(v.Agent())
	if err != nil {
		return false, err
	}
	for range maxCopies {
		err = again(func() (err error) {
			made, err = l.deliverOnce(s, target, key, body())
			return err
		})
		if !errors.Is(err, errChanging) && !isKind(err, backend.Exist) {
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
	case inTheWay(err):
		err = taken(key, target)
	}
	return made, err
}

// inTheWay reports whether a delivery failed because of what has the name already.
func inTheWay(err error) bool {
	for _, k := range []backend.Kind{backend.Exist, backend.Conflict, backend.IsDir, backend.NotDir, backend.Invalid, backend.Loop} {
		if isKind(err, k) {
			return true
		}
	}
	return false
}

// taken returns the error for everything that can be in the way: another agent's file,
// a directory, a link. The text is the same for all, so that nobody learns which.
func taken(key, target string) error {
	return fail(backend.Conflict, "%q cannot be published to %q: that name is taken by something that you did not publish under it, "+
		"or that was changed since; publish it under another name", key, target)
}

// deliverOnce does the same as deliver, but fails with Exist if another agent is quicker.
// s is the publisher's steward.
func (l *Layer) deliverOnce(s *view.View, target, key string, body io.Reader) (made bool, err error) {
	top := "/agents/" + target + "/workspace"
	p := &view.Publication{Name: key, Own: !l.replaceable(target), At: l.reg.now().UTC().Format(historyTime)}
	old, err := s.Find(top+"/"+key, false)
	made = isKind(err, backend.NotFound)
	if err == nil {
		if err = mayReplace(s, old, p); err == nil {
			p.Keep, err = historyOf(s, top, key)
		}
	}
	if err != nil && !made {
		return false, err
	}
	_, err = s.ReplaceHere(top+"/"+key, body, publishedMode, view.Cond{Absent: made, Publish: p})
	if err == nil && !made {
		if err := trimPublished(s, p.Keep); err != nil {
			l.log.Warn("old versions of a publication stay", "to", target, "err", err)
		}
	}
	return made, err
}

// publishedMode is the mode of every publication: no program bits, which are for
// the shared agent to set.
const publishedMode = 0o644

// replaceable reports whether the shared agent lets publications replace any file
// at the top of its workspace.
func (l *Layer) replaceable(target string) bool {
	t, err := l.reg.Agent(target)
	return err == nil && t.Publish == PublishAny
}

// mayReplace fails with a Conflict unless p may take the place of old.
func mayReplace(s *view.View, old view.Found, p *view.Publication) error {
	if old.Attr.Type != backend.TypeRegular {
		return fail(backend.Conflict, "it is not a regular file")
	}
	if !p.Own {
		return nil
	}
	return s.Published(old.Attr.Node, p.Name)
}

// HistoryDir is the directory of a shared agent's workspace where replaced
// publications stay, each as KEY/TIME.AGENT, where AGENT had changed it last.
const HistoryDir = ".published"

// historyTime orders the names of one publication's versions by time.
const historyTime = "20060102T150405.000000Z"

// historyOf returns the directory of a publication's versions, and creates it if it is
// missing.
func historyOf(s *view.View, top, key string) (backend.NodeID, error) {
	dir := top + "/" + HistoryDir
	for _, d := range []string{dir, dir + "/" + key} {
		if err := s.MkdirHere(d, 0o755); err != nil {
			return 0, err
		}
	}
	f, err := s.FindHere(dir + "/" + key)
	return f.Attr.Node, err
}

// maxVersions is the number of replaced versions of one publication that are kept for
// each agent that wrote them.
const maxVersions = 20

// trimPublished removes the oldest versions in dir that the publisher wrote. Those of
// others, and what stands there by another name, stay.
func trimPublished(s *view.View, dir backend.NodeID) error {
	names, err := s.List(nil, dir)
	if err != nil {
		return err
	}
	var versions []string
	for _, e := range names {
		at, own := strings.CutSuffix(e.Name, "."+s.Author())
		if _, err := time.Parse(historyTime, at); own && err == nil {
			versions = append(versions, e.Name)
		}
	}
	slices.Sort(versions)
	for _, name := range versions[:max(len(versions)-maxVersions, 0)] {
		if err := s.Unlink(nil, dir, name); err != nil && !isKind(err, backend.NotFound) {
			return err
		}
	}
	return nil
}

// checkPublished fails for a name that nothing can be published under: one that
// programs read by themselves, or take for an option, or that hides what it is.
func checkPublished(key string) error {
	if err := checkFileName("key", key); err != nil {
		return err
	}
	if key[0] == '.' || key[0] == '-' || strings.ContainsFunc(key, unicode.IsControl) {
		return fail(backend.Invalid, "key %q: a published name does not start with a dot or a hyphen, and has no control characters", key)
	}
	return nil
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
