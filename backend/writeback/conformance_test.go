package writeback_test

import (
	"context"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/backendtest"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/writeback"
)

func open(t testing.TB, o writeback.Options) *writeback.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
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
		o := writeback.Options{
			Driver: driver, Dir: t.TempDir(), SyncAge: time.Millisecond, CommitAge: 2 * time.Millisecond,
			CommitBytes: 1 << 16, MaxPending: 4 << 20, LogFileSize: 1 << 16,
		}
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
