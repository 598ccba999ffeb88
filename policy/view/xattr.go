package view

import (
	"slices"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// own is the prefix of the attributes that are answered here: path, created_by,
// created_at, modified_by, modified_at, published. They are not listed and not settable.
const own = "user.warren."

// publishedAs is the one of them that is stored: the name that a file was
// published under.
const publishedAs = own + "published"

// xattrSpaces are the namespaces that are kept, besides POSIX ACLs.
var xattrSpaces = []string{"user.", "security.", "trusted."}

// GetXattr gives the value of an extended attribute. Errors: NoData (there is
// none), Unsupported (the namespace).
func (v *View) GetXattr(r *Request, node backend.NodeID, name string) (value []byte, err error) {
	c := v.begin("getxattr", r)
	defer c.end()
	if err := v.checkXattr(name); err != nil {
		return nil, err
	}
	err = c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		if isACL(name) { // as the mode, which goes with it
			value, err = c.getACL(&pl, name)
			return err
		}
		if what, ok := strings.CutPrefix(name, own); ok {
			value, err = c.provenance(&pl, what)
			return err
		}
		if pl.hollow() || c.vol == c.v.s.root { // nobody can have set one
			return backend.NoData
		}
		if privileged(name) && !c.made(&pl) {
			return backend.NoData
		}
		data := pl
		data.res.Denied, data.res.Barred = false, false // the deny-list is about content: ls asks for attributes
		if err := c.need(policy.Read, &data, ""); err != nil {
			return err
		}
		if err := c.permitXattr(&pl, name, MayRead); err != nil {
			return err
		}
		value, err = c.tx.GetXattr(node.Ino(), name)
		return err
	})
	return value, err
}

// provenance answers user.warren.<what>. An agent that the view may not know of
// is "unknown".
func (c *call) provenance(pl *place, what string) ([]byte, error) {
	if what == "path" {
		path, err := c.shownPath(pl, "")
		if err != nil {
			return nil, backend.NoData
		}
		return []byte(path), nil
	}
	if pl.hollow() || c.vol == c.v.s.root {
		return nil, backend.NoData
	}
	p, err := c.tx.Provenance(pl.ino())
	if err != nil {
		return nil, err
	}
	switch what {
	case "created_by":
		return []byte(c.shownAgent(p.CreatedBy, p.CreatedAt, pl)), nil
	case "modified_by":
		return []byte(c.shownAgent(p.ModifiedBy, p.ModifiedAt, pl)), nil
	case "created_at":
		return []byte(p.CreatedAt.Time().Format(time.RFC3339Nano)), nil
	case "published":
		return c.tx.GetXattr(pl.ino(), publishedAs)
	case "modified_at":
		return []byte(p.ModifiedAt.Time().Format(time.RFC3339Nano)), nil
	}
	return nil, backend.NoData
}

// ListXattr gives the names of node's extended attributes, sorted, without
// those answered here.
func (v *View) ListXattr(r *Request, node backend.NodeID) (names []string, err error) {
	c := v.begin("listxattr", r)
	defer c.end()
	err = c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil || pl.hollow() {
			return err
		}
		names, err = c.tx.ListXattr(node.Ino())
		names = slices.DeleteFunc(v.withoutACLs(names), func(n string) bool { return strings.HasPrefix(n, own) })
		if slices.ContainsFunc(names, privileged) && !c.made(&pl) {
			names = slices.DeleteFunc(names, privileged)
		}
		return err
	})
	return names, err
}

// SetXattr sets an extended attribute. create: Exist if it is there; replace:
// NoData if it is not. Errors: NotPermitted (one answered here, or a privileged one
// of a file that another agent made), Unsupported,
// Denied, ReadOnly, Range, TooBig, NoSpace.
func (v *View) SetXattr(r *Request, node backend.NodeID, name string, value []byte, create, replace bool) error {
	return v.changeXattr("setxattr", r, node, name, func(c *call, pl *place) error {
		if privileged(name) && !c.made(pl) {
			return backend.NotPermitted
		}
		if isACL(name) {
			return c.setACL(pl, name, value)
		}
		return c.tx.SetXattr(node.Ino(), name, value, create, replace)
	})
}

// RemoveXattr removes an extended attribute. Errors: NoData, and SetXattr's.
func (v *View) RemoveXattr(r *Request, node backend.NodeID, name string) error {
	return v.changeXattr("removexattr", r, node, name, func(c *call, _ *place) error {
		return c.tx.RemoveXattr(node.Ino(), name)
	})
}

func (v *View) changeXattr(op string, r *Request, node backend.NodeID, name string, do func(*call, *place) error) error {
	c := v.begin(op, r)
	defer c.end()
	if err := v.checkXattr(name); err != nil {
		return err
	}
	return c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		if err := c.need(policy.Write, &pl, ""); err != nil {
			return err
		}
		if strings.HasPrefix(name, own) {
			return backend.NotPermitted
		}
		if err := c.permitXattr(&pl, name, MayWrite); err != nil {
			return err
		}
		c.noteChange(opXattr, &pl)
		return do(c, &pl)
	})
}

func (v *View) checkXattr(name string) error {
	switch {
	case isACL(name) && v.o.ACL:
		return nil
	case name == "" || strings.IndexByte(name, 0) >= 0:
		return backend.Invalid
	case len(name) > backend.MaxXattr:
		return backend.Range
	}
	for _, space := range xattrSpaces {
		if name == space {
			return backend.Invalid
		}
		if strings.HasPrefix(name, space) {
			return nil
		}
	}
	return backend.Unsupported
}
