package archive

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// made is a tar stream of headers; a regular file has Size bytes 'x'.
func made(t testing.TB, hs ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range hs {
		if err := w.WriteHeader(h); err != nil {
			t.Fatalf("%+v: %v", h, err)
		}
		if h.Size > 1<<30 { // nothing but the header
			return b.Bytes()
		}
		if h.Typeflag == tar.TypeReg && h.Size > 0 {
			if _, err := w.Write(bytes.Repeat([]byte("x"), int(h.Size))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func file(name string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 3, Mode: 0o644}
}

func link(flag byte, name, to string) *tar.Header {
	return &tar.Header{Typeflag: flag, Name: name, Linkname: to}
}

func dir(name string) *tar.Header { return &tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }

// readAll reads a stream to its end.
func readAll(b []byte, l Limits) (entries []*Entry, err error) {
	r := NewReader(bytes.NewReader(b), l)
	for {
		e, err := r.Next()
		if err == io.EOF {
			return entries, nil
		}
		if err != nil {
			return entries, err
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			return entries, err
		}
		entries = append(entries, e)
	}
}

func TestHostileStreamsAreRefused(t *testing.T) {
	long := strings.Repeat("n", 256)
	good := made(t, dir("d/"), file("d/f"))
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"dotdot":              {made(t, file("a/../../f")), ".."},
		"dotdot inside":       {made(t, file("a/../f")), ".."},
		"absolute":            {made(t, file("/etc/passwd")), "absolute"},
		"long name":           {made(t, file("d/"+long)), "255"},
		"long path":           {made(t, file(strings.Repeat("d/", 2100)+"f")), "4096"},
		"deep":                {made(t, file(strings.Repeat("d/", 1001)+"f")), "deep"},
		"hard link out":       {made(t, link(tar.TypeLink, "l", "../f")), ".."},
		"hard link absolute":  {made(t, link(tar.TypeLink, "l", "/etc/passwd")), "absolute"},
		"hard link to none":   {made(t, link(tar.TypeLink, "l", "f")), "no earlier"},
		"hard link to later":  {made(t, link(tar.TypeLink, "l", "f"), file("f")), "no earlier"},
		"hard link to dir":    {made(t, dir("d/"), link(tar.TypeLink, "l", "d")), "no earlier"},
		"hard link to itself": {made(t, link(tar.TypeLink, "l", "l")), "no earlier"},
		"through a symlink":   {made(t, link(tar.TypeSymlink, "l", "/tmp"), file("l/f")), "through the symlink"},
		"through a link to a symlink": {made(t, link(tar.TypeSymlink, "l", "/tmp"), link(tar.TypeLink, "m", "l"), file("m/f")),
			"through the symlink"},
		"symlink over a directory":  {made(t, file("d/f"), link(tar.TypeSymlink, "d", "/tmp")), "two entries"},
		"symlink over a directory2": {made(t, dir("d/"), link(tar.TypeSymlink, "d", "/tmp")), "two entries"},
		"directory over a symlink":  {made(t, link(tar.TypeSymlink, "d", "/tmp"), dir("d/")), "two entries"},
		"below a file":              {made(t, file("f"), file("f/g")), "no directory"},
		"two files":                 {made(t, file("f"), file("./f")), "two entries"},
		"device":                    {made(t, &tar.Header{Typeflag: tar.TypeChar, Name: "c"}), "device"},
		"block device":              {made(t, &tar.Header{Typeflag: tar.TypeBlock, Name: "c"}), "device"},
		"strange type":              {made(t, &tar.Header{Typeflag: 'V', Name: "v"}), "type"},
		"top is a file":             {made(t, file(".")), "top"},
		"top is a symlink":          {made(t, link(tar.TypeSymlink, "./", "/tmp")), ""},
		"no target":                 {made(t, link(tar.TypeSymlink, "l", "")), "target"},
		"long target":               {made(t, link(tar.TypeSymlink, "l", strings.Repeat("t", 4096))), "target"},
		"huge file": {made(t, &tar.Header{Typeflag: tar.TypeReg, Name: "f", Size: 16<<40 + 1, Format: tar.FormatPAX}),
			"size"},
		"uid -1":         {made(t, &tar.Header{Typeflag: tar.TypeDir, Name: "d", Uid: 1<<32 - 1}), "owner"},
		"negative uid":   {made(t, &tar.Header{Typeflag: tar.TypeDir, Name: "d", Uid: -5, Format: tar.FormatGNU}), "owner"},
		"xattr name":     {made(t, xattr("user."+long, "v")), "extended"},
		"xattr value":    {made(t, xattr("user.a", strings.Repeat("v", 64<<10+1))), "extended"},
		"cut in a file":  {good[:len(good)-1024-512+1], "cut short"},
		"no end mark":    {good[:len(good)-1024], "cut short"},
		"no tar":         {bytes.Repeat([]byte("no tar "), 200), ""},
		"nothing at all": {nil, "cut short"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readAll(c.b, Limits{})
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an archive error with %q", err, c.want)
			}
		})
	}
}

