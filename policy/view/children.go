package view

import (
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// Child is one name of a directory with what a walk needs to know of it.
type Child struct {
	Name string
	Node backend.NodeID
	Type backend.FileType
	Size uint64 // of a regular file that may be read; else 0
	// Readable: it is a regular file that the view may read.
	Readable bool
}

// childrenAtOnce is how many names are looked at without giving the lock back.
const childrenAtOnce = 1000

// Children gives the names of a directory that the view may see, sorted. Nobody
// asked for any by name, so that nothing is noted as a denial. Errors: NotFound,
// NotDir.
func (v *View) Children(dir backend.NodeID) ([]Child, error) {
	names, err := v.listQuietly(dir)
	if err != nil {
		return nil, err
	}
	out := make([]Child, 0, len(names))
	for len(names) > 0 {
		n := min(len(names), childrenAtOnce)
		if out, err = v.childrenOf(dir, names[:n], out); err != nil {
			return nil, err
		}
		names = names[n:]
	}
	return out, nil
}

func (v *View) childrenOf(dir backend.NodeID, names []Dirent, out []Child) ([]Child, error) {
	c := v.begin("list", nil)
	defer c.end()
	c.watch, c.silent = nil, true
	err := c.in(dir, func(c *call) error {
		for _, e := range names {
			ch := Child{Name: e.Name, Node: e.Node, Type: e.Type}
			if e.Type == backend.TypeRegular {
				var pl place
				if c.seen(e.Node.Ino(), &pl) != nil {
					continue // it went, or was never seen
				}
				if ch.Readable = c.may(policy.Read, &pl); ch.Readable {
					ch.Size = pl.attr.Size
				}
			}
			out = append(out, ch)
		}
		return nil
	})
	return out, err
}

// ReadChild is Read of a file that Children told of: nothing is noted as a
// denial.
func (v *View) ReadChild(node backend.NodeID, p []byte, off uint64) (n int, err error) {
	c := v.begin("read", nil)
	defer c.end()
	c.watch, c.silent = nil, true
	err = c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		if !c.may(policy.Read, &pl) {
			return backend.Denied
		}
		n, err = c.tx.Read(node.Ino(), p, off)
		return err
	})
	return n, err
}
