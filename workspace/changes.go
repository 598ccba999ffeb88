package workspace

import (
	"cmp"
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// Change is what became of one file.
type Change struct {
	Path string   // tree path; of a removed one, the one that it had
	From string   // of a renamed one: the path that it had
	By   []string // keys of who did it, as far as the asker may know; "" the administrator
}

// Changes are what became of the files of a directory between two moments, each
// list by path. A path is in one list at most: added and the new ones of renamed
// were not there before, removed and the old ones of renamed are not there now,
// changed were there and are, with other content or as another file.
type Changes struct {
	Added, Changed, Renamed, Removed []Change
	Attributes                       []Change // the content is the same: mode, owner, times or extended attributes were set
	MadeDirs, RemovedDirs            []Change
}

// Empty tells that there is nothing.
func (c *Changes) Empty() bool {
	return len(c.Added)+len(c.Changed)+len(c.Renamed)+len(c.Removed)+len(c.Attributes)+len(c.MadeDirs)+len(c.RemovedDirs) == 0
}

// Span says which changes are asked for.
type Span struct {
	After uint64 // number of the feed
	Under string // tree path of a directory
	Agent string // only what this agent did; "": what anybody did
	Limit int    // events that are looked at, at most; 0: all
}

// feedStep is how many events are read at once.
const feedStep = 5000

// Changes folds the changes that the feed tells of into what became of the files,
// and gives the number to go on after. more: Limit was reached.
func (l *Layer) Changes(ctx context.Context, v *view.View, s Span) (out Changes, next uint64, more bool, err error) {
	f := newFold(s.Agent)
	next = s.After
	for looked := 0; ; looked += feedStep {
		if s.Limit > 0 && looked >= s.Limit {
			more = true
			break
		}
		events, to, err := v.Feed(ctx, next, feedStep)
		if err != nil {
			return out, next, false, err
		}
		for i := range events {
			f.take(&events[i])
		}
		if to == next {
			break
		}
		next = to
	}
	out, err = f.result(v, strings.TrimSuffix(s.Under, "/"))
	return out, next, more, err
}

// FeedNow gives the number of the feed as of now. Whatever is changed after this
// returns has a greater one.
func (l *Layer) FeedNow(ctx context.Context, v *view.View) (uint64, error) {
	now, err := v.FeedSince(ctx, l.reg.now().AddDate(100, 0, 0))
	if err != nil {
		return 0, err
	}
	_, now, err = v.Feed(ctx, now, feedStep) // what is being written goes on in an event of its own
	return now, err
}

// fold plays the events of the feed over a tree of which it knows nothing at
// first but that what they name was there.
type fold struct {
	agent string
	root  *spot
	was   map[string]*spot // by the path it had at the beginning: all that was touched
}

// spot is one node of the tree: one that was there at the beginning, or came.
type spot struct {
	was          string // tree path at the beginning; "" for one that came
	up           *spot  // nil: gone
	name         string
	kids         map[string]*spot // by name; nil: nothing there any more; those not in it are as at the beginning
	dir, file    bool             // known to be one
	like         *spot            // what took its place: it is a directory if that is one
	entered      bool             // it came with all that is below it
	wrote, attrs bool             // by who is asked for
	by           map[string]bool  // who is asked for, and changed, moved or removed it
	moved        map[string]bool  // who moved it
	took         map[string]bool  // who put it over what stood there
}

func newFold(agent string) *fold {
	root := &spot{was: "/", dir: true}
	root.up = root
	return &fold{agent: agent, root: root, was: map[string]*spot{}}
}

// at finds the spot of a tree path, which the event says is there.
func (f *fold) at(p string) *spot {
	if p == "/" || p == "" {
		return f.root
	}
	dir := f.at(path.Dir(p))
	dir.dir = true
	return f.kid(dir, path.Base(p))
}

func (f *fold) kid(dir *spot, name string) *spot {
	if k := dir.kids[name]; k != nil {
		return k
	}
	k := &spot{up: dir, name: name}
	if _, vacant := dir.kids[name]; !vacant && dir.was != "" {
		k.was = strings.TrimSuffix(dir.was, "/") + "/" + name
		f.was[k.was] = k
	}
	dir.set(name, k)
	return k
}

func (s *spot) set(name string, k *spot) {
	if s.kids == nil {
		s.kids = map[string]*spot{}
	}
	s.kids[name] = k
	if k != nil {
		k.up, k.name = s, name
	}
}

// put makes k stand at a path; what stood there is gone.
func (f *fold) put(p string, k *spot) {
	dir := f.at(path.Dir(p))
	dir.dir = true
	if old := dir.kids[path.Base(p)]; old != nil && old != k {
		old.up = nil
	}
	dir.set(path.Base(p), k)
}

// take plays one event.
func (f *fold) take(e *view.Event) {
	if e.Denied || e.Path == "" && e.To == "" {
		return
	}
	mine := f.agent == "" || e.Agent == f.agent
	mark := func(m *map[string]bool) {
		if mine {
			if *m == nil {
				*m = map[string]bool{}
			}
			(*m)[e.Agent] = true
		}
	}
	switch e.Op {
	case "write", "attr", "xattr":
		s := f.at(e.Path)
		if e.Op == "write" {
			s.file = true
			s.wrote = s.wrote || mine
		} else {
			s.attrs = s.attrs || mine
		}
		mark(&s.by)
	case "create", "mkdir", "symlink", "mknod", "link", "enter":
		p := e.Path
		if e.Op == "link" {
			p = e.To
		}
		s := &spot{dir: e.Op == "mkdir", file: e.Op != "mkdir" && e.Op != "enter", entered: e.Op == "enter"}
		mark(&s.by)
		f.put(p, s)
	case "unlink", "rmdir", "leave":
		s := f.at(e.Path)
		s.file, s.dir = s.file || e.Op == "unlink", s.dir || e.Op == "rmdir"
		s.by = nil // who takes it away has done it
		mark(&s.by)
		s.up.set(s.name, nil)
		s.up = nil
	case "rename":
		s := f.at(e.Path)
		if e.Replaced {
			over := f.at(e.To)
			over.like, over.by = s, nil // a directory replaces only directories
			mark(&over.by)
			mark(&s.took)
		}
		mark(&s.moved)
		s.up.set(s.name, nil)
		f.put(e.To, s)
	case "exchange":
		a, b := f.at(e.Path), f.at(e.To)
		mark(&a.moved)
		mark(&b.moved)
		mark(&a.took)
		mark(&b.took)
		up, name := b.up, b.name
		a.up.set(a.name, b)
		up.set(name, a)
	}
}

// now is the path that a spot has in the end. false: it is gone.
func (s *spot) now() (string, bool) {
	if s.up == s {
		return "/", true
	}
	if s.up == nil {
		return "", false
	}
	dir, ok := s.up.now()
	return strings.TrimSuffix(dir, "/") + "/" + s.name, ok
}

// movers are who moved s, or a directory that it is in.
func (s *spot) movers() map[string]bool {
	out := map[string]bool{}
	for at := s; at != nil && at.up != at; at = at.up {
		maps.Copy(out, at.moved)
	}
	return out
}

func keys(sets ...map[string]bool) []string {
	all := map[string]bool{}
	for _, s := range sets {
		maps.Copy(all, s)
	}
	return slices.Sorted(maps.Keys(all))
}

// verdict collects what became of each path.
type verdict struct {
	v     *view.View
	under string
	gone  map[string][]string // files that were there, by path: who took them away
	came  map[string]*arrival // files that stand where they did not
	out   Changes
}

type arrival struct {
	from string // path that it had, if it was there
	by   []string
}

// result says what became of what is below a directory.
func (f *fold) result(v *view.View, under string) (Changes, error) {
	r := &verdict{v: v, under: under, gone: map[string][]string{}, came: map[string]*arrival{}}
	if err := r.spot(f.root); err != nil {
		return r.out, err
	}
	for _, s := range f.was {
		if _, there := s.now(); !there {
			if err := r.lost(s); err != nil {
				return r.out, err
			}
		}
	}
	r.match()
	r.out.MadeDirs, r.out.RemovedDirs = apart(r.out.MadeDirs, r.out.RemovedDirs)
	byPath := func(a, b Change) int { return cmp.Compare(a.Path, b.Path) }
	for _, list := range []*[]Change{&r.out.Added, &r.out.Changed, &r.out.Renamed, &r.out.Removed, &r.out.Attributes, &r.out.MadeDirs, &r.out.RemovedDirs} {
		slices.SortFunc(*list, byPath)
	}
	return r.out, nil
}

// apart takes out of two lists the paths that are in both.
func apart(a, b []Change) (onlyA, onlyB []Change) {
	in := func(list []Change) map[string]bool {
		m := map[string]bool{}
		for _, c := range list {
			m[c.Path] = true
		}
		return m
	}
	inA, inB := in(a), in(b)
	return slices.DeleteFunc(a, func(c Change) bool { return inB[c.Path] }), slices.DeleteFunc(b, func(c Change) bool { return inA[c.Path] })
}

// in tells whether a path is below the directory that is asked about.
func (r *verdict) in(p string) bool { return strings.HasPrefix(p, r.under+"/") }

// add puts a change on a list, if it is asked for.
func (r *verdict) add(list *[]Change, c Change) {
	if len(c.By) > 0 && r.in(c.Path) {
		*list = append(*list, c)
	}
}

// spot judges a node that is there, and those below it.
func (r *verdict) spot(s *spot) error {
	at, _ := s.now()
	if s.up != s {
		if err := r.kind(s, at); err != nil {
			return err
		}
		switch {
		case s.file:
			r.file(s, at)
		case s.dir && s.was != at:
			r.movedDir(s, at)
		case s.dir && s.attrs:
			// a directory's own attributes are not told
		}
	}
	if s.dir && (s.entered || s.was != "" && s.was != at) {
		if err := r.below(s, at, s.was); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.kids)) {
		if k := s.kids[name]; k != nil {
			if err := r.spot(k); err != nil {
				return err
			}
		}
	}
	return nil
}

