package badger

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// discardSize is the size that Badger gives to DISCARD.
	discardSize = 1 << 20
	// walBytes is what Badger can write to one write-ahead log: it starts
	// another after memTableSize, which one transaction (15 % of it, and up to
	// 22 bytes for each entry) may pass.
	walBytes = memTableSize + 4<<20
	// tableRoom is what writing out one memtable takes.
	tableRoom = memTableSize + 8<<20
	// headRoom is what is touched of a file that only gets a header.
	headRoom = 64 << 10
	// retryRoom is how often a write that has no room looks again.
	retryRoom = 200 * time.Millisecond
	// openPatience is how long Open tries to get the few blocks it must have.
	openPatience = 5 * time.Second
)

// room gives files of a store their blocks before they are mapped. What the
// disk has not it takes from the ballast, and where that is used up too, a
// table's writer waits, for as long as it takes: an error there is an error
// Badger's compaction does not notice. No call of room is made with Store.mu
// held.
type room struct {
	dir   string
	log   *slog.Logger
	id    fileID
	disk  func(dir string) (space, error)
	need  atomic.Int64 // that tables written anew may take for a while, bytes
	young atomic.Int64 // that tables of level 0 have, bytes

	proofs proofs
	broken func(error) // told of a compaction that failed; set before Badger opens
	bound  *bindings   // set before Badger opens

	mu      sync.Mutex
	opened  bool     // Open is done and Close has not begun: keep counts
	ballast *os.File // nil: there is none
	want    int64    // bytes of the ballast when it is whole
	have    int64    // that it has
	waiting int      // tables that have no room
	told    time.Time
}

// space is what statfs(2) tells of a disk.
type space struct {
	free, total int64 // bytes for ordinary users
	inodes      int64 // free ones; -1: the filesystem does not count them
}

func diskSpace(dir string) (space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return space{}, err
	}
	s := space{free: int64(st.Bavail) * st.Bsize, total: int64(st.Blocks) * st.Bsize, inodes: -1}
	if st.Files > 0 {
		s.inodes = int64(st.Ffree)
	}
	return s, nil
}

// ballastFile is kept allocated, to be given up when the disk is full.
const ballastFile = "ballast"

// newRoom watches the mappings of a locked directory.
func newRoom(dir string, ballast int64, log *slog.Logger) (*room, error) {
	r := &room{dir: dir, log: log, disk: diskSpace, want: max(ballast, 0)}
	if err := r.openBallast(); err != nil {
		return nil, err
	}
	if err := mappings.watch(r); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *room) openBallast() error {
	name := filepath.Join(r.dir, ballastFile)
	if r.want == 0 {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.ballast, r.have = f, info.Size()
	return nil
}

// close lets go of the ballast, and of the mappings.
func (r *room) close() error {
	mappings.forget(r)
	r.proofs.close()
	if r.bound != nil {
		r.bound.close()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ballast == nil {
		return nil
	}
	err := r.ballast.Close()
	r.ballast = nil
	return err
}

// keep is the part of the ballast that only Open and Close may use; mu held.
func (r *room) keep() int64 {
	if !r.opened {
		return 0
	}
	return r.want / 4
}

func (r *room) setOpened(opened bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened = opened
}

// give takes at least n bytes off the ballast, or what may be taken, and tells
// how many.
func (r *room) give(n int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	const step = 1 << 20
	n = min((n+step-1)/step*step, r.have-r.keep())
	if n <= 0 || r.ballast == nil {
		return 0
	}
	if err := r.ballast.Truncate(r.have - n); err != nil {
		r.log.Warn("badger: cannot use the ballast", "dir", r.dir, "err", err)
		return 0
	}
	r.have -= n
	return n
}

// regrow makes the ballast whole again, as far as the disk has more than left
// bytes.
func (r *room) regrow(left int64) {
	s, err := r.disk(r.dir)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ballast == nil || r.waiting > 0 {
		return
	}
	grow := min(r.want-r.have, s.free-left)
	switch {
	case grow > 0:
		err = fallocate(int(r.ballast.Fd()), 0, r.have, grow)
		if cannot(err) {
			err = fill(int(r.ballast.Fd()), r.have, r.have+grow)
		}
	case r.have > r.want:
		err = r.ballast.Truncate(r.want)
		grow = r.want - r.have
	default:
		return
	}
	if err != nil {
		_ = r.ballast.Truncate(r.have) // of a full disk it may have got a part
		return
	}
	r.have += grow
}

// keepLogs keeps the room that the write-ahead logs had for those of the next
// Open.
func (r *room) keepLogs() {
	r.mu.Lock()
	r.want += 2 * walBytes
	r.mu.Unlock()
	r.regrow(0)
}

// makeDiscard makes the file in which Badger counts what its value log could
// drop, and which it ends the process over when it cannot make it.
func (r *room) makeDiscard() error {
	f, err := os.OpenFile(filepath.Join(r.dir, "DISCARD"), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := r.allocate(int(f.Fd()), headRoom); err != nil {
		return err
	}
	return f.Truncate(discardSize)
}

// claim allocates what Badger will write of a file that it is about to map.
// Error: there is no room, and the file is not a table.
func (r *room) claim(fd int, name string, length int64) error {
	least := min(length, headRoom)
	switch filepath.Ext(name) {
	case ".mem":
		length = min(length, walBytes)
	case ".vlog":
		length = least
	case "": // DISCARD
		length = least
	case ".sst":
		if !fresh(fd) {
			return nil
		}
		r.claimTable(fd, name, length)
		if err := r.proofs.watch(fd, name); err != nil {
			r.tell("badger: a table cannot be opened twice; an error of the disk in it may not be noticed", "file", name, "err", err)
		}
		return nil
	}
	if !fresh(fd) {
		return nil
	}
	for end := time.Now().Add(openPatience); ; time.Sleep(retryRoom) {
		err := r.allocate(fd, length)
		switch {
		case err == nil:
			return nil
		case r.isOpened(): // under Badger's lock: an Update was not to come here
			return err
		case r.allocate(fd, least) == nil: // the rest before the first Update
			return nil
		case time.Now().After(end):
			return err
		}
	}
}

// insists tells whether a file that could not be mapped is tried again: a table
// without end; others while the store is opened, until end, since Badger ends
// the process where DISCARD fails.
func (r *room) insists(name string, end time.Time) bool {
	return filepath.Ext(name) == ".sst" || !r.isOpened() && time.Now().Before(end)
}

func (r *room) isOpened() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.opened
}

// claimTable waits until the table has its blocks.
func (r *room) claimTable(fd int, name string, length int64) {
	err := r.allocate(fd, length)
	if err == nil {
		return
	}
	r.wait(1)
	defer r.wait(-1)
	for err != nil {
		r.tell("badger: no room for a table; waiting", "file", name, "bytes", length, "err", err)
		time.Sleep(retryRoom)
		r.proofs.sweep()
		err = r.allocate(fd, length)
	}
}

func (r *room) wait(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting += n
}

func (r *room) tell(msg string, args ...any) {
	r.mu.Lock()
	now := time.Now()
	tell := now.Sub(r.told) >= 10*time.Second
	if tell {
		r.told = now
	}
	r.mu.Unlock()
	if tell {
		r.log.Warn(msg, append(args, "dir", r.dir)...)
	}
}

// allocate gives a file without data its blocks.
func (r *room) allocate(fd int, n int64) error {
	err := r.extend(fd, n)
	for cannot(err) {
		if err = fill(fd, 0, n); !isFull(err) || r.give(n-blocks(fd)) == 0 {
			return err
		}
		err = unix.EOPNOTSUPP
	}
	return err
}

// extend allocates the first n bytes of a file, whatever is in it, also behind
// its end; from the ballast where the disk has none.
func (r *room) extend(fd int, n int64) error {
	for {
		err := fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, n)
		if !isFull(err) || r.give(n-blocks(fd)) == 0 {
			return err
		}
	}
}

// cannot tells whether err says that the filesystem cannot allocate.
func cannot(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
}

func isFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

// fill writes zeros, where fallocate(2) cannot give a file its blocks; never to
// a file that has something at its start, whatever its blocks said.
func fill(fd int, at, end int64) error {
	zeros := make([]byte, 1<<20)
	head := make([]byte, headRoom)
	n, err := unix.Pread(fd, head, 0)
	if err != nil {
		return err
	}
	if !bytes.Equal(head[:n], zeros[:n]) {
		return nil
	}
	for at < end {
		m, err := unix.Pwrite(fd, zeros[:min(end-at, int64(len(zeros)))], at)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		}
		at += int64(max(m, 0))
	}
	return nil
}

