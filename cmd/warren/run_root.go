package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// rootDir is where the command's root directory is put together, on a tmpfs
// that covers the host's /tmp in this mount namespace only.
const rootDir = "/tmp"

// rootBuilder makes a command's root directory. It runs in the command's own
// mount namespace, before anything of the command does.
type rootBuilder struct {
	spec  *sandboxSpec
	view  int   // detached mount of the agent's view
	shown []int // detached mounts of spec.Show
}

// at gives the path of p while the root is being built.
func at(p string) string { return rootDir + p }

// build makes the whole root. Nothing it cannot do is left out: an error means
// that the command must not run.
func (b *rootBuilder) build() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	steps := []struct {
		what string
		do   func() error
	}{
		{"reach the mounts to show", b.grab},
		{"make a root", func() error { return tmpfs(rootDir, "mode=0755,size=4m", 0) }},
		{"show the host", b.host},
		// Before anything is made below it: this process may write where the
		// host's root may.
		{"make the host read-only", b.seal},
		{"hide other mounts", b.dropMounts},
		{"hide paths", b.hide},
		{"show paths", b.show},
		{"replace files", b.files},
		{"make the rest read-only", b.seal},
		{"make /dev", b.dev},
		{"make /proc", b.proc},
		{"show the view", b.warren},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return nil
}

// grab takes hold of the view and of what Show names before the host is
// covered.
func (b *rootBuilder) grab() (err error) {
	if b.view, err = openTree(b.spec.View, 0); err != nil {
		return err
	}
	for _, s := range b.spec.Show {
		fd, err := openTree(s.Src, unix.AT_RECURSIVE)
		if err != nil {
			return err
		}
		b.shown = append(b.shown, fd)
	}
	return nil
}

// own are the top-level names that are not the host's inside.
var own = map[string]bool{"proc": true, "sys": true, "dev": true, "run": true, "tmp": true, "warren": true}

// host shows each top-level entry of the host's root.
func (b *rootBuilder) host() error {
	for name := range own {
		if err := os.Mkdir(at("/"+name), 0o755); err != nil {
			return err
		}
	}
	if b.spec.Minimal {
		return b.minimal()
	}
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if own[e.Name()] {
			continue
		}
		if err := b.hostEntry(e); err != nil {
			return err
		}
	}
	return nil
}

func (b *rootBuilder) hostEntry(e os.DirEntry) error {
	src, dst := "/"+e.Name(), at("/"+e.Name())
	switch e.Type() {
	case os.ModeSymlink:
		target, err := os.Readlink(src)
		if err != nil {
			return err
		}
		return os.Symlink(target, dst)
	case os.ModeDir:
		if err := os.Mkdir(dst, 0o755); err != nil {
			return err
		}
	case 0:
		if err := os.WriteFile(dst, nil, 0o444); err != nil {
			return err
		}
	default:
		return nil // sockets, devices and fifos are not shown
	}
	if err := unix.Mount(src, dst, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("%s: %w", src, err)
	}
	return nil
}

