package segment_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/backendtest"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/segment"
	"github.com/warrenfs/warren/backend/writeback"
)

// TestContentOverWriteback runs the suite on the disk, over the overlay and log
// that serve puts between.
func TestContentOverWriteback(t *testing.T) {
	backendtest.TestContent(t, func(t testing.TB) backendtest.ContentFixture {
		driver, log, dir := mem.New(mem.Options{}), t.TempDir(), t.TempDir()
		f := &fixture{t: t}
		open := func() backend.Store {
			c, err := segment.Open(segment.Options{Dir: dir, Reserve: -1})
			if err != nil {
				t.Fatal(err)
			}
			wb, err := writeback.Open(bg(t), writeback.Options{Driver: driver, Dir: log})
			if err != nil {
				t.Fatal(err)
			}
			s, err := c.Bind(bg(t), wb)
			if err != nil {
				t.Fatal(err)
			}
			f.c, f.s = c, s
			return s
		}
		store := open()
		fix := backendtest.Fixture{Store: store, Reopen: func(testing.TB) backend.Store {
			driver = driver.Reopen()
			return open()
		}}
		return backendtest.ContentFixture{Fixture: fix, Content: reopened{f}, Damage: func(t testing.TB, ref backend.Ref, change func([]byte) []byte) {
			damageFile(t, dir, ref, change)
		}}
	})
}

// damageFile is fixture.damage for a file of the operating system.
func damageFile(t testing.TB, dir string, ref backend.Ref, change func([]byte) []byte) {
	t.Helper()
	name := filepath.Join(dir, segment.FileName(ref.Segment))
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	at := int64(ref.Offset) + segment.DataStart(ref.Length)
	old := file[at : at+int64(ref.Length)]
	data, from := change(bytes.Clone(old)), at
	switch {
	case len(data) == 0:
		data, from = make([]byte, at-int64(ref.Offset)), int64(ref.Offset)
	case len(data) != len(old):
		data, from = segment.EncodeRecord(file, ref, data), int64(ref.Offset)
	}
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(data, from); err != nil {
		t.Fatal(err)
	}
}
