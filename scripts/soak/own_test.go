package soak

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	ownDirs  = 12       // directories of one worker
	ownFiles = 500      // at most
	bigSize  = 24 << 20 // of the one large file
	page     = 4096
)

// inode is what a file must be.
type inode struct {
	data  []byte
	mode  uint32
	names []string
	xattr string // of user.soak; "": none
}

// own is one worker's directory and what it knows of it.
type own struct {
	root  string
	r     *rand.Rand
	files map[string]*inode // by path in root
	names []string          // their paths, in no order
	at    map[string]int    // in names
	next  int
	big   []byte // root/big
	buf   []byte
}

// newOwn makes the directory.
func newOwn(root string, seed uint64) (*own, error) {
	o := &own{root: root, r: rand.New(rand.NewPCG(seed, 2)), files: map[string]*inode{}, at: map[string]int{}, buf: make([]byte, 1<<20)}
	for d := range ownDirs {
		if err := os.MkdirAll(filepath.Join(root, fmt.Sprint("d", d)), 0o755); err != nil {
			return nil, err
		}
	}
	o.big = o.bytes(bigSize)
	return o, os.WriteFile(o.path("big"), o.big, 0o644)
}

func (o *own) path(p string) string { return o.root + "/" + p }

// bytes are new ones each time.
func (o *own) bytes(n int) []byte {
	b := make([]byte, n)
	for i := 0; i+8 <= n; i += 64 {
		v := o.r.Uint64()
		for k := range 8 {
			b[i+k] = byte(v >> (8 * k))
		}
	}
	return b
}

// size is how much an operation writes: mostly little.
func (o *own) size() int {
	if o.r.IntN(20) == 0 {
		return 1 + o.r.IntN(150_000)
	}
	return 1 + o.r.IntN(6000)
}

func (o *own) fresh() string {
	o.next++
	return fmt.Sprintf("d%d/n%d", o.r.IntN(ownDirs), o.next)
}

func (o *own) pick() (string, *inode) {
	p := o.names[o.r.IntN(len(o.names))]
	return p, o.files[p]
}

func (o *own) add(p string, n *inode) {
	o.files[p], o.at[p] = n, len(o.names)
	o.names = append(o.names, p)
	n.names = append(n.names, p)
}

func (o *own) drop(p string) {
	n := o.files[p]
	for i, q := range n.names {
		if q == p {
			n.names = append(n.names[:i], n.names[i+1:]...)
			break
		}
	}
	last := o.names[len(o.names)-1]
	o.names[o.at[p]], o.at[last] = last, o.at[p]
	o.names = o.names[:len(o.names)-1]
	delete(o.at, p)
	delete(o.files, p)
}

