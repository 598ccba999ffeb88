package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// hostFS are the filesystems that hold a host's files. Mounts of other types
// (other warren mounts and any FUSE, tmpfs, kernel interfaces, automounts) are
// no part of the read-only host that a command sees.
var hostFS = map[string]bool{
	"ext2": true, "ext3": true, "ext4": true, "xfs": true, "btrfs": true, "zfs": true, "f2fs": true,
	"bcachefs": true, "overlay": true, "squashfs": true, "erofs": true, "iso9660": true, "vfat": true,
	"nfs": true, "nfs4": true, "9p": true, "virtiofs": true,
}

// mountPoint is one line of mountinfo.
type mountPoint struct{ Path, Type string }

// mountsUnder lists the mountpoints below dir, parents before children.
func mountsUnder(dir string) ([]mountPoint, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all, err := parseMountinfo(f)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m mountPoint) bool { return !strings.HasPrefix(m.Path, dir+"/") })
	slices.SortStableFunc(all, func(a, b mountPoint) int { return strings.Compare(a.Path+"/", b.Path+"/") })
	return all, nil
}

// parseMountinfo reads proc_pid_mountinfo(5).
func parseMountinfo(r io.Reader) ([]mountPoint, error) {
	var out []mountPoint
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		left, right, ok := strings.Cut(sc.Text(), " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 2 {
			return nil, fmt.Errorf("mountinfo: cannot read line %q", sc.Text())
		}
		out = append(out, mountPoint{Path: unescape(l[4]), Type: r[0]})
	}
	return out, sc.Err()
}

// unescape undoes mountinfo's \ooo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
