package archive

import (
	"fmt"
	"time"
)

// Type is what an entry is.
type Type uint8

// The types that travel.
const (
	File Type = iota + 1
	Dir
	Symlink
	Hardlink // one more name of an earlier entry
	FIFO
)

// Entry is one node of a tree.
type Entry struct {
	Path  string // relative, clean, with slashes; "." is the top
	Type  Type
	Mode  uint32 // 07777
	Owner ID
	Atime time.Time // zero: unknown
	Mtime time.Time
	Size  int64  // bytes of a File
	Link  string // a symlink's target; the path of what a hard link names
	// Xattrs are extended attributes by name.
	Xattrs map[string][]byte
}

// ID is a user and a group by number.
type ID struct{ UID, GID uint32 }

// Error is a stream that is refused. Its text has the entry's path.
type Error struct {
	Path   string
	Reason string
}

// Error gives "PATH: REASON".
func (e *Error) Error() string {
	if e.Path == "" {
		return "archive: " + e.Reason
	}
	return fmt.Sprintf("archive: %q: %s", e.Path, e.Reason)
}

// Limits bound what a stream may hold. What is zero has its default.
type Limits struct {
	Entries int64 // with the directories that they stand in; default 2,000,000
	File    int64 // bytes of one file, holes included; default 16 TiB
	Total   int64 // bytes of all files, holes included; default 64 TiB
	Names   int64 // bytes of all paths, link targets and extended attributes; default 1 GiB
}

// The limits that cannot be changed.
const (
	MaxName   = 255      // bytes of a path's component
	MaxPath   = 4096     // bytes of a path
	MaxTarget = 4095     // bytes of a symlink's target
	MaxXattr  = 64 << 10 // bytes of an extended attribute
	maxDepth  = 1000     // components of a path
	block     = 512      // tar's own
	zeroBlock = 4096     // grain of holes
	maxSpans  = 1 << 14  // of a sparse file; what follows is written whole
	ownerText = "warren owner="
	xattrPax  = "SCHILY.xattr."
)

func (l Limits) withDefaults() Limits {
	set := func(p *int64, v int64) {
		if *p <= 0 {
			*p = v
		}
	}
	set(&l.Entries, 2_000_000)
	set(&l.File, 16<<40)
	set(&l.Total, 64<<40)
	set(&l.Names, 1<<30)
	return l
}
