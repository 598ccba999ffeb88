package main

import (
	"slices"
	"strings"

	"github.com/warrenfs/warren/fusefs/mountinfo"
)

// hostFS are the filesystems that hold a host's files. Mounts of other types
// (other warren mounts and any FUSE, tmpfs, kernel interfaces, automounts) are
// no part of the read-only host that a command sees.
var hostFS = map[string]bool{
	"ext2": true, "ext3": true, "ext4": true, "xfs": true, "btrfs": true, "zfs": true, "f2fs": true,
	"bcachefs": true, "overlay": true, "squashfs": true, "erofs": true, "iso9660": true, "vfat": true,
	"nfs": true, "nfs4": true, "9p": true, "virtiofs": true,
}

// mountsUnder lists the mountpoints below dir, parents before children.
func mountsUnder(dir string) ([]mountinfo.Entry, error) {
	all, err := mountinfo.Read()
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m mountinfo.Entry) bool { return !strings.HasPrefix(m.Dir, dir+"/") })
	slices.SortStableFunc(all, func(a, b mountinfo.Entry) int { return strings.Compare(a.Dir+"/", b.Dir+"/") })
	return all, nil
}
