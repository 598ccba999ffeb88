package writeback

import (
	"context"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
)

// redo is the state of the log. Store.mu guards it but for what says otherwise.
type redo struct {
	cur     *logFile   // where records go; changes under the writer's lock and mu
	old     []*logFile // full or replaced, with records the driver may lack; ascending
	spare   *logFile   // made ahead, empty; nil: none
	making  bool       // somebody makes a spare
	nextSeq uint64
	curSeq  uint64 // of cur, or of the file that is being made to replace it

	limit int64 // size at which a file is full, bytes; the writer's lock
	dirty bool  // cur's tail may hold an Update that failed; changes under the writer's lock and mu

	synced  backend.LSN   // on disk in the log
	syncing chan struct{} // closed when the running sync ends; nil: none runs
	failed  error         // why no sync of cur proves anything; nil: it does
	tries   uint64        // replacements of the log that failed

	dirtyBytes int64 // appended since the last sync began

	byAge           pace // of syncs that nobody asked for
	syncs, failures uint64
}

// pace spaces out tries that fail.
type pace struct {
	missed uint64    // in a row
	tried  time.Time // the last of them
}

// appendLog writes p's record at the log's tail; writer held. After an error
// the record is not in the log and the Update must not take effect.
func (s *Store) appendLog(p *op) error {
	r := &s.redo
	if r.dirty {
		if err := s.replaceLog(); err != nil {
			return err
		}
	}
	if r.cur.last != 0 && r.cur.tail+int64(len(p.rec)) > r.limit {
		s.rotate()
	}
	err := s.writeRecord(p)
	if dirfs.Full(err) && r.cur.last != 0 && s.rewind() {
		err = s.writeRecord(p)
	}
	return err
}

// writeRecord is appendLog to the current file.
func (s *Store) writeRecord(p *op) error {
	s.mu.Lock()
	durable, syncs := s.durable(), s.redo.syncs
	s.mu.Unlock()
	cur := s.redo.cur
	if end := cur.tail + int64(len(p.rec)); end > cur.zeroed && syncs >= cur.zeroSyncs+8 {
		cur.zeroSyncs = syncs
		cur.zeroAhead(end)
	}
	seal(p.rec, cur.seed, p.lsn, durable)
	err := writeAt(cur.f, p.rec, cur.tail)
	s.noteWrite(err)
	if err == nil {
		return nil
	}
	s.complain(&s.complaints.write, "log write failed", "file", s.dir.in(cur.name), "offset", cur.tail, "lsn", p.lsn, "err", err)
	s.repairTail()
	return dirfs.Error("write log file", s.dir.in(cur.name), err)
}

// noteWrite remembers how the last write of a record went, for Stats.
func (s *Store) noteWrite(err error) {
	if err == nil && s.refused == nil {
		return // only the writer sets it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = err
}

// rewind goes back to the start of the current file when the driver has all
// that is in it, so that a disk without room for another file is not the end;
// writer held. Otherwise it asks the committer for that.
func (s *Store) rewind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.over.queue) > 0 || s.redo.dirty || s.redo.failed != nil {
		s.commit.flushTo = s.over.last
		wake(s.work.wakeCommit)
		return false
	}
	s.redo.cur.tail = fileHeader
	return true
}

// repairTail makes sure that recovery never finds the record whose write just
// failed, whatever part of it reached the file or the disk; writer held. Where
// that fails too, the next Update starts with a new file.
func (s *Store) repairTail() {
	cur := s.redo.cur
	size, _, err := cur.f.Size()
	if err == nil && size <= cur.tail {
		return // nothing of it reached the file
	}
	if err == nil { // never beyond the end: there may be no room
		err = writeAt(cur.f, make([]byte, min(recordHeader, size-cur.tail)), cur.tail)
	}
	if err == nil {
		s.lockSync()
		err = cur.f.Sync()
		s.unlockSync(err, 0)
	}
	if err != nil {
		s.mu.Lock()
		s.redo.dirty = true
		s.mu.Unlock()
		wake(s.work.wakeSync)
		s.complain(&s.complaints.write, "log tail could not be repaired", "file", s.dir.in(cur.name), "offset", cur.tail, "err", err)
	}
}

// rotate goes on in a new file; writer held. The full one is synced first, so
// that a torn record can only be in the last file. Where there is no new file
// the old one grows.
func (s *Store) rotate() {
	s.mu.Lock()
	last := s.over.last
	s.mu.Unlock()
	if err := s.syncLog(context.Background(), last); err != nil {
		if err := s.replaceLog(); err != nil {
			s.redo.limit = s.redo.cur.tail + s.opts.LogFileSize/16
		}
		return
	}
	next, err := s.nextFile()
	if err != nil {
		s.redo.limit = s.redo.cur.tail + s.opts.LogFileSize/16
		s.log.Warn("no new log file; the old one grows", "file", s.dir.in(s.redo.cur.name), "err", err)
		return
	}
	s.mu.Lock()
	s.redo.old = append(s.redo.old, s.redo.cur)
	s.redo.cur = next
	s.mu.Unlock()
	s.redo.limit = s.opts.LogFileSize
}

