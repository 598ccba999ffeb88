package segment_test

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/warrenfs/warren/backend/segment"
)

// disk is a directory in memory that knows what of it is on disk and what only
// in the page cache. It can be cloned as a crash would leave it, and its calls
// can be made to fail.
type disk struct {
	mu     sync.Mutex
	names  map[string]*inode
	synced map[string]*inode // the names on disk
	steps  []dirStep         // that lead from synced to names
	calls  int
	room   int64 // bytes that all files may take; 0: any number
	// hook is called before (done false) and after each call that changes
	// something. What it returns before the call makes the call fail.
	hook func(c call, done bool) error
}

// call is one call into the directory or a file of it.
type call struct {
	n    int // from 1
	op   string
	name string
	at   int64
	data []byte // of a write
	file *inode
}

func (c call) String() string {
	return fmt.Sprintf("%d %s %s at %d, %d bytes", c.n, c.op, c.name, c.at, len(c.data))
}

// errPartly makes a write fail after some of its bytes.
type errPartly struct {
	n   int
	err error
}

func (e errPartly) Error() string { return e.err.Error() }
func (e errPartly) Unwrap() error { return e.err }

type inode struct {
	cache   []byte // what reads see
	disk    []byte
	writes  []write // in cache and not on disk
	punched int64
}

type write struct {
	at   int64
	data []byte
}

type dirStep struct {
	name string
	to   *inode // nil: removed
}

func newDisk() *disk {
	return &disk{names: map[string]*inode{}, synced: map[string]*inode{}}
}

func (d *disk) do(c call, fn func() error) error {
	d.mu.Lock()
	d.calls++
	c.n = d.calls
	hook := d.hook
	d.mu.Unlock()
	if hook != nil {
		if err := hook(c, false); err != nil {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.fail(c, err)
		}
	}
	d.mu.Lock()
	err := fn()
	d.mu.Unlock()
	if hook != nil {
		_ = hook(c, true)
	}
	return err
}

// fail does what a failing call still does; mu held.
func (d *disk) fail(c call, err error) error {
	f := c.file
	switch p, partly := err.(errPartly); {
	case c.op == "write" && partly:
		f.write(c.data[:min(p.n, len(c.data))], c.at)
	case c.op == "sync":
		f.writes = nil // the page cache is clean, and the disk has none of it
	}
	return err
}

// fits tells whether f may grow to size; mu held.
func (d *disk) fits(f *inode, size int64) error {
	if d.room == 0 || size <= int64(len(f.cache)) {
		return nil
	}
	for _, g := range d.names {
		if g != f {
			size += int64(len(g.cache))
		}
	}
	if size > d.room {
		return syscall.ENOSPC
	}
	return nil
}

func (d *disk) step(name string, to *inode) {
	if to == nil {
		delete(d.names, name)
	} else {
		d.names[name] = to
	}
	d.steps = append(d.steps, dirStep{name, to})
}

func (d *disk) Create(name string) (segment.File, error) {
	var f *inode
	err := d.do(call{op: "create", name: name}, func() error {
		if d.names[name] != nil {
			return os.ErrExist
		}
		f = &inode{}
		d.step(name, f)
		return nil
	})
	return &openFile{d, name, f}, err
}

