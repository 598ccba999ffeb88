package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/control"
)

// part is a directory of the view, open.
type part struct {
	control.RunPart
	fd int // a detached mount of it
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
		fd, err := treeBelow(at(warrenDir), p.Path)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Path, err)
		}
		if !p.Write {
			err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
			if err != nil {
				return fmt.Errorf("make %s read-only: %w", p.Path, err)
			}
		}
		parts = append(parts, part{p, fd})
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
			if err := os.MkdirAll(dst, 0o755); err != nil {
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

// treeBelow makes a detached mount of the directory p of the view mounted at dir.
func treeBelow(dir, p string) (int, error) {
	if strings.Trim(p, "/") == "" {
		return openTree(dir, 0)
	}
	fd, err := openBelow(dir, p)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	return unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
}
