package segment

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
)

// Options of a Content; the zero values but for Dir are useful.
type Options struct {
	Dir string   // where the segments are
	FS  dirfs.FS // instead of the directory Dir of the operating system

	// SegmentSize is how long a segment may get, in bytes. 0: 256 MiB.
	SegmentSize int64
	// Reserve is the free space below which Put is refused. 0: 256 MiB; negative: none.
	Reserve int64
	// Ballast is the size of a file that is given up when Open finds less than
	// that free, so that the store opens on a full disk. 0: none.
	Ballast int64
	// MaxOpen is how many segments stay open while nobody uses them. 0: 256.
	MaxOpen int
	// PunchRate is how many bytes of freed records are given back in a second.
	// 0: 512 MiB; negative: no limit.
	PunchRate int64
	// ReclaimEvery is the least time between two passes of the reclaimer.
	// 0: 1 s; negative: only Store.Reclaim.
	ReclaimEvery time.Duration
	// Logged tells that the Content is bound to a store with a log, which was
	// given it as its writeback.Options.Bulk: that store syncs the segments
	// itself, lets small content ride, and looks at Updates again in its recovery.
	Logged bool
	// Mending is for a store that is examined or repaired and that nothing else
	// uses: damaged counts do not keep Bind from opening it, nothing is cut,
	// removed or given back by what the counts say, and Puts go to new segments.
	Mending bool
	// Settled returns when the Updates up to lsn are durable and no recovery
	// will look at their bytes again (Content.Verify). nil: WaitCommitted of the
	// bound store if that is Logged, else its WaitDurable.
	Settled func(ctx context.Context, lsn backend.LSN) error
	Log     *slog.Logger // nil: none
}

