package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// relays stand between a command and the caller's regular files. A descriptor of one
// would let the command open the file again by /proc/self/fd: read what an output
// had before, cut it, or write to an input.
type relays struct {
	ours   []*os.File // ends of the command's, closed when it has them
	copies []func() error
	ended  chan error
}

// stdFiles returns the caller's standard files as a command of uid and gid may have
// them, each regular file behind a pipe.
func stdFiles(uid, gid uint32) (files [3]*os.File, r *relays, err error) {
	r = &relays{}
	files = [3]*os.File{os.Stdin, os.Stdout, os.Stderr}
	var seen [3]unix.Stat_t
	for i, f := range files {
		st := &seen[i]
		if err := unix.Fstat(int(f.Fd()), st); errors.Is(err, unix.EBADF) {
			files[i] = nil
			continue
		} else if err != nil {
			return files, r, errors.Join(err, r.release())
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR, unix.S_IFBLK:
			return files, r, errors.Join(usagef("descriptor %d is a directory or a disk, which the command could leave its view by", i), r.release())
		case unix.S_IFREG:
		default:
			continue
		}
		if i == 2 && files[1] != nil && files[1] != os.Stdout && st.Dev == seen[1].Dev && st.Ino == seen[1].Ino {
			files[2] = files[1] // one pipe, so that the order stays
			continue
		}
		if i > 0 {
			files[i], err = r.output(f)
		} else if writableInput(f, st, uid, gid) {
			files[i], err = r.input(f)
		}
		if err != nil {
			return files, r, errors.Join(err, r.release())
		}
	}
	return files, r, nil
}

// writableInput reports whether a command of uid and gid that has f, a regular file,
// could write to it: by the descriptor, or by opening it again.
func writableInput(f *os.File, st *unix.Stat_t, uid, gid uint32) bool {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	return err != nil || flags&unix.O_ACCMODE != unix.O_RDONLY || st.Uid == uid ||
		st.Gid == gid && st.Mode&0o020 != 0 || st.Mode&0o002 != 0
}

// output returns the end of a pipe whose bytes go to f.
func (r *relays) output(f *os.File) (*os.File, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r.ours = append(r.ours, out)
	r.copies = append(r.copies, func() error {
		_, err := io.Copy(f, in)
		if err != nil {
			err = fmt.Errorf("write the command's output: %w", err)
		}
		return errors.Join(err, in.Close()) // the command gets SIGPIPE from here on
	})
	return out, nil
}

// input returns the end of a pipe that the bytes of f come from.
func (r *relays) input(f *os.File) (*os.File, error) {
	in, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	r.ours = append(r.ours, in)
	r.copies = append(r.copies, func() error {
		_, err := io.Copy(out, f)
		if errors.Is(err, syscall.EPIPE) { // the command wants no more
			err = nil
		}
		return errors.Join(err, out.Close())
	})
	return in, nil
}

// start begins to copy. The command has its ends by now.
func (r *relays) start() {
	_ = r.release()
	r.ended = make(chan error, len(r.copies))
	for _, do := range r.copies {
		go func() { r.ended <- do() }()
	}
}

// release closes the command's ends here.
func (r *relays) release() (err error) {
	for _, f := range r.ours {
		err = errors.Join(err, f.Close())
	}
	r.ours = nil
	return err
}

// wait returns when all that the command has written is where it belongs.
func (r *relays) wait() (err error) {
	if r.ended == nil { // never started
		return r.release()
	}
	for range r.copies {
		err = errors.Join(err, <-r.ended)
	}
	return err
}
