package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options say what a run does.
type Options struct {
	Dirs  []string // that show the same files
	Name  string   // of the file; it must not be there
	Other string   // path of another file to copy to and from; "": none
	Seed  uint64
	Ops   int
}

// exerciser is one run.
type exerciser struct {
	o     Options
	r     *rand.Rand
	m     model
	files []*os.File // one for each directory; nil: closed
	other *os.File
	page  []byte   // page-aligned room for direct I/O
	log   []string // of the last operations
	now   string   // the one under way
}

// logged is how many operations a failure prints.
const logged = 40

// Run does o.Ops operations. Its error names the first that did something else
// than the model, and what came before it.
func Run(o Options) error {
	x := newExerciser(o)
	defer x.close()
	var err error
	if x.page, err = unix.Mmap(-1, 0, maxSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(x.page) }()
	f, err := os.OpenFile(x.path(0), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	x.files[0] = f
	if o.Other != "" {
		if x.other, err = os.OpenFile(o.Other, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
			return err
		}
		defer os.Remove(o.Other)
	}
	for i := range o.Ops {
		if err := x.step(i); err != nil {
			return fmt.Errorf("seed %d, operation %d: %w\nbefore it:\n  %s", o.Seed, i, err, strings.Join(x.log, "\n  "))
		}
	}
	return errors.Join(x.all(), os.Remove(x.path(0)))
}

func newExerciser(o Options) *exerciser {
	return &exerciser{o: o, r: rand.New(rand.NewPCG(o.Seed, 1)), files: make([]*os.File, len(o.Dirs))}
}

func (x *exerciser) close() {
	for i := range x.files {
		x.shut(i)
	}
	if x.other != nil {
		x.other.Close()
	}
}

func (x *exerciser) path(d int) string { return filepath.Join(x.o.Dirs[d], x.o.Name) }

// step does one operation through one directory. Now and then it looks at
// everything.
func (x *exerciser) step(i int) error {
	d := x.r.IntN(len(x.files))
	n := x.r.IntN(total)
	for _, o := range ops {
		if n -= o.weight; n < 0 {
			x.now = fmt.Sprintf("%d %s in %d", i, o.name, d)
			err := o.do(x, d)
			x.log = append(x.log, fmt.Sprintf("%s -> size %d", x.now, x.m.size()))
			x.log = x.log[max(0, len(x.log)-logged):]
			if err != nil {
				return fmt.Errorf("%s: %w", x.now, err)
			}
			break
		}
	}
	if i%500 == 499 {
		return x.all()
	}
	return nil
}

// note adds what was drawn to the name of the operation.
func (x *exerciser) note(format string, args ...any) { x.now += " " + fmt.Sprintf(format, args...) }

// all compares size and content through every directory.
func (x *exerciser) all() error {
	for d := range x.files {
		got, err := os.ReadFile(x.path(d))
		if err != nil {
			return err
		}
		if at := x.m.differs(0, maxSize, got); at >= 0 {
			return fmt.Errorf("the whole through %d: %d bytes, want %d; first difference at %d", d, len(got), x.m.size(), at)
		}
		if err := x.sized(d); err != nil {
			return err
		}
	}
	return nil
}

func (x *exerciser) sized(d int) error {
	st, err := os.Stat(x.path(d))
	if err == nil && st.Size() != int64(x.m.size()) {
		return fmt.Errorf("size through %d: %d, want %d", d, st.Size(), x.m.size())
	}
	return err
}

// file is the open file of a directory.
func (x *exerciser) file(d int) (*os.File, error) {
	if x.files[d] != nil {
		return x.files[d], nil
	}
	f, err := os.OpenFile(x.path(d), os.O_RDWR, 0)
	x.files[d] = f
	return f, err
}

// fresh is file for what takes the size that the directory's kernel knows, maps
// and copy_file_range: where another one may have made the file longer, the kernel
// is made to ask, as programs do (docs/coherence.md, "What is left").
func (x *exerciser) fresh(d int) (*os.File, error) {
	f, err := x.file(d)
	if err == nil {
		err = x.asked(f)
	}
	return f, err
}

// asked makes the kernel ask for the size, twice: it disregards the answer if a
// notice comes meanwhile.
func (x *exerciser) asked(f *os.File) error {
	if len(x.files) == 1 {
		return nil
	}
	_, err := f.Stat()
	_, again := f.Stat()
	return errors.Join(err, again)
}

func (x *exerciser) shut(d int) {
	if x.files[d] != nil {
		x.files[d].Close()
		x.files[d] = nil
	}
}

// alone is the open file of a directory when there is no other: one that can be
// mapped for writing. Closing is told asynchronously, so it may take a moment.
func (x *exerciser) alone(d int) (*os.File, []byte, error) {
	for i := range x.files {
		if i != d {
			x.shut(i)
		}
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		f, err := x.fresh(d)
		if err != nil {
			return nil, nil, err
		}
		p, err := unix.Mmap(int(f.Fd()), 0, x.m.size(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err == nil || !errors.Is(err, unix.ENODEV) || time.Now().After(end) {
			return f, p, err
		}
		x.shut(d)
	}
}

// span draws a range of the file: in a third of the cases of whole pages.
func (x *exerciser) span(within int) (off, n int) {
	if within == 0 {
		return 0, 0
	}
	off = x.r.IntN(within)
	n = 1 + x.r.IntN(min(within-off, 1<<(4+x.r.IntN(13))))
	if x.r.IntN(3) == 0 {
		off &^= 4095
		n = min((n+4095)&^4095, within-off)
	}
	return off, n
}

// fill draws bytes that differ from those of the operations before.
func (x *exerciser) fill(p []byte) []byte {
	seed := x.r.Uint64() | 1
	for i := range p {
		p[i] = byte(seed>>(i%8*8)) ^ byte(i>>3)
	}
	return p
}