func fallocate(fd int, mode uint32, off, n int64) error {
	for {
		if err := unix.Fallocate(fd, mode, off, n); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// fresh tells whether a file has no data yet: those that have are only read, or
// had their blocks when they were made.
func fresh(fd int) bool {
	if blocks(fd) == 0 {
		return true
	}
	_, err := unix.Seek(fd, 0, unix.SEEK_DATA)
	return errors.Is(err, unix.ENXIO)
}

// blocks is the number of bytes that a file has on the disk.
func blocks(fd int) int64 {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0
	}
	return st.Blocks * 512
}

// beforeTable holds a compaction that is about to make a table for as long as
// making the file would fail: Badger takes the table for made and drops those
// it was made from. What is in the file then is claim's.
func (r *room) beforeTable() {
	err := r.canMakeFile()
	if err == nil {
		return
	}
	r.wait(1)
	defer r.wait(-1)
	for err != nil {
		r.tell("badger: no file can be made; compaction waits", "err", err)
		time.Sleep(retryRoom)
		err = r.canMakeFile()
	}
}

// canMakeFile tries what making some files takes: descriptors, inodes, and a
// block for the directory.
func (r *room) canMakeFile() error {
	s, err := r.disk(r.dir)
	if err != nil {
		return err
	}
	if s.inodes >= 0 && s.inodes < 16 {
		return unix.ENOSPC
	}
	if s.free < headRoom && r.give(headRoom) == 0 {
		return unix.ENOSPC
	}
	for range 8 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		defer f.Close()
	}
	return nil
}

// watchRoom keeps the ballast whole and the numbers fresh, until ctx ends.
func (s *Store) watchRoom(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.room.regrow(s.room.want / 4)
		s.keepManifest()
		s.measure()
	}
}

// manifestRoom is what is kept allocated behind the end of the manifest, for
// appends: one that fails half-way spoils those after it.
const manifestRoom = 256 << 10

// keepManifest allocates it.
func (s *Store) keepManifest() {
	f, err := os.OpenFile(filepath.Join(s.dir, "MANIFEST"), os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || blocks(int(f.Fd())) >= info.Size()+manifestRoom/2 {
		return
	}
	_ = s.room.extend(int(f.Fd()), info.Size()+manifestRoom)
}

// compacting is how Badger says, in the goroutine that goes on to make a table
// of a compaction, that it has what will be in it.
const compacting = "[%d] LOG Compact. Added"
