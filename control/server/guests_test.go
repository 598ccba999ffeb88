package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/scripts/waits"
	"github.com/warrenfs/warren/workspace"
	"golang.org/x/sys/unix"
)

// dial connects to agent.sock, with a minute for all that follows.
func (g *guestHouse) dial() net.Conn {
	g.t.Helper()
	c, err := net.Dial("unix", g.sock)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// request sends one on c and gives the answer's head.
func (g *guestHouse) request(c net.Conn, token, head string) (*http.Response, error) {
	g.t.Helper()
	if _, err := fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: warren\r\nAuthorization: Bearer %s\r\n\r\n", head, token); err != nil {
		return nil, err
	}
	return http.ReadResponse(bufio.NewReader(c), nil)
}

// idOf is the id in a token's text.
func idOf(token string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(token, "warren_"), "_")
	return id
}

// TestWithoutAToken nothing is told, of what is there neither; and the kernel's
// word for who connects counts for nothing: these tests run as the daemon's user.
func TestWithoutAToken(t *testing.T) {
	g := newGuestHouse(t)
	revoked, expired := g.token("a", ""), g.token("a", "1ns")
	if err := g.client.RevokeToken(t.Context(), idOf(revoked)); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"", "x", revoked, expired, g.tokens["a"] + "x", "warren_" + idOf(g.tokens["a"]) + "_" + strings.Repeat("A", 43)} {
		want := ""
		for _, path := range []string{"/v1/version", "/v1/status", "/v1/fs/list?agent=a&path=.", "/v1/nothing", "/", "/v1/agents/b"} {
			status, body, head := g.ask(token, "GET", path, "")
			if want == "" {
				want = body
			}
			if status != http.StatusUnauthorized || body != want || head.Get("WWW-Authenticate") == "" {
				t.Errorf("%.20q %s: %d %s", token, path, status, body)
			}
		}
	}
	// Two of them, or another scheme.
	c := g.dial()
	resp, err := g.request(c, g.tokens["a"]+"\r\nAuthorization: Bearer "+g.tokens["b"], "GET /v1/version")
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("two tokens: %v %v", resp, err)
	}
	// At admin.sock a token makes nobody the administrator, or less than that.
	if status, _, _ := g.send("GET", "/v1/status", nil); status != http.StatusOK {
		t.Errorf("the administrator: %d", status)
	}
}

// TestRevokedUnderAStream: a stream that is under way ends with its token, by
// revocation, expiry, or the end of the agent; also one whose client waits.
func TestRevokedUnderAStream(t *testing.T) {
	g := newGuestHouse(t)
	end := map[string]func(token string){
		"revoked": func(token string) {
			if err := g.client.RevokeToken(t.Context(), idOf(token)); err != nil {
				t.Error(err)
			}
		},
		"expired": func(string) {},
		"agent removed": func(string) {
			if err := g.client.RemoveAgent(t.Context(), "under"); err != nil {
				t.Error(err)
			}
		},
	}
	for _, why := range []string{"revoked", "expired", "agent removed"} {
		ttl := ""
		if why == "expired" {
			ttl = "2s"
		}
		token := g.token("under", ttl)
		// A body that never ends: the handler waits for more of it.
		c := g.dial()
		if _, err := fmt.Fprintf(c, "PUT /v1/fs/content?path=big HTTP/1.1\r\nHost: w\r\nAuthorization: Bearer %s\r\nContent-Length: 1000000\r\n\r\nsome", token); err != nil {
			t.Fatal(err)
		}
		g.until(func() bool { return g.busy(token) }, "the request begins")
		end[why](token)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil && resp.StatusCode < 400 {
			t.Errorf("%s: %d", why, resp.StatusCode)
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the stream goes on", why)
		}
		g.until(func() bool { return !g.busy(token) }, "the session ends")
		if status, _, _ := g.ask(token, "GET", "/v1/version", ""); status != http.StatusUnauthorized {
			t.Errorf("%s, and then: %d", why, status)
		}
	}
	if _, err := g.client.Stat(t.Context(), "a", "/agents/under/workspace/big", false); control.KindOf(err) != control.KindNotFound {
		t.Errorf("half a file: %v", err)
	}
}

// busy tells whether anything goes on with a token.
func (g *guestHouse) busy(token string) bool {
	g.server.guests.mu.Lock()
	defer g.server.guests.mu.Unlock()
	return g.server.guests.sessions[idOf(token)] != nil
}

func (g *guestHouse) until(done func() bool, what string) {
	g.t.Helper()
	for end := waits.In(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if end.Passed() {
			g.t.Fatalf("%s: not within a minute", what)
		}
	}
}

