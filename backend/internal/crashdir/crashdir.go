// Package crashdir is a directory in memory for tests: a [Disk] is a dirfs.FS
// that knows what of it is on disk and what only in the page cache. It can be
// cloned as a crash would leave it, and its calls can be made to fail.
//
// A Disk's lock is held for moments and not while its Hook runs: a Hook may make
// clones and block.
package crashdir

import (
	crand "crypto/rand"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/warrenfs/warren/backend/internal/dirfs"
)

// Disk is the directory. Its fields may be set before it is used, or with its
// lock held.
type Disk struct {
	sync.Mutex
	Names  map[string]*Inode
	Synced map[string]*Inode // the names on disk
	Room   int64             // bytes that all files may take; 0: any number
	Reads  bool              // calls that change nothing are told to the hook, too

	steps []dirStep // that lead from Synced to Names
	calls int
	hook  Hook
	run   dirfs.Run

	moving sync.RWMutex // held to read while a call changes something
}

var _ dirfs.FS = (*Disk)(nil)

// Hook is called before (done false) and after each call that changes
// something. What it returns before the call makes the call fail.
type Hook func(c Call, done bool) error

// Call is one call into the directory or a file of it.
type Call struct {
	N    int // from 1
	Op   string
	Name string
	At   int64
	Data []byte // of a write
	File *Inode
}

// String tells which call it is.
func (c Call) String() string {
	return fmt.Sprintf("%d %s %s at %d, %d bytes", c.N, c.Op, c.Name, c.At, len(c.Data))
}

// Partly, given by a Hook, makes a write fail with Err after N of its bytes.
type Partly struct {
	N   int
	Err error
}

// Error is that of Err.
func (e Partly) Error() string { return e.Err.Error() }

// Unwrap gives Err.
func (e Partly) Unwrap() error { return e.Err }

// Inode is one file.
type Inode struct {
	Cache   []byte // what reads see
	Disk    []byte
	Punched int64   // bytes
	writes  []write // in Cache and not on Disk
}

type write struct {
	at   int64
	data []byte
}

type dirStep struct {
	name string
	to   *Inode // nil: removed
}

// New gives an empty directory.
func New() *Disk {
	d := &Disk{Names: map[string]*Inode{}, Synced: map[string]*Inode{}}
	_, _ = crand.Read(d.run[:]) // never fails
	return d
}

// Run returns the run of the disk. Killed keeps it, a PowerCut changes it.
func (d *Disk) Run() dirfs.Run { return d.run }

func (d *Disk) do(c Call, fn func() error) error {
	d.Lock()
	if reads[c.Op] && !d.Reads {
		defer d.Unlock()
		return fn()
	}
	d.calls++
	c.N = d.calls
	hook := d.hook
	d.Unlock()
	if hook != nil {
		if err := hook(c, false); err != nil {
			d.moving.RLock()
			defer d.moving.RUnlock()
			d.Lock()
			defer d.Unlock()
			return d.fail(c, err)
		}
	}
	d.moving.RLock()
	d.Lock()
	err := fn()
	d.Unlock()
	d.moving.RUnlock()
	if hook != nil {
		_ = hook(c, true)
	}
	return err
}

// fail does what a failing call still does; mu held.
func (d *Disk) fail(c Call, err error) error {
	f := c.File
	switch p, partly := err.(Partly); {
	case c.Op == "write" && partly:
		f.Write(c.Data[:min(p.N, len(c.Data))], c.At)
	case c.Op == "sync":
		f.writes = nil // the page cache is clean, and the disk has none of it
	}
	return err
}

// fits tells whether f may grow to size; mu held.
func (d *Disk) fits(f *Inode, size int64) error {
	if d.Room == 0 || size <= int64(len(f.Cache)) {
		return nil
	}
	for _, g := range d.Names {
		if g != f {
			size += int64(len(g.Cache))
		}
	}
	if size > d.Room {
		return syscall.ENOSPC
	}
	return nil
}

func (d *Disk) step(name string, to *Inode) {
	if to == nil {
		delete(d.Names, name)
	} else {
		d.Names[name] = to
	}
	d.steps = append(d.steps, dirStep{name, to})
}

// Create is of dirfs.FS.
func (d *Disk) Create(name string) (dirfs.File, error) {
	var f *Inode
	err := d.do(Call{Op: "create", Name: name}, func() error {
		if d.Names[name] != nil {
			return os.ErrExist
		}
		f = &Inode{}
		d.step(name, f)
		return nil
	})
	return &openFile{d, name, f}, err
}