// opened runs fn on an open descriptor.
func (o *own) opened(p string, flags int, fn func(fd int) error) error {
	fd, err := unix.Open(o.path(p), flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(fn(fd), unix.Close(fd))
}

// kinds are the operations and how often they come.
func kinds() []kind {
	return []kind{
		{12, "create", (*own).create}, {14, "write", (*own).write}, {10, "append", (*own).appendTo}, {14, "read", (*own).read},
		{12, "stat", (*own).stat}, {4, "truncate", (*own).truncate}, {3, "chmod", (*own).chmod}, {5, "rename", (*own).rename},
		{4, "replace", (*own).replace}, {3, "link", (*own).link}, {9, "unlink", (*own).unlink}, {2, "symlink", (*own).symlink},
		{2, "directory", (*own).directory}, {1, "list", (*own).list}, {3, "xattr", (*own).setXattr}, {1, "fsync", (*own).fsync},
		{4, "page", (*own).page}, {2, "punch", (*own).punch}, {2, "page read", (*own).pageRead},
	}
}

type kind struct {
	weight int
	name   string
	do     func(*own) error
}

// step does one operation.
func (o *own) step(all []kind, weights int) error {
	if len(o.names) == 0 {
		return o.create()
	}
	w := o.r.IntN(weights)
	for _, k := range all {
		if w -= k.weight; w < 0 {
			if err := k.do(o); err != nil {
				return fmt.Errorf("%s in %s: %w", k.name, o.root, err)
			}
			break
		}
	}
	return nil
}

func (o *own) create() error {
	if len(o.names) >= ownFiles {
		return o.unlink()
	}
	p, n := o.fresh(), &inode{mode: 0o644, data: o.bytes(o.size())}
	err := o.opened(p, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, func(fd int) error { return wrote(unix.Write(fd, n.data))(len(n.data)) })
	if err == nil {
		o.add(p, n)
	}
	return err
}

// wrote is an error unless all was written.
func wrote(n int, err error) func(want int) error {
	return func(want int) error {
		if err == nil && n != want {
			err = fmt.Errorf("%d of %d bytes were written", n, want)
		}
		return err
	}
}

func (n *inode) put(b []byte, at int) {
	if more := at + len(b) - len(n.data); more > 0 {
		n.data = append(n.data, make([]byte, more)...)
	}
	copy(n.data[at:], b)
}

// most is how long a file gets.
const most = 400_000

func (o *own) write() error {
	p, n := o.pick()
	b := o.bytes(o.size())
	at := o.r.IntN(min(len(n.data)+5000, most))
	err := o.opened(p, unix.O_WRONLY, func(fd int) error { return wrote(unix.Pwrite(fd, b, int64(at)))(len(b)) })
	if err == nil {
		n.put(b, at)
	}
	return err
}

func (o *own) appendTo() error {
	p, n := o.pick()
	if len(n.data) > most {
		return o.truncate()
	}
	b := o.bytes(o.size())
	err := o.opened(p, unix.O_WRONLY|unix.O_APPEND, func(fd int) error { return wrote(unix.Write(fd, b))(len(b)) })
	if err == nil {
		n.put(b, len(n.data))
	}
	return err
}

func (o *own) read() error {
	p, n := o.pick()
	return o.opened(p, unix.O_RDONLY, func(fd int) error {
		got, err := readAll(fd, o.buf)
		return same(p, got, n.data, err)
	})
}

// readAll reads a file of less than buf to its end.
func readAll(fd int, buf []byte) ([]byte, error) {
	done := 0
	for {
		n, err := unix.Pread(fd, buf[done:], int64(done))
		if err != nil || n == 0 {
			return buf[:done], err
		}
		done += n
	}
}

// same is an error unless the bytes are what they must be.
func same(p string, got, want []byte, err error) error {
	if err != nil || bytes.Equal(got, want) {
		return err
	}
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	return fmt.Errorf("%s has wrong bytes from %d on: %d bytes, want %d", p, at, len(got), len(want))
}

func (o *own) stat() error {
	p, n := o.pick()
	return n.is(o.path(p))
}

// is checks what stat(2) tells of a path.
func (n *inode) is(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if st.Size != int64(len(n.data)) || st.Mode != n.mode|unix.S_IFREG || int(st.Nlink) != len(n.names) {
		return fmt.Errorf("%s: %d bytes, mode %o, %d links; want %d, %o, %d", path, st.Size, st.Mode, st.Nlink, len(n.data), n.mode, len(n.names))
	}
	return nil
}

func (o *own) truncate() error {
	p, n := o.pick()
	size := o.r.IntN(2*len(n.data) + 100)
	if o.r.IntN(2) == 0 || size > most {
		size = o.r.IntN(3000)
	}
	err := unix.Truncate(o.path(p), int64(size))
	if err == nil {
		if size > len(n.data) {
			n.put(nil, size)
		}
		n.data = n.data[:size:size]
	}
	return err
}

func (o *own) chmod() error {
	p, n := o.pick()
	mode := uint32(0o600 + o.r.IntN(0o100))
	err := unix.Chmod(o.path(p), mode)
	if err == nil {
		n.mode = mode
	}
	return err
}

func (o *own) fsync() error {
	p, _ := o.pick()
	return o.opened(p, unix.O_RDONLY, unix.Fsync)
}
