package server

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"testing"
)

// TestRequestsTakeTurns: of what takes memory, one token has so many requests worked
// on at a time. One more waits, for what is of its kind alone; and nobody else does.
func TestRequestsTakeTurns(t *testing.T) {
	g := newGuestHouse(t)
	auth := "Host: w\r\nAuthorization: Bearer " + g.tokens["a"] + "\r\n"
	var open []net.Conn
	for range maxTurns[classPlain] { // with a body that does not come
		c := g.dial()
		if _, err := fmt.Fprintf(c, "POST /v1/fs/edit HTTP/1.1\r\n%sContent-Length: 100\r\n\r\n{", auth); err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	turns := func() int {
		g.server.guests.mu.Lock()
		defer g.server.guests.mu.Unlock()
		if s := g.server.guests.sessions[idOf(g.tokens["a"])]; s != nil {
			return len(s.turns[classPlain])
		}
		return 0
	}
	g.until(func() bool { return turns() == maxTurns[classPlain] }, "they begin")
	waits := g.dial()
	answered := make(chan int, 1)
	go func() {
		_, err := fmt.Fprintf(waits, "GET /v1/version HTTP/1.1\r\n%s\r\n", auth)
		if err != nil {
			answered <- 0
			return
		}
		resp, err := http.ReadResponse(bufio.NewReader(waits), nil)
		if err != nil {
			answered <- 0
			return
		}
		answered <- resp.StatusCode
	}()
	for token, path := range map[string]string{g.tokens["b"]: "/v1/version", g.tokens["a"]: "/v1/log"} {
		if status, body, _ := g.ask(token, "GET", path, ""); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	select {
	case status := <-answered:
		t.Errorf("it did not wait: %d", status)
	default:
	}
	_ = open[0].Close()
	if status := <-answered; status != http.StatusOK {
		t.Errorf("when there is a turn: %d", status)
	}
}
