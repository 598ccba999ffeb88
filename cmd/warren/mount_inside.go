package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/fusefs/mountinfo"
	"golang.org/x/sys/unix"
)

// viewFS is the type of a mount of warren.
const viewFS = "fuse.warren"

// mountInside mounts a view in this process's own namespaces, those of a container,
// and has the daemon serve it: what is mounted here cannot be mounted from outside.
func mountInside(ctx context.Context, a *app, spec control.MountSpec) (control.Mount, error) {
	dir, err := ownMountpoint(spec.Dir)
	if err != nil {
		return control.Mount{}, err
	}
	spec.Dir = dir
	if spec.UID == nil {
		id := uint32(os.Geteuid())
		spec.UID = &id
	}
	if spec.GID == nil {
		id := uint32(os.Getegid())
		spec.GID = &id
	}
	mounted := false
	m, err := a.client().HandOver(ctx, spec, func() (int, error) {
		fd, err := ownMount(&spec)
		mounted = err == nil
		return fd, err
	})
	if err != nil && mounted {
		if e := unmountOwn(dir, true); e != nil {
			err = fmt.Errorf("%w; and %s stays mounted: %w", err, dir, e)
		}
	}
	return m, err
}

// ownMountpoint gives dir free of symlinks above it, if it is an empty directory.
// What a daemon that is gone has left there is cleared away.
func ownMountpoint(dir string) (string, error) {
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return "", localError(err)
	}
	dir = filepath.Join(parent, filepath.Base(dir))
	if mountedView(dir) {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err == nil {
			return "", control.Errorf(control.KindConflict, "%s: warren is mounted there already; `warren umount %s` takes it away", dir, dir)
		} else if !errors.Is(err, unix.ENOTCONN) {
			return "", fmt.Errorf("%s: what is mounted there does not answer: %w", dir, err)
		}
		if err := unmountOwn(dir, true); err != nil {
			return "", fmt.Errorf("%s: a dead mount is in the way: %w", dir, err)
		}
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return "", localError(err)
	}
	if !fi.IsDir() {
		return "", control.Errorf(control.KindInvalid, "%s: a mountpoint must be a directory, and no symlink to one", dir)
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return "", localError(err)
	}
	if len(names) > 0 {
		return "", control.Errorf(control.KindConflict, "%s: what is in it would be hidden; choose an empty directory", dir)
	}
	return dir, nil
}

// mountedView tells whether dir leads to a mount of warren there, and to none over it.
func mountedView(dir string) bool {
	all, err := mountinfo.Read()
	if err != nil {
		return false
	}
	at, ok := mountinfo.At(all, dir)
	return ok && at.Dir == dir && at.Type == viewFS
}

// ownMount opens /dev/fuse and mounts it, itself or by fusermount3.
func ownMount(spec *control.MountSpec) (int, error) {
	const dev = "/dev/fuse"
	fd, err := unix.Open(dev, unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return -1, control.Errorf(control.KindDenied, "%s: no permission to open it; let the container use it (--device /dev/fuse), and its mode be 0666", dev)
	case err != nil:
		return -1, control.Errorf(control.KindNotFound, "%s: %v; start the container with --device /dev/fuse", dev, err)
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	if spec.Access == "ro" {
		flags |= unix.MS_RDONLY
	}
	opts := fmt.Sprintf("fd=%d,rootmode=%o,user_id=%d,group_id=%d,default_permissions,max_read=%d",
		fd, unix.S_IFDIR, *spec.UID, *spec.GID, control.MaxRead)
	if spec.AllowOther {
		opts += ",allow_other"
	}
	source := "warren"
	if spec.Agent != "" {
		source += ":" + spec.Agent
	}
	if err = unix.Mount(source, spec.Dir, viewFS, flags, opts); err == nil {
		return fd, nil
	}
	unix.Close(fd)
	if !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
		return -1, fmt.Errorf("mount at %s: %w", spec.Dir, err)
	}
	why := ""
	if os.Geteuid() != 0 { // else its helper may no more than this
		if fd, err = setuidMount(spec, source); err == nil {
			return fd, nil
		}
		why = fmt.Sprintf("; and not by fusermount3: %v", err)
	}
	return -1, control.Errorf(control.KindDenied, "%s: no permission to mount here; it takes CAP_SYS_ADMIN in the container "+
		"(--cap-add SYS_ADMIN), or a user and mount namespace of one's own (`unshare -Urm`)%s", spec.Dir, why)
}

// umountInside takes away what mountInside made.
func umountInside(dir string, force bool) error {
	if !mountedView(dir) {
		return control.Errorf(control.KindNotFound, "no mount of warren at %q", dir)
	}
	err := unmountOwn(dir, force)
	switch {
	case errors.Is(err, unix.EBUSY):
		return control.Errorf(control.KindConflict, "%s is in use; end the processes in it (`fuser -m %s` lists them), or say --force", dir, dir)
	case errors.Is(err, unix.EPERM):
		return control.Errorf(control.KindDenied, "%s: no permission to unmount it here", dir)
	case err != nil:
		return fmt.Errorf("unmount %s: %w", dir, err)
	}
	return nil
}
