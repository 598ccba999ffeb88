package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// TestConnectionOutlivesAnImport: after a good import, and after one whose place
// is not there, the same connection serves the next request.
func TestConnectionOutlivesAnImport(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	c, err := net.Dial("unix", f.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	for i, chunked := range []bool{false, true, false} {
		body := append(tarOf(t, reg("a")), make([]byte, 1<<17)...) // as tar pads its last block
		r, err := http.NewRequest(http.MethodPost, fmt.Sprintf("http://w/v1/import?agent=a&path=/agents/a/workspace/again%d", i), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if chunked {
			r.ContentLength = -1
			r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body)))
		}
		if err := r.Write(c); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(in, r)
		if err != nil {
			t.Fatalf("import %d: %v", i, err)
		}
		said, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("import %d: %s: %s %v", i, res.Status, said, err)
		}
	}
}

// TestImportDoesNotWaitForEver: a client that goes on sending behind its archive,
// too much or nothing for too long, gets its answer and loses the connection.
func TestImportDoesNotWaitForEver(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	f.server.drainTime = 300 * time.Millisecond
	for name, good := range map[string]bool{"good": true, "bad": false} {
		for what, more := range map[string]int{"silence": 0, "too much": 2 << 30} {
			c, err := net.Dial("unix", f.socket)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			archive := tarOf(t, reg("a"))
			if !good {
				archive = bytes.Repeat([]byte("no tar"), 1000)
			}
			fmt.Fprintf(c, "POST /v1/import?agent=a&force=true&path=/agents/a/workspace/%s HTTP/1.1\r\nHost: w\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n",
				name, len(archive), archive)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				chunk := append(append([]byte("100000\r\n"), make([]byte, 1<<20)...), "\r\n"...)
				for sent := 0; sent < more; sent += 1 << 20 {
					if _, err := c.Write(chunk); err != nil {
						return
					}
				}
			}()
			in := bufio.NewReader(c)
			res, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, what, err)
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil || good != (res.StatusCode == http.StatusOK) {
				t.Errorf("%s, %s: %s, %v", name, what, res.Status, err)
			}
			if b, err := in.ReadByte(); err == nil {
				t.Errorf("%s, %s: the connection lives on and says %q", name, what, b)
			} else if e, ok := err.(net.Error); ok && e.Timeout() {
				t.Errorf("%s, %s: the connection is not closed", name, what)
			}
			_ = c.Close()
			<-ended
		}
	}
}
