package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// op is something that is done to the file through directory d.
type op struct {
	name   string
	weight int
	do     func(x *exerciser, d int) error
}

var ops = []op{
	{"read", 14, read}, {"write", 14, write}, {"append", 3, appendTo}, {"read directly", 3, readDirect}, {"write directly", 3, writeDirect},
	{"read a map", 8, readMap}, {"write a map", 3, writeMap}, {"truncate", 5, truncate}, {"allocate", 2, allocate}, {"punch", 5, punch},
	{"zero", 4, zero}, {"copy a range", 5, copyRange}, {"copy there and back", 3, thereAndBack}, {"seek", 3, seek}, {"size", 3, size},
	{"fsync", 1, fsync}, {"reopen", 3, reopen}, {"drop caches", 3, drop},
}

var total = func() (n int) {
	for _, o := range ops {
		n += o.weight
	}
	return n
}()

func read(x *exerciser, d int) error {
	f, err := x.file(d)
	if err != nil {
		return err
	}
	off, n := x.span(maxSize)
	x.note("[%d, +%d)", off, n)
	return x.readAt(f, off, make([]byte, n))
}

// readAt reads into p and compares.
func (x *exerciser) readAt(f *os.File, off int, p []byte) error {
	n, err := f.ReadAt(p, int64(off))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if at := x.m.differs(off, len(p), p[:n]); at >= 0 {
		return fmt.Errorf("%d bytes of %d, the first wrong one at %d", n, len(x.m.part(off, len(p))), at)
	}
	return nil
}

func write(x *exerciser, d int) error {
	f, err := x.file(d)
	if err != nil {
		return err
	}
	off, n := x.span(maxSize)
	x.note("[%d, +%d)", off, n)
	p := x.fill(make([]byte, n))
	if _, err := f.WriteAt(p, int64(off)); err != nil {
		return err
	}
	x.m.put(p, off)
	return nil
}

func appendTo(x *exerciser, d int) error {
	room := min(maxSize-x.m.size(), 20_000)
	if room == 0 {
		return nil
	}
	f, err := os.OpenFile(x.path(d), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	p := x.fill(make([]byte, 1+x.r.IntN(room)))
	x.note("+%d", len(p))
	off := x.m.size()
	if _, err := f.Write(p); err != nil {
		return err
	}
	x.m.put(p, off)
	return x.readAt(f, max(0, off-100), make([]byte, len(p)+200))
}

// direct opens the file past the page cache, and draws a range that this allows.
func (x *exerciser) direct(d int) (f *os.File, off, n int, err error) {
	const grain = 4096
	off = x.r.IntN(maxSize/grain) * grain
	n = min((1+x.r.IntN(8))*grain, maxSize-off)
	x.note("[%d, +%d)", off, n)
	f, err = os.OpenFile(x.path(d), os.O_RDWR|unix.O_DIRECT, 0)
	return f, off, n, err
}

func readDirect(x *exerciser, d int) error {
	f, off, n, err := x.direct(d)
	if err != nil {
		return err
	}
	defer f.Close()
	return x.readAt(f, off, x.page[:n])
}

func writeDirect(x *exerciser, d int) error {
	f, off, n, err := x.direct(d)
	if err != nil {
		return err
	}
	defer f.Close()
	p := x.fill(x.page[:n])
	if _, err := f.WriteAt(p, int64(off)); err != nil {
		return err
	}
	x.m.put(p, off)
	return nil
}

// readMap reads through a new map, shared or private.
func readMap(x *exerciser, d int) error {
	if x.m.size() == 0 {
		return nil
	}
	f, err := os.Open(x.path(d)) // the handle of the second writer cannot be mapped
	if err != nil {
		return err
	}
	defer f.Close()
	if err := x.asked(f); err != nil {
		return err
	}
	how := unix.MAP_PRIVATE + x.r.IntN(2)*(unix.MAP_SHARED-unix.MAP_PRIVATE)
	p, err := unix.Mmap(int(f.Fd()), 0, x.m.size(), unix.PROT_READ, how)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(p) }()
	off, n := x.span(x.m.size())
	x.note("[%d, +%d)", off, n)
	if at := x.m.differs(off, n, p[off:off+n]); at >= 0 {
		return fmt.Errorf("the map is wrong at %d", at)
	}
	return nil
}

func writeMap(x *exerciser, d int) error {
	if x.m.size() == 0 {
		return nil
	}
	_, p, err := x.alone(d)
	if err != nil {
		return err
	}
	off, n := x.span(x.m.size())
	x.note("[%d, +%d)", off, n)
	x.fill(p[off : off+n])
	x.m.put(p[off:off+n], off)
	return errors.Join(unix.Msync(p, unix.MS_SYNC), unix.Munmap(p))
}

func truncate(x *exerciser, d int) error {
	n := x.r.IntN(maxSize)
	if x.r.IntN(3) == 0 {
		n &^= 4095
	}
	x.note("to %d", n)
	var err error
	if x.r.IntN(2) == 0 {
		err = os.Truncate(x.path(d), int64(n))
	} else if f, ferr := x.file(d); ferr == nil {
		err = f.Truncate(int64(n))
	} else {
		err = ferr
	}
	if err == nil {
		x.m.resize(n)
	}
	return err
}

