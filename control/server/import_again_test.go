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
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
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
