package writeback_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/backendtest"
	"github.com/warrenfs/warren/backend/badger"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/writeback"
	"github.com/warrenfs/warren/scripts/waits"
)

func open(t testing.TB, o writeback.Options) *writeback.Store {
	t.Helper()
	ctx, cancel := waits.Context(context.Background(), time.Minute)
	defer cancel()
	s, err := writeback.Open(ctx, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return s
}

// TestConformanceMem runs the suite over the mem driver, with log files and
// batches so small that all of writeback takes part.
func TestConformanceMem(t *testing.T) {
	backendtest.TestStore(t, func(t testing.TB) backendtest.Fixture {
		driver := mem.New(mem.Options{})
		o := busy(driver, t.TempDir())
		return backendtest.Fixture{
			Store: open(t, o),
			Reopen: func(t testing.TB) backend.Store {
				driver = driver.Reopen()
				o.Driver = driver
				return open(t, o)
			},
		}
	})
}

// TestConformanceCrash runs the suite over a disk that can crash, by kill and
// by power cut.
func TestConformanceCrash(t *testing.T) {
	backendtest.TestStore(t, func(t testing.TB) backendtest.Fixture {
		driver, d := mem.New(mem.Options{}), newDisk()
		o := busy(driver, "")
		o.FS = d
		r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
		return backendtest.Fixture{
			Store: open(t, o),
			Reopen: func(t testing.TB) backend.Store {
				driver = driver.Reopen()
				o.Driver = driver
				return open(t, o)
			},
			Crash: func(t testing.TB) backend.Store {
				after := busy(nil, "")
				d.Still(func() { // a driver of a later moment may have a tick that the log's mark lacks
					after.FS = d.PowerCut(r, r.Float64())
					after.Driver = driver.CrashRand(r)
				})
				return open(t, after)
			},
		}
	})
}

// TestConformanceBadger runs the suite over Badger with the usual options.
func TestConformanceBadger(t *testing.T) {
	backendtest.TestStore(t, func(t testing.TB) backendtest.Fixture {
		dir, log := t.TempDir(), t.TempDir()
		reopen := func(t testing.TB) backend.Store {
			return open(t, writeback.Options{Driver: openBadger(t, dir), Dir: log})
		}
		return backendtest.Fixture{Store: reopen(t), Reopen: reopen}
	})
}

func openBadger(t testing.TB, dir string) *badger.Store {
	t.Helper()
	driver, err := openBadgerDir(dir)
	if err != nil {
		t.Fatalf("badger: %v", err)
	}
	return driver
}

func openBadgerDir(dir string) (*badger.Store, error) {
	return badger.Open(context.Background(), badger.Options{Dir: dir})
}

// busy gives options with which everything happens all the time.
func busy(driver backend.Store, dir string) writeback.Options {
	return writeback.Options{
		Driver: driver, Dir: dir, SyncAge: time.Millisecond, CommitAge: 2 * time.Millisecond,
		CommitBytes: 1 << 16, MaxPending: 4 << 20, LogFileSize: 1 << 16,
	}
}