func (x *exerciser) fallocate(d int, mode uint32, off, n int) error {
	f, err := x.file(d)
	if err != nil {
		return err
	}
	x.note("[%d, +%d) mode %d", off, n, mode)
	return unix.Fallocate(int(f.Fd()), mode, int64(off), int64(n))
}

func allocate(x *exerciser, d int) error {
	off, n := x.span(maxSize)
	mode := uint32(x.r.IntN(2)) * unix.FALLOC_FL_KEEP_SIZE
	if err := x.fallocate(d, mode, off, n); err != nil {
		return err
	}
	if mode == 0 && off+n > x.m.size() {
		x.m.resize(off + n)
	}
	return nil
}

func punch(x *exerciser, d int) error {
	off, n := x.span(maxSize)
	if err := x.fallocate(d, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n); err != nil {
		return err
	}
	x.m.zero(off, n)
	return nil
}

func zero(x *exerciser, d int) error {
	off, n := x.span(maxSize)
	mode := uint32(unix.FALLOC_FL_ZERO_RANGE) | uint32(x.r.IntN(2))*unix.FALLOC_FL_KEEP_SIZE
	if err := x.fallocate(d, mode, off, n); err != nil {
		return err
	}
	if mode&unix.FALLOC_FL_KEEP_SIZE == 0 && off+n > x.m.size() {
		x.m.resize(off + n)
	}
	x.m.zero(off, n)
	return nil
}

// copyAll copies n bytes, however many calls it takes, and tells how many there were.
func copyAll(from *os.File, off int, to *os.File, at, n int) (done int, err error) {
	for done < n {
		a, b := int64(off+done), int64(at+done)
		k, err := unix.CopyFileRange(int(from.Fd()), &a, int(to.Fd()), &b, n-done, 0)
		if err != nil || k == 0 {
			return done, err
		}
		done += k
	}
	return done, nil
}

func copyRange(x *exerciser, d int) error {
	f, err := x.fresh(d)
	if err != nil {
		return err
	}
	off, n := x.span(x.m.size())
	at := x.r.IntN(maxSize)
	n = min(n, maxSize-at)
	x.note("[%d, +%d) to %d", off, n, at)
	if off < at+n && at < off+n { // they overlap
		return nil
	}
	p := append([]byte{}, x.m.part(off, n)...)
	done, err := copyAll(f, off, f, at, n)
	if err != nil || done != len(p) {
		return fmt.Errorf("%d bytes of %d: %v", done, len(p), err)
	}
	x.m.put(p, at)
	return nil
}

// thereAndBack copies a range into the other file and from there to another
// place.
func thereAndBack(x *exerciser, d int) error {
	f, err := x.fresh(d)
	if err != nil || x.other == nil {
		return err
	}
	off, n := x.span(x.m.size())
	at, mid := x.r.IntN(maxSize), x.r.IntN(100_000)
	n = min(n, maxSize-at)
	x.note("[%d, +%d) by %d to %d", off, n, mid, at)
	p := append([]byte{}, x.m.part(off, n)...)
	done, err := copyAll(f, off, x.other, mid, n)
	if err == nil && done == len(p) {
		done, err = copyAll(x.other, mid, f, at, n)
	}
	if err != nil || done != len(p) {
		return fmt.Errorf("%d bytes of %d: %v", done, len(p), err)
	}
	x.m.put(p, at)
	return nil
}

// seek: between where it began and the data that it finds are zeros.
func seek(x *exerciser, d int) error {
	f, err := x.file(d)
	if err != nil {
		return err
	}
	off := x.r.IntN(maxSize)
	x.note("from %d", off)
	data, err := unix.Seek(int(f.Fd()), int64(off), unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		data = int64(max(x.m.size(), off))
	case err != nil:
		return err
	case data < int64(off) || data >= int64(x.m.size()):
		return fmt.Errorf("data at %d", data)
	}
	for i, b := range x.m.part(off, int(data)-off) {
		if b != 0 {
			return fmt.Errorf("data at %d, but there is some at %d", data, off+i)
		}
	}
	hole, err := unix.Seek(int(f.Fd()), int64(off), unix.SEEK_HOLE)
	if past := off >= x.m.size(); past != errors.Is(err, unix.ENXIO) || !past && (err != nil || hole < int64(off) || hole > int64(x.m.size())) {
		return fmt.Errorf("hole at %d: %w", hole, err)
	}
	return nil
}

func size(x *exerciser, d int) error { return x.sized(d) }

func fsync(x *exerciser, d int) error {
	f, err := x.file(d)
	if err != nil {
		return err
	}
	if x.r.IntN(2) == 0 {
		return unix.Fdatasync(int(f.Fd()))
	}
	return f.Sync()
}

func reopen(x *exerciser, d int) error {
	x.shut(d)
	_, err := x.file(d)
	return err
}

// drop has the kernel forget the file's pages.
func drop(x *exerciser, d int) error {
	f, err := x.file(d)
	if err != nil {
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
