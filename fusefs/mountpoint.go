package fusefs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
)

// probeTime bounds looking at a mountpoint: what is mounted there may hang.
const probeTime = 5 * time.Second

func mountError(dir string, kind backend.Kind, err error) error {
	return &backend.Error{Op: "mount", Path: dir, Kind: kind, Err: err}
}

// resolveMountpoint makes dir absolute and free of symbolic links, without
// looking into a mount of this daemon.
func (h *Hub) resolveMountpoint(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", mountError(dir, backend.Invalid, err)
	}
	if err := h.notInside(abs); err != nil {
		return "", err
	}
	parent, base := filepath.Split(abs)
	var real string
	err = bounded(func() (err error) { real, err = filepath.EvalSymlinks(parent); return err })
	if err != nil {
		return "", mountError(dir, kindOfErrno(err), err)
	}
	real = filepath.Join(real, base)
	return real, h.notInside(real)
}

// notInside refuses a directory inside a mount of this daemon.
func (h *Hub) notInside(dir string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for at := range h.mounts {
		if strings.HasPrefix(dir, strings.TrimSuffix(at, "/")+"/") {
			return mountError(dir, backend.Invalid, errors.New("it is inside a mount of this daemon; choose a directory elsewhere"))
		}
		if dir == at {
			return mountError(dir, backend.Busy, errors.New("warren is mounted there already; unmount it first"))
		}
	}
	return nil
}

// bounded runs fn, which looks at files that may hang.
func bounded(fn func() error) error {
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err := <-done:
		return err
	case <-time.After(probeTime):
		return syscall.ETIMEDOUT
	}
}

// prepareMountpoint checks that dir can be mounted on. A mount of warren whose
// daemon is gone is cleared away first.
func prepareMountpoint(dir string) error {
	if err := ClearDead(dir); err != nil {
		return err
	}
	var st unix.Stat_t
	err := bounded(func() error { return unix.Lstat(dir, &st) })
	switch {
	case err == unix.ENOENT:
		return mountError(dir, backend.NotFound, errors.New("the mountpoint is missing; make the directory first"))
	case err != nil:
		return mountError(dir, kindOfErrno(err), err)
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return mountError(dir, backend.NotDir, errors.New("the mountpoint is a symbolic link; name the directory itself"))
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return mountError(dir, backend.NotDir, errors.New("a mountpoint must be a directory"))
	}
	if e, ok := topMount(dir); ok {
		return mountError(dir, backend.Busy, errors.New("a "+e.fsType+" is mounted there; unmount it first"))
	}
	return bounded(func() error { return isEmpty(dir) })
}

func isEmpty(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return mountError(dir, kindOfErrno(err), err)
	}
	defer f.Close()
	switch _, err = f.Readdirnames(1); err {
	case io.EOF:
		return nil
	case nil:
		return mountError(dir, backend.NotEmpty, errors.New("what is in it would be hidden; choose an empty directory"))
	}
	return mountError(dir, kindOfErrno(err), err)
}

// ClearDead detaches mounts of warren at dir that no daemon serves any more
// ("Transport endpoint is not connected"). What is alive, or not warren's, stays.
func ClearDead(dir string) error {
	for range 16 { // they may lie over each other
		e, ok := topMount(dir)
		if !ok || e.fsType != fsType {
			return nil
		}
		if err := bounded(func() error { return e.probe() }); err != unix.ENOTCONN {
			return nil // alive: somebody else's
		}
		if err := detach(dir, os.Geteuid() != 0); err != nil {
			return mountError(dir, kindOfErrno(err), errors.Join(errors.New("a dead mount is in the way and cannot be cleared"), err))
		}
	}
	return nil
}

// probe asks what is mounted for an answer: by statfs, which is never answered
// from the kernel's caches, as stat of a root whose daemon is gone still is;
// and as the mount's own user, since for others, root too, the kernel makes an
// answer up.
func (e mountEntry) probe() error {
	fd, err := unix.Open(e.dir, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	answer := make(chan error, 1)
	go func() {
		defer unix.Close(fd)
		if e.uid != uint32(os.Geteuid()) {
			// The ids of this one thread. It is never unlocked, so it ends with
			// the goroutine and runs nothing else.
			runtime.LockOSThread()
			g, u := uintptr(e.gid), uintptr(e.uid)
			_, _, gerr := unix.RawSyscall(unix.SYS_SETRESGID, g, g, g)
			_, _, uerr := unix.RawSyscall(unix.SYS_SETRESUID, u, u, u)
			if gerr != 0 || uerr != 0 {
				answer <- unix.EPERM
				return
			}
		}
		var st unix.Statfs_t
		answer <- unix.Fstatfs(fd, &st)
	}()
	return <-answer
}

// kindOfErrno finds a kind for what the system said.
func kindOfErrno(err error) backend.Kind {
	var e syscall.Errno
	if !errors.As(err, &e) {
		return backend.Other
	}
	for kind, errno := range errnos {
		if errno == e && e != syscall.EIO {
			return kind
		}
	}
	switch e {
	case syscall.ETIMEDOUT, syscall.ENOTCONN:
		return backend.Unavailable
	}
	return backend.Other
}