// dirtyLimit is how many bytes may be appended before they are synced without
// being asked, so that no sync takes long.
func (o *Options) dirtyLimit() int64 { return o.LogFileSize / 8 }

// nextFile gives the spare or makes an empty file; writer held.
func (s *Store) nextFile() (*logFile, error) {
	s.mu.Lock()
	if next := s.redo.spare; next != nil {
		s.redo.spare, s.redo.curSeq = nil, next.seq
		s.mu.Unlock()
		return next, nil
	}
	seq := s.redo.takeSeq()
	s.mu.Unlock()
	return s.newFile(seq)
}

// takeSeq gives the number of a file that is to replace cur; mu held. A spare
// that is being made has a lower one and will not do any more.
func (r *redo) takeSeq() uint64 {
	seq := r.nextSeq
	r.nextSeq++
	r.curSeq = seq
	return seq
}

// newHeader returns the header of a new file. The caller holds mu, or is Open.
func (s *Store) newHeader(seq uint64, first backend.LSN) header {
	return header{seq: seq, first: first, driver: s.commit.committed,
		session: s.dir.parts.session, parent: s.dir.parts.parent, run: s.dir.run}
}

// newFile makes an empty log file; no lock needed.
func (s *Store) newFile(seq uint64) (*logFile, error) {
	s.mu.Lock()
	h := s.newHeader(seq, 0)
	s.mu.Unlock()
	lf, err := s.dir.create(h, s.opts.LogFileSize, nil, 0)
	if err != nil && lf != nil {
		_ = s.dir.remove(lf) // it is empty: recovery does not mind it
	}
	return lf, err
}

// prepareSpare makes the next file ahead of need, once the current one is half full.
func (s *Store) prepareSpare() {
	s.mu.Lock()
	r := &s.redo
	if r.spare != nil || r.making || r.failed != nil || r.cur.tail < s.opts.LogFileSize/2 {
		s.mu.Unlock()
		return
	}
	seq := r.nextSeq
	r.nextSeq++
	r.making = true
	s.mu.Unlock()

	lf, err := s.newFile(seq)

	s.mu.Lock()
	r.making = false
	if err == nil && r.curSeq < seq {
		r.spare, lf = lf, nil
	}
	s.mu.Unlock()
	if err != nil {
		s.log.Warn("no spare log file", "err", err)
	} else if lf != nil { // the log went on without it
		_ = s.dir.remove(lf)
	}
}

// replaceLog writes all pending Updates to a new file that takes the place of
// the log so far; writer held. It is the way on when the current file cannot be
// trusted any more. When it returns nil all Updates are durable in the log.
func (s *Store) replaceLog() error {
	r := &s.redo
	if err := s.syncLoose(); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		r.tries++
		r.failures++
		return err
	}
	s.lockSync()
	s.mu.Lock()
	h := s.newHeader(r.takeSeq(), s.commit.committed+1)
	ops := append([]*op(nil), s.over.queue...)
	last, spare := s.over.last, r.spare
	r.spare = nil // its place is before the new file
	s.mu.Unlock()
	if spare != nil {
		_ = s.dir.remove(spare) // it is empty: recovery does not mind it
	}
	// What is in the new file is on disk before the file is there.
	lf, err := s.dir.create(h, s.opts.LogFileSize, ops, last)
	var gone []*logFile
	s.mu.Lock()
	if lf != nil {
		r.old = append(r.old, r.cur)
		r.cur, r.dirty, r.limit = lf, false, max(s.opts.LogFileSize, lf.tail+s.opts.LogFileSize/2)
	}
	switch {
	case err == nil:
		r.failed, r.dirtyBytes = nil, 0
		r.synced = max(r.synced, last)
		gone, r.old = r.old, nil
	case lf != nil || r.failed != nil: // the new file, or still the old one, proves nothing
		r.failed = err
	}
	if err != nil {
		r.tries++
		r.failures++
	}
	r.endSync()
	s.mu.Unlock()
	if err != nil {
		s.complain(&s.complaints.replace, "log could not be replaced", "err", err)
		return err
	}
	s.noteSynced(last)
	s.log.Debug("log replaced", "file", s.dir.in(lf.name), "updates", len(ops))
	s.removeFiles(gone)
	return nil
}

// removeFiles unlinks files that are not needed any more.
func (s *Store) removeFiles(files []*logFile) {
	if err := s.dir.remove(files...); err != nil {
		s.log.Warn("old log files are left", "err", err)
	}
}

// dropOld removes the files whose Updates are all durable in the driver.
func (s *Store) dropOld() {
	s.mu.Lock()
	n := 0
	for n < len(s.redo.old) && s.redo.old[n].last <= s.commit.committed {
		n++
	}
	gone := s.redo.old[:n]
	s.redo.old = s.redo.old[n:]
	s.mu.Unlock()
	s.removeFiles(gone)
}
