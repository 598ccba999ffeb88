package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"golang.org/x/sys/unix"
)

// Handed is a mount that its client made and the daemon serves.
type Handed struct {
	End   func()          // cuts it off; nothing is let in when it returns
	Done  <-chan struct{} // closed when it is not served any more
	Ended <-chan struct{} // closed when the kernel has let go of it
}

// handed is one of them.
type handed struct {
	mount control.Mount
	by    string // agent of the token that brought it
	taken Handed
}

// Bounds on mounts that are handed over.
const (
	maxHanded  = 64 // of one agent, those too that were cut off and live on
	maxHanding = 4  // of one token that are being handed over
	handTime   = 30 * time.Second
)

// handOver agrees on a mount, takes its descriptor and serves it. After the
// answer 101 the connection is no HTTP any more.
func (s *Server) handOver(w http.ResponseWriter, r *http.Request) error {
	var c control.MountSpec
	if err := input(r, &c); err != nil {
		return err
	}
	sess, by := sessionOf(r), askerOf(r)
	if sess == nil {
		return invalid("mounts are handed over at agent.sock; here the daemon makes them (POST /v1/mounts)")
	}
	m, err := handedMount(c)
	if err != nil {
		return err
	}
	if r.Header.Get("Upgrade") != control.HandOverProtocol {
		return invalid("the request does not ask for an upgrade to %s", control.HandOverProtocol)
	}
	if sess.handing.Add(1) > maxHanding {
		sess.handing.Add(-1)
		return failf(backend.Busy, "%d mounts are being handed over with this token; wait for them", maxHanding)
	}
	defer sess.handing.Add(-1)
	if err := s.reserveHanded(m.Agent); err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			s.releaseHanded(m.Agent)
		}
	}()
	if _, err := s.Space.Open(view.Options{Agent: m.Agent, Root: m.Root, UID: m.UID, GID: m.GID}); err != nil {
		return err
	}
	guest, conn, err := upgrade(w)
	if err != nil {
		return err
	}
	defer guest.Close()
	defer context.AfterFunc(sess.ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	var out control.HandedOver
	if err := s.receive(r.Context(), sess, by.agent, conn, &m); err == nil {
		kept = true
		out.Mount = &m
	} else {
		o, known := outcomes[backend.KindOf(err)]
		if !known {
			o.kind = control.KindFailed
			s.Log.Error("mount was not taken over", "agent", m.Agent, "err", err)
		}
		out.Error = control.Errorf(o.kind, "%s", text(err))
	}
	_ = encode(conn, out)
	return nil
}

// handedMount checks what is to be handed over.
func handedMount(c control.MountSpec) (control.Mount, error) {
	m := control.Mount{Dir: c.Dir, Agent: c.Agent, Root: c.Root, Access: c.Access, AllowOther: c.AllowOther,
		Inside: true, State: stateUp}
	if m.Root == "" {
		m.Root = "/"
	}
	if _, err := mountAccess(m.Access); err != nil {
		return m, err
	}
	if err := checkOwner(c.Owner); err != nil {
		return m, err
	}
	m.Owner = cmp.Or(c.Owner, ownerMount)
	if c.ACL {
		return m, invalid("a mount that is handed over has no ACLs")
	}
	if m.Access == "" {
		m.Access = view.ReadWrite.String()
	}
	if !filepath.IsAbs(m.Dir) || filepath.Clean(m.Dir) != m.Dir || len(m.Dir) > 4096 || !utf8.ValidString(m.Dir) ||
		strings.ContainsFunc(m.Dir, unicode.IsControl) {
		return m, invalid("mountpoint %q is not a clean absolute path", m.Dir)
	}
	if c.UID == nil || c.GID == nil || *c.UID == noID || *c.GID == noID {
		return m, invalid("whose is the mount? the request names no uid and gid; those of the connection are not asked")
	}
	m.UID, m.GID = *c.UID, *c.GID
	return m, nil
}

// upgrade takes the connection from HTTP.
func upgrade(w http.ResponseWriter) (*guestConn, *net.UnixConn, error) {
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	guest, ok := conn.(*guestConn)
	if !ok || buf.Reader.Buffered() > 0 {
		_ = conn.Close()
		return nil, nil, invalid("bytes came before the answer")
	}
	u, ok := guest.Conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return nil, nil, errors.New("not a unix socket")
	}
	_ = u.SetDeadline(time.Now().Add(handTime))
	_, err = fmt.Fprintf(u, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", control.HandOverProtocol)
	if err != nil {
		_ = conn.Close()
		return nil, nil, err
	}
	return guest, u, nil
}

