package view

import (
	"errors"
	"sync"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/policy"
)

// call is one operation under way. What a volume's lock guards is reached
// through tx, which is set while the lock is held.
type call struct {
	v     *View
	op    string
	r     Request
	own   bool     // no request: the view's own user calls
	watch Observer // nil: nobody caches the answer
	// silent: what is hidden is not noted; nobody asked for it by name.
	silent bool

	tx      *tree.Txn
	p       *policy.Principal // nil: the agent is gone
	vol     backend.VolumeID
	label   Label
	g       *policy.VolumeGrants // of the view's agent, on this volume
	checked int                  // how many of tx's changes recheckNames has seen

	attr    backend.Attr // the answer as shown; here because the Observer gets its address
	pending []Pending
}

var calls = sync.Pool{New: func() any { return new(call) }}

// begin starts an operation of the view's mount.
func (v *View) begin(op string, r *Request) *call {
	c := calls.Get().(*call)
	c.v, c.op, c.own, c.watch = v, op, r == nil, v.o.Observer
	if r != nil {
		c.r = *r
	}
	return c
}

// end tells the mounts what changed. No lock may be held.
func (c *call) end() {
	for i, p := range c.pending {
		p.Send()
		c.pending[i] = nil
	}
	*c = call{pending: c.pending[:0]}
	calls.Put(c)
}

// in runs fn with the lock of node's volume held, if the view sees the volume
// at all. That is decided first and the same way for a volume that does not
// exist.
func (c *call) in(node backend.NodeID, fn func(*call) error) error {
	info, _ := c.v.s.tree.Volume(node.Volume()) // of no volume: a label nobody has
	if node != c.v.root {
		if !c.v.seesVolume(c.v.principal(), info.Label) || !c.v.within(&info) {
			return c.hidden(info.Label, nil, "")
		}
	}
	err := c.v.s.tree.With(node.Volume(), func(tx *tree.Txn) error {
		c.enter(tx)
		err := fn(c)
		c.leave()
		return err
	})
	if err == nil {
		return nil
	}
	return c.kind(err)
}

func (c *call) enter(tx *tree.Txn) {
	info := tx.Info()
	c.tx, c.vol, c.label, c.p = tx, info.ID, info.Label, c.v.principal()
	tx.Op = tree.Op{Agent: c.v.author(), UID: backend.OwnerID, GID: backend.OwnerID, Origin: c.r.Origin, KillPriv: c.r.KillPriv}
	_, c.g = volumePlace(c.p, c.label)
	c.checked = 0
	if !c.own {
		tx.Op.UID, tx.Op.GID = c.v.storedUID(c.r.UID), c.v.storedGID(c.r.GID)
	}
}

// leave collects what the mounts must be told. The lock is still held, but
// after tx.Read, which changes nothing.
func (c *call) leave() {
	c.recheckNames()
	c.v.s.collect(c.watch, c.tx.Changes(), &c.pending)
	c.tx = nil
}

// collect asks the notifier who must be told of changes, if any.
func (s *Space) collect(by Observer, changes []Change, to *[]Pending) {
	if len(changes) == 0 || s.notifier == nil {
		return
	}
	if p := s.notifier.Collect(by, changes); p != nil {
		*to = append(*to, p)
	}
}

// kind turns the tree's Stale (no such node) into NotFound, which is what a
// node that the view may not see is.
func (c *call) kind(err error) error {
	if k, ok := err.(backend.Kind); ok {
		if k == backend.Stale {
			return backend.NotFound
		}
		return k
	}
	if errors.Is(err, backend.Stale) {
		return backend.NotFound
	}
	return err
}

// need decides whether a is allowed at pl, and makes the refusal if not. name
// is that of an entry of pl that is concerned, or "".
func (c *call) need(a policy.Action, pl *place, name string) error {
	d := c.v.decide(c.p, a, pl.res)
	if d.Allow {
		return nil
	}
	if !pl.blank && !c.sees(pl) {
		return c.hidden(c.label, pl, name)
	}
	return c.refuse(a, pl, name, d)
}

// checkName refuses what can be no name.
func checkName(name string) error {
	if len(name) > backend.MaxName {
		return backend.NameTooLong
	}
	if name == "" || name == "." || name == ".." {
		return backend.Invalid
	}
	for i := range len(name) {
		if name[i] == '/' || name[i] == 0 {
			return backend.Invalid
		}
	}
	return nil
}
