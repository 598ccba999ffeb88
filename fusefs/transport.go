package fusefs

import (
	"fmt"
	"log"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/fusefs/transport"
)

// The transports.
const (
	// TransportOwn is a loop of our own (package transport): one goroutine
	// reads, handles and replies, and others stand by for when it waits.
	TransportOwn = "own"
	// TransportGoFuse is go-fuse's server: it reads requests in goroutines that
	// handle them inline, and starts another reader before it handles a request
	// when none is left.
	TransportGoFuse = "gofuse"
)

// Transports lists the names, the default first.
func Transports() []string { return []string{TransportOwn, TransportGoFuse} }

// server reads requests from one /dev/fuse, has them handled, and writes the
// replies. With any, a mount whose handlers wait goes on being served.
type server interface {
	// Serve returns when the connection has ended and no handler runs.
	Serve()
	// Standby is called by a handler before it waits.
	Standby()
}

// goFuse is go-fuse's server, which always has another reader.
type goFuse struct{ *fuse.Server }

func (goFuse) Standby() {}

var _, _ server = (*transport.Loop)(nil), goFuse{}

// maxWrite is the most bytes in one READ or WRITE.
const maxWrite = 1 << 20

// serverOptions are what every transport needs.
type serverOptions struct {
	idmap bool // ids may be mapped: the kernel takes that only where it checks mode bits
	links bool // the kernel may cache the texts of symbolic links
	acl   bool // the kernel is to enforce POSIX ACLs, and to leave umasks to us
	watch *transport.Watch
	ended func() // called when the connection has ended: file locks are not waited for any more
	debug bool   // log requests
	log   *slog.Logger
}

// newServer starts a transport on fd, which it takes over, and answers the
// kernel's INIT.
func newServer(name string, fd int, fs fuse.RawFileSystem, o serverOptions) (server, error) {
	mount := mountOptions(o.log)
	mount.Debug, mount.IDMappedMount, mount.EnableSymlinkCaching = o.debug, o.idmap, o.links
	if o.acl {
		mount.EnableAcl = true
		mount.ExtraCapabilities |= fuse.CAP_DONT_MASK | fuse.CAP_SETXATTR_EXT
	}
	var s server
	var err error
	switch name {
	case "", TransportOwn:
		s, err = transport.New(fd, fs, transport.Options{Mount: mount, Ended: o.ended, Watch: o.watch, Log: o.log})
	case TransportGoFuse:
		var g *fuse.Server
		if g, err = fuse.NewServer(fs, fmt.Sprintf("/dev/fd/%d", fd), mount); err != nil {
			unix.Close(fd)
		}
		s = goFuse{g}
	default:
		unix.Close(fd)
		return nil, noTransport(name)
	}
	if err != nil {
		return nil, &backend.Error{Op: "start transport", Kind: backend.Unavailable, Err: err}
	}
	return s, nil
}

func noTransport(name string) error {
	return &backend.Error{Op: "start transport", Path: name, Kind: backend.Invalid,
		Err: fmt.Errorf("no such transport; there are %s", strings.Join(Transports(), ", "))}
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
		ExplicitDataCacheControl: true,
		DisableReadDirPlus:       true,
		DisableSplice:            true,
		ExtraCapabilities:        fuse.CAP_HANDLE_KILLPRIV_V2 | fuse.CAP_ATOMIC_O_TRUNC,
		DisabledCapabilities:     fuse.CAP_PASSTHROUGH | fuse.CAP_NO_OPEN_SUPPORT,
		Logger:                   log.New(libraryLog{l}, "", 0),
		PanicHandler: func(p any) fuse.Status {
			l.Error("panic while answering a request", "panic", p, "stack", string(debug.Stack()))
			return fuse.EIO
		},
	}
}