// receive takes the descriptor and has the mount served, until it is unmounted or
// the token ends.
func (s *Server) receive(ctx context.Context, sess *session, by string, conn *net.UnixConn, m *control.Mount) error {
	fd, err := receiveDescriptor(conn)
	if err != nil {
		return err
	}
	var b [6]byte
	if _, err := rand.Read(b[:]); err != nil {
		unix.Close(fd)
		return err
	}
	m.ID, m.Since = hex.EncodeToString(b[:]), time.Now().UTC()
	access, err := mountAccess(m.Access)
	if err != nil {
		unix.Close(fd)
		return err
	}
	if !s.guests.begin(sess) {
		unix.Close(fd)
		return failf(backend.Denied, "the token has ended")
	}
	taken, err := s.Mounts.TakeOver(ctx, fd, Mounting{Dir: "inside:" + m.ID, AllowOther: m.AllowOther,
		View: view.Options{Agent: m.Agent, Root: m.Root, Access: access, UID: m.UID, GID: m.GID, Owners: m.Owner == ownerAgent}})
	if err != nil {
		sess.work.Done()
		return err
	}
	s.mu.Lock()
	s.handed[m.ID] = &handed{mount: *m, by: by, taken: taken}
	s.mu.Unlock()
	s.Log.Info("serving a mount made elsewhere", "id", m.ID, "agent", m.Agent, "by", by, "root", m.Root, "dir", m.Dir)
	go s.keep(sess, m.ID, m.Agent, taken, s.guests.hold(sess))
	s.recheckHanded() // an agent may have gone, or got another parent, meanwhile
	return nil
}

// keep waits for the end of a mount, or of the token that brought it.
func (s *Server) keep(sess *session, id, agent string, taken Handed, letGo func()) {
	why := "it was unmounted"
	select {
	case <-taken.Done:
	case <-sess.ctx.Done():
		why = "its token has ended"
		taken.End()
		<-taken.Done
	}
	s.dropHanded(id)
	sess.work.Done()
	s.Log.Info("a mount made elsewhere is not served any more", "id", id, "agent", agent, "why", why)
	letGo()
	<-taken.Ended
	s.releaseHanded(agent)
}

// receiveDescriptor takes one byte and one descriptor.
func receiveDescriptor(conn *net.UnixConn) (int, error) {
	b, oob := make([]byte, 2), make([]byte, unix.CmsgSpace(4*4))
	n, on, flags, _, err := conn.ReadMsgUnix(b, oob)
	if err != nil {
		return -1, invalid("no descriptor came: %v", err)
	}
	var fds []int
	msgs, err := unix.ParseSocketControlMessage(oob[:on])
	for i := range msgs {
		if got, e := unix.ParseUnixRights(&msgs[i]); e == nil {
			fds = append(fds, got...)
		}
	}
	if err != nil || n != 1 || len(fds) != 1 || flags&unix.MSG_CTRUNC != 0 {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return -1, invalid("one byte with one descriptor was expected, and came with %d", len(fds))
	}
	return fds[0], nil
}

// reserveHanded counts one more mount of an agent.
func (s *Server) reserveHanded(agent string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handedOf[agent] >= maxHanded {
		return failf(backend.Busy, "agent %q has %d mounts made elsewhere; unmount some", agent, maxHanded)
	}
	s.handedOf[agent]++
	return nil
}

func (s *Server) releaseHanded(agent string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.handedOf[agent]--; s.handedOf[agent] == 0 {
		delete(s.handedOf, agent)
	}
}

// endHanded cuts off the mounts made elsewhere that which names.
func (s *Server) endHanded(which func(*handed) bool) {
	s.mu.Lock()
	var end []*handed
	for _, h := range s.handed {
		if which(h) {
			end = append(end, h)
		}
	}
	s.mu.Unlock()
	for _, h := range end {
		h.taken.End()
		<-h.taken.Done
		s.dropHanded(h.mount.ID)
	}
}

// dropHanded takes one that has ended off the list.
func (s *Server) dropHanded(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.handed, id)
}

// recheckHanded cuts off what an agent brought for another that is not within
// its reach any more.
func (s *Server) recheckHanded() {
	s.endHanded(func(h *handed) bool {
		by, err := s.Registry.Agent(h.by)
		if err != nil {
			return true
		}
		a := asker{agent: by.Key, role: by.Role, reach: below}
		if by.Role == policy.Orchestrator {
			a.reach = sees
		}
		return s.within(a, h.mount.Agent) != nil
	})
}
