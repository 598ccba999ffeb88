package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/warrenfs/warren/backend/badger"
	"github.com/warrenfs/warren/backend/writeback"
	"golang.org/x/sys/unix"
)

// diskPlan is how a store shares its disk: what it keeps for itself is less on a
// small one (docs/full-disk.md). Bytes.
type diskPlan struct {
	ballast int64 // kept in a file, for the database
	reserve int64 // that users leave free, besides what the database may need
	logFile int64
	pending int64 // of changes in memory
}

func planDisk(total uint64) diskPlan {
	share := func(part uint64, least, most int64) int64 { return min(max(int64(total/part), least), most) }
	return diskPlan{
		ballast: share(12, 24<<20, 128<<20),
		reserve: share(12, 16<<20, 256<<20),
		logFile: share(64, 4<<20, 64<<20),
		pending: share(16, 8<<20, 64<<20),
	}
}

// statDisk tells the free and total bytes of the disk that dir is on.
func statDisk(dir string) (free, total uint64) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize)
}

// space is what the store knows of its disk.
type space struct {
	badger.Space
	reserve int64 // that users leave free
}

// space asks the database, and adds up what users must leave.
func (s *store) space() space {
	sp := s.driver.Space()
	out := space{Space: sp, reserve: s.plan.reserve + sp.Headroom + sp.BallastSize - sp.Ballast}
	if s.pending != nil {
		out.reserve += s.pending()
	}
	return out
}

// disk tells how many bytes users may still write, and the total of the disk.
func (s *store) disk() (free, total uint64) {
	sp := s.space()
	return uint64(max(0, sp.Free-sp.reserve)), uint64(sp.Total)
}

// coming tells how many bytes are about to be free: young tables and changes
// that are not in tables yet count for more than what is left when they are merged.
func (s *store) coming() uint64 {
	n := s.driver.Space().Young
	if s.pending != nil {
		n += s.pending()
	}
	return uint64(n)
}

// pendingOf tells what of the log's changes the database has yet to write.
func pendingOf(wb *writeback.Store) func() int64 {
	return func() int64 { return wb.Stats().PendingBytes }
}

// fullNote is what there is to say of a full store; "" if it is not full.
func (s *store) fullNote() string {
	sp := s.space()
	mib := func(n int64) int64 { return max(0, n) >> 20 }
	switch {
	case sp.Waiting > 0:
		return fmt.Sprintf("the disk is full, to %d MiB: the database waits for room. All that was written can be read, "+
			"deletions are taken while the log has room; make room on the disk", mib(sp.Free))
	case sp.Free < sp.reserve/2:
		return fmt.Sprintf("others have filled the disk to %d MiB: writes are refused (ENOSPC), reading and deleting work; "+
			"make room on the disk", mib(sp.Free))
	case sp.Free < sp.reserve+1<<20:
		return fmt.Sprintf("the store is full: writes are refused (ENOSPC), reading and deleting work. Of the %d MiB that are free "+
			"%d are kept for deletions and the database", mib(sp.Free), mib(sp.reserve))
	case sp.Free < sp.reserve+min(sp.Total/64, 64<<20):
		return fmt.Sprintf("the store is almost full: users may write %d MiB more; delete something, or make room on the disk",
			mib(sp.Free-sp.reserve))
	}
	return ""
}

// tellFull puts it in the log, when it was not full before, and tells whether it
// is.
func (s *store) tellFull(log *slog.Logger, before bool) bool {
	note := s.fullNote()
	switch {
	case note != "" && !before:
		log.Warn(note, "store", s.dir)
	case note == "" && before:
		log.Info("the store has room again", "store", s.dir)
	}
	return note != ""
}

// watchFull does so until ctx ends.
func (s *store) watchFull(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for full := s.tellFull(log, false); ; full = s.tellFull(log, full) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
