package segment

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
)

// Content is the driver. Open makes one, Bind joins it to a store.
type Content struct {
	fs   dirfs.FS
	opts Options
	log  *slog.Logger
	id   [16]byte // of the store; set by Bind
	work struct {
		reclaim chan struct{} // wakes the reclaimer
		sync    chan struct{} // wakes the syncer
	}

	append struct {
		mu      sync.Mutex // before Content.mu; held while a segment is made
		tail    int64      // where the next record of current goes
		next    uint64     // number of the next segment
		checked int64      // bytes that may be put before the free space is looked at again
		dirty   int64      // bytes put since they were last synced ahead of need
		bound   bool
		// sinceWait is how many bytes were put since somebody waited for
		// durability; no lock is needed.
		sinceWait atomic.Int64
	}
	current atomic.Pointer[segFile] // records go here; changed under append.mu

	mu      sync.Mutex
	segs    map[uint64]*segFile
	open    int // files
	closed  bool
	foreign [16]byte // the id in the headers found by Open; zero: no headers
	ballast bool
	told    map[backend.Ref]bool // damage that the log has told of
	left    struct {             // records that nothing names and that are not void
		refs []backend.Ref
		some atomic.Bool // there are any; no lock is needed
	}
	stats Stats
}

var _ backend.Content = (*Content)(nil)

// checkEvery is how many bytes are put between two looks at the free space.
const checkEvery = 8 << 20

// syncEvery is how many bytes are put before they are synced without being
// asked, so that no sync takes long.
const syncEvery = 32 << 20

// Limit is 1 MiB.
func (c *Content) Limit() int { return limit }

// Put writes data to the current segment and notes it in the counts of tx,
// which must be an Update of the bound store. Errors: Invalid without data or
// with another tx, TooBig, ReadOnly in a View, NoSpace below the reserve, IO.
func (c *Content) Put(tx backend.Tx, id uint64, data []byte) (backend.Ref, error) {
	ref := backend.Ref{ID: id}
	t, err := c.changing("put", tx, ref)
	switch {
	case err != nil:
		return backend.Ref{}, err
	case len(data) == 0:
		return backend.Ref{}, fail("put", ref, backend.Invalid, errors.New("no bytes"))
	case len(data) > limit:
		return backend.Ref{}, fail("put", ref, backend.TooBig, fmt.Errorf("%d bytes, limit %d", len(data), limit))
	}
	if err := t.unput(id); err != nil {
		return backend.Ref{}, err
	}
	rides := t.mayRide(len(data))
	c.append.sinceWait.Add(int64(len(data)))
	if ref, err = c.write(id, data, !rides); err != nil {
		return backend.Ref{}, fail("put", backend.Ref{ID: id}, kindOf(err), err)
	}
	if rides {
		err = t.ride(ref, data)
	}
	if err == nil {
		err = t.put(ref)
	}
	if err != nil {
		c.void(ref)
		return backend.Ref{}, err
	}
	return ref, nil
}

// Free notes in tx that nothing names ref any more; its space is given back
// later. Freeing twice, or what has no segment, is no error.
func (c *Content) Free(tx backend.Tx, ref backend.Ref) error {
	t, err := c.changing("free", tx, ref)
	if err != nil {
		return err
	}
	return t.free(ref)
}

// changing gives the transaction of the bound store that tx is, if it changes.
func (c *Content) changing(op string, tx backend.Tx, ref backend.Ref) (*boundTx, error) {
	t, ok := tx.(*boundTx)
	switch {
	case !ok || t.c != c:
		return nil, fail(op, ref, backend.Invalid, errors.New("the transaction is not of the store that the content was bound to"))
	case t.readonly:
		return nil, fail(op, ref, backend.ReadOnly, errors.New("a View changes nothing"))
	}
	return t, nil
}

