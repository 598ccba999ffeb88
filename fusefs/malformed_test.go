package fusefs

import (
	"bytes"
	"encoding/binary"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

const (
	secretText = "TOPSECRETTEXT"
	secretName = "hushhushname"
)

// forger is what stands between a soul's kernel and its mount: it may send any
// bytes as a request.
type forger struct {
	t      testing.TB
	s      *stack
	server *fuse.ProtocolServer
	out    []byte
	nodes  []uint64 // that it tries; some are not of its view
	panics int
}

// newForger mounts web's view, and hides a file of other's from it.
func newForger(t testing.TB) *forger {
	log.SetOutput(io.Discard) // go-fuse prints each request that it makes no sense of
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	s := newStack(t, memDriver)
	gaia, err := s.space.Open(view.Options{Agent: "gaia", UID: backend.OwnerID, GID: backend.OwnerID})
	must(t, err)
	const hidden = "/agents/other/workspace/" + secretName
	_, err = gaia.WriteFile(hidden, []byte(secretText), 0o644)
	must(t, err)
	_, err = gaia.WriteFile(workDir+"/mine", []byte("mine"), 0o644)
	must(t, err)
	m := s.mounted("web", Config{Agent: "web", Root: "/"})
	f := &forger{t: t, s: s, out: make([]byte, 1<<17), nodes: []uint64{0, 1, 2, 3, 1 << 63, ^uint64(0)}}
	for _, p := range []string{"/", "/agents", "/agents/web", workDir, workDir + "/mine", "/agents/other", "/agents/other/workspace", hidden, "/users/ada"} {
		a, err := gaia.Resolve(p)
		must(t, err)
		f.nodes = append(f.nodes, uint64(a.Node))
	}
	for _, name := range []string{ControlDir, ControlDir + "/whoami", ControlDir + "/denials"} {
		if fi, err := os.Stat(m.Dir() + "/" + name); err == nil {
			f.nodes = append(f.nodes, inode(fi))
		}
	}
	o := mountOptions(s.hub.log)
	o.PanicHandler = func(p any) fuse.Status {
		f.panics++
		t.Errorf("panic: %v", p)
		return fuse.EIO
	}
	f.server = fuse.NewProtocolServer(m.gate, o)
	init := make([]byte, 40+64)
	ne := binary.NativeEndian
	ne.PutUint32(init[0:], uint32(len(init)))
	ne.PutUint32(init[4:], 26) // INIT
	ne.PutUint32(init[40:], 7)
	ne.PutUint32(init[44:], 45)
	if n, st := f.server.HandleRequest([][]byte{init}, [][]byte{f.out}); n == 0 || !st.Ok() {
		t.Fatalf("INIT: %v", st)
	}
	t.Cleanup(func() {
		b, _, err := gaia.ReadFile(hidden, -1)
		if string(b) != secretText || err != nil {
			t.Errorf("what is hidden holds %q, %v", b, err)
		}
	})
	return f
}

// setlkw waits by its nature; nothing else may.
const setlkw = 33

// send hands in one request and looks at the answer.
func (f *forger) send(in []byte) {
	if len(in) >= 8 && binary.NativeEndian.Uint32(in[4:]) == setlkw {
		return
	}
	clear(f.out[:64])
	n, _ := f.server.HandleRequest([][]byte{in}, [][]byte{f.out})
	if n < 0 || n > len(f.out) {
		f.t.Fatalf("an answer of %d bytes", n)
	}
	out := f.out[:n]
	if n >= outHeaderSize && int(binary.NativeEndian.Uint32(out)) != n {
		f.t.Errorf("an answer of %d bytes says it has %d", n, binary.NativeEndian.Uint32(out))
	}
	if bytes.Contains(out, []byte(secretText)) || bytes.Contains(out, []byte(secretName)) {
		f.t.Errorf("%x is answered by what is hidden: %q", in, out)
	}
}

// forge makes a request that is one in most of its parts.
func (f *forger) forge(rnd *rand.Rand) []byte {
	opcodes := []uint32{1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 21, 22, 23, 24, 25, 27, 28, 29, 30, 31, 32, 34, 35, 36,
		38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52}
	names := []string{"mine", "x", "..", ".", "", "a/b", secretName[:4], ".env", "workspace", "agents", "other", ControlDir, "whoami", "user.warren.path",
		"security.capability", "system.posix_acl_access", string(make([]byte, 3)), "\xff\n", string(bytes.Repeat([]byte("n"), 300))}
	in := make([]byte, 40, 400)
	ne := binary.NativeEndian
	ne.PutUint32(in[4:], opcodes[rnd.IntN(len(opcodes))])
	ne.PutUint64(in[8:], rnd.Uint64())
	ne.PutUint64(in[16:], f.nodes[rnd.IntN(len(f.nodes))])
	ne.PutUint32(in[24:], uint32(rnd.IntN(3)*1000))
	for range rnd.IntN(12) { // arguments: numbers of all sizes, or nodes
		v := [...]uint64{0, 1, uint64(rnd.IntN(5000)), f.nodes[rnd.IntN(len(f.nodes))], rnd.Uint64(), 1 << 62}[rnd.IntN(6)]
		in = ne.AppendUint64(in, v)
	}
	for range rnd.IntN(3) {
		in = append(append(in, names[rnd.IntN(len(names))]...), 0)
	}
	switch rnd.IntN(8) {
	case 0: // cut
		in = in[:rnd.IntN(len(in))]
	case 1: // bits
		for range 1 + rnd.IntN(4) {
			in[rnd.IntN(len(in))] ^= 1 << rnd.IntN(8)
		}
	}
	if len(in) >= 4 {
		size := uint32(len(in))
		if rnd.IntN(16) == 0 {
			size = rnd.Uint32()
		}
		ne.PutUint32(in, size)
	}
	return in
}

// TestMalformedRequests: whatever comes as a request is answered or refused, tells
// nothing of what is hidden, and leaves a store without a fault.
func TestMalformedRequests(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 7))
	f := newForger(t)
	f.s.watch(3 * time.Minute)
	n := 200_000
	if testing.Short() {
		n = 10_000
	}
	for range n {
		f.send(f.forge(rnd))
		if t.Failed() {
			t.FailNow()
		}
	}
}

func FuzzRequests(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 2))
	forger := newForger(f)
	for range 200 {
		f.Add(forger.forge(rnd))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		forger.t = t
		forger.send(in)
	})
}

func inode(fi os.FileInfo) uint64 { return fi.Sys().(*syscall.Stat_t).Ino }
