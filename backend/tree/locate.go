package tree

import (
	"slices"
	"strings"

	"github.com/warrenfs/warren/backend"
)

// maxAncestors bounds a way up in a store whose directories are broken.
const maxAncestors = 4096

// Locate tells where an inode stands in the tree of a store, by its first name
// and those of the directories and volumes above: "/agents/ada/notes/f". It is
// "" for what has no name, and where a record on the way up cannot be read.
func Locate(kv backend.Tx, v backend.VolumeID, ino backend.Ino) string {
	var parts []string
	for range maxAncestors {
		var up backend.NodeID
		var name string
		if ino == backend.RootIno {
			b, err := kv.Get(volumeKey(v))
			if err != nil {
				return ""
			}
			rec, err := decodeVolume(v, b)
			if err != nil || rec.removed {
				return ""
			}
			if rec.Label.Kind == KindRoot {
				slices.Reverse(parts)
				return "/" + strings.Join(parts, "/")
			}
			up, name = rec.Parent, rec.Name
		} else {
			b, err := kv.Get(inodeKey(v, ino))
			if err != nil {
				return ""
			}
			rec, err := decodeRecord(v, ino, b)
			if err != nil || rec.nlink == 0 || rec.link.Parent == 0 {
				return ""
			}
			up, name = backend.Node(v, rec.link.Parent), rec.link.Name
		}
		parts = append(parts, name)
		v, ino = up.Volume(), up.Ino()
	}
	return ""
}

// LocateExtent is Locate of the file whose extent stands under key.
func LocateExtent(kv backend.Tx, key []byte) string {
	if len(key) != 21 || key[0] != famExtent {
		return ""
	}
	return Locate(kv, volumeOf(key), inoOf(key))
}
