package badger_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestHugeLengths damages the lengths in each file of a store. No length is
// believed before it is bounded: opening takes little more memory than it takes
// without damage, and answers right or finds the damage.
func TestHugeLengths(t *testing.T) {
	whole := makeHistory(t)
	_, usual := memoryInChild(t, cloneDir(t, whole))
	limit := 2*usual + 128<<20
	entries, err := os.ReadDir(whole)
	if err != nil {
		t.Fatal(err)
	}
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x0f} // in every encoding that Badger has
	type damage struct {
		what string
		do   func(b []byte) []byte
	}
	damages := []damage{
		{"9 bytes appended", func(b []byte) []byte { return append(b, bytes.Repeat([]byte{0xf0}, 9)...) }},
		{"1 MiB appended", func(b []byte) []byte { return append(b, bytes.Repeat([]byte{0xff}, 1<<20)...) }},
		{"cut in half", func(b []byte) []byte { return b[:used(b)/2] }},
	}
	for _, at := range []int{0, 4, 8, 16, 20, 22, 23, 24, -4, -5, -8, -12, -16, -20} {
		damages = append(damages, damage{"a huge length", func(b []byte) []byte {
			from := at
			if at < 0 {
				from += len(b)
			}
			if from >= 0 && from < len(b) {
				copy(b[from:], huge)
			}
			return b
		}})
	}
	for _, e := range entries {
		for _, d := range damages {
			dir := cloneDir(t, whole)
			name := filepath.Join(dir, e.Name())
			dump(t, name, d.do(slurp(t, name)))
			got, memory := memoryInChild(t, dir)
			if strings.HasPrefix(got, "died") || strings.Contains(got, errWrong.Error()) {
				t.Errorf("%s, %s: %s", e.Name(), d.what, got)
			}
			if memory > limit {
				t.Errorf("%s, %s: %d MiB to open it, %d without damage (%s)", e.Name(), d.what, memory>>20, usual>>20, got)
			}
			os.RemoveAll(dir)
		}
	}
}

// memoryInChild runs openInChild, and also returns the child's peak memory, in bytes.
func memoryInChild(t *testing.T, dir string) (string, int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestInChild$", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), "CHILD_DIR="+dir)
	out, err := cmd.CombinedOutput()
	memory := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, "CHILD "); ok && err == nil {
			return strings.TrimSpace(rest), memory
		}
	}
	return "died: " + string(out), memory
}