func (d *disk) Open(name string) (segment.File, error) {
	var f *inode
	err := d.do(call{op: "open", name: name}, func() error {
		if f = d.names[name]; f == nil {
			return os.ErrNotExist
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &openFile{d, name, f}, nil
}

func (d *disk) List() ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Collect(maps.Keys(d.names)), nil
}

func (d *disk) Rename(from, to string) error {
	return d.do(call{op: "rename", name: from}, func() error {
		f := d.names[from]
		if f == nil || d.names[to] != nil {
			return os.ErrInvalid
		}
		d.step(from, nil)
		d.step(to, f)
		return nil
	})
}

func (d *disk) Remove(name string) error {
	return d.do(call{op: "remove", name: name}, func() error {
		if d.names[name] == nil {
			return os.ErrNotExist
		}
		d.step(name, nil)
		return nil
	})
}

func (d *disk) SyncDir() error {
	return d.do(call{op: "syncdir"}, func() error {
		d.synced, d.steps = maps.Clone(d.names), nil
		return nil
	})
}

type openFile struct {
	d    *disk
	name string
	f    *inode
}

func (o *openFile) ReadAt(p []byte, at int64) (int, error) {
	if err := o.d.do(call{op: "read", name: o.name, at: at}, func() error { return nil }); err != nil {
		return 0, err
	}
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	if at >= int64(len(o.f.cache)) {
		return 0, io.EOF
	}
	n := copy(p, o.f.cache[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (o *openFile) WriteAt(p []byte, at int64) (int, error) {
	c := call{op: "write", name: o.name, at: at, data: slices.Clone(p), file: o.f}
	err := o.d.do(c, func() error {
		if err := o.d.fits(o.f, at+int64(len(p))); err != nil {
			return err
		}
		o.f.write(c.data, at)
		return nil
	})
	if partly, ok := err.(errPartly); ok {
		return min(partly.n, len(p)), partly.err
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (o *openFile) Size() (int64, error) {
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	return int64(len(o.f.cache)), nil
}

func (o *openFile) Allocate(size int64) error {
	return o.d.do(call{op: "allocate", name: o.name, at: size}, func() error {
		if err := o.d.fits(o.f, size); err != nil {
			return err
		}
		o.f.cache = grown(o.f.cache, size)
		o.f.disk = grown(o.f.disk, size)
		return nil
	})
}

func (o *openFile) Sync() error {
	return o.d.do(call{op: "sync", name: o.name, file: o.f}, func() error {
		for _, w := range o.f.writes {
			o.f.disk = apply(o.f.disk, w)
		}
		o.f.writes = nil
		return nil
	})
}

func (o *openFile) Close() error { return nil }

func (f *inode) write(p []byte, at int64) {
	w := write{at, slices.Clone(p)}
	f.cache = apply(f.cache, w)
	f.writes = append(f.writes, w)
}

func apply(b []byte, w write) []byte {
	b = grown(b, w.at+int64(len(w.data)))
	copy(b[w.at:], w.data)
	return b
}

func grown(b []byte, size int64) []byte {
	if n := size - int64(len(b)); n > 0 {
		b = append(b, make([]byte, n)...)
	}
	return b
}

// whole gives a file that has b in the cache and on disk.
func whole(b []byte) *inode { return &inode{cache: slices.Clone(b), disk: slices.Clone(b)} }

// killed gives what kill -9 leaves: all of the page cache. extra, if it is a
// write, has got as far as its first bytes.
func (d *disk) killed(extra call, got int) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := newDisk()
	for name, f := range d.names {
		g := whole(f.cache)
		if extra.op == "write" && extra.file == f {
			g = whole(apply(g.cache, write{extra.at, extra.data[:got]}))
		}
		out.names[name] = g
	}
	out.synced = maps.Clone(out.names)
	return out
}

// sector is what a disk writes whole.
const sector = 512

// powerCut gives what a power cut leaves: some first part of the directory's
// changes, and of what was written to the files since they were synced any
// sectors, each with the given chance.
func (d *disk) powerCut(r *rand.Rand, chance float64) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := maps.Clone(d.synced)
	steps := 0
	if chance > 0 {
		steps = r.IntN(len(d.steps) + 1)
	}
	for _, s := range d.steps[:steps] {
		if s.to == nil {
			delete(names, s.name)
		} else {
			names[s.name] = s.to
		}
	}
	out := newDisk()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b := slices.Clone(names[name].disk)
		for _, w := range names[name].writes {
			b = applySectors(b, w, func() bool { return r.Float64() < chance })
		}
		out.names[name] = whole(b)
	}
	out.synced = maps.Clone(out.names)
	return out
}

// applySectors writes those sectors of w that pick takes.
func applySectors(b []byte, w write, pick func() bool) []byte {
	for from := int64(0); from < int64(len(w.data)); {
		to := min((w.at+from)/sector*sector+sector-w.at, int64(len(w.data)))
		if pick() {
			b = apply(b, write{w.at + from, w.data[from:to]})
		}
		from = to
	}
	return b
}

func (d *disk) setHook(h func(call, bool) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hook = h
}

func (d *disk) Free() (int64, error) {
	err := d.do(call{op: "free"}, func() error { return nil })
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.room == 0 {
		return 1 << 50, err
	}
	free := d.room
	for _, f := range d.names {
		free -= int64(len(f.cache))
	}
	return max(free, 0), err
}

func (o *openFile) Truncate(size int64) error {
	return o.d.do(call{op: "truncate", name: o.name, at: size, file: o.f}, func() error {
		o.f.cache = o.f.cache[:min(size, int64(len(o.f.cache)))]
		o.f.disk = o.f.disk[:min(size, int64(len(o.f.disk)))]
		for i := range o.f.writes {
			w := &o.f.writes[i]
			w.data = w.data[:min(max(size-w.at, 0), int64(len(w.data)))]
		}
		return nil
	})
}

// Punch may reach the disk before writes that were not synced.
func (o *openFile) Punch(at, n int64) error {
	return o.d.do(call{op: "punch", name: o.name, at: at, file: o.f}, func() error {
		zero := func(b []byte) {
			if at < int64(len(b)) {
				clear(b[at:min(at+n, int64(len(b)))])
			}
		}
		zero(o.f.cache)
		zero(o.f.disk)
		o.f.punched += n
		return nil
	})
}
