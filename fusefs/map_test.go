package fusefs

import (
	"bytes"
	"os"
	"testing"
	"time"
)

// TestMapOfWhatIsCutOff: a page that was stored to through a map, and had not been
// written back when another mount cut the file off before it, makes the file no longer
// than it was made, and brings nothing back when that grows again.
func TestMapOfWhatIsCutOff(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a program")
	}
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	one := s.mount("one", Config{})
	two := s.mount("two", Config{Agent: "web"})
	must(t, os.WriteFile(one+"/f", make([]byte, 4096), 0o644))
	h := s.holder(one + "/f")
	for _, size := range []int64{2, 0} {
		f, err := os.OpenFile(one+"/f", os.O_WRONLY, 0)
		must(t, err)
		_, err = f.WriteAt(bytes.Repeat([]byte("a"), 4096), 0)
		must(t, err)
		must(t, f.Close())
		if out := h.do("store 100 Z"); out != "ok" {
			t.Fatalf("store: %q", out)
		}
		must(t, os.Truncate(two+"/f", size))
		for what, dir := range map[string]string{"the one that cut it off": two, "the one with the map": one} {
			if fi, err := os.Stat(dir + "/f"); err != nil || fi.Size() != size {
				t.Errorf("cut to %d: in %s it has %d, %v", size, what, fi.Size(), err)
			}
		}
		must(t, os.Truncate(two+"/f", 4096))
		want := append(bytes.Repeat([]byte("a"), int(size)), make([]byte, 4096-size)...)
		for what, dir := range map[string]string{"the one that cut it off": two, "the one with the map": one} {
			if got, err := os.ReadFile(dir + "/f"); err != nil || !bytes.Equal(got, want) {
				t.Errorf("cut to %d and grown: in %s it is %q…, %v", size, what, got[:min(8, len(got))], err)
			}
		}
		if out := h.do("load 100"); out != "\x00" {
			t.Errorf("the map has %q", out)
		}
	}
}
