package fusefs

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
)

// probeTime bounds looking at a mountpoint: what is mounted there may hang.
const probeTime = 5 * time.Second

func mountError(dir string, kind backend.Kind, err error) error {
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		kind, err = backend.Unavailable, noDescriptors(err)
	}
	return &backend.Error{Op: "mount", Path: dir, Kind: kind, Err: err}
}

// noDescriptors returns err, which is EMFILE or ENFILE, with the limit that was reached
// and what to do.
func noDescriptors(err error) error {
	var limit unix.Rlimit
	if errors.Is(err, unix.EMFILE) && unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		return fmt.Errorf("the daemon has all %d file descriptors open that it may have (EMFILE); unmount something, or raise the limit "+
			"(LimitNOFILE= of its unit, or `ulimit -n` before `warren serve`): %w", limit.Cur, err)
	}
	return fmt.Errorf("this machine has no file descriptors left (ENFILE); close something, or raise fs.file-max: %w", err)
}

// place finds where cfg is to be mounted: free of symbolic links.
func (h *Hub) place(cfg *Config) (string, error) {
	if !cfg.Exact {
		return h.resolveMountpoint(cfg.Dir)
	}
	if !filepath.IsAbs(cfg.Dir) || filepath.Clean(cfg.Dir) != cfg.Dir {
		return "", mountError(cfg.Dir, backend.Invalid, errors.New("it is not a clean absolute path"))
	}
	return cfg.Dir, h.notInside(cfg.Dir)
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

// endTime bounds the wait for a mount that was unmounted and has not ended: a
// process that makes a mount namespace for itself, such as the next `warren run`,
// holds a copy of every mount for a moment.
const endTime = 3 * time.Second

// errElsewhere is why a mount goes on that is not at its directory any more.
var errElsewhere = errors.New("what was mounted there is still in use elsewhere, by a bind mount or open files; end that first, or say `warren umount --force` once more")

// notInside refuses a directory inside a mount of this daemon. h.mu not held.
func (h *Hub) notInside(dir string) error {
	for end := time.Now().Add(endTime); ; time.Sleep(20 * time.Millisecond) {
		err := h.notInsideNow(dir)
		if !errors.Is(err, errElsewhere) || !time.Now().Before(end) {
			return err
		}
	}
}

func (h *Hub) notInsideNow(dir string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for at, m := range h.mounts {
		if strings.HasPrefix(dir, strings.TrimSuffix(at, "/")+"/") {
			return mountError(dir, backend.Invalid, errors.New("it is inside a mount of this daemon; choose a directory elsewhere"))
		}
		if dir == at && !stillMounted(at, m.minor) {
			if now, there, _ := m.where(); there {
				return mountError(dir, backend.Busy, errors.New("what was mounted there is at "+now.Dir+
					" now, as a directory above it was renamed; unmount it first"))
			}
			return mountError(dir, backend.Busy, errElsewhere)
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

// mountpoint is a directory to be mounted on. What is opened (O_PATH) is what was
// checked, and then mounted on: nobody can slip another directory in between.
type mountpoint struct {
	bare int // the directory
	over int // the root of the dead mount on it, which is to be replaced; or -1
}

func (p mountpoint) close() {
	unix.Close(p.bare)
	if p.over >= 0 {
		unix.Close(p.over)
	}
}

// prepareMountpoint opens cfg.Dir and checks that it can be mounted on. A mount
// of warren there whose daemon is gone is cleared away first; if inPlace, the
// last is left to be replaced, or the error is errBeneath.
//
// A mount for another user than the daemon's own stands on a directory of that
// user or of the daemon's: who may move directories around on the way must not
// choose one of somebody else's. What is in the mountpoint of a mount that comes
// back (Exact) was made while it was away: it is hidden, with a warning.
func prepareMountpoint(cfg *Config, inPlace bool, log *slog.Logger) (p mountpoint, err error) {
	if p, err = openAny(cfg.Dir, inPlace); err != nil {
		return p, err
	}
	if err = p.check(cfg); cfg.Exact && backend.KindOf(err) == backend.NotEmpty {
		log.Warn("files were made in the directory while it was not mounted; the mount hides them", "dir", cfg.Dir)
		err = nil
	}
	if err != nil {
		p.close()
	}
	return p, err
}

// openAny opens dir beneath what is dead there.
func openAny(dir string, inPlace bool) (p mountpoint, err error) {
	p.over = -1
	if table, err := mountTable(); len(table) == 0 {
		return p, mountError(dir, backend.Unavailable, fmt.Errorf("what is mounted there is not known: %w", err))
	}
	dead := false
	if inPlace {
		dead, err = clearToLast(dir)
	} else {
		err = ClearDead(dir)
	}
	if err != nil {
		return p, err
	}
	if dead {
		p.over, p.bare, err = openDead(dir)
		return p, err
	}
	if e, ok := topMount(dir); ok {
		return p, mountError(dir, backend.Busy, errors.New("a "+e.Type+" is mounted there; unmount it first"))
	}
	p.bare, err = openMountpoint(dir)
	return p, err
}

// check makes sure of the owner, and that nothing would be hidden.
func (p mountpoint) check(cfg *Config) error {
	fd, err := unix.FcntlInt(uintptr(p.bare), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return mountError(cfg.Dir, kindOfErrno(err), err)
	}
	return bounded(func() error { // and it may go on after that
		defer unix.Close(fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return mountError(cfg.Dir, kindOfErrno(err), err)
		}
		if own := uint32(os.Geteuid()); cfg.UID != own && st.Uid != cfg.UID && st.Uid != own {
			return mountError(cfg.Dir, backend.Denied, fmt.Errorf(
				"it belongs to uid %d, and the mount would be for uid %d; choose a directory of theirs", st.Uid, cfg.UID))
		}
		return isEmpty(cfg.Dir, fd)
	})
}

// openMountpoint walks to dir through directories only.
func openMountpoint(dir string) (fd int, err error) {
	type opened struct {
		fd  int
		err error
	}
	done := make(chan opened, 1)
	go func() {
		var o opened
		o.fd, o.err = walkTo(dir)
		done <- o
	}()
	select {
	case o := <-done:
		return o.fd, o.err
	case <-time.After(probeTime):
		go func() {
			if late := <-done; late.fd >= 0 {
				unix.Close(late.fd)
			}
		}()
		return -1, mountError(dir, backend.Unavailable, syscall.ETIMEDOUT)
	}
}

// walkTo opens dir (O_PATH), one name after the other, and follows no link.
func walkTo(dir string) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	at, err := unix.Open("/", flags, 0)
	for walked := ""; err == nil && walked != dir; {
		name, _, _ := strings.Cut(strings.TrimPrefix(dir[len(walked):], "/"), "/")
		if name == "" {
			break
		}
		var next int
		next, err = unix.Openat(at, name, flags, 0)
		if walked += "/" + name; err != nil {
			err = whyNot(at, name, walked, walked == dir, err)
		}
		unix.Close(at)
		at = next
	}
	if err != nil {
		return -1, err
	}
	return at, nil
}

// whyNot words why name in at, which is path, was not opened as a directory.
func whyNot(at int, name, path string, last bool, err error) error {
	var st unix.Stat_t
	_ = unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	link := st.Mode&unix.S_IFMT == unix.S_IFLNK
	switch {
	case err == unix.ENOENT:
		return mountError(path, backend.NotFound, errors.New("the mountpoint is missing; make the directory first"))
	case err == unix.ENOTDIR && link && last:
		return mountError(path, backend.NotDir, errors.New("the mountpoint is a symbolic link; name the directory itself"))
	case err == unix.ENOTDIR && link:
		return mountError(path, backend.Denied, errors.New(
			"it is a symbolic link now, and was none before; `warren umount` the mountpoint, and mount where it should be"))
	case err == unix.ENOTDIR:
		return mountError(path, backend.NotDir, errors.New("a mountpoint must be a directory"))
	}
	return mountError(path, kindOfErrno(err), err)
}

// fdPath is a path of what is open as fd.
func fdPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// isEmpty looks into dir, which is open as fd.
func isEmpty(dir string, fd int) error {
	f, err := os.Open(fdPath(fd))
	if err != nil {
		return mountError(dir, kindOfErrno(err), errors.New("whoever mounts has to be able to list the directory"))
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
		if !ok || !e.dead() {
			return nil // alive: somebody else's
		}
		if err := clearTop(dir); err != nil {
			return err
		}
	}
	return nil
}

// dead tells whether e is a mount of warren that no daemon serves.
func (e mountEntry) dead() bool {
	return e.Type == fsType && bounded(e.probe) == unix.ENOTCONN
}

// clearTop detaches the uppermost mount at dir, which is dead.
func clearTop(dir string) error {
	if err := detach(dir, os.Geteuid() != 0); err != nil {
		return mountError(dir, kindOfErrno(err), errors.Join(errors.New("a dead mount is in the way and cannot be cleared"), err))
	}
	return nil
}

// probe asks what is mounted for an answer: by statfs, which is never answered
// from the kernel's caches, as stat of a root whose daemon is gone still is;
// and as the mount's own user, since for others, root too, the kernel makes an
// answer up.
func (e mountEntry) probe() error {
	fd, err := unix.Open(e.Dir, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	answer := make(chan error, 1)
	go func() {
		defer unix.Close(fd)
		if e.UID != uint32(os.Geteuid()) {
			// The ids of this one thread. It is never unlocked, so it ends with
			// the goroutine and runs nothing else.
			runtime.LockOSThread()
			g, u := uintptr(e.GID), uintptr(e.UID)
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
	least := backend.Other // of the kinds that are this errno
	for kind, errno := range errnos {
		if errno == e && e != syscall.EIO && (least == backend.Other || kind < least) {
			least = kind
		}
	}
	if least != backend.Other {
		return least
	}
	switch e {
	case syscall.ETIMEDOUT, syscall.ENOTCONN:
		return backend.Unavailable
	}
	return backend.Other
}
