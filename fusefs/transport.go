package fusefs

import (
	"fmt"
	"log"
	"log/slog"
	"runtime/debug"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
)

// TransportGoFuse is go-fuse's own server: it reads requests in goroutines that
// handle them inline, and starts another reader before it handles a request
// when none is left. So a mount whose handlers wait for other mounts goes on
// being served.
const TransportGoFuse = "go-fuse"

// transport reads requests from one /dev/fuse, has them handled, and writes the
// replies.
type transport interface {
	// Serve returns when the connection has ended and no handler runs.
	Serve()
}

// maxWrite is the most bytes in one READ or WRITE.
const maxWrite = 1 << 20

// newTransport starts a transport on fd, which it takes over, and answers the
// kernel's INIT.
func newTransport(name string, fd int, fs fuse.RawFileSystem, l *slog.Logger) (transport, error) {
	switch name {
	case "", TransportGoFuse:
		server, err := fuse.NewServer(fs, fmt.Sprintf("/dev/fd/%d", fd), mountOptions(l))
		if err != nil {
			unix.Close(fd)
			return nil, &backend.Error{Op: "start transport", Kind: backend.Unavailable, Err: err}
		}
		return server, nil
	}
	unix.Close(fd)
	return nil, &backend.Error{Op: "start transport", Path: name, Kind: backend.Invalid,
		Err: fmt.Errorf("no such transport; there is %s", TransportGoFuse)}
}

// mountOptions are what is negotiated with the kernel. Not among them, on
// purpose: the write-back cache (the kernel would own sizes), READDIRPLUS (its
// entries survive INC_EPOCH), DIRECT_IO_ALLOW_MMAP (a map of a direct handle
// would not be coherent), and a bound on requests under way (a mount must never
// run out of readers).
func mountOptions(l *slog.Logger) *fuse.MountOptions {
	return &fuse.MountOptions{
		Name:                     "warren",
		MaxWrite:                 maxWrite,
		MaxBackground:            64,
		EnableLocks:              true,
		EnableSymlinkCaching:     true,
		ExplicitDataCacheControl: true,
		DisableReadDirPlus:       true,
		DisableSplice:            true,
		ExtraCapabilities:        fuse.CAP_HANDLE_KILLPRIV_V2 | fuse.CAP_ATOMIC_O_TRUNC,
		DisabledCapabilities:     fuse.CAP_PASSTHROUGH | fuse.CAP_NO_OPEN_SUPPORT,
		Logger:                   log.New(logWriter{l}, "", 0),
		PanicHandler: func(p any) fuse.Status {
			l.Error("panic while answering a request", "panic", p, "stack", string(debug.Stack()))
			return fuse.EIO
		},
	}
}

// logWriter sends go-fuse's lines to slog.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.Debug("go-fuse", "line", string(p))
	return len(p), nil
}