// kind finds out what a node is where the events did not tell.
func (r *verdict) kind(s *spot, at string) error {
	if s.file || s.dir {
		return nil
	}
	f, err := r.v.Find(at, false)
	if isKind(err, backend.NotFound) {
		s.file = true // gone by now, or out of the view
		return nil
	}
	s.dir, s.file = f.Attr.IsDir(), !f.Attr.IsDir()
	return err
}

func (r *verdict) file(s *spot, at string) {
	if s.was == at {
		if s.wrote {
			r.add(&r.out.Changed, Change{Path: at, By: keys(s.by)})
		} else if s.attrs {
			r.add(&r.out.Attributes, Change{Path: at, By: keys(s.by)})
		}
		return
	}
	by := keys(s.by, s.movers(), s.took)
	r.came[at] = &arrival{from: s.was, by: by}
	if s.was != "" {
		r.gone[s.was] = append(r.gone[s.was], by...)
	}
}

func (r *verdict) movedDir(s *spot, at string) {
	by := keys(s.by, s.movers())
	r.add(&r.out.MadeDirs, Change{Path: at, From: s.was, By: by})
	if s.was != "" {
		r.add(&r.out.RemovedDirs, Change{Path: s.was, By: by})
	}
}

// below judges what is below a directory that moved, or came with what is in it,
// and no event told of. was is the directory's old path; "" if it came.
func (r *verdict) below(s *spot, at, was string) error {
	f, err := r.v.Find(at, false)
	if isKind(err, backend.NotFound) || err == nil && !f.Attr.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	return r.tree(f.Attr.Node, at, was, s.kids, keys(s.by, s.movers()))
}

