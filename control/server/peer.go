package server

import (
	"context"
	"errors"
	"net"
	"net/http"

	"github.com/warrenfs/warren/control"
	"golang.org/x/sys/unix"
)

type peerKey struct{}

// withPeer remembers who is at the other end of a connection.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	cred, err := peerOf(c)
	if err != nil {
		return ctx
	}
	return withCred(ctx, cred)
}

func withCred(ctx context.Context, cred *unix.Ucred) context.Context {
	return context.WithValue(ctx, peerKey{}, cred)
}

// peerOf asks the kernel; a caller cannot forge the answer.
func peerOf(c net.Conn) (*unix.Ucred, error) {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.New("not a unix socket")
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return cred, cerr
}

// peer is who makes the request. admit let it in, so it is known.
func peer(r *http.Request) *unix.Ucred {
	cred, _ := r.Context().Value(peerKey{}).(*unix.Ucred)
	if cred == nil {
		return &unix.Ucred{Uid: ^uint32(0), Gid: ^uint32(0)}
	}
	return cred
}

// admit lets root and the daemon's own user in.
func (s *Server) admit(r *http.Request) error {
	if uid := peer(r).Uid; uid == 0 || uid == uint32(s.Daemon.UID) {
		return nil
	}
	return control.Errorf(control.KindDenied, "the admin socket is for root and the daemon's own user")
}
