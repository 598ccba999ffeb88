package soak

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const sharedNames = 40

// shared is a directory that several mounts show. Whoever uses a name holds its
// lock; of two, that of the lower number first.
type shared struct {
	files [sharedNames]struct {
		mu   sync.Mutex
		data []byte // nil: not there
	}
}

// guest is one mount's worker in a shared directory.
type guest struct {
	*shared
	root string // where this mount shows it
	own  *own   // for its random bytes and buffer; no directory of its own
}

func newGuest(s *shared, root string, seed uint64) *guest {
	return &guest{shared: s, root: root, own: &own{r: rand.New(rand.NewPCG(seed, 3)), buf: make([]byte, 1<<20)}}
}

func (g *guest) path(i int) string { return fmt.Sprintf("%s/s%d", g.root, i) }

// step does one operation on what another mount may have changed just now.
func (g *guest) step() error {
	i := g.own.r.IntN(sharedNames)
	if g.own.r.IntN(8) == 0 {
		return g.move(i, g.own.r.IntN(sharedNames))
	}
	f := &g.files[i]
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	switch k := g.own.r.IntN(12); {
	case f.data == nil && k < 6:
		err = g.put(i, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY)
	case f.data == nil:
		if err = unix.Access(g.path(i), unix.F_OK); err == unix.ENOENT {
			return nil
		}
		err = fmt.Errorf("it should not be there: %w", err)
	case k < 2:
		err = g.put(i, unix.O_TRUNC|unix.O_WRONLY)
	case k < 4:
		err = g.appendTo(i)
	case k < 5:
		if err = unix.Unlink(g.path(i)); err == nil {
			f.data = nil
		}
	case k < 8:
		err = (&inode{data: f.data, mode: 0o644, names: []string{""}}).is(g.path(i))
	default:
		err = g.check(i, g.root)
	}
	if err != nil {
		return fmt.Errorf("shared %s: %w", g.path(i), err)
	}
	return nil
}

// put writes a file whole; its lock is held.
func (g *guest) put(i, flags int) error {
	b := g.own.bytes(g.own.size())
	fd, err := unix.Open(g.path(i), flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err = wrote(unix.Write(fd, b))(len(b)); err == nil {
		g.files[i].data = b
	}
	return err
}

func (g *guest) appendTo(i int) error {
	f := &g.files[i]
	if len(f.data) > most {
		return g.put(i, unix.O_TRUNC|unix.O_WRONLY)
	}
	b := g.own.bytes(g.own.size())
	fd, err := unix.Open(g.path(i), unix.O_APPEND|unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err = wrote(unix.Write(fd, b))(len(b)); err == nil {
		f.data = append(f.data, b...)
	}
	return err
}

// move renames one file over another, or to a name that is free.
func (g *guest) move(i, j int) error {
	if i == j {
		return nil
	}
	from, to := &g.files[i], &g.files[j]
	g.files[min(i, j)].mu.Lock()
	defer g.files[min(i, j)].mu.Unlock()
	g.files[max(i, j)].mu.Lock()
	defer g.files[max(i, j)].mu.Unlock()
	err := unix.Rename(g.path(i), g.path(j))
	switch {
	case from.data == nil && err == unix.ENOENT:
		return nil
	case from.data == nil || err != nil:
		return fmt.Errorf("shared: rename %s to %s: %w", g.path(i), g.path(j), err)
	}
	from.data, to.data = nil, from.data
	return nil
}

// check compares a file with what it must be, in one mount; its lock is held, or
// nobody works.
func (g *guest) check(i int, root string) error {
	p := fmt.Sprintf("%s/s%d", root, i)
	fd, err := unix.Open(p, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	got, err := readAll(fd, g.own.buf)
	return same(p, got, g.files[i].data, err)
}

// verify compares all of the directory; nobody works.
func (g *guest) verify(root string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return err
	}
	n := 0
	for i := range g.files {
		if g.files[i].data == nil {
			continue
		}
		n++
		if err := g.check(i, root); err != nil {
			return err
		}
	}
	if len(entries) != n {
		return fmt.Errorf("%s has %d names, want %d", root, len(entries), n)
	}
	return nil
}

func (g *guest) live() (n int64) {
	for i := range g.files {
		n += int64(len(g.files[i].data))
	}
	return n
}
