package writeback_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/writeback"
)

// killEnv names the directory of the store for a child of TestKill.
const killEnv = "WRITEBACK_TEST_KILL_DIR"

const killWorkers = 3

func TestMain(m *testing.M) {
	if dir := os.Getenv(killEnv); dir != "" {
		killChild(dir)
	}
	os.Exit(m.Run())
}

func openKill(dir string) (*writeback.Store, error) {
	driver, err := openBadgerDir(filepath.Join(dir, "db"))
	if err != nil {
		return nil, err
	}
	s, err := writeback.Open(context.Background(), writeback.Options{
		Driver: driver, Dir: filepath.Join(dir, "log"), SyncAge: 20 * time.Millisecond,
		CommitAge: 30 * time.Millisecond, CommitBytes: 64 << 10, LogFileSize: 256 << 10,
	})
	if err != nil {
		_ = driver.Close()
	}
	return s, err
}

// killChild counts and says how far it is, until it is killed.
func killChild(dir string) {
	s, err := openKill(dir)
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	var mu sync.Mutex
	for w := range killWorkers {
		go func() {
			for {
				n, lsn, err := count(context.Background(), s, fmt.Sprint("worker", w))
				if err == nil && n%97 == 0 {
					err = s.WaitDurable(context.Background(), lsn)
				}
				mu.Lock()
				if err != nil {
					fmt.Println("error", err)
					os.Exit(1)
				}
				fmt.Println(w, n, lsn) // unbuffered: before the next Update
				mu.Unlock()
			}
		}()
	}
	select {} // the parent kills it
}

// TestKill kills a process with kill -9 again and again: everything it said is
// there, and nothing that it did not do.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	rounds := 8
	if testing.Short() {
		rounds = 2
	}
	var said [killWorkers]uint64
	var last backend.LSN
	for round := range rounds {
		pause := time.Duration(50+rand.IntN(250)) * time.Millisecond
		runAndKill(t, dir, pause, &said, &last)
		s, err := openKill(dir)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if got := s.LastLSN(); got < last || got > last+killWorkers {
			t.Errorf("round %d: LSN %d, the last that was said is %d", round, got, last)
		}
		for w := range killWorkers {
			if n := checkWorker(t, s, w); n < said[w] || n > said[w]+1 {
				t.Errorf("round %d: worker %d is at %d and said %d", round, w, n, said[w])
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d updates", last)
}

func runAndKill(t *testing.T, dir string, pause time.Duration, said *[killWorkers]uint64, last *backend.LSN) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var timer *time.Timer
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if timer == nil { // it is up
			timer = time.AfterFunc(pause, func() { _ = cmd.Process.Kill() })
		}
		var w, n, lsn uint64
		if _, err := fmt.Sscan(lines.Text(), &w, &n, &lsn); err != nil {
			t.Errorf("child: %s", lines.Text())
			break
		}
		said[w] = max(said[w], n)
		*last = max(*last, backend.LSN(lsn))
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
}

// checkWorker gives a worker's count, after checking that it has a key for each
// number up to it and none beyond.
func checkWorker(t *testing.T, s *writeback.Store, w int) (n uint64) {
	t.Helper()
	err := s.View(t.Context(), func(tx backend.Tx) (err error) {
		name := fmt.Sprint("worker", w)
		if n, err = counter(tx, name); err != nil {
			return err
		}
		found := uint64(0)
		prefix := []byte(name + "/")
		if err := tx.ScanKeys(prefix, backend.PrefixEnd(prefix), func([]byte) error { found++; return nil }); err != nil {
			return err
		}
		if found != n {
			return fmt.Errorf("%s counts to %d and has %d keys", name, n, found)
		}
		for i := uint64(1); i <= n; i++ {
			if _, err := tx.Get(fmt.Appendf(nil, "%s/%d", name, i)); err != nil {
				return fmt.Errorf("%s/%d of %d: %w", name, i, n, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return n
}