// Get verifies the 32 KiB blocks that hold [off, off+len(p)) and copies from
// them. After an error p may hold anything.
func (c *Content) Get(tx backend.Tx, ref backend.Ref, off uint32, p []byte) error {
	if uint64(off)+uint64(len(p)) > uint64(ref.Length) {
		return fail("get", ref, backend.Range, fmt.Errorf("bytes [%d, %d)", off, uint64(off)+uint64(len(p))))
	}
	return c.read("get", tx, ref, func(f dirfs.File, r record) error {
		if len(p) == 0 {
			return nil
		}
		from, to := int64(off)/block*block, min(roundUp(int64(off)+int64(len(p)), block), int64(r.length))
		if from == int64(off) && to == from+int64(len(p)) {
			return readBlocks(f, r, from, p)
		}
		buf := scratch(to - from)
		defer buffers.Put(buf)
		if err := readBlocks(f, r, from, *buf); err != nil {
			return err
		}
		copy(p, (*buf)[int64(off)-from:])
		return nil
	})
}

// Check reads and verifies the whole of ref. Errors as Get.
func (c *Content) Check(tx backend.Tx, ref backend.Ref) error {
	return c.read("check", tx, ref, func(f dirfs.File, r record) error { return checkRecord(f, r) })
}

// checkRecord verifies all of r's content.
func checkRecord(f dirfs.File, r record) error {
	buf := scratch(int64(r.length))
	defer buffers.Put(buf)
	if err := readBlocks(f, r, 0, *buf); err != nil {
		return err
	}
	if checksum(*buf) != r.crc {
		return errChecksum
	}
	return nil
}

// read calls fn with ref's file and verified header.
func (c *Content) read(op string, tx backend.Tx, ref backend.Ref, fn func(dirfs.File, record) error) error {
	if ref.Offset > math.MaxInt64-maxVoid || ref.Length == 0 || ref.Length > limit {
		return fail(op, ref, backend.IO, errors.New("no record can be there"))
	}
	s, f, err := c.acquire(ref.Segment)
	if err != nil {
		return c.damaged(op, ref, err)
	}
	defer c.release(s)
	if c.mayBeFreed(s, int64(ref.Offset)) {
		switch _, err := tx.Get(freedKey(ref.Segment, ref.Offset)); {
		case err == nil:
			return fail(op, ref, backend.IO, errors.New("it was freed"))
		case backend.KindOf(err) != backend.NotFound:
			return fail(op, ref, backend.KindOf(err), err)
		}
	}
	r, err := readRecord(s, f, ref)
	if err == nil {
		err = fn(f, r)
	}
	if err != nil {
		return c.damaged(op, ref, err)
	}
	return nil
}

// maxTold is how many damaged records the log tells of.
const maxTold = 1000

// damaged is the error of ref that cannot be read. The log tells of it once.
func (c *Content) damaged(op string, ref backend.Ref, err error) error {
	err = fail(op, ref, backend.IO, err)
	c.mu.Lock()
	tell := !c.closed && !c.told[ref] && len(c.told) < maxTold
	if tell {
		c.told[ref] = true
	}
	c.mu.Unlock()
	if tell {
		c.log.Error("content cannot be read", "err", err)
	}
	return err
}

// buffers holds scratch space for reads of less than whole blocks.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 2*block); return &b }}

func scratch(n int64) *[]byte {
	b := buffers.Get().(*[]byte)
	if int64(cap(*b)) < n {
		*b = make([]byte, n)
	}
	*b = (*b)[:n]
	return b
}

