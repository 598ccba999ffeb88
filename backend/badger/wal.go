package badger

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// walFiles sees to it that Badger's write-ahead log has its blocks, and the
// next one too, which Badger takes under its lock in the middle of a commit.
// The file of the next has size 0 until then, and keeps its blocks. Only the
// holder of Store.writer uses it.
type walFiles struct {
	dir  string
	log  *slog.Logger
	room *room

	cur     int      // number of the log in use; 0: not known yet
	current bool     // it has its blocks
	next    *os.File // nil: none is there
	ready   bool     // next has its blocks
	churn   churn    // has no lock
	memory  int64    // bytes in the memtable that the current log backs, at most
	off     bool     // the filesystem cannot allocate: room fills the files when they are mapped
}

// prepare makes both ready, as far as there is room, and tells whether Badger
// has taken the next log since it was called last.
func (n *walFiles) prepare() (taken bool) {
	if n.next != nil {
		var st unix.Stat_t
		if err := unix.Fstat(int(n.next.Fd()), &st); err == nil && st.Size != 0 {
			n.next.Close()
			n.cur, n.current, n.next, n.ready, taken = n.cur+1, n.ready, nil, false, true
			n.bind()
		}
	}
	if n.off || n.current && n.ready {
		return taken
	}
	if n.cur == 0 {
		id, err := n.last()
		if err != nil {
			n.log.Warn("badger: cannot list the write-ahead logs", "dir", n.dir, "err", err)
			return taken
		}
		n.cur = id
		n.bind()
	}
	var err error
	if !n.current {
		err = n.allocateCurrent()
		n.current = err == nil
	}
	if n.next == nil && err == nil {
		n.next, err = os.OpenFile(n.name(n.cur+1), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if n.next != nil && !n.ready && err == nil {
		err = n.allocate(n.next)
		n.ready = err == nil
	}
	if err != nil {
		n.room.tell("badger: a write-ahead log has no room", "err", err)
	}
	return taken
}

// bind binds the log in use to its number.
func (n *walFiles) bind() {
	if n.room.bound != nil {
		n.room.bound.bind(filepath.Base(n.name(n.cur)))
	}
}

// allocateCurrent gives the log in use its blocks, if it has not.
func (n *walFiles) allocateCurrent() error {
	f, err := os.OpenFile(n.name(n.cur), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return n.allocate(f)
}

func (n *walFiles) allocate(f *os.File) error {
	fd := int(f.Fd())
	if blocks(fd) >= walBytes {
		return nil
	}
	err := n.room.extend(fd, walBytes)
	if cannot(err) {
		n.off = true
		return nil
	}
	return err
}

// drop removes the next log if Badger did not take it.
func (n *walFiles) drop() {
	if n.next == nil {
		return
	}
	if info, err := n.next.Stat(); err == nil && info.Size() == 0 {
		_ = os.Remove(n.next.Name())
	}
	n.next.Close()
	n.next = nil
}

func (n *walFiles) name(id int) string { return filepath.Join(n.dir, fmt.Sprintf("%05d.mem", id)) }

// last is the highest number of a log in the directory.
func (n *walFiles) last() (int, error) {
	logs, err := names(n.dir, ".mem")
	if err != nil {
		return 0, err
	}
	highest := 0
	for _, name := range logs {
		if id, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), ".mem")); err == nil {
			highest = max(highest, id)
		}
	}
	return highest, nil
}