func xattr(name, value string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeDir, Name: "d", Format: tar.FormatPAX, PAXRecords: map[string]string{xattrPax + name: value}}
}

func TestLimits(t *testing.T) {
	b := made(t, file("a"), file("b"))
	for _, l := range []Limits{{Entries: 1}, {File: 2}, {Total: 5}, {Names: 1}} {
		if _, err := readAll(b, l); err == nil {
			t.Errorf("%+v: no error", l)
		}
	}
	if _, err := readAll(b, Limits{Entries: 2, File: 3, Total: 6, Names: 2}); err != nil {
		t.Error(err)
	}
	// Directories that no entry is of count, each once.
	deep := made(t, file("d/e/f/a"), file("d/e/f/b"), dir("d/"))
	if _, err := readAll(deep, Limits{Entries: 5}); err != nil {
		t.Error(err)
	}
	for _, l := range []Limits{{Entries: 4}, {Entries: 3}} {
		if _, err := readAll(deep, l); err == nil {
			t.Errorf("%+v: no error for three directories and two files", l)
		}
	}
	if _, err := readAll(made(t, xattr("user.a", "value")), Limits{Names: 10}); err == nil {
		t.Error("extended attributes are not counted")
	}
}

// TestHonestStreamsAreRead: what looks odd and is not hostile.
func TestHonestStreamsAreRead(t *testing.T) {
	got, err := readAll(made(t, dir("./"), file("./a//b"), dir("a/"), dir("a"), link(tar.TypeSymlink, "a/up", "../../../x"),
		link(tar.TypeSymlink, "venv", "/usr/bin/python3"), link(tar.TypeLink, "l", "a/b"), link(tar.TypeLink, "m", "./l"),
		&tar.Header{Typeflag: tar.TypeFifo, Name: "p"}, file("..."), file("a..b")), Limits{})
	if err != nil || len(got) != 11 || got[0].Path != "." || got[1].Path != "a/b" || got[7].Link != "l" {
		t.Errorf("%d entries, %v", len(got), err)
	}
}

