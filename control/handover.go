package control

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"

	"golang.org/x/sys/unix"
)

// HandOverProtocol is what a connection speaks after a mount was agreed on: one
// byte with the descriptor from the client, one JSON value from the daemon.
const HandOverProtocol = "warren-mount"

// MaxRead is the max_read that a mount which is handed over must have, in bytes.
const MaxRead = 1 << 20

// HandedOver is the answer to a descriptor: a mount, or what is wrong.
type HandedOver struct {
	Mount *Mount `json:"mount,omitempty"`
	Error *Error `json:"failed,omitempty"`
}

// HandOver has the daemon serve a mount that the caller makes in namespaces of its
// own. Dir in spec is what it is called there; UID and GID, the mount's user in the
// numbers of the caller's user namespace, must be set. When the daemon agrees, mount
// is called: it opens /dev/fuse, mounts it and gives the descriptor, which is then
// the daemon's and is closed here; after an error of HandOver the caller unmounts.
//
// Kinds: KindNotFound (no such agent or root), KindInvalid (what mount gave is no
// fresh mount of /dev/fuse), KindConflict (it is served already, or the agent has
// too many).
func (c *Client) HandOver(ctx context.Context, spec MountSpec, mount func() (fd int, err error)) (Mount, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.socket)
	if err != nil {
		return Mount{}, c.unreachable(ctx, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	in := bufio.NewReader(conn)
	if err := c.agree(ctx, conn, in, spec); err != nil {
		return Mount{}, err
	}
	fd, err := mount()
	if err != nil {
		return Mount{}, err
	}
	defer unix.Close(fd)
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return Mount{}, Errorf(KindFailed, "%s: not a unix socket", c.socket)
	}
	if _, _, err := u.WriteMsgUnix([]byte{0}, unix.UnixRights(fd), nil); err != nil {
		return Mount{}, c.broken(ctx, err)
	}
	var out HandedOver
	if err := json.NewDecoder(in).Decode(&out); err != nil {
		return Mount{}, c.broken(ctx, err)
	}
	switch {
	case out.Error != nil:
		return Mount{}, out.Error
	case out.Mount == nil:
		return Mount{}, c.broken(ctx, errors.New("an empty answer"))
	}
	return *out.Mount, nil
}

// agree asks for the mount, and returns when the daemon waits for the
// descriptor.
func (c *Client) agree(ctx context.Context, conn net.Conn, in *bufio.Reader, spec MountSpec) error {
	b, err := json.Marshal(spec)
	if err != nil {
		return Errorf(KindInvalid, "request: %v", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://warren/v1/mounts/handover", bytes.NewReader(b))
	if err != nil {
		return Errorf(KindInvalid, "request: %v", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", HandOverProtocol)
	if err := req.Write(conn); err != nil {
		return c.broken(ctx, err)
	}
	resp, err := http.ReadResponse(in, req)
	if err != nil {
		return c.broken(ctx, err)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	defer drain(resp.Body)
	var e Error
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if json.Unmarshal(text, &e) != nil || e.Text == "" {
		return Errorf(KindFailed, "%s: the daemon answered %s: %.200s", c.socket, resp.Status, text)
	}
	return &e
}
