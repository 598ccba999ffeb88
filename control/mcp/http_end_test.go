package mcp_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/waits"
)

const begin = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

// ask makes a request as a host does; session "": it has none yet.
func ask(t *testing.T, method, url, token, session, body string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return &http.Response{Body: http.NoBody}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := (&http.Client{Transport: withToken{token: token}}).Do(r)
	if err != nil { // also in another goroutine
		t.Error(err)
		return &http.Response{Body: http.NoBody}
	}
	return resp
}

// ends waits for what gives no value before.
func ends[T any](t *testing.T, what string, c <-chan T) {
	t.Helper()
	select {
	case <-c:
	case <-waits.After(t, time.Minute):
		t.Errorf("%s goes on", what)
	}
}

// TestHTTPTokenEnds: when a token is revoked, the streams that are open with it end,
// and so does git that runs for it, though its host asks for nothing more.
func TestHTTPTokenEnds(t *testing.T) {
	s := running(t)
	allow(t, s, `["http"]`)
	url := listening(t, s)
	began, gone := make(chan struct{}, 8), make(chan struct{}, 8)
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	t.Cleanup(slow.Close)
	t.Cleanup(slow.CloseClientConnections)
	mine, id := token(t, s, soul)
	resp := ask(t, http.MethodPost, url, mine, "", begin)
	session := resp.Header.Get("Mcp-Session-Id")
	_ = resp.Body.Close()
	streamed, called := make(chan error, 1), make(chan error, 1)
	read := func(method, body string, end chan<- error) {
		r := ask(t, method, url, mine, session, body)
		_, err := io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
		end <- err
	}
	go read(http.MethodGet, "", streamed)
	if resp := ask(t, http.MethodPost, url, mine, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); resp.StatusCode != http.StatusAccepted {
		t.Fatal(resp.Status)
	}
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"workspace_init","arguments":{"name":"slow","remote_url":"` + slow.URL + `/x.git"}}}`
	go read(http.MethodPost, call, called)
	ends(t, "the wait for git", began)
	s.Warren(t, "token", "revoke", id)
	ends(t, "the stream", streamed)
	ends(t, "the call", called)
	ends(t, "git", gone)
}

// TestHTTPListensAgain: a host whose stream broke off, and that opens another, is told
// that the context may be another one by now, also if that changed in between.
func TestHTTPListensAgain(t *testing.T) {
	s := running(t)
	url := listening(t, s)
	mine, _ := token(t, s, soul)
	resp := ask(t, http.MethodPost, url, mine, "", begin)
	session := resp.Header.Get("Mcp-Session-Id")
	_ = resp.Body.Close()
	for _, body := range []string{`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"warren://context"}}`} {
		resp := ask(t, http.MethodPost, url, mine, session, body)
		_, err := io.Copy(io.Discard, resp.Body)
		if err != nil || resp.StatusCode >= 300 {
			t.Fatal(resp.Status, err)
		}
		_ = resp.Body.Close()
	}
	told := make(chan struct{}, 1)
	listen := func() io.Closer {
		resp := ask(t, http.MethodGet, url, mine, session, "")
		go func() {
			for in := bufio.NewScanner(resp.Body); in.Scan(); {
				if strings.Contains(in.Text(), "resources/updated") {
					select {
					case told <- struct{}{}:
					default:
					}
				}
			}
		}()
		return resp.Body
	}
	_ = listen().Close()
	for end := waits.In(time.Minute); !end.Passed(); {
		stream := listen()
		select {
		case <-told:
			_ = stream.Close()
			return
		case <-time.After(10 * time.Second): // that went lost too
		}
		_ = stream.Close()
	}
	t.Error("nobody is told")
}

// TestHTTPTooMuch: batches are refused, and a token has no more than a number of
// requests under way, nor more bytes.
func TestHTTPTooMuch(t *testing.T) {
	s := running(t)
	url := listening(t, s)
	mine, _ := token(t, s, soul)
	for _, body := range []string{"[" + begin + "]", " \n\t[" + begin + "," + begin + "]", strings.Repeat(" ", 1<<20) + "["} {
		if got := status(t, withToken{token: mine}, url, body); got != http.StatusBadRequest {
			t.Errorf("a batch: %d", got)
		}
	}
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	hold := func(header string) { // a request whose body does not come
		c, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, "POST /mcp HTTP/1.1\r\nHost: "+host+"\r\nMcp-Session-Id: x\r\nAuthorization: Bearer "+mine+"\r\n"+header+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(what string) {
		t.Helper()
		for end := waits.In(time.Minute); !end.Passed(); time.Sleep(20 * time.Millisecond) {
			if status(t, withToken{token: mine}, url, begin) == http.StatusTooManyRequests {
				return
			}
		}
		t.Errorf("%s do not keep others out", what)
	}
	hold("Content-Length: 67108864")
	hold("Content-Length: 67108864")
	refused("128 MiB under way")
	other, _ := token(t, s, "stranger")
	if got := status(t, withToken{token: other}, url, begin); got != http.StatusOK {
		t.Errorf("another token: %d", got)
	}
	mine, _ = token(t, s, soul)
	for range 32 {
		hold("Content-Length: 10")
	}
	refused("32 requests under way")
}
