package badger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/badger"
)

// The store of the damage tests: history(n) is its state after Update n, which
// changes step(n). It has compacted tables, young tables and a log.
const (
	historyUpdates  = 120
	historySessions = 7
)

func step(n int) map[string]string {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	changes := map[string]string{"n": fmt.Sprint(n)}
	for range 8 {
		key := fmt.Sprintf("key%04d", r.IntN(400))
		value := make([]byte, r.IntN(300))
		if r.IntN(10) == 0 {
			value = make([]byte, r.IntN(20_000))
		}
		for i := range value {
			value[i] = "abcdefghijklmnop"[r.IntN(16)]
		}
		changes[key] = string(value)
		if r.IntN(4) == 0 {
			changes[key] = deleted
		}
	}
	return changes
}

const deleted = "\x00deleted"

// apply makes the changes of a step.
func apply(tx backend.Tx, changes map[string]string) error {
	for k, v := range changes {
		if v == deleted {
			if err := tx.Delete([]byte(k)); err != nil {
				return err
			}
		} else if err := tx.Set([]byte(k), []byte(v)); err != nil {
			return err
		}
	}
	return nil
}

func history(n int) map[string]string {
	state := map[string]string{}
	for i := 1; i <= n; i++ {
		for k, v := range step(i) {
			state[k] = v
			if v == deleted {
				delete(state, k)
			}
		}
	}
	return state
}

// makeHistory makes the store and leaves it as kill -9 would.
func makeHistory(t *testing.T) string {
	t.Helper()
	dir, clone := t.TempDir(), t.TempDir()
	n := 0
	for session := 1; session <= historySessions; session++ {
		s := open(t, dir)
		for ; n < historyUpdates*session/historySessions; n++ {
			if _, err := s.Update(ctx, func(tx backend.Tx) error { return apply(tx, step(n+1)) }); err != nil {
				t.Fatal(err)
			}
		}
		if session == historySessions {
			copyDir(t, dir, clone)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return clone
}

// TestInChild is not a test of its own: the damage tests run it in a process of
// its own, since damage must not end the process. It opens the store in
// CHILD_DIR and prints one line: what went wrong, or "lsn N" when everything
// read is right.
func TestInChild(t *testing.T) {
	dir := os.Getenv("CHILD_DIR")
	if dir == "" {
		t.Skip("runs in a child only")
	}
	fmt.Println("CHILD", inChild(dir))
}

func inChild(dir string) string {
	o := badger.Options{Dir: dir}
	if os.Getenv("CHILD_BALLAST") != "" {
		o.Ballast = testBallast
	}
	s, err := badger.Open(ctx, o)
	if err != nil {
		return fmt.Sprintf("open %d %v", backend.KindOf(err), err)
	}
	lsn := int(s.LastLSN())
	want := history(lsn)
	if os.Getenv("CHILD_BULK") != "" && lsn > 0 {
		want["zbulk"] = bulk(lsn)
	}
	if err := s.View(ctx, func(tx backend.Tx) error { return isHistory(tx, want) }); err != nil {
		return fmt.Sprintf("read %d %v", backend.KindOf(err), err)
	}
	if os.Getenv("CHILD_READS") != "" {
		return fmt.Sprintf("lsn %d", lsn)
	}
	// The store can be written to, and what is written is found again.
	if _, err := s.Update(ctx, func(tx backend.Tx) error { return tx.Set([]byte("z"), nil) }); err != nil {
		return fmt.Sprintf("update %d %v", backend.KindOf(err), err)
	}
	if err := s.Close(); err != nil {
		return fmt.Sprintf("close %d %v", backend.KindOf(err), err)
	}
	return fmt.Sprintf("lsn %d", lsn)
}

var errWrong = errors.New("WRONG")

// isHistory reads everything in tx both ways. An answer that is not want's is
// errWrong, so that it differs from damage that was noticed.
func isHistory(tx backend.Tx, want map[string]string) error {
	for i := range 400 {
		key := fmt.Sprintf("key%04d", i)
		v, err := tx.Get([]byte(key))
		w, there := want[key]
		switch {
		case err != nil && backend.KindOf(err) != backend.NotFound:
			return err
		case (err == nil) != there || string(v) != w:
			return fmt.Errorf("%w: Get(%s): %d bytes, %v", errWrong, key, len(v), err)
		}
	}
	n := 0
	if err := tx.Scan(nil, nil, func(k, v []byte) error {
		n++
		if w, there := want[string(k)]; !there || w != string(v) {
			return fmt.Errorf("%w: Scan gives %s", errWrong, k)
		}
		return nil
	}); err != nil {
		return err
	}
	if n != len(want) {
		return fmt.Errorf("%w: Scan gives %d keys, want %d", errWrong, n, len(want))
	}
	return nil
}

// openInChild gives the line that a child prints for dir.
func openInChild(t *testing.T, dir string, env ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestInChild$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), append(env, "CHILD_DIR="+dir)...)
	out, err := cmd.CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, "CHILD "); ok && err == nil {
			return strings.TrimSpace(rest)
		}
	}
	t.Errorf("the process died (%v):\n%.3000s", err, out)
	return "died"
}

