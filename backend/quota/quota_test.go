package quota

import (
	"errors"
	"testing"

	"github.com/warrenfs/warren/backend"
)

func TestAdmit(t *testing.T) {
	l := Limits{Bytes: 100, Inodes: 10, SoftBytes: 50}
	for _, c := range []struct {
		before, after Use
		ok            bool
	}{
		{Use{0, 1}, Use{100, 10}, true},
		{Use{0, 1}, Use{101, 1}, false},
		{Use{100, 1}, Use{100, 2}, true},
		{Use{100, 10}, Use{100, 11}, false},
		{Use{300, 1}, Use{200, 1}, true},  // less of too much
		{Use{300, 1}, Use{300, 2}, true},  // no more of it
		{Use{300, 1}, Use{301, 1}, false}, // more
		{Use{300, 30}, Use{200, 31}, false},
	} {
		if err := l.Admit(c.before, c.after); (err == nil) != c.ok || err != nil && !errors.Is(err, backend.Quota) {
			t.Errorf("%v to %v: %v", c.before, c.after, err)
		}
	}
	none := Limits{SoftBytes: 1}
	if err := none.Admit(Use{}, Use{1 << 62, 1 << 39}); err != nil {
		t.Error(err)
	}
}

func TestRoomAndOver(t *testing.T) {
	l := Limits{Bytes: 100, SoftBytes: 50, SoftInodes: 5}
	for used, want := range map[uint64]uint64{0: 100, 40: 60, 100: 0, 300: 0} {
		if got := l.Room(Use{used, 1}, Use{1000, 7}); got != (Use{want, 7}) {
			t.Errorf("of %d: %v", used, got)
		}
	}
	if got := l.Room(Use{}, Use{30, 0}); got != (Use{30, 0}) {
		t.Errorf("on a small disk: %v", got)
	}
	if b, i := l.Over(Use{50, 6}); b || !i {
		t.Error(b, i)
	}
}

func TestCheck(t *testing.T) {
	for l, ok := range map[Limits]bool{
		{}: true, {SoftBytes: 7}: true, {Bytes: 7, SoftBytes: 7}: true, {Bytes: 7, SoftBytes: 8}: false,
		{Inodes: 7, SoftInodes: 8}: false, {Bytes: MaxBytes}: true, {Bytes: MaxBytes + 1}: false, {Inodes: 1 << 41}: false,
	} {
		if err := l.Check(); (err == nil) != ok || err != nil && !errors.Is(err, backend.Invalid) {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

func TestFormatRule20(t *testing.T) {
	l := Limits{Bytes: 2 << 30, SoftBytes: 1 << 30, Inodes: 200_000, SoftInodes: 1}
	b := l.Append(nil, 300)
	if got, err := Decode(b); err != nil || got != l {
		t.Errorf("%+v, %v", got, err)
	}
	for n := range b {
		if _, err := Decode(b[:n]); !errors.Is(err, backend.IO) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	if _, err := Decode(append(b, 0)); !errors.Is(err, backend.IO) {
		t.Errorf("a byte more: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Limits{1, 1, 2, 2}.Append(nil, 1))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := Decode(b)
		if err != nil {
			return
		}
		if got, err := Decode(l.Append(nil, 1)); err != nil || got != l {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func BenchmarkAdmit(b *testing.B) {
	l, u := Limits{Bytes: 1 << 40, Inodes: 1 << 30}, Use{}
	b.ReportAllocs()
	for b.Loop() {
		next := Use{u.Bytes + 1, u.Inodes + 1}
		if err := l.Admit(u, next); err != nil {
			b.Fatal(err)
		}
		u = Use{next.Bytes & 0xffff, next.Inodes & 0xffff}
	}
}
