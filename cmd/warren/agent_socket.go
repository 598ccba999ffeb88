package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"github.com/warrenfs/warren/control"
	"golang.org/x/sys/unix"
)

// listenAgents makes the agents' socket of the daemon with an admin socket: one
// directory above, and for everybody to connect to. It has a second name, in a
// directory of its own that can be bound into a container: a socket that is bound
// by itself is another file once the daemon is started again. nil without an
// error: the directory above is not the daemon's own alone, so that another could put a socket
// of his own there.
func listenAgents(admin string, log *slog.Logger) (net.Listener, error) {
	socket := agentSocketOf(admin)
	dir := filepath.Dir(socket)
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return nil, localError(err)
	}
	if st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0 {
		log.Warn("no agent.sock: its directory is another user's, or others may write to it; name a socket in a directory of its own with --socket",
			"dir", dir)
		return nil, nil
	}
	if err := clearSocket(socket); err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("make the agents' socket: %w", err)
	}
	if err := errors.Join(os.Chmod(socket, 0o666), linkAgents(socket)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// boundSocket is the second name of the agents' socket.
func boundSocket(socket string) string {
	return filepath.Join(filepath.Dir(socket), "agent", filepath.Base(socket))
}

// linkAgents gives the agents' socket its second name.
func linkAgents(socket string) error {
	bound := boundSocket(socket)
	dir := filepath.Dir(bound)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return localError(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return localError(err)
	}
	if st.Uid != uint32(os.Geteuid()) || st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o022 != 0 {
		return control.Errorf(control.KindDenied, "%s is not the daemon's own directory; remove it, or name a socket elsewhere with --socket", dir)
	}
	temp := bound + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return localError(err)
	}
	if err := os.Link(socket, temp); err != nil {
		return localError(err)
	}
	return os.Rename(temp, bound)
}

// removeAgents takes both names of the agents' socket away.
func removeAgents(socket string) {
	_ = os.Remove(socket)
	_ = os.Remove(boundSocket(socket))
}