// TestPace: a body or an answer that stands still is cut off, and so is a request
// that goes on for too long.
func TestPace(t *testing.T) {
	f := newFixture(t)
	f.server.pace = pace{stall: 300 * time.Millisecond, plain: 2 * time.Second, long: 2 * time.Second}
	g := guestHouseOn(t, f)
	if _, err := g.client.Write(t.Context(), "a", "large", strings.NewReader(strings.Repeat("x", 16<<20)), 0); err != nil {
		t.Fatal(err)
	}
	ends := func(name string, c net.Conn) {
		t.Helper()
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: goes on", name)
		}
	}
	auth := "Host: w\r\nAuthorization: Bearer " + g.tokens["a"] + "\r\n"
	c := g.dial()
	_, _ = fmt.Fprintf(c, "POST /v1/fs/mkdir HTTP/1.1\r\n%sContent-Length: 100\r\n\r\n{", auth)
	ends("a body that stands still", c)
	slow := g.dial()
	go func() {
		_, _ = fmt.Fprintf(slow, "PUT /v1/fs/content?path=slow HTTP/1.1\r\n%sContent-Length: 100000\r\n\r\n", auth)
		for range 600 { // a byte at a time, never still
			if _, err := slow.Write([]byte("x")); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	ends("a body that never ends", slow)
	c = g.dial()
	_, _ = fmt.Fprintf(c, "GET /v1/fs/content?path=large HTTP/1.1\r\n%s\r\n", auth)
	g.until(func() bool { return g.busy(g.tokens["a"]) }, "it begins")
	g.until(func() bool { return !g.busy(g.tokens["a"]) }, "an answer that is not read ends")
	c = g.dial()
	_, _ = fmt.Fprintf(c, "GET /v1/version HTTP/1.1\r\n%sX: %s\r\n\r\n", auth, strings.Repeat("x", 64<<10))
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil && resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("64 KiB of header: %d", resp.StatusCode)
	}
	// What is not too slow works, on one connection again and again.
	c = g.dial()
	for range 3 {
		resp, err := g.request(c, g.tokens["a"], "GET /v1/version")
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v %v", resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		time.Sleep(400 * time.Millisecond) // longer than a stall
	}
}

// TestConnectionsAreBounded: a token has so many, and strangers push out only each
// other.
func TestConnectionsAreBounded(t *testing.T) {
	g := newGuestHouse(t)
	var open []net.Conn
	for n := range maxPerToken + 3 {
		c := g.dial()
		resp, err := g.request(c, g.tokens["a"], "GET /v1/version")
		want := http.StatusOK
		if n >= maxPerToken {
			want = http.StatusConflict
		}
		if err != nil || resp.StatusCode != want {
			t.Fatalf("connection %d: %v %v", n, resp, err)
		}
		open = append(open, c)
	}
	if status, _, _ := g.ask(g.tokens["b"], "GET", "/v1/version", ""); status != http.StatusOK {
		t.Errorf("another token: %d", status)
	}
	_ = open[0].Close()
	g.until(func() bool {
		status, _, _ := g.ask(g.tokens["a"], "GET", "/v1/version", "")
		return status == http.StatusOK
	}, "a connection is free again")
	first := g.dial()
	for range maxStrangers + 5 {
		g.dial()
	}
	if _, err := first.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest stranger stays: %v", err)
	}
	if resp, err := g.request(open[1], g.tokens["a"], "GET /v1/version"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("a guest was pushed out: %v %v", resp, err)
	}
	if status, _, _ := g.ask(g.tokens["b"], "GET", "/v1/version", ""); status != http.StatusOK {
		t.Errorf("a new one, among strangers: %d", status)
	}
}

// TestAConnectionThatWasClosedCounts for nothing, though its token comes after that.
func TestAConnectionThatWasClosedCounts(t *testing.T) {
	g := newGuests(nil)
	a, b := net.Pipe()
	defer b.Close()
	c := &guestConn{Conn: a, of: g}
	g.strangers = append(g.strangers, c)
	_ = c.Close()
	if s, err := g.show(c, workspace.Token{ID: "t"}); err == nil {
		t.Errorf("counted: %d", s.conns)
	}
	_ = c.Close()
	if len(g.sessions)+len(g.strangers) != 0 {
		t.Errorf("left: %v %v", g.sessions, g.strangers)
	}
}

// handing hands over the end of a pipe as a mount.
func (g *guestHouse) handing(token, agent string) (control.Mount, error) {
	g.t.Helper()
	ctx, cancel := waits.Context(g.t.Context(), time.Minute)
	defer cancel()
	c := control.NewClient(g.sock, token)
	defer c.Close()
	var zero uint32
	r, w, err := os.Pipe()
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = w.Close() })
	defer r.Close()
	return c.HandOver(ctx, control.MountSpec{Agent: agent, Dir: "/warren", UID: &zero, GID: &zero}, func() (int, error) {
		return unix.FcntlInt(r.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	})
}

