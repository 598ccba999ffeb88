package fulltest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestFillToTheLast fills a store again and again while it makes room of its
// own, until next to nothing more fits, and kills it there.
func TestFillToTheLast(t *testing.T) { drivers(t, fillToTheLast) }

func fillToTheLast(t *testing.T) {
	w := newWorld(t, "300M")
	room := w.free()
	var files []string
	for i := range 20 {
		if err := os.Mkdir(filepath.Join(w.work, fmt.Sprint("burst", i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for burst, added := 0, int64(1<<30); added >= 1<<20 && burst < 20; burst++ {
		got := w.fill(filepath.Join(w.work, fmt.Sprint("burst", burst)))
		added = size(got)
		files = append(files, got...)
		t.Logf("burst %d: %d MiB", burst, added>>20)
		time.Sleep(time.Second)
	}
	t.Logf("%d MiB in all", size(files)>>20)
	if os.Getenv("STACK_CONTENT") == "segment" { // Badger merges tables meanwhile, and there is room again
		w.says("full")
	}
	if err := w.s.Kill(w.work); err != nil {
		t.Fatal(err)
	}
	t.Logf("free %d after kill: %+v", w.free(), w.status().Notes)
	w.readable(files)
	w.clean()
	bursts, err := filepath.Glob(filepath.Join(w.work, "burst*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range bursts {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove in a full store: %v", err)
		}
	}
	w.comesBack(room * 9 / 10)
	w.clean()
}
