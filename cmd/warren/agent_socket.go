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
// directory above, and for everybody to connect to. nil without an error: that
// directory is not the daemon's own alone, so that another could put a socket
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
	if len(socket) > maxSocketPath {
		return nil, control.Errorf(control.KindInvalid, "%s: a socket's path has at most %d bytes; name a shorter one with --socket", socket, maxSocketPath)
	}
	if c, err := net.Dial("unix", socket); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("another daemon listens on %s; stop it first, or name a socket elsewhere with --socket", socket)
	}
	if fi, err := os.Lstat(socket); err == nil && fi.Mode()&os.ModeSocket == 0 {
		return nil, control.Errorf(control.KindInvalid, "%s is there and is no socket; name another place with --socket", socket)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, localError(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("make the agents' socket: %w", err)
	}
	return l, os.Chmod(socket, 0o666)
}
