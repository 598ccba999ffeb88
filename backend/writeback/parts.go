package writeback

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
	"github.com/warrenfs/warren/backend/internal/mark"
)

// The marks of the log and of Bulk's directory (format rules 12 and 13).
const (
	logMark  = "synced"
	bulkMark = "generation"
)

// generation is what the driver knows about the other parts. It is zero in a store
// of an older warren.
type generation struct {
	session mark.Session
	tick    uint64
}

// generationKey keeps the generation in the driver, beside stateKey.
const generationKey = backend.ReservedPrefix + "generation"

const generationVersion = 1

func loadGeneration(tx backend.Tx) (g generation, err error) {
	v, err := tx.Get([]byte(generationKey))
	if backend.KindOf(err) == backend.NotFound && err != nil {
		return g, nil
	}
	if err != nil {
		return g, err
	}
	if len(v) != 28 || binary.LittleEndian.Uint32(v) != generationVersion {
		return g, &backend.Error{Op: "read writeback generation", Kind: backend.Unsupported,
			Err: fmt.Errorf("%d bytes %.8x: not of format version %d", len(v), v, generationVersion)}
	}
	copy(g.session[:], v[4:])
	g.tick = binary.LittleEndian.Uint64(v[20:])
	return g, nil
}

func (g generation) save(tx backend.Tx) error {
	v := binary.LittleEndian.AppendUint32(nil, generationVersion)
	v = append(v, g.session[:]...)
	return tx.Set([]byte(generationKey), binary.LittleEndian.AppendUint64(v, g.tick))
}

// dirBulk is a Bulk that has a directory, which keeps a mark as well.
type dirBulk interface{ Dir() dirfs.FS }

// bulkDir returns the directory of Bulk's files, or nil if Bulk keeps none.
func (o *Options) bulkDir() dirfs.FS {
	if b, ok := o.Bulk.(dirBulk); ok {
		return b.Dir()
	}
	return nil
}

// parts lets the driver, the log and Bulk's directory know of each other, so that Open
// finds a part from an older copy of the store beside newer parts.
//
// Each Open draws a session and takes the next tick: the marks have both, on disk,
// before the driver commits them. While Updates are committed it takes another
// tick now and then. So a mark is at most one tick ahead of the driver, and never behind.
type parts struct {
	session, parent mark.Session
	log, bulk       *mark.File // nil: the mark cannot be written
	hasBulk         bool

	mu   sync.Mutex // a leaf; held while a mark is noted, never over a sync
	now  mark.Mark  // with the last tick that the driver has, or the first of the session
	next uint64     // the tick that both marks have and the driver lacks; 0: none
	at   time.Time  // when the last tick was taken
}

// judgeParts compares the marks and the log's newest header with the driver. It fails
// if they are not of one copy of the store.
func (s *Store) judgeParts(st storeState, files []*scannedFile) (synced backend.LSN, err error) {
	m, ok, err := mark.Read(s.opts.FS, logMark)
	if err != nil {
		return 0, dirfs.Error("read the mark of the log", s.dir.in(logMark), err)
	}
	err = st.judge("log", m, ok)
	if err == nil && ok {
		synced = m.Synced
	}
	for _, f := range files {
		if err == nil && f.driver > st.committed {
			err = fmt.Errorf("the database is older than the log: it has update %d, and had update %d when %s was made",
				st.committed, f.driver, f.path)
		}
	}
	if n := len(files); err == nil && n > 0 {
		h := files[n-1].header
		known := h.session == st.generation.session || h.parent == st.generation.session || ok && h.session == m.Session
		if h.session != (mark.Session{}) && !known {
			err = fmt.Errorf("the log's file %s was written over another copy of the database", files[n-1].path)
		}
	}
	if fs := s.opts.bulkDir(); err == nil && fs != nil {
		b, ok, rerr := mark.Read(fs, bulkMark)
		if rerr != nil {
			return 0, dirfs.Error("read the mark of the segments", bulkMark, rerr)
		}
		err = st.judge("segments", b, ok)
	}
	if err != nil {
		synced = 0
		err = &backend.Error{Op: "open log", Path: s.dir.path, Kind: backend.IO, Err: fmt.Errorf(
			"%w; put database, log and segments of one copy of the store in place, or AcceptLoss opens with what there is", err)}
	}
	return synced, err
}

