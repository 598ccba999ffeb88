package backend

import "fmt"

// VolumeID names one volume (one inode space) of a store. It is a random
// number in [1, MaxVolumeID], unique in the store, so that it counts nothing.
type VolumeID uint32

// Ino is an inode's number inside its volume, in [1, MaxIno]. It is never used
// twice in a volume's life. RootIno is every volume's root directory.
type Ino uint64

// NodeID is a volume and an inode in one word: the node id of the FUSE
// protocol and st_ino of stat(2). It is stable across restarts and never 0 or
// 1 (1 is FUSE's own name for the root of a mount).
type NodeID uint64

const (
	volumeBits = 23
	inoBits    = 40

	// MaxVolumeID is the largest volume number: 23 bits, so that a NodeID
	// stays positive as a signed 64-bit number (some programs read st_ino so).
	MaxVolumeID VolumeID = 1<<volumeBits - 1
	// MaxIno is the largest inode number of a volume.
	MaxIno Ino = 1<<inoBits - 1
	// RootIno is the root directory of every volume.
	RootIno Ino = 1
)

// Node packs a volume and an inode.
func Node(v VolumeID, i Ino) NodeID { return NodeID(v)<<inoBits | NodeID(i&MaxIno) }

// Volume is the volume part of n.
func (n NodeID) Volume() VolumeID { return VolumeID(n >> inoBits) }

// Ino is the inode part of n.
func (n NodeID) Ino() Ino { return Ino(n) & MaxIno }

// Valid tells whether n can name a node at all (it may still not exist).
func (n NodeID) Valid() bool {
	v := n >> inoBits
	return v != 0 && VolumeID(v) <= MaxVolumeID && n.Ino() != 0
}

// String gives "volume:inode" in hexadecimal.
func (n NodeID) String() string { return fmt.Sprintf("%x:%x", uint32(n.Volume()), uint64(n.Ino())) }
