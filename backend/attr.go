package backend

import "time"

// FileType is the type of an inode. The values are those of S_IFMT >> 12, as
// in d_type of readdir(3) and the FUSE protocol.
type FileType uint8

// The seven types of POSIX.
const (
	TypeFIFO    FileType = 1
	TypeChar    FileType = 2
	TypeDir     FileType = 4
	TypeBlock   FileType = 6
	TypeRegular FileType = 8
	TypeSymlink FileType = 10
	TypeSocket  FileType = 12
)

// Time is nanoseconds since the Unix epoch, UTC. Its range is 1677 to 2262;
// times outside it are clamped on the way in.
type Time int64

// TimeOf clamps t into the range of Time.
func TimeOf(t time.Time) Time {
	if t.Before(minTime) {
		return Time(minTime.UnixNano())
	}
	if t.After(maxTime) {
		return Time(maxTime.UnixNano())
	}
	return Time(t.UnixNano())
}

// TimeOfUnix clamps seconds and nanoseconds since the epoch into the range of Time.
// time.Unix would wrap near the ends of int64.
func TimeOfUnix(sec int64, nsec uint32) Time {
	return TimeOf(time.Unix(min(max(sec, minTime.Unix()), maxTime.Unix()+1), int64(nsec)))
}

// Time gives t as a time.Time in UTC.
func (t Time) Time() time.Time { return time.Unix(0, int64(t)).UTC() }

var (
	minTime = time.Unix(0, -1<<63).UTC()
	maxTime = time.Unix(0, 1<<63-1).UTC()
)

// OwnerID stands for "the owner" as uid or gid in a stored Attr: the user (or
// group) a mount was made for. Each view shows it as its own mount's user.
// (uid_t)-1 is never a valid uid on Linux, so it cannot collide.
const OwnerID uint32 = 1<<32 - 1

// Attr is what stat(2) tells of a node. Layers above the view see uid, gid and
// mode as shown in that view; the tree keeps them as stored.
type Attr struct {
	Node NodeID
	Type FileType
	Mode uint32 // permission, set-id and sticky bits: 07777 at most
	UID  uint32 // OwnerID: the owner
	GID  uint32 // OwnerID: the owner
	// Nlink is always 1 for a directory: a real count would tell of
	// subdirectories that a view hides.
	Nlink  uint32
	Size   uint64 // bytes; a directory's is always 4096
	Blocks uint64 // 512-byte units that its content really takes
	Rdev   uint32 // device number, as in the FUSE protocol
	Atime  Time   // noatime semantics: only utimens(2) sets it
	Mtime  Time
	Ctime  Time
	Btime  Time // when the inode was made
}

// IsDir tells whether a is a directory's.
func (a *Attr) IsDir() bool { return a.Type == TypeDir }

// Provenance tells which agent made an inode and which last changed it.
type Provenance struct {
	CreatedBy  string // agent key; "" is the administrator
	CreatedAt  Time
	ModifiedBy string
	ModifiedAt Time
}

// SetAttr is a change to a node's attributes; a nil field stays as it is.
type SetAttr struct {
	Mode  *uint32 // 07777
	UID   *uint32 // OwnerID: the owner
	GID   *uint32
	Size  *uint64 // truncate; regular files only
	Atime *Time
	Mtime *Time
	Ctime *Time // the kernel's own; nil: now
}

// Limits of the tree.
const (
	MaxName     = 255       // bytes in one name
	MaxSymlink  = 4095      // bytes in a symlink's target
	MaxXattr    = 255       // bytes in an xattr's name
	MaxXattrVal = 64 << 10  // bytes in an xattr's value: as many as Linux passes on
	MaxFileSize = 1<<62 - 1 // bytes
	BlockSize   = 4096      // st_blksize and statfs's unit
)