// judge compares the mark of one part with the driver's state.
func (st storeState) judge(part string, m mark.Mark, ok bool) error {
	g := st.generation
	switch {
	case !ok && g.tick == 0: // an older warren made it
		return nil
	case !ok:
		return fmt.Errorf("the %s have no mark, or a damaged one, and the database is of generation %d: the %s are older or incomplete", part, g.tick, part)
	case m.Driver > st.committed:
		return fmt.Errorf("the database is older than the %s: it has update %d, and they are of a time when it had update %d", part, st.committed, m.Driver)
	case m.Session == g.session && m.Tick == g.tick, m.Session == g.session && m.Tick == g.tick+1:
		return nil
	case m.Parent == g.session && m.Tick == g.tick+1:
		return nil
	case m.Tick > g.tick+1:
		return fmt.Errorf("the database is older than the %s: it is of generation %d, and they are of %d", part, g.tick, m.Tick)
	case m.Tick < g.tick:
		return fmt.Errorf("the database is newer than the %s: it is of generation %d, and they are of %d", part, g.tick, m.Tick)
	}
	return fmt.Errorf("the %s are of another copy of the store than the database", part)
}

// begin draws the session, before the first log file is made.
func (p *parts) begin(st storeState) {
	var s mark.Session
	_, _ = rand.Read(s[:]) // never fails
	p.session, p.parent = s, st.generation.session
	p.now = mark.Mark{Session: s, Parent: p.parent, Tick: st.generation.tick + 1, Driver: st.committed}
}

// markParts writes the first tick of the session to the marks. If the disk is full, the
// store goes on with the old marks, unless loss was accepted: then an old mark would
// name lost Updates.
func (s *Store) markParts() error {
	p := &s.dir.parts
	s.mu.Lock()
	p.now.Synced, p.now.Driver = s.redo.synced, s.commit.committed
	s.mu.Unlock()
	var err, errBulk error
	p.log, err = mark.Open(s.opts.FS, logMark, p.now)
	if fs := s.opts.bulkDir(); fs != nil {
		p.hasBulk = true
		p.bulk, errBulk = mark.Open(fs, bulkMark, p.now)
	}
	if err = errors.Join(err, errBulk); err == nil {
		p.next, p.at = p.now.Tick, time.Now()
		return nil
	}
	if s.opts.AcceptLoss {
		return dirfs.Error("mark the parts of the store", s.dir.path, err)
	}
	s.log.Warn("the parts of the store are not marked", "dir", s.dir.path, "err", err)
	return nil
}

// noteSynced notes in the log's mark that the Updates up to synced are on disk. It
// is not synced: a power cut may take the note, never what it names.
func (s *Store) noteSynced(synced backend.LSN) {
	s.noted(s.dir.parts.noteSynced(synced))
}

func (p *parts) noteSynced(synced backend.LSN) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log == nil || synced <= p.now.Synced {
		return nil
	}
	p.now.Synced = synced
	return p.log.Note(p.now)
}

func (s *Store) noted(err error) {
	if err != nil {
		s.complain(&s.complaints.mark, "the mark of the log or the segments cannot be written", "err", err)
	}
}

// tick returns the generation to commit next, which both marks have on disk. found is
// false if there is no such generation. Only the committer, or Open, calls it.
func (s *Store) tick() (g generation, found bool) {
	p := &s.dir.parts
	p.mu.Lock()
	m, next := p.now, p.next
	p.mu.Unlock()
	if next != 0 {
		return generation{p.session, next}, true
	}
	if p.log == nil || p.hasBulk && p.bulk == nil || time.Since(p.at) < s.opts.SyncAge {
		return g, false
	}
	p.at = time.Now()
	m.Tick++
	err := p.log.Sync(m)
	if err == nil && p.bulk != nil {
		err = p.bulk.Sync(m)
	}
	if err != nil {
		s.noted(err)
		return g, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = m.Tick
	return generation{p.session, p.next}, true
}

// noteCommitted stores in both marks what the driver has committed.
func (s *Store) noteCommitted(committed backend.LSN) { s.noted(s.dir.parts.noteCommitted(committed)) }

func (p *parts) noteCommitted(committed backend.LSN) (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next != 0 {
		p.now.Tick, p.next = p.next, 0
	}
	p.now.Driver = max(p.now.Driver, committed)
	for _, f := range []*mark.File{p.log, p.bulk} {
		if f != nil {
			err = errors.Join(err, f.Note(p.now))
		}
	}
	return err
}

// close closes the marks.
func (p *parts) close() error {
	var errs []error
	for _, f := range []*mark.File{p.log, p.bulk} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
