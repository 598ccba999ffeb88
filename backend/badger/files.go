package badger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	if err := os.WriteFile(pidFile(dir), fmt.Appendln(nil, os.Getpid()), 0o600); err != nil && !errors.Is(err, unix.ENOSPC) {
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
