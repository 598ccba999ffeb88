package stack

import (
	"fmt"
	"os"
	"testing"
)

// Shared is one Stack for all tests of a package. Its zero value is ready.
type Shared struct {
	s   *Stack
	err error // why it could not be made
}

// Main runs a package's tests, takes the Stack down and gives the exit status.
// TestMain calls it.
func (sh *Shared) Main(m *testing.M) int {
	status := m.Run()
	if sh.s == nil {
		return status
	}
	if err := sh.s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "taking the daemon down:", err)
		return max(status, 1)
	}
	return status
}

// Running gives the Stack, whose daemon runs; it is made if this is the first
// call.
func (sh *Shared) Running(t testing.TB) *Stack {
	t.Helper()
	if sh.s == nil && sh.err == nil {
		sh.s, sh.err = New()
	}
	if sh.err != nil {
		t.Fatal(sh.err)
	}
	if !sh.s.Alive() {
		t.Fatal("the daemon is gone since an earlier test; its log says:\n" + sh.s.Log())
	}
	return sh.s
}

// Short tells whether long loops should be short: with -short and under the
// race detector.
func Short() bool { return testing.Short() || raceDetector }

// Race tells whether the daemons under test have the race detector in them, so
// that what they take of memory is mostly the detector's.
func Race() bool { return raceDetector }
