package view

import (
	"time"

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
	Agent string // key of a registered agent
	// Administrator opens the view of who runs the daemon; Agent is "". What it
	// makes and changes is recorded as nobody's.
	Administrator bool
	Root          string // tree path of a directory that the agent sees; "" is "/"
	Access        Access // of this mount; the agent's own access mode holds besides
	// UID and GID are the mount's user. Files stored as "the owner" are shown
	// as theirs, and theirs are stored as "the owner". An API session leaves
	// them at backend.OwnerID.
	UID, GID uint32
	// Owners shows the files of other agents under those agents' own uids; else they are
	// the mount's user's too.
	Owners bool
	// ACL shows, keeps and inherits POSIX ACLs; its reader enforces them, and leaves
	// the umask of what it makes to the view (Request.Umask).
	ACL bool
	// Modes, if set, has the view check mode bits, and answers for callers. It is nil
	// where the view's reader checks them itself, and for the API.
	Modes Privileges
	// Observer is told what the view's reader gets to know, so that it can be
	// told again when that changes. nil for the API, which caches nothing.
	Observer Observer
	Mount    string // mountpoint, for the feed; "" for the API

	onBehalf string // of a Steward's: whom it is recorded as
}

// Request is one call through the door: who makes it, in the reader's own
// terms. The zero value is a call of the mount's own user.
type Request struct {
	UID, GID uint32 // caller, as seen in the view; new nodes are theirs
	PID      uint32
	Origin   backend.Origin
	// KillPriv asks a write, truncate or chown to clear set-id bits, and the setting
	// of an ACL to clear the set-group-id bit (FUSE's WRITE_KILL_SUIDGID and its likes).
	KillPriv bool
	// Handle: a size is set through an open file, whose opening was decided on.
	Handle bool
	// Touch: both times are set to the present, which anyone with write access may do.
	Touch bool
	Umask uint32 // of who makes a node, with Options.ACL; else it is off the mode already
}

// Observer is one mount's memory of what its kernel may cache. Each method is
// called with the volume's lock held, before the answer leaves the daemon, so
// that no change can slip in between. They must not block, and must not call
// the view or the tree.
type Observer interface {
	// Entry: name in parent is about to be answered as a.Node, with a. Exactly
	// once for each answer of Lookup, Mkdir, Mknod, Create, Symlink and Link
	// without an error. Tmpfile calls no method: whoever asked for the file
	// holds it until Space.Dropped.
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
// Volumes that come and go in the root volume are no such changes: a mount is
// told of those that its view sees, as a Revocation.
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

// Revoker is what an Observer implements to be told that the rules changed for
// its view. A view's Observer that is none is asked nothing and told nothing.
type Revoker interface {
	// Revoked is called after new facts took effect, with no lock held: every
	// operation that started before has ended, and those that start now go by
	// the new rules. When it returns, the mount's kernel must not show the
	// old state any more.
	Revoked(r Revocation)
	// Holds reports whether the mount's kernel was told of node and has not
	// forgotten it. It is called like an Observer's methods.
	Holds(node backend.NodeID) bool
}

// Revocation is what changed for one view when the rules did.
type Revocation struct {
	// Gone are names that led to something and do not exist for this view any
	// more (the tops only, not what is below): INVAL_ENTRY for each.
	Gone []Edge
	// Came are names that exist for this view from now on: their negative
	// entries, and the listings and attributes of their parents, must go.
	Came []Edge
	// Changed are volumes in which the view may do other things than before:
	// the shown mode bits of every node of them that the kernel holds must go.
	Changed []backend.VolumeID
	// Names: in directories that the view saw before, and still does, other names
	// may be there now, or a search may not be allowed any more. No name or absence may be
	// answered from a cache.
	Names bool
	// Standing tells what the view may do with a node now. It takes the lock
	// of the node's volume, so the caller must not hold a lock that an
	// Observer's methods take. The mount asks it of the nodes its kernel
	// holds: of all of them if Gone is not empty, else of those in Changed.
	Standing func(backend.NodeID) Standing
	// Above returns the name that leads to a directory, even a hidden one: it is for
	// notices to the kernel that holds the directory. It returns false for a directory
	// without a name, and for any other node. Locks as Standing.
	Above func(backend.NodeID) (Edge, bool)
}

// Edge is one name in a directory, and the node it leads to.
type Edge struct {
	Parent backend.NodeID
	Name   string
	Node   backend.NodeID
}

// Standing says how a view stands to a node.
type Standing uint8

// The standings. Data of the first two must be dropped from the kernel
// (INVAL_INODE 0, -1); what is visible is only expired.
const (
	Hidden     Standing = iota // not in this view, or nowhere
	Unreadable                 // seen, but its data may not be read
	Visible
)

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

// RenameFlags are those of renameat2(2).
type RenameFlags = tree.RenameFlags

// The flags of Rename.
const (
	NoReplace = tree.NoReplace
	Exchange  = tree.Exchange
	Whiteout  = tree.Whiteout
)

// WriteResult tells where bytes went and what the file is like now.
type WriteResult = tree.WriteResult

// Label tells whose a volume is.
type Label = tree.Label

// VolumeKind says what a volume is for.
type VolumeKind = tree.VolumeKind

// The kinds of volume that the registry makes.
const (
	KindHome      = tree.KindHome
	KindWorkspace = tree.KindWorkspace
	KindScratch   = tree.KindScratch
	KindUser      = tree.KindUser
	KindProject   = tree.KindProject
	KindDevice    = tree.KindDevice
)

// VolumeSpec is a volume the registry wants: where it is attached follows
// from its label.
type VolumeSpec struct {
	Label Label
	Agent string  // recorded as created_by; "" is the administrator
	Mode  uint32  // of its root directory; 0 is 0755
	Stock []Stock // what stands in it from the start
}

// Stock is a file or directory that a volume has from the start. One that is
// there already is left alone.
type Stock struct {
	Name string // one component
	Dir  bool
	Mode uint32 // 0 is 0755 for a directory, 0644 for a file
	Text string // of a file
}

// Denial is something an agent was refused, with how often.
type Denial struct {
	Time  time.Time `json:"time"`            // the last time
	Agent string    `json:"agent,omitempty"` // in the administrator's list only
	Op    string    `json:"op"`
	Path  string    `json:"path"` // tree path
	Rule  string    `json:"rule,omitempty"`
	Count uint64    `json:"count"`
}
