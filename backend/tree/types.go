package tree

import (
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/quota"
)

// Limits are a volume's quota; package quota says what counts.
type Limits = quota.Limits

// VolumeKind says what a volume is for. Its value is stored.
type VolumeKind uint8

// The kinds of volume.
const (
	KindRoot      VolumeKind = 1 // "/" and the directories above the others
	KindHome      VolumeKind = 2 // /agents/<key>
	KindWorkspace VolumeKind = 3 // /agents/<key>/workspace
	KindScratch   VolumeKind = 4 // /agents/<key>/scratch
	KindUser      VolumeKind = 5 // /users/<id>
	KindProject   VolumeKind = 6 // /projects/<slug>
	KindDevice    VolumeKind = 7 // /workspaces/<uuid>
)

// Label tells whose a volume is. It never changes in a volume's life.
type Label struct {
	Kind VolumeKind
	// Owner is the agent key (home, workspace, scratch), user id, project
	// slug or device workspace's uuid; "" for the root volume.
	Owner string
}

// VolumeSpec describes a volume to be made and where it is attached.
type VolumeSpec struct {
	Label  Label
	Parent backend.NodeID // directory of another volume that shows it
	Name   string         // under this name
	Mode   uint32         // of its root directory
	Agent  string         // recorded as created_by
}

// VolumeInfo is what the tree knows of a volume.
type VolumeInfo struct {
	ID      backend.VolumeID
	Label   Label
	Parent  backend.NodeID // 0 for the root volume
	Name    string
	Created backend.Time
	Epoch   uint32 // the epoch records are written in now
}

// VolumeStat is what statfs(2) tells of a volume. The store's free space is
// shared by all volumes.
type VolumeStat struct {
	BlockSize   uint32
	Bytes       uint64 // that the volume may grow to: its quota, or used + free
	FreeBytes   uint64
	Inodes      uint64
	FreeInodes  uint64
	UsedBytes   uint64 // content bytes of the volume
	UsedInodes  uint64
	Limits      Limits // what the quota is
	MaxNameLen  uint32
	FilesystemN uint64 // identifies the volume (f_fsid)
}

// Use is what the volume holds.
func (s *VolumeStat) Use() quota.Use { return quota.Use{Bytes: s.UsedBytes, Inodes: s.UsedInodes} }

// ChangeKind says what a Change is about.
type ChangeKind uint8

// The kinds of Change.
const (
	EntryAdded   ChangeKind = iota + 1 // Name in directory Node leads to Child
	EntryRemoved                       // Name in directory Node led to Child and no longer does
	AttrChanged                        // attributes, xattrs or link count of Node
	DataChanged                        // bytes [Off, Off+Len) of Node and its attributes
)

// Change is one thing that changed in the tree.
type Change struct {
	Kind  ChangeKind
	Node  backend.NodeID
	Name  string         // of an entry
	Child backend.NodeID // of an entry
	Dir   bool           // of an entry: Child is a directory
	Off   uint64         // of data; Len 0: from Off to the end
	Len   uint64
	Sized bool // of data: the size changed too
}

// Dirent is one name of a listing.
type Dirent struct {
	Name string
	Node backend.NodeID
	Type backend.FileType
}

// RenameFlags are those of renameat2(2).
type RenameFlags uint32

// The flags of Rename.
const (
	NoReplace RenameFlags = 1
	Exchange  RenameFlags = 2
	Whiteout  RenameFlags = 4 // leave a character device 0:0 under the old name
)

// Valid tells whether rename(2) takes the flags together.
func (f RenameFlags) Valid() bool {
	return f&^(NoReplace|Exchange|Whiteout) == 0 && (f&Exchange == 0 || f == Exchange)
}

// Link is one name of an inode inside its volume.
type Link struct {
	Parent backend.Ino
	Name   string
}

// WriteResult tells where bytes went and what the file is like now.
type WriteResult struct {
	N    int
	Off  uint64 // where the first byte went
	Attr backend.Attr
}
