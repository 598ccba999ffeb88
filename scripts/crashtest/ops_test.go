package crashtest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

func create(p string, mode fs.FileMode) op {
	return op{what: fmt.Sprintf("create %s %v", p, mode),
		do: func(root string) error {
			fd, err := syscall.Open(filepath.Join(root, p), syscall.O_CREAT|syscall.O_EXCL|syscall.O_WRONLY, uint32(mode))
			if err != nil {
				return err
			}
			return syscall.Close(fd)
		},
		apply: func(s state) { s[p] = &inode{mode: mode, links: 1} }}
}

func mkdir(p string) op {
	return op{what: "mkdir " + p,
		do:    func(root string) error { return os.Mkdir(filepath.Join(root, p), 0o755) },
		apply: func(s state) { s[p] = &inode{mode: fs.ModeDir | 0o755} }}
}

func symlink(p, target string) op {
	return op{what: "symlink " + p,
		do:    func(root string) error { return os.Symlink(target, filepath.Join(root, p)) },
		apply: func(s state) { s[p] = &inode{mode: fs.ModeSymlink | 0o777, target: target, links: 1} }}
}

func link(from, to string) op {
	return op{what: fmt.Sprintf("link %s %s", from, to),
		do: func(root string) error { return os.Link(filepath.Join(root, from), filepath.Join(root, to)) },
		apply: func(s state) {
			s[to] = s[from]
			s[to].links++
			s[to].changed()
		}}
}

// grow makes the data at least size bytes long.
func (n *inode) grow(size int64) {
	if more := size - int64(len(n.data)); more > 0 {
		n.data = append(n.data, make([]byte, more)...)
	}
	n.changed()
}

func write(p string, off int64, data []byte) op {
	put := func(n int64) func(state) {
		return func(s state) {
			s[p].grow(off + n)
			copy(s[p].data[off:], data[:n])
		}
	}
	var parts []func(state)
	for end := off - off%4096 + 4096; end < off+int64(len(data)); end += 4096 {
		parts = append(parts, put(end-off))
	}
	return op{what: fmt.Sprintf("write %s %d+%d", p, off, len(data)), p: p, parts: parts,
		do: func(root string) error {
			return inside(root, p, os.O_WRONLY, func(f *os.File) error {
				return all(data, func(n int) (int, error) { return syscall.Pwrite(int(f.Fd()), data[n:], off+int64(n)) })
			})
		},
		apply: put(int64(len(data)))}
}

func appendTo(p string, data []byte) op {
	return op{what: fmt.Sprintf("append %s %d", p, len(data)),
		do: func(root string) error {
			return inside(root, p, os.O_WRONLY|os.O_APPEND, func(f *os.File) error {
				return all(data, func(n int) (int, error) { return syscall.Write(int(f.Fd()), data[n:]) })
			})
		},
		apply: func(s state) {
			s[p].data = append(s[p].data, data...)
			s[p].changed()
		}}
}

// all writes data with put, which may write less: the kernel does when a later
// part of a write has failed, and the next call says why.
func all(data []byte, put func(from int) (int, error)) error {
	for done := 0; done < len(data); {
		n, err := put(done)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("%d of %d bytes were written", done, len(data))
		}
		done += n
	}
	return nil
}

func truncate(p string, size int64) op {
	return op{what: fmt.Sprintf("truncate %s %d", p, size),
		do: func(root string) error { return os.Truncate(filepath.Join(root, p), size) },
		apply: func(s state) {
			s[p].grow(size)
			s[p].data = s[p].data[:size:size]
		}}
}

func chmod(p string, mode fs.FileMode) op {
	return op{what: fmt.Sprintf("chmod %s %v", p, mode),
		do: func(root string) error { return os.Chmod(filepath.Join(root, p), mode) },
		apply: func(s state) {
			s[p].mode = mode
			s[p].changed()
		}}
}

func fsync(p string) op {
	return op{what: "fsync " + p, syncs: true,
		do: func(root string) error { return inside(root, p, os.O_RDONLY, (*os.File).Sync) }}
}

// gone takes a name away.
func (s state) gone(p string) {
	s[p].links--
	s[p].changed()
	delete(s, p)
}

// remove removes a file, or a directory that is empty; of one that is not it
// must be refused.
func remove(p string) op {
	return op{what: "remove " + p,
		do: func(root string) error {
			err := os.Remove(filepath.Join(root, p))
			if errors.Is(err, syscall.ENOTEMPTY) {
				return nil
			}
			return err
		},
		apply: func(s state) {
			if len(s.below(p)) == 0 {
				s.gone(p)
			}
		}}
}

// below gives the names in a directory, at any depth.
func (s state) below(p string) state {
	out := state{}
	for q, n := range s {
		if strings.HasPrefix(q, p+"/") {
			out[q] = n
		}
	}
	return out
}

// rename moves a name over another, or to a new one. What cannot be is refused
// by the kernel and changes nothing.
func rename(from, to string) op {
	refused := strings.HasPrefix(to, from+"/")
	return op{what: fmt.Sprintf("rename %s %s", from, to),
		do: func(root string) error {
			err := syscall.Rename(filepath.Join(root, from), filepath.Join(root, to))
			if refused && errors.Is(err, syscall.EINVAL) {
				return nil
			}
			return err
		},
		apply: func(s state) {
			if refused || s[from] == s[to] { // two names of one file: rename(2) does nothing
				return
			}
			moved := s.below(from)
			if s[to] != nil {
				s.gone(to)
			}
			s[to] = s[from]
			delete(s, from)
			for q := range moved {
				delete(s, q)
			}
			fixed := state{}
			for q, n := range moved {
				fixed[to+strings.TrimPrefix(q, from)] = n
			}
			maps.Copy(s, fixed)
		}}
}
