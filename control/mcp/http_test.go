package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/warrenfs/warren/scripts/stack"
	"github.com/warrenfs/warren/scripts/waits"
)

// listening starts `warren mcp --listen` and gives its URL.
func listening(t *testing.T, s *stack.Stack, args ...string) string {
	t.Helper()
	cmd := s.Command(append([]string{"mcp", "--listen", "127.0.0.1:0", "--json", "--log", filepath.Join(t.TempDir(), "calls")}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("ended by SIGTERM: %v", err)
		}
	})
	var said struct{ URL string }
	if err := json.NewDecoder(out).Decode(&said); err != nil || !strings.HasPrefix(said.URL, "http://127.0.0.1:") {
		t.Fatal(err, said)
	}
	return said.URL
}

// token makes a token of an agent.
func token(t *testing.T, s *stack.Stack, agent string) (text, id string) {
	t.Helper()
	var tok struct{ ID, Token string }
	if err := json.Unmarshal([]byte(s.Warren(t, "token", "create", agent, "--json")), &tok); err != nil || tok.Token == "" {
		t.Fatal(err, tok)
	}
	return tok.Token, tok.ID
}

// withToken adds a token, and what else is to be sent, to requests.
type withToken struct {
	token string
	extra http.Header
}

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	for k, v := range w.extra {
		r.Header[k] = v
	}
	if host := w.extra.Get("Host"); host != "" {
		r.Host = host
	}
	return http.DefaultTransport.RoundTrip(r)
}

// online connects a host over HTTP.
func online(t *testing.T, url, token string, c *sdk.Client) *host {
	t.Helper()
	if c == nil {
		c = sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	}
	ctx, cancel := waits.Context(t.Context(), time.Minute)
	defer cancel()
	ss, err := c.Connect(ctx, &sdk.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: withToken{token: token}}, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ss.Close() })
	return &host{t: t, s: ss}
}

// says makes a call and gives its text.
func (h *host) says(tool string, args any) string { h.t.Helper(); return textOf(h.raw(tool, args)) }

// TestHTTP: hosts over HTTP work each as the agent of its token, see what that
// sees, and cannot use each other's sessions.
func TestHTTP(t *testing.T) {
	s := running(t)
	url := listening(t, s)
	mine, id := token(t, s, soul)
	theirs, _ := token(t, s, "stranger")
	a, b := online(t, url, mine, nil), online(t, url, theirs, nil)
	for _, h := range []*host{a, b} {
		if got := h.says("write", object{"path": "http.txt", "content": "of this one\n"}); strings.Contains(got, "error") {
			t.Fatal(got)
		}
	}
	if got := a.says("read", object{"path": "http.txt"}); !strings.Contains(got, "of this one") {
		t.Errorf("read: %s", got)
	}
	hidden := a.says("read", object{"path": "/agents/stranger/workspace/http.txt"})
	absent := a.says("read", object{"path": "/agents/nobodyyy/workspace/http.txt"})
	if !strings.Contains(hidden, "not_found") || strings.ReplaceAll(hidden, "stranger", "nobodyyy") != absent {
		t.Errorf("hidden %s, absent %s", hidden, absent)
	}
	session := a.s.ID()
	list := `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	for name, c := range map[string]struct {
		w    withToken
		body string
		want int
	}{
		"no token":               {withToken{}, list, http.StatusUnauthorized},
		"a made-up token":        {withToken{token: strings.Replace(mine, "_", "_0", 1)}, list, http.StatusUnauthorized},
		"a long token":           {withToken{token: strings.Repeat("x", 8000)}, list, http.StatusUnauthorized},
		"another's session":      {withToken{theirs, http.Header{"Mcp-Session-Id": {session}}}, list, http.StatusForbidden},
		"no such session":        {withToken{mine, http.Header{"Mcp-Session-Id": {"x"}}}, list, http.StatusNotFound},
		"its session":            {withToken{mine, http.Header{"Mcp-Session-Id": {session}}}, list, http.StatusOK},
		"another host's name":    {withToken{mine, http.Header{"Host": {"evil.example"}}}, list, http.StatusForbidden},
		"another site's page":    {withToken{mine, http.Header{"Origin": {"https://evil.example"}}}, list, http.StatusForbidden},
		"another site's page, 2": {withToken{mine, http.Header{"Sec-Fetch-Site": {"cross-site"}}}, list, http.StatusForbidden},
		"no JSON":                {withToken{token: mine}, "{", http.StatusBadRequest},
	} {
		if got := status(t, c.w, url, c.body); got != c.want {
			t.Errorf("%s: status %d, want %d", name, got, c.want)
		}
	}
	s.Warren(t, "token", "revoke", id)
	if got := status(t, withToken{mine, http.Header{"Mcp-Session-Id": {session}}}, url, list); got != http.StatusUnauthorized {
		t.Errorf("a revoked token with its old session: %d", got)
	}
	if r, err := a.s.CallTool(t.Context(), &sdk.CallToolParams{Name: "read", Arguments: object{"path": "http.txt"}}); err == nil {
		t.Errorf("a revoked token reads: %s", textOf(r))
	}
	if got := b.says("read", object{"path": "http.txt"}); !strings.Contains(got, "of this one") {
		t.Errorf("the other after the revocation: %s", got)
	}
}

func status(t *testing.T, w withToken, url, body string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	resp, err := (&http.Client{Transport: w, Timeout: time.Minute}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// TestHTTPTooManySessions: a token cannot fill the server.
func TestHTTPTooManySessions(t *testing.T) {
	s := running(t)
	url := listening(t, s)
	mine, _ := token(t, s, soul)
	begin := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	for i := range 65 {
		want := http.StatusOK
		if i == 64 {
			want = http.StatusTooManyRequests
		}
		if got := status(t, withToken{token: mine}, url, begin); got != want {
			t.Fatalf("session %d: status %d", i+1, got)
		}
	}
}

// overStdio connects c to `warren mcp` over standard input and output.
func overStdio(t *testing.T, s *stack.Stack, c *sdk.Client) *host {
	t.Helper()
	cmd := s.Command("mcp", "--agent", soul)
	ss, err := c.Connect(t.Context(), &sdk.CommandTransport{Command: cmd, TerminateDuration: 20 * time.Second}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ss.Close() })
	return &host{t: t, s: ss}
}

// TestProgress: a host that asks is told each second that a call goes on.
func TestProgress(t *testing.T) {
	s := running(t)
	told := make(chan float64, 100)
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, &sdk.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			if r.Params.ProgressToken == "tok" {
				told <- r.Params.Progress
			}
		}})
	h := overStdio(t, s, c)
	if err := s.Pause(); err != nil { // a daemon that takes its time
		t.Fatal(err)
	}
	answered := make(chan string, 1)
	go func() {
		p := &sdk.CallToolParams{Name: "stat", Arguments: object{"path": "."}}
		p.SetProgressToken("tok")
		r, err := h.s.CallTool(t.Context(), p)
		if err != nil {
			answered <- err.Error()
			return
		}
		answered <- textOf(r)
	}()
	last := 0.0
	for range 2 {
		select {
		case n := <-told:
			if n <= last {
				t.Errorf("progress %v after %v", n, last)
			}
			last = n
		case got := <-answered:
			t.Errorf("answered without progress: %s", got)
		case <-waits.After(t, time.Minute):
			t.Error("no progress is told")
		}
	}
	if err := s.Resume(); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-answered:
		if !strings.Contains(got, "dir") {
			t.Errorf("stat: %s", got)
		}
	case <-waits.After(t, time.Minute):
		t.Error("no answer")
	}
}
