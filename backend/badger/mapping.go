package badger

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname

	"golang.org/x/sys/unix"
)

// Badger writes its files through shared mappings, from goroutines of its own.
// Where the disk has no block for a page, the kernel answers with SIGBUS, and
// no program can go on from that in a goroutine that is not its own. Badger has
// no hook for it, but it maps by golang.org/x/sys/unix, which calls the system
// through a variable. mappings stands in that place: every file of an open
// store gets its blocks before Badger has the mapping. It is a global because
// that variable is one; it knows stores by their directory.
var mappings mapHook

// mapFunc is mmap(2).
type mapFunc = func(addr, length uintptr, prot, flags, fd int, offset int64) (uintptr, error)

// unixMapper has the layout of golang.org/x/sys/unix.mapper, as far as it is
// needed. newRoom tries it, so another layout is an error and not a surprise.
//
//go:linkname unixMapper golang.org/x/sys/unix.mapper
var unixMapper *struct {
	_    sync.Mutex
	_    map[*byte][]byte
	mmap mapFunc
}

type mapHook struct {
	install sync.Once
	system  mapFunc              // what was there before
	sync    func(*os.File) error // the same of manifestSync
	calls   atomic.Uint64
	fail    atomic.Pointer[func() error] // nil but in tests

	mu    sync.Mutex
	rooms map[fileID]*room
}

// fileID names a file on this machine.
type fileID struct{ dev, ino uint64 }

// watch has r asked for all writable mappings of files in its directory until
// forget. Error: mappings cannot be watched in this program.
func (h *mapHook) watch(r *room) error {
	h.install.Do(func() {
		h.rooms = make(map[fileID]*room)
		h.system = unixMapper.mmap
		unixMapper.mmap = h.mmap
		sync := &manifestSync // Badger's own, before any store of it is open
		h.sync, *sync = *sync, h.syncManifest
	})
	before := h.calls.Load()
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return fmt.Errorf("map a page: %w", err)
	}
	defer func() { _ = unix.Munmap(page) }()
	if h.calls.Load() == before {
		return fmt.Errorf("mappings are not seen: golang.org/x/sys/unix is not the version this was built for")
	}
	id, err := idOf(r.dir)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rooms[id] = r
	r.id = id
	return nil
}

func (h *mapHook) forget(r *room) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rooms[r.id] == r {
		delete(h.rooms, r.id)
	}
}

// mmap is mmap(2) of a file that has its blocks.
func (h *mapHook) mmap(addr, length uintptr, prot, flags, fd int, offset int64) (uintptr, error) {
	h.calls.Add(1)
	if fd < 0 || prot&unix.PROT_WRITE == 0 || flags&unix.MAP_SHARED == 0 {
		return h.system(addr, length, prot, flags, fd, offset)
	}
	r, name := h.roomOf(fd)
	if r == nil {
		return h.system(addr, length, prot, flags, fd, offset)
	}
	if err := r.claim(fd, name, int64(length)); err != nil {
		return 0, err
	}
	for end := time.Now().Add(openPatience); ; time.Sleep(retryRoom) {
		at, err := h.call(addr, length, prot, flags, fd, offset)
		if err == nil || !r.insists(name, end) {
			return at, err
		}
		r.tell("badger: a file cannot be mapped; trying again", "file", name, "err", err)
	}
}

// call is mmap(2), or a failure of it for a test.
func (h *mapHook) call(addr, length uintptr, prot, flags, fd int, offset int64) (uintptr, error) {
	if fail := h.fail.Load(); fail != nil {
		if err := (*fail)(); err != nil {
			return 0, err
		}
	}
	return h.system(addr, length, prot, flags, fd, offset)
}

// roomOf gives the store that has the open file in its directory, if any, and
// the file's name there.
func (h *mapHook) roomOf(fd int) (*room, string) {
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil || !strings.HasPrefix(path, "/") {
		return nil, ""
	}
	id, err := idOf(filepath.Dir(path))
	if err != nil {
		return nil, ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rooms[id], filepath.Base(path)
}

func idOf(path string) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fileID{}, fmt.Errorf("stat %s: %w", path, err)
	}
	return fileID{st.Dev, st.Ino}, nil
}