// write puts a record behind the last one; a loose one has its bytes nowhere
// else. Error: of the file, or NoSpace.
func (c *Content) write(id uint64, data []byte, loose bool) (backend.Ref, error) {
	s, r, err := c.place(id, data)
	if err != nil {
		return backend.Ref{}, err
	}
	defer c.release(s)
	if err := writeRecord(s, s.f, r, data); err != nil {
		c.unplace(s, r, err)
		return backend.Ref{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.wrote(span{r.at, r.at + r.size})
	if loose {
		s.loose = s.written
	} else {
		c.stats.Rides++
	}
	c.stats.Puts++
	c.stats.PutBytes += uint64(len(data))
	return r.ref(s.number), nil
}

// place finds room for data and acquires its segment.
func (c *Content) place(id uint64, data []byte) (*segFile, record, error) {
	size := recordSize(uint32(len(data)))
	a := &c.append
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.bound {
		return nil, record{}, &backend.Error{Kind: backend.Unavailable, Err: errors.New("the content is not bound to a store, or closed")}
	}
	if err := c.checkRoom(size); err != nil {
		return nil, record{}, err
	}
	if s := c.current.Load(); s == nil || a.tail+size > c.opts.SegmentSize {
		c.current.Store(nil)
		s, err := c.newSegment()
		if err != nil {
			return nil, record{}, err
		}
		c.current.Store(s)
		a.tail = fileHead
	}
	s, _, err := c.acquire(c.current.Load().number)
	if err != nil {
		return nil, record{}, err
	}
	r := dataRecord(id, a.tail, data)
	a.tail += size
	if a.dirty += size; a.dirty >= syncEvery {
		a.dirty = 0
		wake(c.work.sync)
	}
	return s, r, nil
}

// unplace gives back the room of a write that failed, if nothing follows it,
// and ends the use of a segment that failed otherwise than for want of space.
func (c *Content) unplace(s *segFile, r record, err error) {
	c.append.mu.Lock()
	defer c.append.mu.Unlock()
	if s != c.current.Load() {
		return
	}
	if !dirfs.Full(err) {
		c.current.Store(nil)
	} else if c.append.tail == r.at+r.size {
		c.append.tail = r.at
	}
}

// checkRoom refuses size bytes when less than the reserve would be left; append.mu held.
func (c *Content) checkRoom(size int64) error {
	if c.append.checked -= size; c.append.checked > 0 {
		return nil
	}
	c.append.checked = 0
	free, err := c.fs.Free()
	if err != nil {
		return err
	}
	if free-size < c.opts.Reserve {
		return &backend.Error{Kind: backend.NoSpace, Err: fmt.Errorf("%d bytes are free and %d are kept in reserve", free, c.opts.Reserve)}
	}
	if free-checkEvery > c.opts.Reserve+checkEvery {
		c.append.checked = checkEvery
	}
	return nil
}

// void makes the record of ref unreadable: nothing ever named it. Where that
// fails, the next Update that puts something behind it marks it as freed.
func (c *Content) void(ref backend.Ref) {
	s, f, err := c.acquire(ref.Segment)
	if err != nil {
		c.leave(ref, err)
		return
	}
	defer c.release(s)
	at := int64(ref.Offset)
	if err := writeVoid(s, f, span{at, at + recordSize(ref.Length)}); err != nil {
		c.leave(ref, err)
		return
	}
	// The put itself is pending; what is void must be so before what follows is durable.
	c.mu.Lock()
	defer c.mu.Unlock()
	s.wrote(span{at, at + recordSize(ref.Length)})
	s.loose = s.written
}

// leave notes a record that nothing names and that is not void.
func (c *Content) leave(ref backend.Ref, err error) {
	c.log.Warn("a record that nothing names stays for now", "segment", fileName(ref.Segment), "offset", ref.Offset, "err", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left.refs = append(c.left.refs, ref)
	c.left.some.Store(true)
}

// leftIn gives the records of a segment that leave noted.
func (c *Content) leftIn(segment uint64) []backend.Ref {
	if !c.left.some.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []backend.Ref
	for _, ref := range c.left.refs {
		if ref.Segment == segment {
			out = append(out, ref)
		}
	}
	return out
}

// forget drops records whose marks have taken effect.
func (c *Content) forget(marked []backend.Ref) {
	if len(marked) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left.refs = slices.DeleteFunc(c.left.refs, func(ref backend.Ref) bool { return slices.Contains(marked, ref) })
	c.left.some.Store(len(c.left.refs) > 0)
}

// addSpan adds s to spans, joined with the last if it follows that.
func addSpan(spans []span, s span) []span {
	if n := len(spans); n > 0 && spans[n-1].to == s.from {
		spans[n-1].to = s.to
		return spans
	}
	return append(spans, s)
}

func fail(op string, ref backend.Ref, kind backend.Kind, err error) error {
	path := fmt.Sprintf("content %016x", ref.ID)
	if ref.Segment != 0 {
		path += fmt.Sprintf(" in segment %016x at %d", ref.Segment, ref.Offset)
	}
	if e, ok := err.(*backend.Error); ok && e.Op == "" && e.Path == "" && e.Kind == kind {
		err = e.Err
	}
	return &backend.Error{Op: op, Path: path, Kind: kind, Err: err}
}

// kindOf is the kind of a failed write.
func kindOf(err error) backend.Kind {
	if k := backend.KindOf(err); k != backend.Other {
		return k
	}
	return backend.KindOf(dirfs.Error("", "", err))
}