func (o Options) withDefaults() Options {
	def := func(n *int64, value int64) {
		switch {
		case *n == 0:
			*n = value
		case *n < 0:
			*n = 0
		}
	}
	def(&o.Reserve, 256<<20)
	def(&o.PunchRate, 512<<20)
	def(&o.SegmentSize, 256<<20)
	o.SegmentSize = max(o.SegmentSize, fileHead+recordSize(limit))
	if o.MaxOpen == 0 {
		o.MaxOpen = 256
	}
	if o.Mending {
		o.ReclaimEvery = -1
	}
	if o.ReclaimEvery == 0 {
		o.ReclaimEvery = time.Second
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

const (
	segSuffix   = ".seg"
	tmpSuffix   = ".tmp"
	ballastName = "ballast"
)

// Open reads the headers of the segments. Until Bind only Get, Check, Sync and
// Verify work. Segments that are damaged give IO for their refs; Open does not
// fail for them. Errors: IO, NoSpace, Invalid without a directory.
func Open(o Options) (*Content, error) {
	o = o.withDefaults()
	if o.FS == nil {
		if o.Dir == "" {
			return nil, &backend.Error{Op: "open segments", Kind: backend.Invalid, Err: errors.New("Options need a Dir")}
		}
		fs, err := dirfs.Open(o.Dir)
		if err != nil {
			return nil, err
		}
		o.FS = fs
	}
	c := &Content{fs: o.FS, opts: o, log: o.Log, segs: map[uint64]*segFile{}, told: map[backend.Ref]bool{}}
	c.work.reclaim, c.work.sync = make(chan struct{}, 1), make(chan struct{}, 1)
	c.append.next = 1
	names, err := c.fs.List()
	if err != nil {
		return nil, dirfs.Error("open segments", o.Dir, err)
	}
	slices.Sort(names)
	for _, name := range names {
		number, ok := nameSegment(name)
		switch {
		case name == ballastName:
			c.ballast = true
		case ok && strings.HasSuffix(name, tmpSuffix): // never took effect
			err = c.fs.Remove(name)
		case ok && name == fileName(number):
			err = c.openSegment(number)
		}
		if err != nil {
			return nil, dirfs.Error("open segments", name, err)
		}
	}
	return c, c.giveBallast()
}

// Dir returns the directory of the segments. The log keeps its mark of them there.
func (c *Content) Dir() dirfs.FS { return c.fs }

// openSegment reads one header. Error: segments of two stores.
func (c *Content) openSegment(number uint64) error {
	s := &segFile{number: number}
	c.segs[number] = s
	c.append.next = max(c.append.next, number+1)
	h, err := c.readHeader(s)
	if err == nil && h.segment != number {
		err = fmt.Errorf("the file is that of segment %016x", h.segment)
	}
	if err != nil {
		s.broken = err
		c.log.Error("a segment cannot be read; what it holds is lost until it comes back", "segment", s.name(), "err", err)
		return nil
	}
	s.seed = h.seed()
	if c.foreign == ([16]byte{}) {
		c.foreign = h.store
	}
	if c.foreign != h.store {
		return fmt.Errorf("it belongs to store %x, and other segments to store %x", h.store, c.foreign)
	}
	return nil
}

func (c *Content) readHeader(s *segFile) (fileHeader, error) {
	f, err := c.fs.Open(s.name())
	if err != nil {
		return fileHeader{}, err
	}
	head := make([]byte, fileHead)
	err = readFull(f, head, 0)
	if err := errors.Join(err, f.Close()); err != nil {
		return fileHeader{}, err
	}
	return decodeFileHeader(head)
}

// giveBallast removes the ballast when the disk is full.
func (c *Content) giveBallast() error {
	if !c.ballast {
		return nil
	}
	free, err := c.fs.Free()
	if err != nil {
		return dirfs.Error("open segments", ballastName, err)
	}
	if free >= c.opts.Ballast {
		return nil
	}
	c.log.Warn("the disk is full; the ballast is given up", "free", free, "ballast", c.opts.Ballast)
	return c.DropBallast()
}

// DropBallast removes the ballast, so that a full store can be worked on. The
// reclaimer makes it anew when there is room.
func (c *Content) DropBallast() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ballast {
		return nil
	}
	if err := c.fs.Remove(ballastName); err != nil {
		return dirfs.Error("remove ballast", ballastName, err)
	}
	c.ballast = false
	return nil
}

// makeBallast makes the ballast if there is plenty of room.
func (c *Content) makeBallast() error {
	c.mu.Lock()
	has := c.ballast
	c.mu.Unlock()
	if has || c.opts.Ballast <= 0 {
		return nil
	}
	if free, err := c.fs.Free(); err != nil || free < c.opts.Reserve+2*c.opts.Ballast {
		return err
	}
	f, err := c.fs.Create(ballastName)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Allocate(c.opts.Ballast), f.Close()); err != nil {
		return errors.Join(err, c.fs.Remove(ballastName))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ballast = true
	return nil
}

// Bind joins c to store, whose keys of the family 's' are c's from now on, and
// whose recovery is complete. It removes what a crash left behind the last
// record that an Update named, and starts the reclaimer, but not with
// Options.Mending. The Store it gives
// must be used instead of store, by all that Put, Get and Free.
//
// Errors: IO when the segments belong to another store; those of store.
func (c *Content) Bind(ctx context.Context, store backend.Store) (*Store, error) {
	if err := c.identify(ctx, store); err != nil {
		return nil, err
	}
	all := map[uint64]counts{}
	err := store.View(ctx, func(tx backend.Tx) error {
		clear(all)
		err := tx.Scan([]byte{family, subCounts}, []byte{family, subCounts + 1}, func(k, v []byte) error {
			n, ok := countsSegment(k)
			if !ok {
				return c.forgive(errValue)
			}
			found, err := decodeCounts(n, v)
			all[n] = found
			return c.forgive(err)
		})
		if err != nil {
			return err
		}
		return tx.Scan([]byte{family, subFreed}, []byte{family, subFreed + 1}, func(k, v []byte) error {
			n, sp, err := freedRecord(k, v)
			if s := c.segs[n]; s != nil {
				s.mark(sp.from)
			}
			return c.forgive(err)
		})
	})
	if err != nil {
		return nil, err
	}
	if err := c.recoverSegments(all); err != nil {
		return nil, err
	}
	s := &Store{c: c, below: store, done: make(chan struct{}, 2), turn: make(chan struct{}, 1)}
	if c.opts.Settled == nil {
		c.opts.Settled = store.WaitDurable
		if l, ok := store.(logged); ok && c.opts.Logged {
			c.opts.Settled = l.WaitCommitted
		}
	}
	run, quit := context.WithCancel(context.Background())
	s.quit = quit
	c.append.mu.Lock()
	c.append.bound = true
	c.append.mu.Unlock()
	if err := c.makeBallast(); err != nil {
		c.log.Warn("no ballast", "err", err)
	}
	go s.reclaimer(run)
	go s.syncer(run)
	return s, nil
}

// forgive is nil for what a repair will set right.
func (c *Content) forgive(err error) error {
	if c.opts.Mending {
		return nil
	}
	return err
}

// logged is a store whose recovery looks at Updates until they are committed.
type logged interface {
	WaitCommitted(ctx context.Context, lsn backend.LSN) error
}

// identify compares the store's id with the segments', or gives a new store one.
func (c *Content) identify(ctx context.Context, store backend.Store) error {
	found := false
	err := store.View(ctx, func(tx backend.Tx) error {
		switch b, err := tx.Get(storeKey()); {
		case err == nil && len(b) == 17 && b[0] == valueVersion:
			found = true
			copy(c.id[:], b[1:])
			return nil
		case err == nil:
			return errValue
		case backend.KindOf(err) != backend.NotFound:
			return err
		}
		return nil
	})
	if err != nil {
		return err
	}
	if c.foreign != ([16]byte{}) && (!found || c.foreign != c.id) {
		text := fmt.Errorf("they belong to store %x, and this is store %x", c.foreign, c.id)
		if !found {
			text = fmt.Errorf("they belong to store %x, and this store never had any", c.foreign)
		}
		return &backend.Error{Op: "open segments", Path: c.opts.Dir, Kind: backend.IO, Err: text}
	}
	if found {
		return nil
	}
	_, _ = rand.Read(c.id[:]) // never fails
	lsn, err := store.Update(ctx, func(tx backend.Tx) error {
		return tx.Set(storeKey(), append([]byte{valueVersion}, c.id[:]...))
	})
	if err != nil {
		return err
	}
	return store.WaitDurable(ctx, lsn)
}

// recoverSegments compares the files with what the store has of them.
func (c *Content) recoverSegments(all map[uint64]counts) error {
	for number, n := range all {
		c.append.next = max(c.append.next, number+1)
		if c.segs[number] == nil && n.refs > 0 {
			s := &segFile{number: number, broken: errNoSegment}
			c.segs[number] = s
			c.log.Error("a segment is missing; what it holds is lost until it comes back", "segment", s.name(), "records", n.refs)
		}
	}
	if c.opts.Mending {
		return nil
	}
	var last *segFile
	for number, s := range c.segs {
		n, known := all[number]
		switch {
		case s.broken != nil && (known || len(all) == 0): // a store without any may be the wrong one
		case !known: // made by Updates that never took effect
			if err := c.dropSegment(s); err != nil {
				return dirfs.Error("remove unused segment", s.name(), err)
			}
		default:
			if err := c.cut(s, n.end); err != nil {
				return dirfs.Error("cut segment", s.name(), err)
			}
			if last == nil || number > last.number {
				last = s
			}
		}
	}
	if last == nil || last.unproven != nil {
		return nil
	}
	if end := all[last.number].end; end+recordSize(limit) <= c.opts.SegmentSize {
		c.current.Store(last)
		c.append.tail = end
	}
	return nil
}

// cut removes what is behind the last known record: nothing names it.
func (c *Content) cut(s *segFile, end int64) error {
	_, f, err := c.acquire(s.number)
	if err != nil {
		return err
	}
	defer c.release(s)
	size, _, err := f.Size()
	if err != nil {
		return err
	}
	if size > end {
		c.log.Info("removing what no update names", "segment", s.name(), "bytes", size-end)
		if err := f.Truncate(end); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range s.pending {
		s.pending[i].to = min(s.pending[i].to, end)
	}
	s.pending = slices.DeleteFunc(s.pending, func(sp span) bool { return sp.from >= sp.to })
	return nil
}

// dropSegment unlinks a segment; those that read it go on reading.
func (c *Content) dropSegment(s *segFile) error {
	if err := c.fs.Remove(s.name()); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.segs, s.number)
	s.gone = true
	if s.refs == 0 && s.f != nil {
		c.shut(s)
	}
	return nil
}

// newSegment makes the next segment; append.mu held. Its header and its name
// are on disk before a record is written to it.
func (c *Content) newSegment() (*segFile, error) {
	h := fileHeader{store: c.id, segment: c.append.next}
	c.append.next++
	var salt [8]byte
	_, _ = rand.Read(salt[:]) // never fails
	h.salt = binary.LittleEndian.Uint64(salt[:])
	s := &segFile{number: h.segment, seed: h.seed()}
	tmp := strings.TrimSuffix(s.name(), segSuffix) + tmpSuffix
	f, err := c.fs.Create(tmp)
	if err != nil {
		return nil, err
	}
	name := tmp
	if _, err = f.WriteAt(h.encode(), 0); err == nil {
		err = f.Sync()
	}
	if err == nil {
		if err = c.fs.Rename(tmp, s.name()); err == nil {
			name = s.name()
			err = c.fs.SyncDir()
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), c.fs.Remove(name))
	}
	s.f = f
	c.mu.Lock()
	defer c.mu.Unlock()
	c.segs[s.number] = s
	c.open++
	return s, nil
}

// Close closes the files. The Store that Bind gave calls it.
func (c *Content) Close() error {
	c.append.mu.Lock()
	c.append.bound = false
	c.current.Store(nil)
	c.append.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, s := range c.segs {
		s.gone = true
		if s.f != nil && s.refs == 0 {
			c.shut(s)
		}
	}
	clear(c.segs)
	return nil
}