// TestHandedOverMountsEnd with their token, their agent, and what made the agent
// theirs; nobody but their agent and those above it is told of them.
func TestHandedOverMountsEnd(t *testing.T) {
	g := newGuestHouse(t)
	there := func(id string) bool {
		ms, err := g.client.Mounts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			if m.ID == id {
				return m.Inside && m.State == stateUp
			}
		}
		return false
	}
	token := g.token("a", "")
	m, err := g.handing(token, "under")
	if err != nil || m.Agent != "under" || !there(m.ID) {
		t.Fatalf("%+v %v", m, err)
	}
	for key, want := range map[string]bool{"a": true, "under": true, "b": false, "hall": false} {
		if _, body, _ := g.ask(g.tokens[key], "GET", "/v1/mounts", ""); strings.Contains(body, m.ID) != want {
			t.Errorf("%s is told: %s", key, body)
		}
	}
	other := "b"
	if _, err := g.client.SetAgent(t.Context(), "under", control.AgentChange{Parent: &other}); err != nil || there(m.ID) {
		t.Errorf("after it got another parent: %v, %t", err, there(m.ID))
	}
	for why, end := range map[string]func() error{
		"revoked": func() error { return g.client.RevokeToken(t.Context(), idOf(token)) },
		"removed": func() error { return g.client.RemoveAgent(t.Context(), "hall") },
	} {
		by, agent := token, "a"
		if why == "removed" {
			by, agent = g.tokens["hall"], ""
		}
		m, err := g.handing(by, agent)
		if err != nil || !there(m.ID) {
			t.Fatalf("%s: %+v %v", why, m, err)
		}
		if err := end(); err != nil || there(m.ID) {
			t.Errorf("%s: %v, there: %t", why, err, there(m.ID))
		}
	}
	short := g.token("a", "3s")
	if m, err = g.handing(short, ""); err != nil {
		t.Fatal(err)
	}
	g.until(func() bool { return !there(m.ID) }, "it ends with its token's time")
	for _, agent := range []string{"b", "gaia", "nobody"} {
		if _, err := g.handing(g.tokens["a"], agent); control.KindOf(err) != control.KindNotFound {
			t.Errorf("for %s: %v", agent, err)
		}
	}
	if _, err := g.handing("", "a"); control.KindOf(err) != control.KindDenied {
		t.Errorf("without a token: %v", err)
	}
}

// TestHandedOverBytes: what is no single byte with a single descriptor is refused,
// and nothing of it is kept.
func TestHandedOverBytes(t *testing.T) {
	g := newGuestHouse(t)
	before := descriptors(t)
	for name, send := range map[string]func(*net.UnixConn){
		"no descriptor": func(c *net.UnixConn) { _, _ = c.Write([]byte{0}) },
		"two": func(c *net.UnixConn) {
			_, _, _ = c.WriteMsgUnix([]byte{0}, unix.UnixRights(0, 0), nil)
		},
		"many": func(c *net.UnixConn) {
			_, _, _ = c.WriteMsgUnix([]byte{0}, unix.UnixRights(make([]int, 200)...), nil)
		},
		"two bytes": func(c *net.UnixConn) { _, _, _ = c.WriteMsgUnix([]byte{0, 0}, unix.UnixRights(0), nil) },
		"nothing":   func(c *net.UnixConn) { _ = c.CloseWrite() },
	} {
		c := g.dial().(*net.UnixConn)
		body := `{"dir":"/warren","uid":0,"gid":0}`
		_, _ = fmt.Fprintf(c, "POST /v1/mounts/handover HTTP/1.1\r\nHost: w\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: %s\r\nContent-Length: %d\r\n\r\n%s",
			g.tokens["a"], control.HandOverProtocol, len(body), body)
		in := bufio.NewReader(c)
		if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%s: %v %v", name, resp, err)
		}
		send(c)
		answer, err := io.ReadAll(in)
		if err != nil || !strings.Contains(string(answer), `"kind":"invalid"`) {
			t.Errorf("%s: %s %v", name, answer, err)
		}
		_ = c.Close()
	}
	if ms, err := g.client.Mounts(t.Context()); err != nil || len(ms) != 0 {
		t.Errorf("%v %v", ms, err)
	}
	g.until(func() bool { return descriptors(t) <= before+2 }, "descriptors are closed")
	for name, body := range map[string]string{
		"no uid": `{"dir":"/warren"}`, "a relative dir": `{"dir":"m","uid":0,"gid":0}`, "a dir that breaks lines": `{"dir":"/m\n","uid":0,"gid":0}`,
		"access none": `{"dir":"/m","uid":0,"gid":0,"access":"none"}`, "a uid that is none": `{"dir":"/m","uid":4294967295,"gid":0}`,
	} {
		if status, text, _ := g.ask(g.tokens["a"], "POST", "/v1/mounts/handover", body); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if status, _, _ := g.send("POST", "/v1/mounts/handover", strings.NewReader(`{"agent":"a","dir":"/m","uid":0,"gid":0}`)); status != http.StatusBadRequest {
		t.Errorf("at admin.sock: %d", status)
	}
}

// descriptors counts this process's.
func descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}
