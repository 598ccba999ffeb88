package view

import (
	"errors"
	"strings"

	"github.com/warrenfs/warren/backend"
)

const (
	// maxLinks are followed in one path, as on Linux.
	maxLinks = 40
	// maxPath bounds a path, in bytes, as PATH_MAX does.
	maxPath = 4096
	// mountpoint is where views are mounted by convention: absolute symlinks
	// below it mean the tree.
	mountpoint = "/warren"
)

// step is a directory on the way, or the end of it.
type step struct {
	name string
	attr backend.Attr
}

// Found is what a path led to, and the name it was found by: a file with
// several names is found by the one that was asked for.
type Found struct {
	Attr backend.Attr
	Dir  backend.NodeID // the directory that has the name; of the view's root itself
	Name string         // "" for the view's root
	Path string         // tree path of that name, without symlinks and dots
}

// walk follows one path through a view, link by link.
type walk struct {
	v     *View
	steps []step // from the view's root to where the walk is
	todo  []string
	links int
	stop  bool // at a symlink that is the last name
	plain bool // no symlink is followed, anywhere: Loop
	quiet bool // what is hidden is not noted
	// create: the last name, wherever links lead, need not exist; it is then
	// put into absent.
	create bool
	absent string
	// make: directories that are missing are made, with mode; not where a symlink
	// leads. rest is how much of todo comes after what the last one leads to.
	make bool
	mode uint32
	rest int
}

// The methods below are the API's, for views without an Observer: they answer
// no kernel.

// Resolve finds what a tree path leads to, following symlinks inside the view;
// absolute ones must start with /warren/, which is the tree's root. Errors:
// NotFound, NotDir, Loop, Invalid (no absolute path), NameTooLong (a name, or a path
// of more than 4,096 bytes).
func (v *View) Resolve(path string) (backend.Attr, error) {
	f, err := v.Find(path, true)
	return f.Attr, err
}

// Find is Resolve that also tells by which name; a symlink at the end is
// followed if follow is set or the path ends with a slash. It has Resolve's
// errors.
func (v *View) Find(path string, follow bool) (Found, error) {
	return v.find(path, &walk{v: v, stop: !follow})
}

// FindHere is Find that follows no symlink: one at the end is what is found, one
// before that is Loop.
func (v *View) FindHere(path string) (Found, error) {
	return v.find(path, &walk{v: v, stop: true, plain: true})
}

func (v *View) find(path string, w *walk) (Found, error) {
	err := w.restart(path)
	if err == nil {
		err = w.run()
	}
	if err != nil {
		return Found{}, pathError("resolve", path, err)
	}
	f := Found{Attr: w.here().attr, Dir: v.root, Name: w.here().name, Path: v.rootPath}
	for i, s := range w.steps[1:] {
		f.Path = join(f.Path, s.name)
		f.Dir = w.steps[i].attr.Node
	}
	if w.absent != "" {
		return Found{Dir: f.Attr.Node, Name: w.absent, Path: join(f.Path, w.absent)}, nil
	}
	return f, nil
}

// join adds a name to a tree path.
func join(dir, name string) string { return strings.TrimSuffix(dir, "/") + "/" + name }

// ResolveParent resolves all but the last component, which need not exist.
// Errors: Resolve's; Invalid where there is no last one to name ("/", "a/..").
func (v *View) ResolveParent(path string) (dir backend.Attr, name string, err error) {
	path = strings.TrimRight(path, "/")
	cut := strings.LastIndexByte(path, '/')
	if cut < 0 {
		return backend.Attr{}, "", pathError("resolve", path, backend.Invalid)
	}
	name = path[cut+1:]
	if err := checkName(name); err != nil {
		return backend.Attr{}, "", pathError("resolve", path, err)
	}
	dir, err = v.Resolve(path[:cut] + "/")
	return dir, name, err
}

// pathError adds the path that was asked for to a plain kind.
func pathError(op, path string, err error) error {
	if k, ok := err.(backend.Kind); ok {
		return &backend.Error{Op: op, Path: path, Kind: k}
	}
	return err
}

func (w *walk) here() *step { return &w.steps[len(w.steps)-1] }

