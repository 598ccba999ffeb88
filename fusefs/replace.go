package fusefs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
)

// A daemon that died leaves dead mounts. To take one away and mount anew leaves
// the mountpoint bare for a moment, in which a program at work writes to the
// host's disk. So the new mount is put beneath the dead one, which then goes.

// moveBeneath is MOVE_MOUNT_BENEATH (Linux 6.5).
const moveBeneath = 0x200

// errBeneath tells that a dead mount cannot be replaced without a gap: the
// kernel is older than 6.5, or forbids it.
var errBeneath = errors.New("a dead mount cannot be replaced in place")

// clearToLast clears dead mounts of warren at dir away, but keeps the last, and
// tells whether there is one: nothing else is mounted there then.
func clearToLast(dir string) (dead bool, err error) {
	for range 16 {
		e, ok := topMount(dir)
		if !ok || !e.dead() {
			return false, nil
		}
		if countMounts(dir) == 1 {
			return true, nil
		}
		if err := clearTop(dir); err != nil {
			return false, err
		}
	}
	return false, nil
}

// openDead opens the root of the dead mount at dir and the directory that it
// hides, both O_PATH. That one is reached in a copy of the mount it is in.
func openDead(dir string) (top, bare int, err error) {
	type opened struct {
		top, bare int
		err       error
	}
	done := make(chan opened, 1)
	go func() {
		var o opened
		o.top, o.bare, o.err = walkToDead(dir)
		done <- o
	}()
	select {
	case o := <-done:
		return o.top, o.bare, o.err
	case <-time.After(probeTime):
		go func() {
			if late := <-done; late.err == nil {
				unix.Close(late.top)
				unix.Close(late.bare)
			}
		}()
		return -1, -1, mountError(dir, backend.Unavailable, syscall.ETIMEDOUT)
	}
}

func walkToDead(dir string) (top, bare int, err error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	parent, base := filepath.Split(dir)
	up, err := walkTo(filepath.Clean(parent))
	if err != nil {
		return -1, -1, err
	}
	defer unix.Close(up)
	alone, err := unix.OpenTree(up, "", unix.OPEN_TREE_CLONE|unix.O_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, -1, mountError(dir, kindOfErrno(err), errors.Join(errBeneath, err))
	}
	defer unix.Close(alone)
	if bare, err = unix.Openat(alone, base, flags, 0); err != nil {
		return -1, -1, whyNot(alone, base, dir, true, err)
	}
	if top, err = unix.Openat(up, base, flags, 0); err != nil {
		unix.Close(bare)
		return -1, -1, mountError(dir, kindOfErrno(err), errors.Join(errBeneath, err))
	}
	return top, bare, nil
}

// replace mounts fd in the place of the dead mount whose root is open as c.at.
// Until then whoever goes there gets ENOTCONN.
func (c *mountCall) replace(fd int) error {
	m, err := c.detached(fd)
	if err == nil {
		defer unix.Close(m)
		err = unix.MoveMount(m, "", c.over, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH|moveBeneath)
	}
	if err != nil {
		return mountError(c.dir, kindOfErrno(err), errors.Join(errBeneath, err))
	}
	if err := unix.Unmount(fdPath(c.over), unix.MNT_DETACH); err != nil {
		return mountError(c.dir, kindOfErrno(err), errors.Join(errors.New("a dead mount is in the way and cannot be cleared"), err))
	}
	return c.stayed(fdPath(m))
}

// detached makes the mount, at no place yet.
func (c *mountCall) detached(fd int) (int, error) {
	kind, subtype, _ := strings.Cut(fsType, ".")
	fs, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	set := [][2]string{{"source", c.source}, {"subtype", subtype}, {"fd", strconv.Itoa(fd)},
		{"rootmode", fmt.Sprintf("%o", unix.S_IFDIR)}, {"user_id", strconv.Itoa(int(c.uid))},
		{"group_id", strconv.Itoa(int(c.gid))}, {"max_read", strconv.Itoa(maxWrite)}}
	for _, o := range set {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			return -1, err
		}
	}
	flags, attrs := []string(nil), unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV
	if c.modes {
		flags = append(flags, "default_permissions")
	}
	if c.allowOther {
		flags = append(flags, "allow_other")
	}
	if c.readOnly {
		flags, attrs = append(flags, "ro"), attrs|unix.MOUNT_ATTR_RDONLY
	}
	for _, o := range flags {
		if err := unix.FsconfigSetFlag(fs, o); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attrs)
}
