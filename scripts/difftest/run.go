package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Options say what a run does.
type Options struct {
	Plain string   // an empty directory of ext4
	Dirs  []string // that show one empty directory
	Seed  uint64
	Ops   int
	User  bool // half of the calls are another user's
}

const (
	slots  = 4     // of open files
	logged = 30    // calls that a failure prints
	other  = 12345 // user and group of calls that are not root's
)

// side is one of the two that are compared.
type side struct {
	dirs []string
	at   string // the one of dirs that the call goes through
	fds  [slots]int
	was  map[string]entry // before the call
}

// call is a system call on names and open files whose parameters are drawn. It
// tells all that must be the same.
type call func(s *side) string

// run is one run.
type run struct {
	r     *rand.Rand
	sides [2]*side
	log   []string
}

// Run does o.Ops calls. Its error tells the first that differs, and what came
// before it.
func Run(o Options) error {
	runtime.LockOSThread() // whose file system user is changed
	defer runtime.UnlockOSThread()
	old := unix.Umask(0o022)
	defer unix.Umask(old)
	x := &run{r: rand.New(rand.NewPCG(o.Seed, 2)), sides: [2]*side{within(o.Plain), within(o.Dirs...)}}
	for _, s := range x.sides {
		for i := range s.fds {
			s.fds[i] = -1
		}
		defer s.closeAll()
		s.at = s.dirs[0]
		if err := errors.Join(os.Mkdir(s.at, 0o755), os.Symlink("loop", s.at+"/loop"), s.look()); err != nil {
			return err
		}
	}
	for i := range o.Ops {
		if err := x.step(i, o.User && x.r.IntN(2) == 0); err != nil {
			return fmt.Errorf("seed %d, call %d: %w\nbefore it:\n  %s", o.Seed, i, err, strings.Join(x.log, "\n  "))
		}
	}
	return nil
}

// within is a side in the directory "in" of dirs, whose parent is thus one that may
// be changed too.
func within(dirs ...string) *side {
	s := &side{}
	for _, d := range dirs {
		s.dirs = append(s.dirs, d+"/in")
	}
	return s
}

// step does one call on both sides and compares.
func (x *run) step(i int, user bool) error {
	name, do := x.draw()
	through, from := x.r.IntN(len(x.sides[1].dirs)), x.r.IntN(len(x.sides[1].dirs))
	name = fmt.Sprintf("%d %s", i, name)
	if user {
		name += " as a user"
	}
	if len(x.sides[1].dirs) > 1 {
		name += fmt.Sprintf(" through %d, seen from %d", through, from)
	}
	var said [2]string
	for n, s := range x.sides {
		s.at = s.dirs[min(through, len(s.dirs)-1)]
		said[n] = as(user, func() string { return do(s) })
	}
	x.log = append(x.log, name+": "+said[0])
	x.log = x.log[max(0, len(x.log)-logged):]
	if said[0] != said[1] {
		return fmt.Errorf("%s: %s, on ext4 %s", name, said[1], said[0])
	}
	var found [2][]string
	for n, s := range x.sides {
		s.at = s.dirs[min(from, len(s.dirs)-1)]
		was := s.was
		if err := s.look(); err != nil {
			return fmt.Errorf("%s: then: %w", name, err)
		}
		found[n] = told(was, s.was)
	}
	for k := range max(len(found[0]), len(found[1])) {
		a, b := "nothing", "nothing"
		if k < len(found[0]) {
			a = found[0][k]
		}
		if k < len(found[1]) {
			b = found[1][k]
		}
		if a != b {
			return fmt.Errorf("%s: then there is\n  %s, on ext4\n  %s", name, b, a)
		}
	}
	return nil
}

// as does something as root or as another user, for the file system.
func as(user bool, do func() string) string {
	if !user {
		return do()
	}
	_ = unix.Setfsgid(other)
	_ = unix.Setfsuid(other)
	defer func() {
		_ = unix.Setfsuid(0)
		_ = unix.Setfsgid(0)
	}()
	return do()
}

func (s *side) closeAll() {
	for i := range s.fds {
		s.keep(i, -1)
	}
}

// keep has slot i hold fd instead of what it held.
func (s *side) keep(i, fd int) {
	if s.fds[i] >= 0 {
		_ = unix.Close(s.fds[i])
	}
	s.fds[i] = fd
}

// says is what a call's error is called.
func says(err error) string {
	var no unix.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &no):
		return unix.ErrnoName(no)
	}
	return err.Error()
}
