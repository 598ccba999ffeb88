package server

import (
	"context"
	"errors"
	"testing"

	"github.com/warrenfs/warren/control"
)

// TestFsckProgress: who asks for it is told how far the check has come, and then
// what it found; and a check that fails is an error.
func TestFsckProgress(t *testing.T) {
	f := newFixture(t)
	var told []control.Progress
	r, err := f.client.FsckProgress(t.Context(), func(p control.Progress) { told = append(told, p) })
	if err != nil || !r.Clean || len(told) == 0 {
		t.Fatalf("%+v, %v, told %v", r, err, told)
	}
	if p := told[0]; p.Done == 0 || p.Total < p.Done {
		t.Errorf("told %+v", p)
	}
	check := f.server.Daemon.Check
	f.server.Daemon.Check = func(ctx context.Context, progress func(done, total uint64), report func(control.Problem)) error {
		report(control.Problem{Text: "broken"})
		return check(ctx, progress, report)
	}
	if r, err := f.client.FsckProgress(t.Context(), func(control.Progress) {}); err != nil || r.Clean || r.Count != 1 {
		t.Errorf("of a broken store: %+v, %v", r, err)
	}
	f.server.Daemon.Check = func(context.Context, func(done, total uint64), func(control.Problem)) error {
		return errors.New("the disk is gone")
	}
	if r, err := f.client.FsckProgress(t.Context(), func(control.Progress) {}); err == nil {
		t.Errorf("a check that failed says %+v", r)
	}
}
