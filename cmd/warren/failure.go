package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// probeTime is the longest time that the disk may take for one small file before
	// a closing store counts its disk as failed.
	probeTime = 5 * time.Second
	// probeEvery is how often the disk is looked at while a store closes, and while
	// the daemon serves.
	probeEvery = time.Second
)

// moved returns an error if the store's directory is not where it was opened. Open
// files then still work, but no file can be created.
func (s *store) moved() error {
	var here, ours unix.Stat_t
	err := unix.Stat(filepath.Join(s.dir, lockFile), &here)
	if unix.Fstat(int(s.lock.Fd()), &ours) != nil || err == nil && here.Dev == ours.Dev && here.Ino == ours.Ino {
		return nil
	}
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
		return nil // not known
	}
	at, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", s.lock.Fd()))
	if err != nil || strings.HasSuffix(at, " (deleted)") {
		return fmt.Errorf("the store's directory %s was removed under the daemon; stop the daemon and restore a backup", s.dir)
	}
	return fmt.Errorf("the store's directory %s was renamed to %s under the daemon; rename it back, or stop the daemon and start it there", s.dir, filepath.Dir(at))
}

// failure returns why changes do not reach the disk, and what to do, or nil if they do.
// It touches the disk's metadata at most.
func (s *store) failure() error {
	if err := s.moved(); err != nil {
		return err
	}
	st := s.wb.Stats()
	restart := s.driver.Failed()
	for _, err := range []error{st.LogError, st.CommitError, restart} {
		if reason := diskReason(err); reason != "" {
			return fmt.Errorf("%s: changes are refused or stay in memory, what was written can be read; %s", reason, mendText(restart != nil))
		}
	}
	if unix.Access(s.dir, unix.W_OK) == unix.EROFS {
		return fmt.Errorf("the disk of the store is read-only (EROFS): changes fail; %s", mendText(restart != nil))
	}
	return nil
}

// mendText returns the text that explains how to end a failure of the disk.
func mendText(restart bool) string {
	if restart {
		return "mend the disk (`dmesg` says more), then restart the daemon: its database accepts nothing until then"
	}
	return "mend the disk (`dmesg` says more); the daemon goes on by itself then"
}

// diskReason returns the name of the disk's own error in err, or "" if err has none.
func diskReason(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return ""
	case errors.Is(err, syscall.EROFS):
		return "the disk of the store is read-only (EROFS)"
	case errors.As(err, &errno) && errno != syscall.ENOSPC && errno != syscall.EDQUOT:
		return fmt.Sprintf("the disk of the store fails (%s: %v)", unix.ErrnoName(errno), errno)
	}
	return ""
}

// watchDisk writes to the log when the disk begins to fail, and when it works
// again, until ctx ends.
func (s *store) watchDisk(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for told := ""; ; {
		text := ""
		if err := s.failure(); err != nil {
			text = err.Error()
		}
		switch {
		case text != "" && text != told:
			log.Error(text, "store", s.dir)
		case text == "" && told != "":
			log.Info("the disk works again", "store", s.dir)
		}
		told = text
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// probe writes a small file beside the store's own and syncs it. It returns an error if
// the disk fails or takes too long. A full disk is no failure.
func (s *store) probe() error {
	if err := s.moved(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- writeProbe(s.dir) }()
	select {
	case err := <-done:
		if reason := diskReason(err); reason != "" {
			return errors.New(reason)
		}
		return nil
	case <-time.After(probeTime):
		return fmt.Errorf("the disk of the store did not write a small file within %s", probeTime)
	}
}

// writeProbe writes and syncs a file without a name, which goes when it is closed.
func writeProbe(dir string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) {
		return nil // the filesystem has none; closing tries in its own way
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := unix.Write(fd, []byte("probe")); err != nil {
		return err
	}
	return unix.Fsync(fd)
}

// storeCloseTime is the longest time that closing a store may take: it commits what is
// in the log, and merges tables.
const storeCloseTime = 2 * time.Minute

// closeWithin closes a store, or gives up: on a disk that fails, Badger tries
// for ever. Giving up loses nothing that is on disk: the log still has it.
func closeWithin(s *store, limit time.Duration) error {
	if err := s.probe(); err != nil {
		return notClosed(s, err)
	}
	done, end := make(chan error, 1), time.After(limit)
	go func() { done <- s.Close() }()
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-end:
			return fmt.Errorf("the store %s does not close; what was acknowledged is in its log, for the next start", s.dir)
		case <-tick.C:
			if err := s.probe(); err != nil {
				return notClosed(s, err)
			}
		}
	}
}

// notClosed returns the error for a store that was left as it is.
func notClosed(s *store, err error) error {
	return fmt.Errorf("%w\nThe store %s was left as it is. What was synced before is on the disk, and the next start reads it", err, s.dir)
}
