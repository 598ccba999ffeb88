package visitor

import (
	"encoding/gob"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Stage is the argv[0] of the process that runs Run.
const Stage = "warren-visitor"

// Visit is a directory to be looked up in one mount.
type Visit struct {
	Dir   string // the mountpoint, absolute and without symbolic links
	Minor uint32 // minor device number of the mount
	// Own makes the visitor UID and GID: nobody else may enter the mount.
	Own      bool
	UID, GID uint32
	Path     string // from the mount's root
	Node     uint64 // inode number that Path is to lead to
}

// request is a visit on its way to the process.
type request struct {
	ID    uint64
	Visit Visit
}

// reply is the result of a visit. Errno is 0 if Path leads to Node.
type reply struct {
	ID    uint64
	Errno syscall.Errno
}

// Run serves the visits that it reads from in until in ends. It returns the
// exit status of the process.
func Run(in io.Reader, out io.Writer) int {
	runtime.LockOSThread() // a visit may change the ids of its thread, and this is not one's
	var mu sync.Mutex
	dec, enc := gob.NewDecoder(in), gob.NewEncoder(out)
	for {
		var r request
		if err := dec.Decode(&r); err != nil {
			return 0
		}
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			errno := r.Visit.look()
			mu.Lock()
			defer mu.Unlock()
			_ = enc.Encode(reply{ID: r.ID, Errno: errno})
		}()
	}
}

// staleTime bounds the retries of a look-up that the kernel ends with ESTALE: a rename
// in the mount holds a lock that moving the directory needs.
const staleTime = 200 * time.Millisecond

// look looks v up in the calling thread, whose ids it may change.
func (v *Visit) look() syscall.Errno {
	if v.Own {
		if errno := become(v.UID, v.GID); errno != 0 {
			return errno
		}
	}
	root, errno := v.root()
	if errno != 0 {
		return errno
	}
	defer unix.Close(root)
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		errno = v.walk(root)
		if errno != unix.ESTALE || time.Since(start) > staleTime {
			return errno
		}
	}
}

// root opens the mount's root. It fails with ENODEV if another mount is at v.Dir.
func (v *Visit) root() (int, syscall.Errno) {
	fd, err := unix.Openat2(unix.AT_FDCWD, v.Dir, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return -1, errnoOf(err)
	}
	st, errno := stat(fd, 0)
	if errno == 0 && (st.Dev_major != 0 || st.Dev_minor != v.Minor) {
		errno = unix.ENODEV
	}
	if errno != 0 {
		unix.Close(fd)
		return -1, errno
	}
	return fd, 0
}

// maxPiece is the number of bytes of a path that one system call gets: PATH_MAX is 4,096
// bytes, and a name has at most 255.
const maxPiece = 3800

// walk looks v.Path up from root. It fails with ENOENT if the path leads to another directory.
func (v *Visit) walk(root int) syscall.Errno {
	at := root
	defer func() {
		if at != root {
			unix.Close(at)
		}
	}()
	for rest := v.Path; rest != ""; {
		piece := rest
		if len(piece) > maxPiece {
			piece = piece[:strings.LastIndexByte(piece[:maxPiece], '/')]
		}
		rest = strings.TrimPrefix(rest[len(piece):], "/")
		fd, err := unix.Openat2(at, piece, &unix.OpenHow{
			Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV})
		if err != nil {
			return errnoOf(err)
		}
		if at != root {
			unix.Close(at)
		}
		at = fd
	}
	st, errno := stat(at, unix.STATX_INO)
	if errno == 0 && st.Ino != v.Node {
		errno = unix.ENOENT
	}
	return errno
}

// stat returns the attributes of fd that the kernel knows, without a request to the daemon.
func stat(fd int, mask int) (st unix.Statx_t, errno syscall.Errno) {
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, mask, &st)
	return st, errnoOf(err)
}

func errnoOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if errno, ok := err.(syscall.Errno); ok {
		return errno
	}
	return unix.EIO
}

// become makes the calling thread uid and gid. A thread of root keeps the right
// to search any directory: the mount's user may have taken it from itself.
func become(uid, gid uint32) syscall.Errno {
	if uid == uint32(os.Geteuid()) && gid == uint32(os.Getegid()) {
		return 0
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var have [2]unix.CapUserData
	if err := unix.Capget(&head, &have[0]); err != nil {
		return errnoOf(err)
	}
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return errnoOf(err)
	}
	g, u := uintptr(gid), uintptr(uid)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, g, g, g); errno != 0 {
		return errno
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, u, u, u); errno != 0 {
		return errno
	}
	keep := have[0].Permitted & (1 << unix.CAP_DAC_READ_SEARCH)
	left := [2]unix.CapUserData{{Effective: keep, Permitted: keep}}
	return errnoOf(unix.Capset(&head, &left[0]))
}
