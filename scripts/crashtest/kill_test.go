package crashtest

import (
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/stack"
)

var rounds = flag.Int("rounds", 0, "how many crashes each test makes; 0: a few")

func TestMain(m *testing.M) {
	flag.Parse()
	syscall.Umask(0)
	os.Exit(m.Run())
}

const workspace = "agents/web_designer/workspace"

// crashes is how many crashes to make.
func crashes(usual int) int {
	switch {
	case *rounds > 0:
		return *rounds
	case stack.Short():
		return max(2, usual/4)
	}
	return usual
}

func seed(t *testing.T) *rand.Rand {
	n := uint64(time.Now().UnixNano())
	t.Log("seed", n)
	return rand.New(rand.NewPCG(n, 0))
}

// work runs the writers for a time, then ends the daemon by crash, and returns
// when the writers have noticed.
func work(t *testing.T, ws []*writer, d time.Duration, crash func() error) {
	t.Helper()
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for _, w := range ws {
		wg.Go(func() { w.run(stop) })
	}
	time.Sleep(d)
	for _, w := range ws { // an error before the crash is one too many; read after wg.Wait
		defer func() {
			if w.err != nil && !w.excused(w.err) {
				t.Errorf("%s: %s: %v", w.root, w.ops[len(w.ops)-1].what, w.err)
			}
		}()
	}
	err := crash()
	close(stop)
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
}

// excused tells whether an error is one that the daemon's end, or what is done to its
// disk, explains.
func (w *writer) excused(err error) bool {
	if w.sure != nil {
		return w.sure(err)
	}
	return gone(err)
}

// gone tells whether an error is what a call gets whose daemon has died.
func gone(err error) bool {
	for _, e := range []syscall.Errno{syscall.ENOTCONN, syscall.ECONNABORTED, syscall.EIO} {
		if strings.Contains(err.Error(), e.Error()) {
			return true
		}
	}
	return false
}

func TestKillOfASingleWriter(t *testing.T) {
	s, r := stack.ForTest(t, stack.Options{}), seed(t)
	root := filepath.Join(s.Soul, workspace, "alone")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	w := newWriter(root, r.Uint64())
	for range crashes(12) {
		work(t, []*writer{w}, time.Duration(r.IntN(400))*time.Millisecond, func() error { return s.Signal(syscall.SIGKILL) })
		if err := s.Restart(root); err != nil {
			t.Fatal(err)
		}
		w.check(t, w.done)
		s.Fsck(t)
		if t.Failed() {
			return
		}
	}
}

func TestKillOfManyWritersSQLiteAndGit(t *testing.T) {
	s, r := stack.ForTest(t, stack.Options{}), seed(t)
	soul, gaia := filepath.Join(s.Soul, workspace), filepath.Join(s.Gaia, workspace)
	var ws []*writer
	for _, root := range []string{filepath.Join(soul, "one"), filepath.Join(gaia, "two"), filepath.Join(soul, "three")} {
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		ws = append(ws, newWriter(root, r.Uint64()))
	}
	big := filepath.Join(soul, "churn")
	if err := os.Mkdir(big, 0o755); err != nil {
		t.Fatal(err)
	}
	tools := startTools(t, s, soul)
	went, rounds := &turnover{}, crashes(8)
	for range rounds {
		unwatch := went.watch(filepath.Join(s.Dir, "store"))
		tools.run(t)
		stop, ended := make(chan struct{}), make(chan struct{})
		go func() {
			churn(big, stop)
			close(ended)
		}()
		work(t, ws, time.Duration(200+r.IntN(1000))*time.Millisecond, func() error {
			unwatch()
			return s.Signal(syscall.SIGKILL)
		})
		close(stop)
		<-ended
		tools.ended(t)
		if err := s.Restart(soul, gaia); err != nil {
			t.Fatal(err)
		}
		for _, w := range ws {
			w.check(t, w.done)
		}
		tools.check(t)
		s.Fsck(t)
		if t.Failed() {
			return
		}
	}
	went.happened(t, rounds)
}
