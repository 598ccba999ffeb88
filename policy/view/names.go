package view

import (
	"errors"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
)

// Lookup finds what name in directory parent leads to. Errors: NotFound,
// NotDir, Invalid, NameTooLong.
func (v *View) Lookup(r *Request, parent backend.NodeID, name string) (backend.Attr, error) {
	c := v.begin("lookup", r)
	defer c.end()
	if err := c.lookup(parent, name); err != nil {
		return backend.Attr{}, err
	}
	return c.attr, nil
}

func (c *call) lookup(parent backend.NodeID, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	var child backend.NodeID
	err := c.in(parent, func(c *call) error {
		var dir place
		if err := c.dir(parent.Ino(), &dir); err != nil {
			return err
		}
		if err := c.permit(&dir, MayExec); err != nil {
			return err
		}
		id, err := c.find(&dir, name)
		if errors.Is(err, backend.NotFound) {
			if c.watch != nil {
				c.watch.Negative(parent, name)
			}
			return backend.NotFound
		}
		if err != nil {
			return err
		}
		if id.Volume() != c.vol {
			child = id
			return nil
		}
		return c.answerEntry(parent, name, id.Ino())
	})
	if err != nil || child == 0 {
		return err
	}
	// The root of another volume. It stays attached while its lock can be had.
	return c.in(child, func(c *call) error { return c.answerEntry(parent, name, child.Ino()) })
}

// find looks name up in dir, if the view may know of it.
func (c *call) find(dir *place, name string) (backend.NodeID, error) {
	if !c.nameSeen(dir, name) {
		return 0, c.hidden(c.label, dir, name)
	}
	id, _, err := c.tx.Lookup(dir.ino(), name)
	return id, err
}

// answerEntry makes ino the answer as name in parent.
func (c *call) answerEntry(parent backend.NodeID, name string, ino backend.Ino) error {
	var pl place
	if err := c.seen(ino, &pl); err != nil {
		return err
	}
	c.v.s.kept.drop(c.v, pl.attr.Node)
	c.show(&pl)
	if c.watch != nil {
		c.watch.Entry(parent, name, &c.attr)
	}
	return nil
}

// Mkdir makes a directory. Errors: Exist, NotFound, NotDir, Denied, ReadOnly,
// NoSpace.
func (v *View) Mkdir(r *Request, parent backend.NodeID, name string, mode uint32) (backend.Attr, error) {
	return v.make("mkdir", r, parent, name, tree.CreateSpec{Type: backend.TypeDir, Mode: mode})
}

// Mknod makes a regular file, FIFO, socket or device. Errors as Mkdir, Invalid
// for other types.
func (v *View) Mknod(r *Request, parent backend.NodeID, name string, typ backend.FileType, mode, rdev uint32) (backend.Attr, error) {
	switch typ {
	case backend.TypeRegular, backend.TypeFIFO, backend.TypeSocket, backend.TypeChar, backend.TypeBlock:
		return v.make("mknod", r, parent, name, tree.CreateSpec{Type: typ, Mode: mode, Rdev: rdev})
	}
	return backend.Attr{}, backend.Invalid
}

// Symlink makes a symbolic link. Errors as Mkdir.
func (v *View) Symlink(r *Request, parent backend.NodeID, name, target string) (backend.Attr, error) {
	return v.make("symlink", r, parent, name, tree.CreateSpec{Type: backend.TypeSymlink, Target: target})
}

func (v *View) make(op string, r *Request, parent backend.NodeID, name string, spec tree.CreateSpec) (backend.Attr, error) {
	c := v.begin(op, r)
	defer c.end()
	if err := checkName(name); err != nil {
		return backend.Attr{}, err
	}
	project := false
	err := c.in(parent, func(c *call) error {
		var dir place
		if err := c.dir(parent.Ino(), &dir); err != nil {
			return err
		}
		if project = spec.Type == backend.TypeDir && dir.top > 0; project {
			return c.need(policy.Create, &dir, name)
		}
		return c.create(&dir, name, spec)
	})
	if err == nil && project {
		if err = v.s.makeProject(name); err == nil {
			err = c.lookup(parent, name)
		}
	}
	if err != nil {
		return backend.Attr{}, err
	}
	return c.attr, nil
}

