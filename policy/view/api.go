package view

import (
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
)

// Access is what a mount, or an agent, may do at most.
type Access uint8

// The access modes, from nothing to everything. The zero value is ReadWrite so
// that an Options left alone does what one expects.
const (
	ReadWrite Access = iota
	ReadOnly
	None
)

// String gives the spelling of the command line: rw, ro, none.
func (a Access) String() string { return [...]string{"rw", "ro", "none"}[a] }

// Options say whose view is opened and how.
type Options struct {
	Agent  string // key of a registered agent
	Root   string // tree path of a directory that the agent sees; "" is "/"
	Access Access // of this mount; the agent's own access mode holds besides
	// UID and GID are the mount's user. Files stored as "the owner" are shown
	// as theirs, and theirs are stored as "the owner". An API session leaves
	// them at backend.OwnerID.
	UID, GID uint32
	// Observer is told what the view's reader gets to know, so that it can be
	// told again when that changes. nil for the API, which caches nothing.
	Observer Observer
}

// Request is one call through the door: who makes it, in the reader's own
// terms. The zero value is a call of the mount's own user.
type Request struct {
	UID, GID uint32 // caller, as seen in the view; new nodes are theirs
	PID      uint32
	Origin   backend.Origin
}

// Observer is one mount's memory of what its kernel may cache. Each method is
// called with the volume's lock held, before the answer leaves the daemon, so
// that no change can slip in between. They must not block, and must not call
// the view or the tree.
type Observer interface {
	// Entry: name in parent is about to be answered as a.Node, with a.
	Entry(parent backend.NodeID, name string, a *backend.Attr)
	// Negative: name in parent is about to be answered as absent.
	Negative(parent backend.NodeID, name string)
	// Attr: the attributes of a.Node are about to be answered.
	Attr(a *backend.Attr)
	// Listing: the names of dir are about to be answered.
	Listing(dir backend.NodeID)
	// Opened: a file is about to be opened; write tells whether for writing.
	// Data of it may be cached from now on.
	Opened(a *backend.Attr, write bool)
}

// Notifier tells the mounts of changes. fusefs implements it, once for a daemon.
type Notifier interface {
	// Collect is called with the volume's lock held, right after changes took
	// effect through the mount by (nil: not through a mount). It decides what
	// must be told to whom, and returns nil when nobody needs to know. It
	// must not block, and must not call the view or the tree. The slice is
	// the caller's.
	Collect(by Observer, changes []Change) Pending
	// InUse tells whether any mount still holds node: an open handle, or a
	// kernel that was told of it and has not forgotten. Same rules as Collect.
	InUse(node backend.NodeID) bool
}

// Pending is what Collect found to be told. The door calls Send when it holds
// no lock and before it answers; when Send returns, no mount can show the old
// state any more.
type Pending interface{ Send() }

// Change is one thing that changed in the tree.
type Change = tree.Change

// ChangeKind says what a Change is about.
type ChangeKind = tree.ChangeKind

// The kinds of Change.
const (
	// EntryAdded: Name in directory Node now leads to Child. Node's own
	// attributes and listing changed too.
	EntryAdded = tree.EntryAdded
	// EntryRemoved: Name in directory Node led to Child and no longer does.
	EntryRemoved = tree.EntryRemoved
	// AttrChanged: Node's attributes, xattrs or link count changed.
	AttrChanged = tree.AttrChanged
	// DataChanged: bytes [Off, Off+Len) of Node changed, and with them its
	// attributes. Len 0 with a size change means "from Off to the end".
	DataChanged = tree.DataChanged
)

// Dirent is one name of a listing.
type Dirent = tree.Dirent

// VolumeStat is what statfs(2) tells.
type VolumeStat = tree.VolumeStat

// OpenFlags say what an open file is for.
type OpenFlags struct {
	Read, Write bool
	Truncate    bool // O_TRUNC: to nothing, as part of the open
	Exec        bool // for execution; counts as reading
}
