package fusefs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
)

// mountCall is what mount(2) is told.
type mountCall struct {
	dir        string
	at         string // dir by its open descriptor, so that it is the one that was checked; "" is dir
	over       int    // the root of the dead mount on at, which is to be replaced; or -1
	source     string // first column of df
	uid, gid   uint32 // whose mount it is
	allowOther bool
	modes      bool // the kernel checks mode bits
	readOnly   bool
	helper     bool // by fusermount3
}

// do opens /dev/fuse and mounts it. The descriptor is the caller's; the kernel
// has its INIT ready on it.
func (c *mountCall) do() (fd int, err error) {
	if c.helper {
		return c.fusermount()
	}
	fd, err = openDevice()
	if err != nil {
		return -1, err
	}
	if c.at != "" && c.over >= 0 {
		err = c.replace(fd)
	} else {
		err = c.mount(fd)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// mount mounts fd by mount(2).
func (c *mountCall) mount(fd int) error {
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	if c.readOnly {
		flags |= unix.MS_RDONLY
	}
	opts := fmt.Sprintf("fd=%d,rootmode=%o,user_id=%d,group_id=%d,max_read=%d",
		fd, unix.S_IFDIR, c.uid, c.gid, maxWrite)
	if c.modes {
		opts += ",default_permissions"
	}
	if c.allowOther {
		opts += ",allow_other"
	}
	at := c.at
	if at == "" {
		at = c.dir
	}
	if err := unix.Mount(c.source, at, fsType, flags, opts); err != nil {
		return mountError(c.dir, kindOfErrno(err), errors.Join(mountHelp(err), err))
	}
	if c.at == "" {
		return nil
	}
	return c.stayed(c.at)
}

// stayed makes sure that what was mounted on, which is open as at, is still
// called dir: else it is unmounted, as nobody would find it.
func (c *mountCall) stayed(at string) error {
	now, err := os.Readlink(at)
	if err == nil && now == c.dir {
		return nil
	}
	if err == nil {
		err = unix.Unmount(now, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	return mountError(c.dir, backend.Stale, errors.Join(errors.New("it was moved while it was being mounted"), err))
}

// openDevice opens /dev/fuse.
func openDevice() (int, error) {
	const dev = "/dev/fuse"
	fd, err := unix.Open(dev, unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch err {
	case nil:
		return fd, nil
	case unix.ENOENT, unix.ENODEV, unix.ENXIO:
		return -1, &backend.Error{Op: "mount", Path: dev, Kind: backend.NotFound, Err: errors.New(
			"this kernel or container has no FUSE; load the module (modprobe fuse), or start the container with --device /dev/fuse")}
	case unix.EACCES, unix.EPERM:
		return -1, &backend.Error{Op: "mount", Path: dev, Kind: backend.Denied, Err: errors.New(
			"no permission to open it; run the daemon as root, or let its group read and write it")}
	}
	return -1, mountError(dev, kindOfErrno(err), err)
}

func mountHelp(err error) error {
	switch err {
	case unix.EPERM, unix.EACCES:
		return errors.New("no permission to mount; the daemon needs CAP_SYS_ADMIN in this mount namespace")
	case unix.EBUSY:
		return errors.New("the mountpoint is busy")
	case unix.ENODEV:
		return errors.New("this kernel has no FUSE")
	}
	return errors.New("mount(2) failed")
}

// helperTime bounds a run of fusermount3 that mounts.
const helperTime = 20 * time.Second

// groupCommand is a command that ends with ctx, with all that it has started.
func groupCommand(ctx context.Context, bin string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	return cmd
}

// fusermount mounts by the set-user-id helper, for a daemon that is not root.
// The mount is then the daemon's own user's.
func (c *mountCall) fusermount() (int, error) {
	if c.uid != uint32(os.Geteuid()) {
		return -1, mountError(c.dir, backend.NotPermitted, errors.New(
			"a daemon that is not root mounts for its own user only; leave --uid out"))
	}
	bin, err := exec.LookPath("fusermount3")
	if err != nil {
		return -1, mountError(c.dir, backend.Unavailable, errors.New(
			"a daemon that is not root needs fusermount3 to mount; install fuse3"))
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, mountError(c.dir, backend.Other, err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "fusermount"), os.NewFile(uintptr(pair[1]), "fusermount")
	defer ours.Close()
	defer theirs.Close()
	opts := []string{"nosuid", "nodev", "subtype=warren", "fsname=" + c.source,
		fmt.Sprintf("max_read=%d", maxWrite)}
	if c.readOnly {
		opts = append(opts, "ro")
	}
	if c.modes {
		opts = append(opts, "default_permissions")
	}
	if c.allowOther {
		opts = append(opts, "allow_other")
	}
	ctx, cancel := context.WithTimeout(context.Background(), helperTime)
	defer cancel()
	cmd := groupCommand(ctx, bin, "-o", strings.Join(opts, ","), "--", c.dir)
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	err = cmd.Run()
	if ctx.Err() != nil {
		ours.Close() // and with it what may have been sent
		theirs.Close()
		return -1, mountError(c.dir, backend.Unavailable, errors.Join(errors.New("fusermount3 takes too long"), ClearDead(c.dir)))
	}
	if err != nil {
		return -1, mountError(c.dir, backend.NotPermitted, fmt.Errorf("fusermount3: %s: %w", strings.TrimSpace(said.String()), err))
	}
	return receiveFD(pair[0])
}

// receiveFD takes the descriptor that fusermount3 has sent.
func receiveFD(sock int) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(sock, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return -1, &backend.Error{Op: "mount", Kind: backend.Other, Err: fmt.Errorf("fusermount3 sent no descriptor: %w", err)}
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err == nil && len(msgs) == 1 {
		if fds, err := unix.ParseUnixRights(&msgs[0]); err == nil && len(fds) == 1 {
			return fds[0], nil
		}
	}
	return -1, &backend.Error{Op: "mount", Kind: backend.Other, Err: errors.New("fusermount3 sent no descriptor")}
}

// helper tells whether fusermount3 mounts and unmounts.
func (h *Hub) helper() bool { return h.tests.helper || os.Geteuid() != 0 }

// unmount takes away what is mounted at dir. EBUSY while it is in use.
func unmount(ctx context.Context, dir string, helper bool) error {
	if helper {
		return fusermountU(ctx, "-u", dir)
	}
	return unix.Unmount(dir, unix.UMOUNT_NOFOLLOW)
}

// detach takes it out of the tree at once; it goes when nobody uses it.
func detach(dir string, helper bool) error {
	if helper {
		return fusermountU(context.Background(), "-uz", dir)
	}
	return unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
}

// fusermountU has ended, with the umount(8) that it may start, when this returns.
func fusermountU(ctx context.Context, flag, dir string) error {
	bin, err := exec.LookPath("fusermount3")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	out, err := groupCommand(ctx, bin, flag, "--", dir).CombinedOutput()
	if err != nil && bytes.Contains(out, []byte("busy")) {
		return syscall.EBUSY
	}
	if err != nil {
		return fmt.Errorf("fusermount3: %s: %w", bytes.TrimSpace(out), err)
	}
	return nil
}

// abort ends connection minor where fusectl is mounted (no container has it),
// and tells whether it did: whoever waits in the connection gets ENOTCONN.
func abort(minor uint32) bool {
	return os.WriteFile(fmt.Sprintf("/sys/fs/fuse/connections/%d/abort", minor), []byte("1"), 0) == nil
}