// create makes a node in dir and answers it.
func (c *call) create(dir *place, name string, spec tree.CreateSpec) error {
	if err := c.needName(dir, name, spec.Type); err != nil {
		return err
	}
	if err := c.permitNames(dir); err != nil {
		return err
	}
	if err := c.inherit(dir, &spec); err != nil {
		return err
	}
	c.note(createOp(spec.Type), dir.ino(), name, "", 0)
	a, err := c.tx.Create(dir.ino(), name, spec)
	if err != nil {
		return err
	}
	zone := dir.res.Zone
	if c.label.Kind == KindHome && dir.ino() == backend.RootIno {
		zone = policy.HomeZone(name)
	}
	m := newMemo(zone, false).stamp(c.epoch(), c.tx.DirGeneration())
	if c.label.Kind == KindHome || spec.Type == backend.TypeRegular {
		c.tx.SetMemo(a.Node.Ino(), uint64(m))
	}
	return c.answerEntry(dir.attr.Node, name, a.Node.Ino())
}

// createOp is what making a node of a type is called in the feed.
func createOp(t backend.FileType) string {
	switch t {
	case backend.TypeRegular:
		return "create"
	case backend.TypeDir:
		return "mkdir"
	case backend.TypeSymlink:
		return "symlink"
	}
	return "mknod"
}

// needName decides whether a node of type t may be called name in dir.
func (c *call) needName(dir *place, name string, t backend.FileType) error {
	if err := c.need(policy.Create, dir, name); err != nil {
		return err
	}
	if c.label.Kind == tree.KindRoot { // only mkdir makes anything there
		return c.refuse(policy.Create, dir, name, policy.Decision{})
	}
	if t != backend.TypeRegular {
		return nil
	}
	under := *dir
	var err error
	if under.res.Denied, err = c.linkDenied(dir.ino(), name); err != nil {
		return err
	}
	if under.res.Barred, err = c.linkBarred(dir.ino(), name); err != nil || !under.res.Denied && !under.res.Barred {
		return err
	}
	return c.need(policy.Create, &under, name)
}

// Create opens a file for f, and makes it first if it is not there. excl: an
// existing one is an error (Exist). created tells which it was. Errors: those of
// Mkdir and Open.
func (v *View) Create(r *Request, parent backend.NodeID, name string, mode uint32, excl bool, f OpenFlags) (a backend.Attr, created bool, err error) {
	c := v.begin("create", r)
	defer c.end()
	if err := checkName(name); err != nil {
		return backend.Attr{}, false, err
	}
	err = c.in(parent, func(c *call) error {
		var dir place
		if err := c.dir(parent.Ino(), &dir); err != nil {
			return err
		}
		id, err := c.find(&dir, name)
		switch {
		case errors.Is(err, backend.NotFound):
			created = true
			if err := c.create(&dir, name, tree.CreateSpec{Type: backend.TypeRegular, Mode: mode}); err != nil {
				return err
			}
			if c.watch != nil {
				c.watch.Opened(&c.attr, f.Write)
			}
			return nil
		case err != nil:
			return err
		case excl:
			return backend.Exist
		case id.Volume() != c.vol:
			return backend.IsDir
		}
		if err := c.open(id.Ino(), f); err != nil {
			return err
		}
		if c.watch != nil {
			c.watch.Entry(parent, name, &c.attr)
			c.watch.Opened(&c.attr, f.Write)
		}
		return nil
	})
	if err != nil {
		return backend.Attr{}, false, err
	}
	return c.attr, created, nil
}

// Tmpfile makes a regular file without a name; Link may give it one. It stays
// until Space.Dropped. Without a request of a kernel it is how a file is created.
func (v *View) Tmpfile(r *Request, parent backend.NodeID, mode uint32) (backend.Attr, error) {
	op := "tmpfile"
	if r == nil {
		op = "create"
	}
	c := v.begin(op, r)
	defer c.end()
	err := c.in(parent, func(c *call) error {
		var dir place
		if err := c.dir(parent.Ino(), &dir); err != nil {
			return err
		}
		if err := c.need(policy.Create, &dir, ""); err != nil {
			return err
		}
		if c.label.Kind == tree.KindRoot {
			return c.refuse(policy.Create, &dir, "", policy.Decision{})
		}
		if err := c.permitNames(&dir); err != nil {
			return err
		}
		spec := tree.CreateSpec{Type: backend.TypeRegular, Mode: mode}
		if err := c.inherit(&dir, &spec); err != nil {
			return err
		}
		a, err := c.tx.CreateOrphan(dir.ino(), spec, true)
		if err != nil {
			return err
		}
		if c.keepsPlaces() {
			if err := c.keepPlace(a.Node, dir.res.Zone, dir.ino(), ""); err != nil {
				return err
			}
		}
		var pl place
		if err := c.seen(a.Node.Ino(), &pl); err != nil {
			return err
		}
		c.show(&pl)
		return nil
	})
	if err != nil {
		return backend.Attr{}, err
	}
	return c.attr, nil
}

