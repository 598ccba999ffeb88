package server

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/warrenfs/warren/control"
)

func noise(n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(b)
	return b
}

func (f *fixture) read(agent, path string) ([]byte, error) {
	var b bytes.Buffer
	err := f.client.Read(f.t.Context(), agent, path, &b)
	return b.Bytes(), err
}

func TestContentComesBackWhole(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	for _, n := range []int{0, 1, chunk - 1, chunk, chunk + 1, 3*chunk + 7} {
		want := noise(n)
		for range 2 { // new, then replaced
			node, err := f.client.Write(t.Context(), "a", "f", bytes.NewReader(want), 0)
			if err != nil || node.Size != uint64(n) || node.Path != "/agents/a/workspace/f" {
				t.Fatalf("%d bytes: %+v, %v", n, node, err)
			}
			if got, err := f.read("a", "f"); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes: got %d, %v", n, len(got), err)
			}
		}
		names, err := f.client.List(t.Context(), "a", ".")
		if err != nil || len(names) != 1 {
			t.Errorf("%d bytes: %v, %v", n, names, err)
		}
	}
}

func TestModeIsKeptOrSet(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	for _, n := range []int{10, chunk + 10} {
		for i, c := range []struct {
			mode uint32
			want string
		}{{0, "0644"}, {0o750, "0750"}, {0, "0750"}, {0o600, "0600"}} {
			node, err := f.client.Write(t.Context(), "a", "f", bytes.NewReader(noise(n)), c.mode)
			if err != nil || node.Mode != c.want {
				t.Errorf("%d bytes, step %d: %s, %v; want %s", n, i, node.Mode, err, c.want)
			}
		}
		if err := f.client.Remove(t.Context(), "a", "f", false); err != nil {
			t.Fatal(err)
		}
	}
}

// cut is a body that breaks off.
type cut struct{ left int }

func (c *cut) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, errors.New("cut")
	}
	n := min(len(p), c.left)
	c.left -= n
	return n, nil
}

// TestAWriteThatBreaksOffChangesNothing: small and streamed, with and without
// a file there.
func TestAWriteThatBreaksOffChangesNothing(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	old := []byte("old")
	for _, n := range []int{1, 100, chunk, 3 * chunk} {
		for _, exists := range []bool{false, true} {
			if exists {
				if _, err := f.client.Write(t.Context(), "a", "f", bytes.NewReader(old), 0); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := f.client.Write(t.Context(), "a", "f", &cut{n}, 0); err == nil {
				t.Fatalf("%d bytes: no error", n)
			}
			// The daemon may still be at it: its answer to the next write waits.
			got, err := f.read("a", "f")
			if exists && (err != nil || !bytes.Equal(got, old)) {
				t.Errorf("%d bytes: the old file is %q, %v", n, got, err)
			}
			if !exists && control.KindOf(err) != control.KindNotFound {
				t.Errorf("%d bytes: %q, %v", n, got, err)
			}
			eventually(t, "only the file", func() bool {
				names, err := f.client.List(t.Context(), "a", ".")
				return err == nil && len(names) == map[bool]int{false: 0, true: 1}[exists]
			})
			if exists {
				if err := f.client.Remove(t.Context(), "a", "f", false); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	c, err := f.client.Fsck(t.Context())
	if err != nil || !c.Clean {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestHiddenIsNotFound: each operation, by each way of naming another's file,
// answers as for what does not exist.
func TestHiddenIsNotFound(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	f.soul("b")
	if _, err := f.client.Write(t.Context(), "b", "secret", strings.NewReader("x"), 0); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, p := range []string{"/agents/b/workspace/secret", "../../b/workspace/secret", "/agents/a/../b/workspace/secret",
		"/agents/b/workspace/none", "/agents/nobody/workspace/secret"} {
		_, statErr := f.client.Stat(ctx, "a", p, false)
		_, listErr := f.client.List(ctx, "a", p)
		_, readErr := f.read("a", p)
		_, writeErr := f.client.Write(ctx, "a", p, strings.NewReader("y"), 0)
		_, bigErr := f.client.Write(ctx, "a", p, io.LimitReader(zeros{}, chunk+1), 0)
		_, mkdirErr := f.client.MakeDir(ctx, control.MakeDir{Agent: "a", Path: p})
		_, parentsErr := f.client.MakeDir(ctx, control.MakeDir{Agent: "a", Path: p, Parents: true})
		_, fromErr := f.client.Move(ctx, control.Move{Agent: "a", From: p, To: "x"})
		_, toErr := f.client.Move(ctx, control.Move{Agent: "a", From: "/agents/a/session.md", To: p})
		// Whatever is or is not there: nobody makes directories in /agents.
		if control.KindOf(parentsErr) != control.KindDenied {
			t.Errorf("mkdir -p %s: %v", p, parentsErr)
		}
		for op, err := range map[string]error{"stat": statErr, "list": listErr, "read": readErr, "write": writeErr, "big write": bigErr,
			"mkdir": mkdirErr, "move from": fromErr, "move to": toErr,
			"remove": f.client.Remove(ctx, "a", p, true)} {
			if control.KindOf(err) != control.KindNotFound {
				t.Errorf("%s %s: %v", op, p, err)
			}
		}
	}
	if got, err := f.read("b", "secret"); err != nil || string(got) != "x" {
		t.Errorf("after all that: %q, %v", got, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
