package badger

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/warrenfs/warren/backend"
	"golang.org/x/sys/unix"
)

// lockDir takes the directory for this process: with flock(2) on the directory
// itself, as Badger's own tools do. It writes the process id into LOCK, for
// people to read.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fail("open store", dir, err)
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		f.Close()
		by := "another process"
		if pid, err := os.ReadFile(pidFile(dir)); err == nil && len(pid) < 20 {
			by += " (" + strings.TrimSpace(string(pid)) + ")"
		}
		return nil, failf("open store", dir, backend.Busy, "%s holds it; end that one, or use another directory", by)
	case err != nil:
		f.Close()
		return nil, fail("open store", dir, fmt.Errorf("lock it: %w", err))
	}
	if err := os.WriteFile(pidFile(dir), fmt.Appendln(nil, os.Getpid()), 0o600); err != nil {
		f.Close()
		return nil, fail("open store", dir, err)
	}
	return f, nil
}

// unlockDir lets go of what lockDir took.
func unlockDir(f *os.File) error {
	err := os.Remove(pidFile(f.Name()))
	return errors.Join(err, f.Close())
}

func pidFile(dir string) string { return filepath.Join(dir, "LOCK") }

// names gives the files of dir whose name ends in one of the suffixes.
func names(dir string, suffixes ...string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		for _, s := range suffixes {
			if strings.HasSuffix(e.Name(), s) {
				found = append(found, filepath.Join(dir, e.Name()))
			}
		}
	}
	return found, nil
}

// sweep removes the files that hold nothing and that Badger would fall over:
// logs that were just made when the process died (ours made in advance among
// them) and the unused value log.
func sweep(dir string) error {
	logs, err := names(dir, ".mem", ".vlog", "DISCARD")
	if err != nil {
		return err
	}
	for _, name := range logs {
		if strings.HasSuffix(name, ".mem") {
			info, err := os.Stat(name)
			if err != nil {
				return err
			}
			if info.Size() > 0 {
				continue
			}
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// diskUse is the number of bytes that dir's files take on the disk.
func diskUse(dir string) (int64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	var total int64
	for _, e := range entries {
		var st unix.Stat_t
		switch err := unix.Lstat(filepath.Join(dir, e.Name()), &st); {
		case errors.Is(err, fs.ErrNotExist): // compacted away meanwhile
		case err != nil:
			return 0, err
		default:
			total += st.Blocks * 512
		}
	}
	return total, nil
}

// diskFree is the number of bytes that ordinary users may still take.
func diskFree(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// walSize is the size Badger gives to the files of its write-ahead logs.
const walSize = 2 * memTableSize

// nextLog keeps the file of Badger's next write-ahead log ready, with its
// blocks allocated: Badger maps the file and would die by SIGBUS on a full disk.
// The file has size 0 until Badger takes it, which then keeps its blocks. Only
// the holder of Store.writer uses it.
type nextLog struct {
	dir  string
	log  *slog.Logger
	file *os.File // nil: none is ready
	off  bool     // the filesystem cannot allocate
}

// allocateCurrent gives the log that Badger just opened its blocks.
func (n *nextLog) allocateCurrent() {
	id, err := n.last()
	if err != nil || id == 0 {
		return
	}
	f, err := os.OpenFile(n.name(id), os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	n.allocate(f)
}

// prepare makes the next file ready unless it is.
func (n *nextLog) prepare() {
	if n.off {
		return
	}
	if n.file != nil {
		var st unix.Stat_t
		if err := unix.Fstat(int(n.file.Fd()), &st); err == nil && st.Size == 0 {
			return
		}
		n.file.Close()
		n.file = nil
	}
	id, err := n.last()
	if err != nil {
		n.log.Warn("badger: cannot list the write-ahead logs", "dir", n.dir, "err", err)
		return
	}
	f, err := os.OpenFile(n.name(id+1), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		n.log.Warn("badger: cannot make the next write-ahead log", "dir", n.dir, "err", err)
		return
	}
	n.file = f
	n.allocate(f)
}

func (n *nextLog) allocate(f *os.File) {
	switch err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, walSize); {
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
		n.off = true
	case err != nil:
		n.log.Warn("badger: cannot allocate a write-ahead log", "file", f.Name(), "err", err)
	}
}

// drop removes the file if Badger did not take it.
func (n *nextLog) drop() {
	if n.file == nil {
		return
	}
	if info, err := n.file.Stat(); err == nil && info.Size() == 0 {
		_ = os.Remove(n.file.Name())
	}
	n.file.Close()
	n.file = nil
}

func (n *nextLog) name(id int) string { return filepath.Join(n.dir, fmt.Sprintf("%05d.mem", id)) }

// last is the highest number of a log in the directory.
func (n *nextLog) last() (int, error) {
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
