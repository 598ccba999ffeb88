package mountinfo

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	const text = `36 35 98:0 /mnt1 /mnt\0402\134x rw,noatime master:1 - ext4 /dev/root rw,errors=continue
nonsense
40 36 0:52 / /w rw,nosuid shared:7 - fuse.warren warren:x rw,user_id=7,group_id=8`
	got, err := Parse(strings.NewReader(text))
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("a line that is none: %v", err)
	}
	want := []Entry{{ID: 36, Parent: 35, Root: "/mnt1", Dir: `/mnt 2\x`, Type: "ext4"}, {ID: 40, Parent: 36, Root: "/", Dir: "/w", Type: "fuse.warren", Minor: 52, UID: 7, GID: 8}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestAt: a path leads to the uppermost mount, whatever the order of the table.
func TestAt(t *testing.T) {
	table := []Entry{
		{ID: 5, Parent: 4, Dir: "/a/m", Type: "over"}, // made before what it was moved on
		{ID: 1, Parent: 0, Dir: "/", Type: "root"},
		{ID: 2, Parent: 1, Dir: "/b/m", Type: "hidden"},
		{ID: 3, Parent: 1, Dir: "/b", Type: "cover"},
		{ID: 4, Parent: 1, Dir: "/a/m", Type: "under"},
		{ID: 6, Parent: 5, Dir: "/a/m/sub", Type: "inside"},
	}
	for path, want := range map[string]string{"/": "root", "/a": "root", "/a/m": "over", "/a/m/sub": "inside", "/a/m/sub/x": "inside",
		"/a/mm": "root", "/b": "cover", "/b/m": "cover"} {
		if got, ok := At(table, path); !ok || got.Type != want {
			t.Errorf("%s leads to %+v, %v; want %s", path, got, ok, want)
		}
	}
	if got, ok := At([]Entry{{ID: 7, Parent: 7, Dir: "/", Type: "own"}}, "/x"); !ok || got.Type != "own" {
		t.Errorf("a root that is its own parent: %+v, %v", got, ok)
	}
	if got, ok := At([]Entry{{ID: 7, Parent: 6, Dir: "/m"}}, "/x"); ok {
		t.Errorf("in a root that is no mount: %+v", got)
	}
	if got, ok := At([]Entry{{ID: 7, Parent: 6, Dir: "/m", Type: "m"}}, "/m/x"); !ok || got.Type != "m" {
		t.Errorf("in a root that is no mount: %+v, %v", got, ok)
	}
	all, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := At(all, "/proc/self"); !ok || got.Type != "proc" {
		t.Errorf("/proc/self is on %+v, %v", got, ok)
	}
}

// TestRead finds what every Linux process has.
func TestRead(t *testing.T) {
	all, err := Read()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Dir == "/proc" && e.Type == "proc" {
			return
		}
	}
	t.Errorf("no /proc among %+v", all)
}

func FuzzParse(f *testing.F) {
	f.Add(`36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`)
	f.Add(`1 2 3:4 / /a\134b rw - fuse.warren warren:x rw`)
	f.Add("")
	f.Add(" - ")
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := Parse(strings.NewReader(text)); err == nil && len(got) > strings.Count(text, "\n")+1 {
			t.Errorf("%d mounts in %q", len(got), text)
		}
	})
}
