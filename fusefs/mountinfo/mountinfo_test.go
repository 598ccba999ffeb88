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
	want := []Entry{{Dir: `/mnt 2\x`, Type: "ext4"}, {Dir: "/w", Type: "fuse.warren", Minor: 52, UID: 7, GID: 8}}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("%+v, want %+v", got, want)
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
