package view

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/feed"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
)

// Space is the whole tree behind the door, one for a daemon. Its methods may be
// called from any goroutine.
type Space struct {
	tree   *tree.Tree
	engine *policy.Engine
	log    *slog.Logger
	root   backend.VolumeID
	feed   *feed.Feed // nil: none

	projects func(ctx context.Context, slug string) error // makes a project; nil: nobody does

	notifier Notifier      // set before the first Open
	denials  denials       // what agents were refused
	attached atomic.Uint64 // bumped when a volume is attached or detached

	change sync.Mutex // one change of rules or volumes at a time

	mu      sync.Mutex
	views   map[*View]struct{}        // guarded by mu: those with a Revoker
	orphans map[backend.NodeID]orphan // guarded by mu: nameless files, where keepsPlaces says so
	// strays are nameless nodes, with the roots of views that they had left; guarded by mu.
	strays map[backend.NodeID]map[backend.Ino]bool
	kept   kept
}

// New puts a door before t. log may be nil.
func New(t *tree.Tree, e *policy.Engine, log *slog.Logger) *Space {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Space{
		tree: t, engine: e, log: log, root: t.Root().Volume(), feed: t.Feed(),
		views: map[*View]struct{}{}, orphans: map[backend.NodeID]orphan{},
		strays: map[backend.NodeID]map[backend.Ino]bool{},
	}
}

// SetNotifier names who tells the mounts of changes. To be called once, before
// the first Open.
func (s *Space) SetNotifier(n Notifier) {
	s.notifier = n
	s.tree.SetInUse(n.InUse)
}

// SetProjects names who makes a project when an orchestrator makes a directory in
// /projects. It must make the volume before it returns. Errors: Exist, Invalid (no
// slug). To be called before the first Open; without it such a mkdir is Denied.
func (s *Space) SetProjects(fn func(ctx context.Context, slug string) error) { s.projects = fn }

// makeProject makes what stands in /projects. No lock is held.
func (s *Space) makeProject(slug string) error {
	if s.projects == nil {
		return backend.Denied
	}
	if err := s.projects(context.Background(), slug); err != nil {
		return backend.KindOf(err)
	}
	return nil
}

// Engine is what decides here.
func (s *Space) Engine() *policy.Engine { return s.engine }

// Check tells what Publish would say to f, and changes nothing.
func (s *Space) Check(f policy.Facts) error {
	if err := s.engine.Check(f); err != nil {
		return &backend.Error{Op: "check policy", Kind: backend.Invalid, Err: err}
	}
	return nil
}

// Dropped tells that no mount holds node any more, or did at a time: an unlinked
// file goes, unless a mount has come to hold it since, by a name that it had then.
func (s *Space) Dropped(node backend.NodeID) {
	if s.notifier == nil || !s.notifier.InUse(node) {
		s.kept.dropNode(node)
	}
	if _, there := s.tree.Volume(node.Volume()); !there {
		s.forgetPlace(node)
		return
	}
	s.tree.DroppedIf(node, func() bool {
		if s.notifier != nil && s.notifier.InUse(node) {
			return false
		}
		s.forgetPlace(node)
		return true
	})
}

// forgetPlace forgets what is remembered of a node without a name.
func (s *Space) forgetPlace(node backend.NodeID) {
	s.mu.Lock()
	delete(s.orphans, node)
	delete(s.strays, node)
	s.mu.Unlock()
}

// Sync returns when everything acknowledged so far is on disk.
func (s *Space) Sync(ctx context.Context) error { return s.tree.Sync(ctx) }

// Denials lists what agent was refused, newest last, at most 1,000, equal ones
// counted. Agent "" is the administrator's list: everybody's, with what they
// may not know of.
func (s *Space) Denials(agent string) []Denial { return s.denials.list(agent) }

// DenialCounts tells how often agents, all together, were refused something they
// see, and how often they were told that something hidden does not exist.
func (s *Space) DenialCounts() (refused, hidden uint64) {
	return s.denials.refused.Load(), s.denials.hidden.Load()
}

// Open makes a view. Errors: Invalid (a malformed Root), NotFound (unknown
// agent, or it does not see Root), NotDir. A view whose Observer is a Revoker
// must be closed.
func (s *Space) Open(o Options) (*View, error) {
	if o.Access > None {
		return nil, backend.Invalid
	}
	v := &View{s: s, o: o, root: s.tree.Root(), rootPath: "/"}
	if o.Administrator && o.Agent != "" {
		return nil, backend.Invalid
	}
	if _, known := s.resolve(&o); !known {
		return nil, &backend.Error{Op: "open view", Agent: o.Agent, Kind: backend.NotFound, Err: errors.New("no such agent")}
	}
	if o.Root != "" && strings.Trim(o.Root, "/") != "" {
		f, err := v.Find(o.Root, true)
		if err == nil && !f.Attr.IsDir() {
			err = backend.NotDir
		}
		if err != nil {
			return nil, badRoot(o.Root, err)
		}
		v.root, v.rootPath = f.Attr.Node, f.Path
	}
	if _, ok := o.Observer.(Revoker); ok {
		s.mu.Lock()
		s.views[v] = struct{}{}
		s.mu.Unlock()
	}
	return v, nil
}

// badRoot says what the root of a view has to be, of one that does not exist
// there, is no directory or no tree path.
func badRoot(path string, err error) error {
	kind := backend.KindOf(err)
	if kind != backend.NotFound && kind != backend.NotDir && kind != backend.Invalid {
		return err
	}
	return &backend.Error{Op: "open view at", Path: path, Kind: kind,
		Err: errors.New("its root must be the tree path, from /, of a directory that the agent sees")}
}

// resolve finds the principal that o names.
func (s *Space) resolve(o *Options) (*policy.Principal, bool) {
	if o.Administrator {
		return s.engine.Administrator(mode(o.Access))
	}
	return s.engine.Principal(o.Agent, mode(o.Access))
}

// mode is the policy's name for a mount's access.
func mode(a Access) policy.AccessMode { return policy.AccessMode(a) }
