package crashtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// turnover counts what comes and goes in a store's directory while its daemon
// works: what rounds that are worth something have happen in them.
type turnover struct {
	memtables int   // begun
	logs      int   // files of the redo log begun
	segments  int   // removed
	returned  int64 // bytes of segments that stay, given back to the disk
	tables    int   // of the database, removed after a merge

	last map[string]int64 // the bytes on disk of each file
}

// watch counts until stop is called. What the daemon did at its start is not
// counted: it runs already.
func (o *turnover) watch(store string) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	o.last = nil
	o.look(store)
	go func() {
		defer close(ended)
		for {
			select {
			case <-quit:
				return
			case <-time.After(10 * time.Millisecond):
				o.look(store)
			}
		}
	}()
	return func() { close(quit); <-ended }
}

func (o *turnover) look(store string) {
	now := map[string]int64{}
	for _, dir := range []string{"badger", "log", "segments"} {
		entries, err := os.ReadDir(filepath.Join(store, dir))
		if err != nil {
			return // the next look may have all of it
		}
		for _, e := range entries {
			var st syscall.Stat_t
			if syscall.Lstat(filepath.Join(store, dir, e.Name()), &st) == nil {
				now[e.Name()] = st.Blocks * 512
			}
		}
	}
	for name := range now {
		if _, known := o.last[name]; !known && o.last != nil {
			o.memtables += count(name, ".mem")
			o.logs += count(name, ".log")
		}
	}
	for name, size := range o.last {
		left, stays := now[name]
		switch {
		case !stays:
			o.segments += count(name, ".seg")
			o.tables += count(name, ".sst")
		case strings.HasSuffix(name, ".seg"):
			o.returned += max(size-left, 0)
		}
	}
	o.last = now
}

func count(name, suffix string) int {
	if strings.HasSuffix(name, suffix) {
		return 1
	}
	return 0
}

func (o *turnover) String() string {
	return fmt.Sprintf("%d memtables, %d log files begun, %d tables merged, %d segments removed, %d MiB of others given back",
		o.memtables, o.logs, o.tables, o.segments, o.returned>>20)
}

// happened fails the test if many rounds went by without some of it.
func (o *turnover) happened(t *testing.T, rounds int) {
	t.Helper()
	t.Logf("in %d rounds: %v", rounds, o)
	if rounds >= 20 && (o.memtables == 0 || o.logs == 0 || o.segments+int(o.returned) == 0) {
		t.Errorf("the rounds were too idle: %v", o)
	}
}
