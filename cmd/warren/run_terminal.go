package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// terminal is the command's own terminal, which stands between it and the
// caller's: a command that shared the caller's could type into it.
type terminal struct {
	master, slave *os.File
	out           *os.File // of the caller, for what the command shows
	before        *term.State
	shown         chan struct{} // closed when all was
	resized       chan os.Signal
}

// openTerminal makes a terminal for a command of uid where standard input is
// one; else nil.
func openTerminal(uid, gid uint32) (_ *terminal, err error) {
	if !term.IsTerminal(0) {
		return nil, nil
	}
	t := &terminal{out: os.Stdin, shown: make(chan struct{}), resized: make(chan os.Signal, 1)}
	for _, f := range []*os.File{os.Stderr, os.Stdout} {
		if term.IsTerminal(int(f.Fd())) {
			t.out = f
		}
	}
	if t.master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, fmt.Errorf("make a terminal: %w", err)
	}
	defer func() {
		if err != nil {
			_ = t.master.Close()
			err = fmt.Errorf("make a terminal: %w", err)
		}
	}()
	m := int(t.master.Fd())
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return nil, err
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(m), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return nil, errno
	}
	t.slave = os.NewFile(fd, "terminal")
	if os.Geteuid() == 0 {
		if err := t.slave.Chown(int(uid), int(gid)); err != nil {
			return nil, err
		}
	}
	attrs, err := unix.IoctlGetTermios(0, unix.TCGETS)
	if err != nil {
		return nil, err
	}
	if err := unix.IoctlSetTermios(int(fd), unix.TCSETS, attrs); err != nil {
		return nil, err
	}
	t.resize()
	t.before, err = term.MakeRaw(0)
	return t, err
}

// files gives the command's standard files: the terminal in the place of the
// caller's.
func (t *terminal) files() [3]*os.File {
	files := [3]*os.File{os.Stdin, os.Stdout, os.Stderr}
	for i, f := range files {
		if t != nil && term.IsTerminal(int(f.Fd())) {
			files[i] = t.slave
		}
	}
	return files
}

// start copies what is typed and shown. The command has the slave by now.
func (t *terminal) start() {
	_ = t.slave.Close()
	signal.Notify(t.resized, unix.SIGWINCH)
	go func() {
		for range t.resized {
			t.resize()
		}
	}()
	go func() { _, _ = io.Copy(t.master, os.Stdin) }() // ends with this process
	go func() {
		defer close(t.shown)
		_, _ = io.Copy(t.out, t.master) // EIO when the last descriptor of the slave is closed
	}()
}

// resize gives the command's terminal the size of the caller's.
func (t *terminal) resize() {
	if ws, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ); err == nil {
		_ = unix.IoctlSetWinsize(int(t.master.Fd()), unix.TIOCSWINSZ, ws)
	}
}

// close shows the rest and puts the caller's terminal back as it was. started
// tells whether start was called.
func (t *terminal) close(started bool) error {
	if started {
		<-t.shown
		signal.Stop(t.resized)
		close(t.resized)
	} else {
		_ = t.slave.Close()
	}
	return errors.Join(t.master.Close(), term.Restore(0, t.before))
}

// takeForeground makes this process's group the one that its controlling
// terminal, if it has one, takes input for.
func takeForeground() error {
	var old, ttou unix.Sigset_t
	ttou.Val[0] = 1 << (unix.SIGTTOU - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &ttou, &old); err != nil {
		return err
	}
	err := unix.IoctlSetPointerInt(0, unix.TIOCSPGRP, unix.Getpgrp())
	return errors.Join(err, unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil))
}
