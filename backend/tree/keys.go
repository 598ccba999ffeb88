package tree

import (
	"encoding/binary"

	"github.com/warrenfs/warren/backend"
)

// Key families (docs/format.md, rules 5 to 13). Every number in a key is
// big-endian, so that keys sort as their numbers do. Each key of a volume
// starts with its family and the volume's number.
const (
	famMeta    = 'm' // m<name>: format, root volume, creation time
	famVolume  = 'v' // v<vol>: volume record
	famUsage   = 'u' // u<vol>: counters of the volume
	famQuota   = 'q' // q<vol>: limits of the volume
	famInode   = 'i' // i<vol><ino>: inode record
	famDirent  = 'd' // d<vol><dir><name>: what a name leads to
	famLink    = 'b' // b<vol><ino><dir><name>: a back-link beyond the first
	famExtent  = 'e' // e<vol><ino><end>: bytes of a file, by the offset of their end
	famXattr   = 'x' // x<vol><ino><name>: an extended attribute
	famTodo    = 'o' // o<vol><ino>: an orphan, or an inode with barriers
	famShared  = 'r' // r<id>: how many extents name content id, when more than one
	famContent = 'c' // c<id>: content whose bytes travel in the transaction (backend.ContentKey)
)

func appendVol(b []byte, family byte, v backend.VolumeID) []byte {
	return binary.BigEndian.AppendUint32(append(b, family), uint32(v))
}

func appendIno(b []byte, family byte, v backend.VolumeID, i backend.Ino) []byte {
	return binary.BigEndian.AppendUint64(appendVol(b, family, v), uint64(i))
}

func volumeKey(v backend.VolumeID) []byte { return appendVol(nil, famVolume, v) }

func inodeKey(v backend.VolumeID, i backend.Ino) []byte { return appendIno(nil, famInode, v, i) }

func direntKey(v backend.VolumeID, dir backend.Ino, name string) []byte {
	return append(appendIno(make([]byte, 0, 13+len(name)), famDirent, v, dir), name...)
}

func linkKey(v backend.VolumeID, i backend.Ino, l Link) []byte {
	b := appendIno(make([]byte, 0, 21+len(l.Name)), famLink, v, i)
	return append(binary.BigEndian.AppendUint64(b, uint64(l.Parent)), l.Name...)
}

func extentKey(v backend.VolumeID, i backend.Ino, end uint64) []byte {
	return binary.BigEndian.AppendUint64(appendIno(make([]byte, 0, 21), famExtent, v, i), end)
}

func xattrKey(v backend.VolumeID, i backend.Ino, name string) []byte {
	return append(appendIno(make([]byte, 0, 13+len(name)), famXattr, v, i), name...)
}

func todoKey(v backend.VolumeID, i backend.Ino) []byte { return appendIno(nil, famTodo, v, i) }

func sharedKey(id uint64) []byte { return binary.BigEndian.AppendUint64([]byte{famShared}, id) }

// The parts that follow a prefix of family, volume and inode.

func inoOf(key []byte) backend.Ino { return backend.Ino(binary.BigEndian.Uint64(key[5:13])) }

func volumeOf(key []byte) backend.VolumeID {
	return backend.VolumeID(binary.BigEndian.Uint32(key[1:5]))
}

func nameOf(key []byte) string { return string(key[13:]) }

func endOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[13:21]) }

func linkOf(key []byte) Link {
	return Link{Parent: backend.Ino(binary.BigEndian.Uint64(key[13:21])), Name: string(key[21:])}
}
