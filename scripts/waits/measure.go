package waits

import (
	"bytes"
	"os"
	"runtime"
	"sync"
	"time"
)

// What an idle machine takes at most for the measured work.
const (
	idleSpin = 40 * time.Millisecond  // spins turns on each of its processors
	idleDisk = 120 * time.Millisecond // writes times a block written and flushed
)

const (
	spins  = 40_000_000
	writes = 4
	block  = 256 << 10
)

// Factor measures how many times slower than an idle machine this one is now:
// its processors or the disk below os.TempDir, whichever is slower. It is at
// least 1 and at most [Most].
func Factor() float64 {
	slow := max(float64(spin())/float64(idleSpin), float64(flush())/float64(idleDisk))
	return min(max(slow, 1), Most)
}

// spin returns how long every processor takes for the same work at once.
func spin() time.Duration {
	begun := time.Now()
	var all sync.WaitGroup
	for range runtime.NumCPU() {
		all.Go(func() {
			n := uint64(1)
			for range spins {
				n = n*6364136223846793005 + 1442695040888963407
			}
			runtime.KeepAlive(n)
		})
	}
	all.Wait()
	return time.Since(begun)
}

// flush returns how long the disk takes for a few small writes, and [Most]
// times the idle time where it cannot be measured: a full disk is slow too.
func flush() time.Duration {
	begun := time.Now()
	f, err := os.CreateTemp("", "waits")
	if err != nil {
		return Most * idleDisk
	}
	defer os.Remove(f.Name())
	defer f.Close()
	for range writes {
		if _, err := f.Write(bytes.Repeat([]byte{1}, block)); err != nil {
			return Most * idleDisk
		}
		if err := f.Sync(); err != nil {
			return Most * idleDisk
		}
	}
	return time.Since(begun)
}
