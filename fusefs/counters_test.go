package fusefs

import (
	"os"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/warrenfs/warren/backend/latency"
	"github.com/warrenfs/warren/scripts/waits"
)

// slow is a file system whose STATFS takes a while.
type slow struct {
	fuse.RawFileSystem
	takes time.Duration
}

func (s slow) StatFs(<-chan struct{}, *fuse.InHeader, *fuse.StatfsOut) fuse.Status {
	time.Sleep(s.takes)
	return fuse.OK
}

// TestGateMeasures: a request counts with the time it took, under its opcode,
// without allocation; one that is refused does not.
func TestGateMeasures(t *testing.T) {
	c := new(counters)
	g := newGate(slow{fuse.NewDefaultRawFileSystem(), 20 * time.Millisecond}, c)
	g.StatFs(nil, &fuse.InHeader{}, &fuse.StatfsOut{})
	s := c.took[opStatfs].Snapshot()
	if s.Count() != 1 || s.Sum < 20*time.Millisecond || s.Quantile(1) < 20*time.Millisecond {
		t.Errorf("%d requests that took %v", s.Count(), s.Sum)
	}
	quick := newGate(fuse.NewDefaultRawFileSystem(), c)
	in, out := &fuse.GetAttrIn{}, &fuse.AttrOut{}
	if n := testing.AllocsPerRun(200, func() { quick.GetAttr(nil, in, out) }); n != 0 {
		t.Errorf("%v allocations for a request", n)
	}
	before := c.took[opGetattr].Snapshot()
	if before.Count() < 200 {
		t.Errorf("%d GETATTR counted", before.Count())
	}
	quick.shut()
	quick.GetAttr(nil, in, out)
	if after := c.took[opGetattr].Snapshot(); after != before {
		t.Error("a refused request was counted")
	}
}

// TestTotalsOutliveMounts: what a mount counted stays counted when it is gone,
// once.
func TestTotalsOutliveMounts(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	a, b := s.mounted("a", Config{}), s.mounted("b", Config{})
	must(t, os.WriteFile(a.Dir()+"/f", []byte("x"), 0o644))
	if _, err := os.ReadFile(b.Dir() + "/f"); err != nil {
		t.Fatal(err)
	}
	waited := s.hub.Totals().Waits
	must(t, os.Rename(a.Dir()+"/f", a.Dir()+"/g")) // b has seen it
	for end := waits.In(time.Minute); s.hub.Totals().Latency["RENAME"] == (latency.Snapshot{}); time.Sleep(time.Millisecond) {
		if end.Passed() { // it is noted after the reply
			t.Fatal("no RENAME is counted")
		}
	}
	up := s.hub.Totals()
	if up.Waits.Count() <= waited.Count() || up.Notices["INVAL_ENTRY"]+up.Notices["INC_EPOCH"] == 0 {
		t.Errorf("b was told, and that counts: %d waits after %d, notices %v", up.Waits.Count(), waited.Count(), up.Notices)
	}
	if up.Mounts != 2 || up.Nodes < 2 || up.Requests["RENAME"] != 1 || up.Requests["CREATE"] != 1 {
		t.Errorf("%d mounts, %d nodes, requests %v", up.Mounts, up.Nodes, up.Requests)
	}
	must(t, a.Unmount(t.Context(), false))
	must(t, b.Unmount(t.Context(), false))
	down := s.hub.Totals()
	if down.Mounts != 0 || down.Nodes != 0 || down.Handles != 0 {
		t.Errorf("without mounts there are %d mounts, %d nodes, %d handles", down.Mounts, down.Nodes, down.Handles)
	}
	if down.Requests["RENAME"] != 1 || down.Requests["CREATE"] != 1 {
		t.Errorf("after the mounts: %v", down.Requests)
	}
	for op, n := range up.Requests {
		if down.Requests[op] < n {
			t.Errorf("%s: %d after %d", op, down.Requests[op], n)
		}
	}
	for op, s := range up.Latency {
		if d := down.Latency[op]; d.Count() < s.Count() || d.Sum < s.Sum {
			t.Errorf("%s: %+v after %+v", op, d, s)
		}
	}
}