// restart puts the walk at the view's root, with the rest of an absolute tree
// path to go. NotFound for a path that does not start with the view's root;
// NameTooLong for one that no system call would take.
func (w *walk) restart(path string) error {
	switch {
	case len(path) > maxPath:
		return backend.NameTooLong
	case !strings.HasPrefix(path, "/"), strings.IndexByte(path, 0) >= 0:
		return backend.Invalid
	}
	todo := stepsOf(path)
	if w.v.rootPath != "/" {
		for _, name := range parts(w.v.rootPath) {
			if len(todo) == 0 || todo[0] != name {
				return backend.NotFound
			}
			todo = todo[1:]
		}
	}
	if w.steps == nil {
		a, err := w.v.look(func(c *call) error { return c.getattr(w.v.root) })
		if err != nil {
			return err
		}
		w.steps = []step{{attr: a}}
	}
	w.steps, w.todo = w.steps[:1], append(todo, w.todo...)
	return nil
}

// parts splits a path, leaving out "." and nothing.
func parts(path string) []string {
	var out []string
	for p := range strings.SplitSeq(path, "/") {
		if p != "" && p != "." {
			out = append(out, p)
		}
	}
	return out
}

// stepsOf is parts with one "." at the end of a path that means a directory:
// "a/", "a/.".
func stepsOf(path string) []string {
	out := parts(path)
	if last := path[strings.LastIndexByte(path, '/')+1:]; last == "" || last == "." {
		out = append(out, ".")
	}
	return out
}

func (w *walk) run() error {
	for len(w.todo) > 0 {
		name := w.todo[0]
		w.todo = w.todo[1:]
		if !w.here().attr.IsDir() {
			return backend.NotDir
		}
		if name == "." {
			continue
		}
		if name == ".." {
			if len(w.steps) > 1 {
				w.steps = w.steps[:len(w.steps)-1]
			}
			continue
		}
		a, err := w.v.look(func(c *call) error {
			c.silent = w.quiet
			return c.lookup(w.here().attr.Node, name)
		})
		if w.create && len(w.todo) == 0 && isNotFound(err) {
			w.absent = name
			return nil
		}
		if w.make && isNotFound(err) && !w.linked() {
			a, err = w.mkdir(name)
		}
		if err != nil {
			return err
		}
		if a.Type == backend.TypeSymlink && (!w.stop || len(w.todo) > 0) {
			if err = backend.Loop; !w.plain {
				err = w.follow(a.Node)
			}
		} else {
			w.steps = append(w.steps, step{name, a})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// linked tells whether the name that was taken off todo last is of a symlink's target.
func (w *walk) linked() bool { return w.links > 0 && len(w.todo) >= w.rest }

// mkdir makes a directory where the walk is.
func (w *walk) mkdir(name string) (backend.Attr, error) {
	dir := w.here().attr.Node
	a, err := w.v.Mkdir(nil, dir, name, w.mode)
	if errors.Is(err, backend.Exist) { // somebody else made it meanwhile
		return w.v.look(func(c *call) error { return c.lookup(dir, name) })
	}
	return a, err
}

func (w *walk) follow(link backend.NodeID) error {
	if !w.linked() {
		w.rest = len(w.todo)
	}
	if w.links++; w.links > maxLinks {
		return backend.Loop
	}
	s, err := w.v.ReadSymlink(nil, link)
	if err != nil {
		return err
	}
	target := s.Target
	if s.Guarded {
		if target, err = w.v.Follow(s, []Shown{{Dir: mountpoint, Root: "/"}}); err != nil {
			return err
		}
	}
	if !strings.HasPrefix(target, "/") {
		w.todo = append(stepsOf(target), w.todo...)
		return nil
	}
	rest, ok := strings.CutPrefix(target, mountpoint)
	if !ok || rest != "" && rest[0] != '/' {
		return backend.NotFound // out of the tree
	}
	return w.restart("/" + rest)
}

// look runs a look-up of the API: no kernel caches its answer.
func (v *View) look(fn func(*call) error) (backend.Attr, error) {
	c := v.begin("lookup", nil)
	defer c.end()
	c.watch = nil
	if err := fn(c); err != nil {
		return backend.Attr{}, err
	}
	return c.attr, nil
}

// getattr answers node's attributes.
func (c *call) getattr(node backend.NodeID) error {
	return c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		c.answerAttr(&pl)
		return nil
	})
}

// isNotFound tells whether err says that something is not there.
func isNotFound(err error) bool { return errors.Is(err, backend.NotFound) }

// trimLast takes the last component off a path.
func trimLast(path string) string {
	path = strings.TrimRight(path, "/")
	cut := strings.LastIndexByte(path, '/')
	if cut <= 0 {
		return "/"
	}
	return path[:cut]
}