// Open is of dirfs.FS.
func (d *Disk) Open(name string) (dirfs.File, error) {
	var f *Inode
	err := d.do(Call{Op: "open", Name: name}, func() error {
		if f = d.Names[name]; f == nil {
			return os.ErrNotExist
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &openFile{d, name, f}, nil
}

// List is of dirfs.FS.
func (d *Disk) List() ([]string, error) {
	d.Lock()
	defer d.Unlock()
	return slices.Collect(maps.Keys(d.Names)), nil
}

// Rename is of dirfs.FS.
func (d *Disk) Rename(from, to string) error {
	return d.do(Call{Op: "rename", Name: from}, func() error {
		f := d.Names[from]
		if f == nil || d.Names[to] != nil {
			return os.ErrInvalid
		}
		d.step(from, nil)
		d.step(to, f)
		return nil
	})
}

// Remove is of dirfs.FS.
func (d *Disk) Remove(name string) error {
	return d.do(Call{Op: "remove", Name: name}, func() error {
		if d.Names[name] == nil {
			return os.ErrNotExist
		}
		d.step(name, nil)
		return nil
	})
}

// SyncDir is of dirfs.FS.
func (d *Disk) SyncDir() error {
	return d.do(Call{Op: "syncdir"}, func() error {
		d.Synced, d.steps = maps.Clone(d.Names), nil
		return nil
	})
}

// reads are the calls that change nothing.
var reads = map[string]bool{"read": true, "open": true, "free": true}

type openFile struct {
	d    *Disk
	name string
	f    *Inode
}

func (o *openFile) ReadAt(p []byte, at int64) (int, error) {
	if err := o.d.do(Call{Op: "read", Name: o.name, At: at}, func() error { return nil }); err != nil {
		return 0, err
	}
	o.d.Lock()
	defer o.d.Unlock()
	if at >= int64(len(o.f.Cache)) {
		return 0, io.EOF
	}
	n := copy(p, o.f.Cache[at:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (o *openFile) WriteAt(p []byte, at int64) (int, error) {
	c := Call{Op: "write", Name: o.name, At: at, Data: slices.Clone(p), File: o.f}
	err := o.d.do(c, func() error {
		if err := o.d.fits(o.f, at+int64(len(p))); err != nil {
			return err
		}
		o.f.Write(c.Data, at)
		return nil
	})
	if partly, ok := err.(Partly); ok {
		return min(partly.N, len(p)), partly.Err
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (o *openFile) Size() (length, used int64, err error) {
	o.d.Lock()
	defer o.d.Unlock()
	n := int64(len(o.f.Cache))
	return n, max(n-o.f.Punched, 0), nil
}

func (o *openFile) Allocate(size int64) error {
	return o.d.do(Call{Op: "allocate", Name: o.name, At: size}, func() error {
		if err := o.d.fits(o.f, size); err != nil {
			return err
		}
		o.f.Cache = grown(o.f.Cache, size)
		o.f.Disk = grown(o.f.Disk, size)
		return nil
	})
}

func (o *openFile) Sync() error {
	return o.d.do(Call{Op: "sync", Name: o.name, File: o.f}, func() error {
		for _, w := range o.f.writes {
			o.f.Disk = apply(o.f.Disk, w)
		}
		o.f.writes = nil
		return nil
	})
}

func (o *openFile) Close() error { return nil }

// Write puts p at at into the page cache.
func (f *Inode) Write(p []byte, at int64) {
	w := write{at, slices.Clone(p)}
	f.Cache = apply(f.Cache, w)
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

// Whole gives a file that has b in the cache and on disk.
func Whole(b []byte) *Inode { return &Inode{Cache: slices.Clone(b), Disk: slices.Clone(b)} }

// Killed gives what kill -9 leaves: all of the page cache. extra, if it is a
// write, has got as far as its first bytes.
func (d *Disk) Killed(extra Call, got int) *Disk {
	d.Lock()
	defer d.Unlock()
	out := New()
	out.run = d.run
	for name, f := range d.Names {
		g := Whole(f.Cache)
		if extra.Op == "write" && extra.File == f {
			g = Whole(apply(g.Cache, write{extra.At, extra.Data[:got]}))
		}
		out.Names[name] = g
	}
	out.Synced = maps.Clone(out.Names)
	return out
}

// Still runs fn while nothing changes on the disk: what fn takes of it and of a
// store that goes on is of one instant.
func (d *Disk) Still(fn func()) {
	d.moving.Lock()
	defer d.moving.Unlock()
	fn()
}

// sector is what a disk writes whole.
const sector = 512

// PowerCut gives what a power cut leaves: some first part of the directory's
// changes, and of what was written to the files since they were synced any
// sectors, each with the given chance.
func (d *Disk) PowerCut(r *rand.Rand, chance float64) *Disk {
	d.Lock()
	defer d.Unlock()
	names := maps.Clone(d.Synced)
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
	out := New()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		b := slices.Clone(names[name].Disk)
		for _, w := range names[name].writes {
			b = applySectors(b, w, func() bool { return chance > 0 && r.Float64() < chance })
		}
		out.Names[name] = Whole(b)
	}
	out.Synced = maps.Clone(out.Names)
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

// SetHook replaces the Hook; nil: none.
func (d *Disk) SetHook(h Hook) {
	d.Lock()
	defer d.Unlock()
	d.hook = h
}

// Free is what Room leaves, or very much.
func (d *Disk) Free() (int64, error) {
	err := d.do(Call{Op: "free"}, func() error { return nil })
	d.Lock()
	defer d.Unlock()
	if d.Room == 0 {
		return 1 << 50, err
	}
	free := d.Room
	for _, f := range d.Names {
		free -= int64(len(f.Cache))
	}
	return max(free, 0), err
}

func (o *openFile) Truncate(size int64) error {
	return o.d.do(Call{Op: "truncate", Name: o.name, At: size, File: o.f}, func() error {
		o.f.Cache = o.f.Cache[:min(size, int64(len(o.f.Cache)))]
		o.f.Disk = o.f.Disk[:min(size, int64(len(o.f.Disk)))]
		for i := range o.f.writes {
			w := &o.f.writes[i]
			w.data = w.data[:min(max(size-w.at, 0), int64(len(w.data)))]
		}
		return nil
	})
}

// Punch may reach the disk before writes that were not synced.
func (o *openFile) Punch(at, n int64) error {
	return o.d.do(Call{Op: "punch", Name: o.name, At: at, File: o.f}, func() error {
		zero := func(b []byte) {
			if at < int64(len(b)) {
				clear(b[at:min(at+n, int64(len(b)))])
			}
		}
		zero(o.f.Cache)
		zero(o.f.Disk)
		o.f.Punched += n
		return nil
	})
}

// Count is the number of calls told to a Hook so far.
func (d *Disk) Count() int {
	d.Lock()
	defer d.Unlock()
	return d.calls
}