func (r *verdict) tree(dir backend.NodeID, at, was string, known map[string]*spot, by []string) error {
	names, err := r.v.Children(dir)
	if isKind(err, backend.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, c := range names {
		if _, told := known[c.Name]; told {
			continue
		}
		now, old := at+"/"+c.Name, ""
		if was != "" {
			old = was + "/" + c.Name
		}
		if c.Type == backend.TypeDir {
			r.add(&r.out.MadeDirs, Change{Path: now, From: old, By: by})
			if old != "" {
				r.add(&r.out.RemovedDirs, Change{Path: old, By: by})
			}
			if err := r.tree(c.Node, now, old, nil, by); err != nil {
				return err
			}
			continue
		}
		r.came[now] = &arrival{from: old, by: by}
		if old != "" {
			r.gone[old] = append(r.gone[old], by...)
		}
	}
	return nil
}

// lost notes a node that was there and is gone.
func (r *verdict) lost(s *spot) error {
	by := keys(s.by)
	dir, err := r.wasDir(s)
	if err != nil {
		return err
	}
	if dir {
		r.add(&r.out.RemovedDirs, Change{Path: s.was, By: by})
		return nil
	}
	r.gone[s.was] = append(r.gone[s.was], by...)
	return nil
}

// wasDir tells whether a node that is gone was a directory.
func (r *verdict) wasDir(s *spot) (bool, error) {
	for !s.dir && !s.file {
		if at, there := s.now(); there {
			err := r.kind(s, at)
			return s.dir, err
		}
		if s.like == nil {
			break
		}
		s = s.like
	}
	return s.dir, nil
}

// match says of each path whether it came, went, changed or moved.
func (r *verdict) match() {
	moved := map[string]bool{} // old paths of those that are renamed
	for at, a := range r.came {
		_, stood := r.gone[at]
		_, again := r.came[a.from]
		switch {
		case stood:
			r.add(&r.out.Changed, Change{Path: at, By: a.by})
		case a.from != "" && r.in(a.from) && r.in(at) && !again:
			r.add(&r.out.Renamed, Change{Path: at, From: a.from, By: a.by})
			moved[a.from] = true
		default:
			r.add(&r.out.Added, Change{Path: at, By: a.by})
		}
	}
	for at, by := range r.gone {
		if _, stands := r.came[at]; !stands && !moved[at] {
			slices.Sort(by)
			r.add(&r.out.Removed, Change{Path: at, By: slices.Compact(by)})
		}
	}
}
