package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/warrenfs/warren/control"
	"golang.org/x/sys/unix"
)

// helperTime bounds a run of fusermount3.
const helperTime = 20 * time.Second

// setuidMount mounts by fusermount3, for a user who may not mount, and gives the
// descriptor of /dev/fuse. The mount is the caller's own.
func setuidMount(spec *control.MountSpec, source string) (int, error) {
	if *spec.UID != uint32(os.Geteuid()) || *spec.GID != uint32(os.Getegid()) {
		return -1, errors.New("fusermount3 mounts for its caller only; leave --uid and --gid out")
	}
	bin, err := exec.LookPath("fusermount3")
	if err != nil {
		return -1, errors.New("fusermount3 is not installed")
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "fusermount3"), os.NewFile(uintptr(pair[1]), "fusermount3")
	defer ours.Close()
	defer theirs.Close()
	opts := []string{"nosuid", "nodev", "default_permissions", "subtype=warren", "fsname=" + source, fmt.Sprintf("max_read=%d", control.MaxRead)}
	if spec.Access == "ro" {
		opts = append(opts, "ro")
	}
	if spec.AllowOther {
		opts = append(opts, "allow_other")
	}
	ctx, cancel := context.WithTimeout(context.Background(), helperTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, "-o", strings.Join(opts, ","), "--", spec.Dir)
	var said bytes.Buffer
	cmd.Stderr = &said
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	if err := cmd.Run(); err != nil {
		return -1, fmt.Errorf("%s (%w)", strings.TrimSpace(said.String()), err)
	}
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return -1, fmt.Errorf("fusermount3 sent nothing: %w", err)
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) != 1 {
		return -1, errors.New("fusermount3 sent no descriptor")
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.New("fusermount3 sent no descriptor")
	}
	return fds[0], nil
}

// unmountOwn takes a mount away that this process's user made, detached from the
// tree if lazy; by fusermount3 where the user may not unmount.
func unmountOwn(dir string, lazy bool) error {
	flags, arg := unix.UMOUNT_NOFOLLOW, "-u"
	if lazy {
		flags, arg = flags|unix.MNT_DETACH, "-uz"
	}
	err := unix.Unmount(dir, flags)
	bin, missing := exec.LookPath("fusermount3")
	if !errors.Is(err, unix.EPERM) || missing != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), helperTime)
	defer cancel()
	out, herr := exec.CommandContext(ctx, bin, arg, "--", dir).CombinedOutput()
	switch {
	case herr == nil:
		return nil
	case bytes.Contains(out, []byte("busy")):
		return unix.EBUSY
	}
	return fmt.Errorf("%w; fusermount3: %s", err, bytes.TrimSpace(out))
}
