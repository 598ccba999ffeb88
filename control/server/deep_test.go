package server

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/control/archive"
	"github.com/warrenfs/warren/policy/view"
)

// workspaceOf opens the view of agent a, and finds its workspace in it.
func workspaceOf(t *testing.T, f *fixture) (*view.View, backend.Attr) {
	t.Helper()
	v, err := f.server.Space.Open(view.Options{Agent: "a", UID: backend.OwnerID, GID: backend.OwnerID})
	if err != nil {
		t.Fatal(err)
	}
	at, err := v.Resolve("/agents/a/workspace")
	if err != nil {
		t.Fatal(err)
	}
	return v, at
}

// TestPathsThatAreTooLong: a program may make directories deeper than any path can
// say. What stands there keeps nobody from exporting the rest, in an archive that
// can be read, nor from searching it.
func TestPathsThatAreTooLong(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	if _, err := f.client.Write(t.Context(), "a", "z", strings.NewReader("needle"), 0); err != nil {
		t.Fatal(err)
	}
	v, at := workspaceOf(t, f)
	for range 20 {
		var err error
		if at, err = v.Mkdir(nil, at.Node, strings.Repeat("d", 255), 0o755); err != nil {
			t.Fatal(err)
		}
		file, err := v.Mknod(nil, at.Node, "f", backend.TypeRegular, 0o644, 0)
		if err == nil {
			err = v.WriteFull(file.Node, []byte("needle"), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	got, err := f.client.Export(t.Context(), control.Export{Path: "/agents/a/workspace"}, &b)
	if err != nil || got.SkippedCount != 2 || !strings.Contains(got.Skipped[0].Reason, "more than 4096 bytes") {
		t.Errorf("%+v, %v", got, err)
	}
	if err := archive.Extract(t.Context(), archive.NewReader(&b, archive.Limits{}), t.TempDir(), false, nil); err != nil {
		t.Errorf("the archive cannot be read: %v", err)
	}
	found := 0
	sum, err := f.client.Search(t.Context(), control.Search{Agent: "a", Pattern: "needle"}, func(control.Match) error { found++; return nil })
	if err != nil || found != 16 || !sum.Truncated {
		t.Errorf("%d found, %+v, %v", found, sum, err)
	}
}

// TestManyLeftOut: however much an export leaves out, its answer can be read.
func TestManyLeftOut(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	v, at := workspaceOf(t, f)
	for i := range 200 {
		name := fmt.Sprintf("%d %s", i, strings.Repeat([]string{"s", "é", "\xff", "\U0001f41f"}[i%4], 50))
		if _, err := v.Mknod(nil, at.Node, name, backend.TypeSocket, 0o644, 0); err != nil {
			t.Fatal(err)
		}
	}
	got, err := f.client.Export(t.Context(), control.Export{Path: "/agents/a/workspace"}, io.Discard)
	if err != nil || got.SkippedCount != 200 || len(got.Skipped) < 5 || got.Entries != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}
