package segment_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/backendtest"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/segment"
	"github.com/warrenfs/warren/scripts/waits"
)

// fixture is a content over a store and a directory, both in memory.
type fixture struct {
	t     testing.TB
	d     *disk
	below *mem.Store
	opts  segment.Options
	c     *segment.Content
	s     *segment.Store
}

func newFixture(t testing.TB, o segment.Options) *fixture {
	f := &fixture{t: t, d: newDisk(), below: mem.New(mem.Options{}), opts: o}
	if f.opts.ReclaimEvery == 0 {
		f.opts.ReclaimEvery = -1
	}
	if f.opts.PunchRate == 0 {
		f.opts.PunchRate = -1
	}
	f.open()
	return f
}

// tryOpen opens what f has on its disks.
func (f *fixture) tryOpen() error {
	f.opts.FS = f.d
	c, err := segment.Open(f.opts)
	if err != nil {
		return err
	}
	s, err := c.Bind(bg(f.t), f.below)
	if err != nil {
		_ = c.Close()
		return err
	}
	f.c, f.s = c, s
	return nil
}

func (f *fixture) open() {
	f.t.Helper()
	if err := f.tryOpen(); err != nil {
		f.t.Fatalf("open: %v", err)
	}
}

func (f *fixture) reopen() {
	f.t.Helper()
	if err := f.s.Close(); err != nil {
		f.t.Fatalf("Close: %v", err)
	}
	f.below = f.below.Reopen()
	f.open()
}

func bg(t testing.TB) context.Context {
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func bytesOf(id uint64, n int) []byte {
	r := rand.New(rand.NewPCG(id, 7))
	b := make([]byte, (n+7)/8*8)
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	return b[:n:n]
}

func (f *fixture) tryPut(id uint64, n int) (ref backend.Ref, err error) {
	_, err = f.s.Update(bg(f.t), func(tx backend.Tx) error {
		ref, err = f.c.Put(tx, id, bytesOf(id, n))
		return err
	})
	return ref, err
}

func (f *fixture) put(id uint64, n int) backend.Ref {
	f.t.Helper()
	ref, err := f.tryPut(id, n)
	if err != nil {
		f.t.Fatalf("Put: %v", err)
	}
	return ref
}

func (f *fixture) free(refs ...backend.Ref) {
	f.t.Helper()
	_, err := f.s.Update(bg(f.t), func(tx backend.Tx) error {
		for _, r := range refs {
			if err := f.c.Free(tx, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		f.t.Fatalf("Free: %v", err)
	}
}

func (f *fixture) reclaim() (did segment.Reclaimed) {
	f.t.Helper()
	did, err := f.s.Reclaim(bg(f.t))
	if err != nil {
		f.t.Fatalf("Reclaim: %v", err)
	}
	return did
}

// get reads ref. It fails the test if the bytes are others than were put.
func (f *fixture) get(ref backend.Ref) error {
	f.t.Helper()
	p := make([]byte, ref.Length)
	err := f.s.View(bg(f.t), func(tx backend.Tx) error { return f.c.Get(tx, ref, 0, p) })
	if err == nil && !bytes.Equal(p, bytesOf(ref.ID, len(p))) {
		f.t.Errorf("Get of %+v gave wrong bytes", ref)
	}
	return err
}

func (f *fixture) reads(refs ...backend.Ref) {
	f.t.Helper()
	for _, r := range refs {
		if err := f.get(r); err != nil {
			f.t.Errorf("Get: %v", err)
		}
	}
}

// isIO checks that ref cannot be read, and that the error names it.
func (f *fixture) isIO(what string, ref backend.Ref) {
	f.t.Helper()
	if err := f.get(ref); err == nil || backend.KindOf(err) != backend.IO {
		f.t.Errorf("%s: %v, want IO", what, err)
	}
}

// damage changes the bytes of a record as the conformance suite asks: the same
// number of bytes in place, another with a header that fits them.
func (f *fixture) damage(t testing.TB, ref backend.Ref, change func([]byte) []byte) {
	f.d.Lock()
	defer f.d.Unlock()
	file := f.d.Names[segment.FileName(ref.Segment)]
	at := int64(ref.Offset) + segment.DataStart(ref.Length)
	old := bytes.Clone(file.Cache[at : at+int64(ref.Length)])
	data := change(bytes.Clone(old))
	switch {
	case len(data) == 0:
		file.Write(make([]byte, at-int64(ref.Offset)), int64(ref.Offset))
	case len(data) == len(old):
		file.Write(data, at)
	default:
		file.Write(segment.EncodeRecord(file.Cache, ref, data), int64(ref.Offset))
	}
}

func TestContent(t *testing.T) {
	backendtest.TestContent(t, func(t testing.TB) backendtest.ContentFixture {
		f := newFixture(t, segment.Options{SegmentSize: 4 << 20, MaxOpen: 1})
		return backendtest.ContentFixture{
			Fixture: backendtest.Fixture{Store: f.s, Reopen: func(testing.TB) backend.Store {
				f.below = f.below.Reopen()
				f.open()
				return f.s
			}},
			Content: reopened{f}, Damage: f.damage,
		}
	})
}

// reopened is the content that the fixture has now.
type reopened struct{ f *fixture }

func (r reopened) Put(tx backend.Tx, id uint64, data []byte) (backend.Ref, error) {
	return r.f.c.Put(tx, id, data)
}
func (r reopened) Get(tx backend.Tx, ref backend.Ref, off uint32, p []byte) error {
	return r.f.c.Get(tx, ref, off, p)
}
func (r reopened) Free(tx backend.Tx, ref backend.Ref) error  { return r.f.c.Free(tx, ref) }
func (r reopened) Check(tx backend.Tx, ref backend.Ref) error { return r.f.c.Check(tx, ref) }
func (r reopened) Limit() int                                 { return r.f.c.Limit() }