// scale multiplies the number of random damages: DAMAGE_SCALE in the environment.
func scale(t *testing.T) int {
	t.Helper()
	n := 1
	if s := os.Getenv("DAMAGE_SCALE"); s != "" {
		if _, err := fmt.Sscan(s, &n); err != nil {
			t.Fatalf("DAMAGE_SCALE: %v", err)
		}
	}
	return n
}

// TestDamage damages each file of a store in many ways. The store then opens
// with exactly what was in it, or says that it is damaged; it never gives
// anything else and never takes the process down.
func TestDamage(t *testing.T) {
	whole := makeHistory(t)
	if got := openInChild(t, cloneDir(t, whole)); got != fmt.Sprintf("lsn %d", historyUpdates) {
		t.Fatalf("the store without damage: %s", got)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	entries, err := os.ReadDir(whole)
	if err != nil {
		t.Fatal(err)
	}
	var children sync.WaitGroup
	slots := make(chan struct{}, 6) // they wait for the disk most of the time
	for _, e := range entries {
		for _, d := range damages {
			times := d.times * scale(t)
			if testing.Short() {
				times = min(times, 1)
			}
			for range times {
				dir := cloneDir(t, whole)
				what := d.do(t, r, filepath.Join(dir, e.Name()))
				slots <- struct{}{}
				children.Go(func() {
					checkOutcome(t, e.Name()+" "+what, openInChild(t, dir))
					os.RemoveAll(dir)
					<-slots
				})
			}
		}
	}
	children.Wait()
}

// checkOutcome judges a child's line: everything acknowledged is there, or the
// damage was noticed.
func checkOutcome(t *testing.T, what, got string) {
	t.Helper()
	lost := strings.HasPrefix(what, "durable ") // the witness: nothing else is lost with it
	switch fields := strings.Fields(got); {
	case fields[0] == "died":
		t.Errorf("%s: died", what)
	case strings.Contains(got, errWrong.Error()):
		t.Errorf("%s: a wrong answer: %s", what, got)
	case fields[0] == "lsn":
		if got != fmt.Sprintf("lsn %d", historyUpdates) {
			t.Errorf("%s: opened as if nothing were: %s", what, got)
		}
	case lost:
		t.Errorf("%s: %s", what, got)
	case fields[1] == fmt.Sprint(int(backend.Invalid)) && strings.HasPrefix(what, "MANIFEST "):
		// its first bytes say whose store it is
	case fields[1] != fmt.Sprint(int(backend.IO)):
		t.Errorf("%s: want kind IO, got %s", what, got)
	}
}

func cloneDir(t *testing.T, dir string) string {
	t.Helper()
	clone, err := os.MkdirTemp(t.TempDir(), "store")
	if err != nil {
		t.Fatal(err)
	}
	copyDir(t, dir, clone)
	return clone
}

var damages = []struct {
	times int
	do    func(t *testing.T, r *rand.Rand, name string) string
}{
	{3, func(t *testing.T, r *rand.Rand, name string) string { // one bit of what is not zero
		data := slurp(t, name)
		bit := r.IntN(used(data)*8 + 1)
		if bit/8 < len(data) {
			data[bit/8] ^= 1 << (bit % 8)
		}
		dump(t, name, data)
		return fmt.Sprintf("bit %d flipped", bit)
	}},
	{2, func(t *testing.T, r *rand.Rand, name string) string {
		data := slurp(t, name)
		n := r.IntN(used(data) + 1)
		dump(t, name, data[:n])
		return fmt.Sprintf("cut to %d of %d bytes", n, len(data))
	}},
	{2, func(t *testing.T, r *rand.Rand, name string) string {
		data := slurp(t, name)
		off := r.IntN(used(data) + 1)
		clear(data[off:min(len(data), off+512)])
		dump(t, name, data)
		return fmt.Sprintf("512 bytes at %d zeroed", off)
	}},
	{1, func(t *testing.T, r *rand.Rand, name string) string {
		data := slurp(t, name)
		off := r.IntN(used(data) + 1)
		for i := off; i < min(len(data), off+64); i++ {
			data[i] = byte(r.Uint32())
		}
		dump(t, name, data)
		return fmt.Sprintf("64 bytes at %d overwritten", off)
	}},
	{1, func(t *testing.T, r *rand.Rand, name string) string {
		dump(t, name, nil)
		return "emptied"
	}},
	{1, func(t *testing.T, _ *rand.Rand, name string) string {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		return "removed"
	}},
}

// used is the length of data without the zeros at its end.
func used(data []byte) int {
	n := len(data)
	for n > 0 && data[n-1] == 0 {
		n--
	}
	return n
}

func slurp(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func dump(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