func TestOwnerIsToldOrTheFirstEntrys(t *testing.T) {
	h := dir("d/")
	h.Uid, h.Gid = 7, 8
	r := NewReader(bytes.NewReader(made(t, h)), Limits{})
	if _, err := r.Next(); err != nil || *r.Owner() != (ID{7, 8}) {
		t.Errorf("%v, %v", r.Owner(), err)
	}
	var b bytes.Buffer
	w, err := NewWriter(&b, ID{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Begin(&Entry{Path: "d", Type: Dir, Owner: ID{7, 8}}, nil), w.Close()); err != nil {
		t.Fatal(err)
	}
	r = NewReader(&b, Limits{})
	if _, err := r.Next(); err != nil || *r.Owner() != (ID{1, 2}) {
		t.Errorf("%v, %v", r.Owner(), err)
	}
}

// TestSparseFilesAreReadByOthers: archive/tar and, where it is, GNU tar read what
// Writer wrote, whatever the times, names and spans.
func TestSparseFilesAreReadByOthers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	w, err := NewWriter(&b, ID{0, 0})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{}
	for n := range 40 {
		e := &Entry{Path: fmt.Sprintf("%s%d", strings.Repeat("long/", n*2)+"f", n), Type: File, Mode: 0o640, Size: rng.Int64N(200_000),
			Mtime: time.Unix(int64(n)-3, int64(n)*1000), Xattrs: map[string][]byte{"user.n": {0, byte(n), '\n', '='}}}
		data := make([]byte, e.Size)
		spans := []Span{}
		for at := rng.Int64N(9000); at < e.Size; {
			to := min(at+1+rng.Int64N(9000), e.Size)
			for i := at; i < to; i++ {
				data[i] = byte(rng.Uint32()) | 1
			}
			spans = append(spans, Span{at, to})
			at = to + 1 + rng.Int64N(9000)
		}
		if err := w.Begin(e, spans); err != nil {
			t.Fatal(err)
		}
		for _, s := range Spans(spans, e.Size) {
			if _, err := w.Write(data[s.From:s.To]); err != nil {
				t.Fatal(err)
			}
		}
		want[e.Path] = data
		if err := w.Begin(&Entry{Path: fmt.Sprintf("d%d", n), Type: Dir, Mode: 0o755}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	all := b.Bytes()
	r := NewReader(bytes.NewReader(all), Limits{})
	got := maps.Clone(want)
	for {
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == Dir {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil || !bytes.Equal(data, want[e.Path]) || e.Mode != 0o640 || len(e.Xattrs["user.n"]) != 4 {
			t.Errorf("%s: %d bytes, want %d; %+v, %v", e.Path, len(data), len(want[e.Path]), e, err)
		}
		var n int
		if _, err := fmt.Sscanf(filepath.Base(e.Path), "f%d", &n); err != nil || n != 3 && !e.Mtime.Equal(time.Unix(int64(n)-3, int64(n)*1000)) {
			t.Errorf("%s: time %v, %v", e.Path, e.Mtime, err)
		}
		delete(got, e.Path)
	}
	if len(got) > 0 {
		t.Errorf("%d files are missing", len(got))
	}
	if _, err := exec.LookPath("tar"); err != nil {
		t.Skip("no tar")
	}
	out := t.TempDir()
	cmd := exec.Command("tar", "-xf", "-", "-C", out)
	cmd.Stdin = bytes.NewReader(all)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for p, data := range want {
		if b, err := os.ReadFile(filepath.Join(out, p)); err != nil || !bytes.Equal(b, data) {
			t.Errorf("tar: %s: %d bytes, want %d, %v", p, len(b), len(data), err)
		}
	}
}

// TestWalkAndExtract: a directory comes back as it was.
func TestWalkAndExtract(t *testing.T) {
	src, dst := t.TempDir(), filepath.Join(t.TempDir(), "new")
	script := `set -e; umask 022; mkdir -p d/e empty; echo one >d/f; ln d/f d/e/g; ln -s ../nowhere d/l; mkfifo d/p; chmod 0750 empty; chmod 4755 d/f
		truncate -s 3M sparse; printf x | dd of=sparse bs=1 seek=2000000 conv=notrunc status=none; printf 'n\n' > "$(printf 'a\nb')"; touch -d '2001-02-03 04:05:06.789' d/f empty`
	run(t, src, script)
	if err := unix.Setxattr(filepath.Join(src, "d/f"), "user.k", []byte("v"), 0); err != nil {
		t.Logf("no xattrs here: %v", err)
	}
	var b bytes.Buffer
	skip := func(p, why string) { t.Errorf("skipped %s: %s", p, why) }
	if err := Walk(context.Background(), src, &b, nil, skip); err != nil {
		t.Fatal(err)
	}
	if b.Len() > 200_000 {
		t.Errorf("the stream has %d bytes: the hole travels", b.Len())
	}
	for range 2 { // new, and again over what is there
		if err := Extract(context.Background(), NewReader(bytes.NewReader(b.Bytes()), Limits{}), dst, true, skip); err != nil {
			t.Fatal(err)
		}
	}
	list := `find . -printf '%p %y %m %s %n %U:%G %l %T@\n' | sort; find . -type f -exec md5sum {} + | sort; getfattr -Rd . 2>/dev/null || true`
	list = strings.ReplaceAll(list, "%p %y %m %s", "%p %y %m") // a directory's size is its filesystem's
	if a, b := run(t, src, list), run(t, dst, list); a != b {
		t.Errorf("before:\n%s\nafter:\n%s", a, b)
	}
	var st unix.Stat_t
	if err := unix.Stat(filepath.Join(dst, "sparse"), &st); err != nil || st.Blocks*512 > 1<<20 {
		t.Errorf("the sparse file takes %d bytes, %v", st.Blocks*512, err)
	}
}

func run(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// TestExtractDoesNotFollowSymlinks: those that are there already.
func TestExtractDoesNotFollowSymlinks(t *testing.T) {
	out, dst := t.TempDir(), t.TempDir()
	if err := os.Symlink(out, filepath.Join(dst, "d")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "target"), []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(out, "target"), filepath.Join(dst, "f")); err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{made(t, file("d/x")), made(t, dir("d/"))} {
		err := Extract(context.Background(), NewReader(bytes.NewReader(b), Limits{}), dst, false, func(string, string) {})
		if err == nil {
			t.Error("written through a symlink")
		}
	}
	if err := Extract(context.Background(), NewReader(bytes.NewReader(made(t, file("f"))), Limits{}), dst, false, func(string, string) {}); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(out); err != nil || len(names) != 1 {
		t.Errorf("%v, %v", names, err)
	}
	if b, err := os.ReadFile(filepath.Join(out, "target")); err != nil || string(b) != "old" {
		t.Errorf("%q, %v", b, err)
	}
	if fi, err := os.Lstat(filepath.Join(dst, "f")); err != nil || !fi.Mode().IsRegular() {
		t.Errorf("%v, %v", fi, err)
	}
}

// TestExtractSetsNoSetIDBits: nor capabilities, unless told to.
func TestExtractSetsNoSetIDBits(t *testing.T) {
	h := xattr(capability, "x")
	h.Typeflag, h.Name, h.Mode = tar.TypeReg, "f", 0o6755
	b := made(t, h)
	for _, setID := range []bool{false, true} {
		dst, skipped := t.TempDir(), 0
		err := Extract(context.Background(), NewReader(bytes.NewReader(b), Limits{}), dst, setID, func(_, why string) {
			if strings.Contains(why, "are not set") {
				skipped++
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		fi, err := os.Stat(filepath.Join(dst, "f"))
		if err != nil || (fi.Mode()&os.ModeSetuid != 0) != setID || (skipped == 2) == setID {
			t.Errorf("setID %v: %v, %d told, %v", setID, fi.Mode(), skipped, err)
		}
	}
}

// FuzzReader: whatever the bytes are, every entry that comes out is one that may
// be written, and a stream that is read whole reads the same again.
func FuzzReader(f *testing.F) {
	f.Add(made(f, dir("d/"), file("d/f"), link(tar.TypeLink, "l", "d/f"), link(tar.TypeSymlink, "s", "d")))
	f.Add(made(f, xattr("user.a", "b")))
	var b bytes.Buffer
	w, err := NewWriter(&b, ID{1, 2})
	if err != nil {
		f.Fatal(err)
	}
	if err := w.Begin(&Entry{Path: "s", Type: File, Size: 9000}, []Span{{4096, 4099}}); err != nil {
		f.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 4096)); err != nil {
		f.Fatal(err)
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		l := Limits{Entries: 100, File: 1 << 20, Total: 4 << 20}
		got, err := readAll(b, l)
		seen := map[string]bool{}
		for _, e := range got {
			if p, reason := clean(e.Path); reason != "" || p != e.Path || strings.HasPrefix(p, "../") || e.Size > l.File {
				t.Fatalf("%+v came out: %s", e, reason)
			}
			if seen[e.Path] && e.Type != Dir || e.Type == Hardlink && !seen[e.Link] {
				t.Fatalf("%+v came out", e)
			}
			seen[e.Path] = true
		}
		again, err2 := readAll(b, l)
		if (err == nil) != (err2 == nil) || len(got) != len(again) {
			t.Fatalf("%v, then %v", err, err2)
		}
	})
}

// TestExtractLeavesTrustedAttributes: what only root may tell the kernel is not taken
// from a stream unless that is asked for.
func TestExtractLeavesTrustedAttributes(t *testing.T) {
	attrs := map[string]string{xattrPax + "trusted.overlay.opaque": "y", xattrPax + "user.a": "b"}
	f, d := file("f"), dir("d/")
	for _, h := range []*tar.Header{f, d} {
		h.Format, h.PAXRecords = tar.FormatPAX, attrs
	}
	b := made(t, f, d)
	for _, trust := range []bool{false, true} {
		dst := t.TempDir()
		var skipped []string
		err := Extract(context.Background(), NewReader(bytes.NewReader(b), Limits{}), dst, trust, func(p, _ string) { skipped = append(skipped, p) })
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"f", "d"} {
			value := make([]byte, 10)
			_, err := unix.Lgetxattr(filepath.Join(dst, name), "trusted.overlay.opaque", value)
			if set := err == nil; set && !trust {
				t.Errorf("%s has it", name)
			}
			if !trust && !slices.Contains(skipped, name) {
				t.Errorf("%s: nothing is told: %q", name, skipped)
			}
		}
	}
}
