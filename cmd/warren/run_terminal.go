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
// caller's: a command that had the caller's could read what is typed there, type
// into it, and leave it set otherwise. A nil *terminal means that the command has none.
type terminal struct {
	master, slave *os.File
	caller        *os.File    // the caller's, for what the command shows
	keys          bool        // standard input is the caller's terminal
	before        *term.State // nil: the caller's was not changed
	first         int         // the first standard descriptor that is a terminal
	shown         chan struct{}
	resized       chan os.Signal
}

// openTerminal makes a terminal for a command of uid, in place of all of files that
// are terminals. It returns nil if none of them is. What is typed reaches the command
// only if standard input is a terminal.
func openTerminal(files *[3]*os.File, uid, gid uint32) (_ *terminal, err error) {
	t := &terminal{first: -1, shown: make(chan struct{}), resized: make(chan os.Signal, 1)}
	for _, i := range []int{1, 2, 0} {
		if f := files[i]; f != nil && term.IsTerminal(int(f.Fd())) {
			t.first, t.keys = i, t.keys || i == 0
			if t.caller == nil {
				t.caller = f
			}
		}
	}
	if t.caller == nil {
		return nil, nil
	}
	if t.master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, fmt.Errorf("make a terminal: %w", err)
	}
	if err := t.open(uid, gid); err != nil {
		return nil, fmt.Errorf("make a terminal: %w", errors.Join(err, t.master.Close()))
	}
	for i, f := range files {
		if f != nil && term.IsTerminal(int(f.Fd())) {
			files[i] = t.slave
		}
	}
	return t, nil
}

// open opens the slave, which is the command's, set as the caller's terminal is.
func (t *terminal) open(uid, gid uint32) error {
	m := int(t.master.Fd())
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return err
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(m), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return errno
	}
	t.slave = os.NewFile(fd, "terminal")
	if os.Geteuid() == 0 {
		if err := t.slave.Chown(int(uid), int(gid)); err != nil {
			return errors.Join(err, t.slave.Close())
		}
	}
	attrs, err := unix.IoctlGetTermios(int(t.caller.Fd()), unix.TCGETS)
	if err == nil {
		err = unix.IoctlSetTermios(int(fd), unix.TCSETS, attrs)
	}
	if err != nil {
		return errors.Join(err, t.slave.Close())
	}
	t.resize()
	return nil
}

// descriptor returns which standard descriptor of the command is its terminal.
func (t *terminal) descriptor() *int {
	if t == nil {
		return nil
	}
	return &t.first
}

// start copies what is typed and shown. The command has the slave by now.
func (t *terminal) start() (err error) {
	if t == nil {
		return nil
	}
	_ = t.slave.Close()
	signal.Notify(t.resized, unix.SIGWINCH)
	go func() {
		for range t.resized {
			t.resize()
		}
	}()
	if t.keys {
		t.before, err = term.MakeRaw(0)
		go func() { _, _ = io.Copy(t.master, os.Stdin) }() // ends with this process
	}
	go func() {
		defer close(t.shown)
		_, _ = io.Copy(t.caller, t.master) // EIO when the last descriptor of the slave is closed
	}()
	return err
}

// resize gives the command's terminal the size of the caller's.
func (t *terminal) resize() {
	if ws, err := unix.IoctlGetWinsize(int(t.caller.Fd()), unix.TIOCGWINSZ); err == nil {
		_ = unix.IoctlSetWinsize(int(t.master.Fd()), unix.TIOCSWINSZ, ws)
	}
}

// close shows the rest and puts the caller's terminal back as it was. started
// reports whether start was called.
func (t *terminal) close(started bool) error {
	if t == nil {
		return nil
	}
	if !started {
		return errors.Join(t.slave.Close(), t.master.Close())
	}
	<-t.shown
	signal.Stop(t.resized)
	close(t.resized)
	err := t.master.Close()
	if t.before != nil {
		err = errors.Join(err, term.Restore(0, t.before))
	}
	return err
}

// takeForeground makes this process's group the one that its controlling
// terminal, which is fd, takes input for.
func takeForeground(fd int) error {
	var old, ttou unix.Sigset_t
	ttou.Val[0] = 1 << (unix.SIGTTOU - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &ttou, &old); err != nil {
		return err
	}
	err := unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, unix.Getpgrp())
	return errors.Join(err, unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil))
}
