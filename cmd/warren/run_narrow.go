package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/control"
)

// part is a directory of the view, or a file, open.
type part struct {
	control.RunPart
	fd  int // a detached mount of it
	dir bool
}

// narrow shows, of the view that is mounted at /warren, only spec.Parts. What
// is not among them is out of reach: the command can neither unmount what covers
// the view nor mount it.
func (b *rootBuilder) narrow() error {
	if len(b.spec.Parts) == 0 {
		return nil
	}
	var parts []part
	for _, p := range b.spec.Parts {
		fd, err := treeBelow(at(warrenDir), p.Path, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Path, err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return fmt.Errorf("%s: %w", p.Path, err)
		}
		kind := st.Mode & unix.S_IFMT
		if kind != unix.S_IFDIR && kind != unix.S_IFREG {
			return fmt.Errorf("%s is neither a directory nor a regular file", p.Path)
		}
		if !p.Write {
			err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
			if err != nil {
				return fmt.Errorf("make %s read-only: %w", p.Path, err)
			}
		}
		parts = append(parts, part{p, fd, kind == unix.S_IFDIR})
	}
	whole := parts[0].Path == "/"
	if !whole {
		if err := unix.Unmount(at(warrenDir), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return err
		}
		if err := tmpfs(at(warrenDir), "mode=0755,size=64k", 0); err != nil {
			return err
		}
	}
	for _, p := range parts {
		dst := at(inside(p.Path))
		if _, err := os.Lstat(dst); err != nil {
			if err := makePlace(dst, p.dir); err != nil {
				return err
			}
		}
		if p.Path == "/" {
			_ = unix.Close(p.fd) // it is there
		} else if err := moveMount(p.fd, dst); err != nil {
			return fmt.Errorf("%s: %w", p.Path, err)
		}
	}
	if whole {
		return nil
	}
	return setattr(at(warrenDir), unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC, false)
}

// makePlace makes the empty directory or file that a mount goes over.
func makePlace(dst string, dir bool) error {
	if dir {
		return os.MkdirAll(dst, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	return os.WriteFile(dst, nil, 0o600)
}

// treeBelow makes a detached mount of p in the view mounted at dir. flags are those of
// openBelow.
func treeBelow(dir, p string, flags uint64) (int, error) {
	if strings.Trim(p, "/") == "" {
		return openTree(dir, 0)
	}
	fd, err := openBelow(dir, p, flags)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
}