// dropMounts takes away every mount below the host's directories that does not
// hold the host's own files.
func (b *rootBuilder) dropMounts() error {
	mounts, err := mountsUnder(rootDir)
	if err != nil {
		return err
	}
	gone := ""
	for _, m := range mounts {
		if hostFS[m.Type] || gone != "" && strings.HasPrefix(m.Dir, gone+"/") {
			continue
		}
		gone = m.Dir
		if unix.Unmount(m.Dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil {
			continue
		}
		// Mounts that came with a user namespace cannot be taken away, but
		// can be covered.
		if err := cover(m.Dir); err != nil {
			return err
		}
	}
	return nil
}

// hide covers what must not be seen.
func (b *rootBuilder) hide() error {
	for _, p := range b.spec.Hide {
		if own[strings.SplitN(p, "/", 3)[1]] {
			continue // not the host's there
		}
		if err := cover(at(p)); err != nil {
			return err
		}
	}
	for _, p := range []string{"/var/run", "/var/lock"} {
		if fi, err := os.Lstat(at(p)); err == nil && fi.IsDir() {
			if err := cover(at(p)); err != nil {
				return err
			}
		}
	}
	return tmpfs(at("/run"), "mode=0755,size=1m", 0)
}

// show places what Show names. Below a covered directory its path is made.
func (b *rootBuilder) show() error {
	for i, s := range b.spec.Show {
		dst := at(s.Dst)
		if err := mkdirNoLink(s.Dst); err != nil {
			return fmt.Errorf("%s: %w", s.Dst, err)
		}
		if err := moveMount(b.shown[i], dst); err != nil {
			return fmt.Errorf("%s: %w", s.Dst, err)
		}
	}
	return nil
}

// mkdirNoLink makes the directory at the inside path p, and refuses a path
// that leads through a symlink: it would be followed in the host's root.
func mkdirNoLink(p string) error {
	cur := rootDir
	for _, part := range strings.Split(strings.Trim(p, "/"), "/") {
		cur += "/" + part
		fi, err := os.Lstat(cur)
		switch {
		case errors.Is(err, os.ErrNotExist):
			if err := os.Mkdir(cur, 0o755); err != nil {
				return fmt.Errorf("cannot make it on the read-only host; choose a place below /run: %w", err)
			}
		case err != nil:
			return err
		case fi.Mode()&os.ModeSymlink != 0:
			return fmt.Errorf("%s is a symlink", strings.TrimPrefix(cur, rootDir))
		}
	}
	return nil
}

// files puts the replaced files in place.
func (b *rootBuilder) files() error {
	for i, f := range b.spec.Files {
		if strings.HasPrefix(f.Path, "/run/") {
			if err := os.MkdirAll(filepath.Dir(at(f.Path)), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(at(f.Path), []byte(f.Content), 0o444); err != nil {
				return err
			}
			continue
		}
		tmp := at(fmt.Sprintf("/run/.file%d", i))
		if err := os.WriteFile(tmp, []byte(f.Content), 0o444); err != nil {
			return err
		}
		if err := unix.Mount(tmp, at(f.Path), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", f.Path, err)
		}
		if err := os.Remove(tmp); err != nil {
			return err
		}
	}
	return nil
}

// seal makes everything there is so far read-only, without set-id programs and
// devices.
func (b *rootBuilder) seal() error {
	return setattr(rootDir, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, true)
}

// devices are those of the host's that a command may use.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

func (b *rootBuilder) dev() error {
	if err := tmpfs(at("/dev"), "mode=0755,size=64k", 0); err != nil {
		return err
	}
	for _, d := range devices {
		dst := at("/dev/" + d)
		if err := os.WriteFile(dst, nil, 0o666); err != nil {
			return err
		}
		if err := unix.Mount("/dev/"+d, dst, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	for link, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0",
		"stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(target, at("/dev/"+link)); err != nil {
			return err
		}
	}
	for _, dir := range []string{"pts", "shm"} {
		if err := os.Mkdir(at("/dev/"+dir), 0o755); err != nil {
			return err
		}
	}
	err := unix.Mount("devpts", at("/dev/pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC,
		"newinstance,ptmxmode=0666,mode=0620")
	if err != nil {
		return fmt.Errorf("pts: %w", err)
	}
	if err := tmpfs(at("/dev/shm"), "mode=1777", unix.MS_NOEXEC); err != nil {
		return err
	}
	return setattr(at("/dev"), unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC, false)
}

func (b *rootBuilder) proc() error {
	err := unix.Mount("proc", at("/proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: the host hides parts of its own /proc (a container?), which does not let a user namespace have one", err)
	}
	return err
}

// warren places the view and the agent's temporary directory.
func (b *rootBuilder) warren() error {
	if err := moveMount(b.view, at(warrenDir)); err != nil {
		return err
	}
	if err := setattr(at(warrenDir), unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, false); err != nil {
		return err
	}
	if b.spec.Minimal {
		if err := b.narrow(); err != nil {
			return err
		}
		return tmpfs(at("/tmp"), "mode=1777,size=64m", 0)
	}
	tmps, err := b.tmps()
	if err != nil {
		return fmt.Errorf("the agent's %s: %w; it must be a directory, so remove what is there and it is made anew", b.spec.Tmp, err)
	}
	if err := b.narrow(); err != nil {
		return err
	}
	for dst, fd := range tmps {
		if err := moveMount(fd, at(dst)); err != nil {
			return fmt.Errorf("%s: %w", dst, err)
		}
	}
	return nil
}

// tmps makes detached mounts of the agent's temporary directory, by where they
// belong.
func (b *rootBuilder) tmps() (map[string]int, error) {
	out := map[string]int{}
	for _, dst := range []string{"/tmp", "/var/tmp"} {
		if fi, err := os.Lstat(at(dst)); err != nil || !fi.IsDir() {
			continue // a host without /var/tmp, or with a link to /tmp
		}
		fd, err := treeBelow(at(warrenDir), b.spec.Tmp, unix.O_DIRECTORY)
		if err != nil {
			return nil, err
		}
		out[dst] = fd
	}
	return out, nil
}

// openBelow opens p in the view mounted at dir, with O_PATH and flags. The agent may
// change the names at any moment: no symlink is followed, and no name leads out of the
// view.
func openBelow(dir, p string, flags uint64) (int, error) {
	root, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	return unix.Openat2(root, strings.TrimPrefix(p, "/"), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | flags,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	})
}

// enter makes the new root the root and lets go of the old one.
func enter() error {
	if err := os.Chdir(rootDir); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the host's root: %w", err)
	}
	return os.Chdir("/")
}

func tmpfs(dir, options string, flags uintptr) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|flags, options); err != nil {
		return fmt.Errorf("tmpfs on %s: %w", strings.TrimPrefix(dir, rootDir), err)
	}
	return nil
}

// cover hides a directory behind an empty one, or a file behind /dev/null. A
// path that is not there, or that this user cannot reach (nor then can the
// command), needs no cover.
func cover(p string) error {
	fi, err := os.Lstat(p)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return nil
	case err == nil && !fi.IsDir() && fi.Mode()&os.ModeSymlink == 0:
		return unix.Mount("/dev/null", p, "", unix.MS_BIND, "")
	case err == nil && fi.Mode()&os.ModeSymlink != 0:
		return fmt.Errorf("%s is a symlink", p)
	}
	// A mount whose daemon is gone, or that is another user's, has no stat but
	// can be covered.
	err = tmpfs(p, "mode=0755,size=64k", 0)
	if errors.Is(err, unix.EACCES) && !reachable(filepath.Dir(p)) {
		return nil
	}
	return err
}

// reachable tells whether this process may search dir.
func reachable(dir string) bool { return unix.Access(dir, unix.X_OK) == nil }

// openTree makes a detached copy of the mount at p.
func openTree(p string, flags uint) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, p, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|flags)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", p, err)
	}
	return fd, nil
}

func moveMount(fd int, dst string) error {
	defer unix.Close(fd)
	return unix.MoveMount(fd, "", unix.AT_FDCWD, dst, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// setattr sets mount attributes, on all mounts below too if recursive.
func setattr(p string, set uint64, recursive bool) error {
	flags := uint(0)
	if recursive {
		flags = unix.AT_RECURSIVE
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, p, flags, &unix.MountAttr{Attr_set: set}); err != nil {
		return fmt.Errorf("mount_setattr %s (needs Linux 5.12): %w", p, err)
	}
	return nil
}