// keepPlace remembers of a node that has no name, for as long as a mount holds
// it, its zone in a home, and that it was called name in dir, where parts of the
// volume are granted or agents have deny-lists of their own.
func (c *call) keepPlace(node backend.NodeID, z policy.Zone, dir backend.Ino, name string) (err error) {
	o := orphan{zone: z}
	if c.p.AnyGrants(volumeResource(c.label)) || c.p.AnyOwnNames() {
		o.file = name != ""
		if o.path, err = c.linkPath(tree.Link{Parent: dir, Name: name}); err != nil {
			return err
		}
		o.path = strings.TrimSuffix(o.path, "/")
	}
	c.v.s.mu.Lock()
	c.v.s.orphans[node] = o
	c.v.s.mu.Unlock()
	return nil
}

// keepsPlaces tells whether keepPlace is asked for in the volume.
func (c *call) keepsPlaces() bool {
	return c.label.Kind == KindHome || c.p.AnyOwnNames() || c.p.AnyGrants(volumeResource(c.label))
}

// Link gives node one more name. Errors: NotPermitted for a directory, Exist,
// CrossVolume, Denied, ReadOnly, TooManyLinks.
func (v *View) Link(r *Request, node, newParent backend.NodeID, newName string) (backend.Attr, error) {
	return v.link("link", r, node, newParent, newName, nil)
}

// NameNew gives a file that Tmpfile made its name, which creates it. Errors are
// those of Link.
func (v *View) NameNew(node, parent backend.NodeID, name string) (backend.Attr, error) {
	return v.link("create", nil, node, parent, name, nil)
}

// link is Link, told of as op, that calls after, if set, when it is done; with the
// lock held.
func (v *View) link(op string, r *Request, node, newParent backend.NodeID, newName string, after func(*call) error) (backend.Attr, error) {
	c := v.begin(op, r)
	defer c.end()
	if err := checkName(newName); err != nil {
		return backend.Attr{}, err
	}
	if node.Volume() != newParent.Volume() {
		return backend.Attr{}, c.across(node, newParent)
	}
	err := c.in(node, func(c *call) error {
		var pl, dir place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		if err := c.dir(newParent.Ino(), &dir); err != nil {
			return err
		}
		if pl.kept { // as of a file without a name
			return backend.NotFound
		}
		if err := c.need(policy.Link, &pl, ""); err != nil {
			return err
		}
		if err := c.needName(&dir, newName, pl.attr.Type); err != nil {
			return err
		}
		if err := c.permitNames(&dir); err != nil {
			return err
		}
		c.noteTo("link", &pl, nil, "", newParent.Ino(), newName)
		if _, err := c.tx.Link(node.Ino(), newParent.Ino(), newName); err != nil {
			return err
		}
		if pl.attr.Nlink == 0 {
			c.v.s.forgetZone(node)
		}
		if err := c.answerEntry(newParent, newName, node.Ino()); err != nil || after == nil {
			return err
		}
		return after(c)
	})
	if err != nil {
		return backend.Attr{}, err
	}
	v.s.barred(newParent.Volume(), newName)
	return c.attr, nil
}

func (s *Space) forgetZone(node backend.NodeID) {
	s.mu.Lock()
	delete(s.orphans, node)
	s.mu.Unlock()
}

// across is the answer for an operation on two volumes: CrossVolume, if the
// view sees both nodes.
func (c *call) across(nodes ...backend.NodeID) error {
	for _, n := range nodes {
		err := c.in(n, func(c *call) error {
			var pl place
			return c.seen(n.Ino(), &pl)
		})
		if err != nil {
			return err
		}
	}
	return backend.CrossVolume
}
