package server

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/control/archive"
	"github.com/warrenfs/warren/policy/view"
)

// tarOf makes a stream; a regular file has its name as content.
func tarOf(t *testing.T, hs ...*tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range hs {
		if h.Typeflag == tar.TypeReg && h.Size == 0 {
			h.Size = int64(len(h.Name))
		}
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, (h.Name + strings.Repeat("z", int(h.Size)))[:h.Size]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func reg(name string) *tar.Header { return &tar.Header{Typeflag: tar.TypeReg, Name: name} }
func dirOf(name string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeDir, Name: name}
}
func linkOf(flag byte, name, to string) *tar.Header {
	return &tar.Header{Typeflag: flag, Name: name, Linkname: to}
}

func (f *fixture) imports(agent, path string, b []byte) (control.Transfer, error) {
	f.t.Helper()
	return f.client.Import(f.t.Context(), control.Import{Agent: agent, Path: path}, bytes.NewReader(b))
}

// tree lists what an agent sees below a path: one line a node.
func (f *fixture) tree(agent, path string) []string {
	f.t.Helper()
	var out []string
	ns, err := f.client.List(f.t.Context(), agent, path)
	if err != nil {
		return []string{err.Error()}
	}
	for _, n := range ns {
		owner := "owner"
		if n.UID != nil {
			owner = fmt.Sprint(*n.UID, ":", *n.GID)
		}
		line := fmt.Sprintf("%s %s %s %s %d %d %s", strings.ToValidUTF8(n.Path, "?"), n.Type, n.Mode, owner, n.Size, n.Links, n.Target)
		if n.Type != "dir" {
			line += n.Mtime.Format(time.RFC3339Nano)
		}
		out = append(out, line)
		if n.Type == "dir" {
			out = append(out, f.tree(agent, n.Path)...)
		}
	}
	return out
}

func (f *fixture) clean() {
	f.t.Helper()
	// Dropped files are reclaimed in the background, one at a time.
	c, err := f.client.Fsck(f.t.Context())
	if err != nil || !c.Clean {
		f.t.Errorf("%+v, %v", c, err)
	}
}

// TestHostileArchivesChangeNothing: they are refused whole, also where the
// hostile entry comes last.
func TestHostileArchivesChangeNothing(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	f.soul("b")
	if _, err := f.client.Write(t.Context(), "a", "dest/there", strings.NewReader("old"), 0); err == nil {
		t.Fatal("made a directory")
	}
	if _, err := f.client.MakeDir(t.Context(), control.MakeDir{Agent: "a", Path: "dest/dir", Parents: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.Write(t.Context(), "a", "dest/there", strings.NewReader("old"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.imports("a", "/agents/a/workspace/dest", tarOf(t, linkOf(tar.TypeSymlink, "out", "/agents/a/notes"))); err != nil {
		t.Fatal(err)
	}
	before, inodes := f.tree("a", "/agents/a"), f.inodes("/agents/a/workspace")
	for name, c := range map[string]struct {
		last *tar.Header
		kind control.Kind
	}{
		"dotdot":                     {reg("x/../../../f"), control.KindInvalid},
		"absolute":                   {reg("/f"), control.KindInvalid},
		"long":                       {reg(strings.Repeat("n", 256)), control.KindInvalid},
		"device":                     {&tar.Header{Typeflag: tar.TypeChar, Name: "c"}, control.KindInvalid},
		"hard link out":              {linkOf(tar.TypeLink, "l", "../notes/x"), control.KindInvalid},
		"hard link to what exists":   {linkOf(tar.TypeLink, "l", "there"), control.KindInvalid},
		"through its own symlink":    {reg("s/f"), control.KindInvalid},
		"through a symlink there":    {reg("out/f"), control.KindInvalid},
		"directory over symlink":     {dirOf("out"), control.KindConflict},
		"file over file":             {reg("there"), control.KindConflict},
		"file over directory":        {reg("dir"), control.KindConflict},
		"directory over file":        {dirOf("there"), control.KindConflict},
		"below a file that is there": {reg("there/f"), control.KindInvalid},
		"twice":                      {reg("new"), control.KindInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			b := tarOf(t, dirOf("newdir"), reg("new"), linkOf(tar.TypeSymlink, "s", "/agents/b"), c.last)
			for _, agent := range []string{"a", ""} {
				_, err := f.imports(agent, "/agents/a/workspace/dest", b)
				if control.KindOf(err) != c.kind {
					t.Errorf("%q: %v (%s), want %s", agent, err, control.KindOf(err), c.kind)
				}
			}
			if after := f.tree("a", "/agents/a"); !slices.Equal(before, after) {
				t.Errorf("before:\n%s\nafter:\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
			}
		})
	}
	cut := tarOf(t, reg("new"), reg("new2"))
	for _, n := range []int{100, 512, 700, len(cut) - 1024} {
		if _, err := f.imports("a", "dest", cut[:n]); control.KindOf(err) != control.KindInvalid {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	if after := f.tree("a", "/agents/a"); !slices.Equal(before, after) {
		t.Errorf("after cut archives:\n%s", strings.Join(after, "\n"))
	}
	eventually(t, "nameless files are gone", func() bool { return f.inodes("/agents/a/workspace") == inodes })
	f.clean()
}

// inodes counts those of the volume at a path, nameless ones too.
func (f *fixture) inodes(path string) uint64 {
	f.t.Helper()
	v, err := f.space.Open(view.Options{Administrator: true, UID: backend.OwnerID, GID: backend.OwnerID})
	if err != nil {
		f.t.Fatal(err)
	}
	a, err := v.Resolve(path)
	if err != nil {
		f.t.Fatal(err)
	}
	st, err := v.Statfs(nil, a.Node)
	if err != nil {
		f.t.Fatal(err)
	}
	return st.UsedInodes
}

// everything is an archive with one of each.
func everything(t *testing.T) []byte {
	mtime := time.Unix(1_000_000_000, 123_456_789)
	fifo := &tar.Header{Typeflag: tar.TypeFifo, Name: "p", Mode: 0o620, ModTime: mtime, Format: tar.FormatPAX}
	ro := &tar.Header{Typeflag: tar.TypeReg, Name: "bin\xff", Mode: 0o444, Uid: 7, Gid: 8, ModTime: mtime, Format: tar.FormatPAX,
		PAXRecords: map[string]string{"SCHILY.xattr.user.k": "a\x00b"}}
	big := &tar.Header{Typeflag: tar.TypeReg, Name: "d/big", Mode: 0o600, Size: 3*chunk + 77, ModTime: mtime, Format: tar.FormatPAX}
	s := linkOf(tar.TypeSymlink, "d/s", "../../../../b/workspace")
	s.ModTime, s.Format = mtime, tar.FormatPAX
	d := dirOf("d")
	d.Mode, d.ModTime, d.Format = 0o710, mtime, tar.FormatPAX
	return tarOf(t, dirOf("./"), ro, d, s, fifo, big, linkOf(tar.TypeLink, "hard", "d/big"), reg("implied/dir/f"), reg("empty/"+strings.Repeat("n", 200)))
}

// TestImportOfFarTimes: a time beyond the range of the store is the last one or the
// first one of it.
func TestImportOfFarTimes(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	late, far, early := reg("late"), reg("far"), reg("early")
	late.ModTime, far.ModTime, early.ModTime = time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(1<<62, 0), time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, h := range []*tar.Header{late, far, early} {
		h.Format = tar.FormatPAX
	}
	if got, err := f.imports("a", "app", tarOf(t, late, far, early)); err != nil || got.SkippedCount != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	for name, year := range map[string]int{"late": 2262, "far": 2262, "early": 1677} {
		if d, err := f.client.Stat(t.Context(), "a", "app/"+name, false); err != nil || d.Mtime.Year() != year {
			t.Errorf("%s: %v, %v", name, d.Mtime, err)
		}
	}
}

// TestImportThenExportIsTheSame: modes, owners, times, xattrs, hard links, holes,
// odd names.
func TestImportThenExportIsTheSame(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	f.soul("b")
	got, err := f.imports("a", "app", everything(t))
	if err != nil || got.SkippedCount != 0 || got.Entries != 9 || got.Path != "/agents/a/workspace/app" {
		t.Fatalf("%+v, %v", got, err)
	}
	want := f.tree("a", "app")
	const odd = "?"
	for _, line := range []string{
		"/agents/a/workspace/app/bin" + odd + " file 0444 7:8 4 1 2001-09-09T01:46:40.123456789Z",
		"/agents/a/workspace/app/d dir 0710 owner 4096 1 ",
		"/agents/a/workspace/app/d/big file 0600 owner 3145805 2 2001-09-09T01:46:40.123456789Z",
		"/agents/a/workspace/app/hard file 0600 owner 3145805 2 2001-09-09T01:46:40.123456789Z",
		"/agents/a/workspace/app/p fifo 0620 owner 0 1 2001-09-09T01:46:40.123456789Z",
		"/agents/a/workspace/app/d/s symlink 0777 owner 23 1 ../../../../b/workspace2001-09-09T01:46:40.123456789Z",
	} {
		if !slices.Contains(want, line) {
			t.Errorf("missing: %q in\n%s", line, strings.Join(want, "\n"))
		}
	}
	d, err := f.client.Stat(t.Context(), "a", "app/d", false)
	if err != nil || d.Mtime.UnixNano() != 1_000_000_000_123_456_789 || d.CreatedBy != "a" {
		t.Errorf("%+v, %v", d, err)
	}
	var b bytes.Buffer
	x := control.Export{Agent: "a", Path: "app", Owner: &control.Owner{UID: 50, GID: 60}}
	out, err := f.client.Export(t.Context(), x, &b)
	if err != nil || out.SkippedCount != 0 || out.Files != 4 {
		t.Fatalf("%+v, %v", out, err)
	}
	for _, agent := range []string{"b", ""} {
		if _, err := f.imports(agent, "/agents/b/workspace/copy", bytes.Clone(b.Bytes())); (err == nil) != (agent == "b") {
			t.Errorf("%q: %v", agent, err) // the second finds files in the way
		}
	}
	var again bytes.Buffer
	if _, err := f.client.Export(t.Context(), control.Export{Path: "/agents/b/workspace/copy", Owner: x.Owner}, &again); err != nil {
		t.Fatal(err)
	}
	if one, two := contents(t, b.Bytes()), contents(t, again.Bytes()); one != two {
		t.Errorf("exported:\n%s\nimported and exported again:\n%s", one, two)
	}
	f.clean()
}

// contents lists a stream's entries with all that they have.
func contents(t *testing.T, b []byte) string {
	t.Helper()
	var out strings.Builder
	r := archive.NewReader(bytes.NewReader(b), archive.Limits{})
	for {
		e, err := r.Next()
		if err == io.EOF {
			return out.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == archive.Dir && strings.HasPrefix(e.Path, "implied") || e.Path == "empty" || e.Path == "." {
			e.Mtime, e.Atime = time.Time{}, time.Time{} // made now
		}
		if strings.HasPrefix(e.Path, "implied/dir/") || strings.HasPrefix(e.Path, "empty/") {
			e.Mtime, e.Atime = time.Time{}, time.Time{}
		}
		fmt.Fprintf(&out, "%q %d %o %v %v %v %d %q %q %d %x\n", e.Path, e.Type, e.Mode, e.Owner, e.Mtime, e.Atime, e.Size, e.Link, e.Xattrs,
			len(data), data[:min(len(data), 20)])
	}
}

// TestHolesStayHoles: a gigabyte of nothing neither travels nor takes space.
func TestHolesStayHoles(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, archive.ID{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Begin(&archive.Entry{Path: "s", Type: archive.File, Mode: 0o600, Size: 1<<30 + 5}, []archive.Span{{From: 1 << 29, To: 1<<29 + 4096}}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(noise(4096)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.imports("a", "/agents/a/workspace", b.Bytes()); err != nil {
		t.Fatal(err)
	}
	v, err := f.space.Open(view.Options{Agent: "a", UID: backend.OwnerID, GID: backend.OwnerID})
	if err != nil {
		t.Fatal(err)
	}
	a, err := v.Resolve("/agents/a/workspace/s")
	if err != nil || a.Size != 1<<30+5 || a.Blocks != 8 {
		t.Errorf("%+v, %v", a, err)
	}
	var out bytes.Buffer
	if _, err := f.client.Export(t.Context(), control.Export{Agent: "a", Path: "s"}, &out); err != nil || out.Len() > 20_000 {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
}

// TestArchivesStayInTheView: a soul's import and export reach what its mount
// reaches; all else does not exist.
func TestArchivesStayInTheView(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	f.soul("b")
	if _, err := f.client.Write(t.Context(), "b", "secret", strings.NewReader("x"), 0); err != nil {
		t.Fatal(err)
	}
	one := tarOf(t, reg("f"))
	for _, p := range []string{"/agents/b/workspace", "/agents/b/workspace/new", "../../b/workspace", "/agents/nobody/workspace", "/nowhere/x"} {
		if _, err := f.imports("a", p, one); control.KindOf(err) != control.KindNotFound {
			t.Errorf("import to %s: %v", p, err)
		}
		var b bytes.Buffer
		if _, err := f.client.Export(t.Context(), control.Export{Agent: "a", Path: p}, &b); control.KindOf(err) != control.KindNotFound || b.Len() > 0 {
			t.Errorf("export of %s: %v, %d bytes", p, err, b.Len())
		}
	}
	for _, p := range []string{"/agents/b", "/agents/nobody"} { // what stands there or not: nobody makes anything in /agents
		if _, err := f.imports("a", p, one); control.KindOf(err) != control.KindDenied || strings.Contains(err.Error(), p) {
			t.Errorf("import to %s: %v", p, err)
		}
	}
	// Through a symlink of its own, and the whole tree as it sees it.
	if _, err := f.imports("a", "/agents/a/workspace", tarOf(t, linkOf(tar.TypeSymlink, "leak", "../../b/workspace"))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.imports("a", "leak/x", one); control.KindOf(err) != control.KindNotFound {
		t.Errorf("through a symlink: %v", err)
	}
	var b bytes.Buffer
	if _, err := f.client.Export(t.Context(), control.Export{Agent: "a", Path: "/"}, &b); err != nil {
		t.Fatal(err)
	}
	if text := contents(t, b.Bytes()); strings.Contains(text, "secret") || strings.Contains(text, "agents/b") || !strings.Contains(text, `"agents/a/workspace/leak"`) {
		t.Errorf("the soul's tree:\n%s", text)
	}
	for _, d := range f.space.Denials("a") {
		if strings.Contains(d.Path, "/b") {
			t.Errorf("a denial that tells: %+v", d)
		}
	}
	if _, err := f.imports("nobody", "x", one); control.KindOf(err) != control.KindNotFound {
		t.Errorf("an agent that is none: %v", err)
	}
	if _, err := f.imports("", "relative", one); control.KindOf(err) != control.KindInvalid {
		t.Errorf("a relative path of nobody: %v", err)
	}
}

// TestPolicyHoldsInArchives: what policy refuses is left out and told; an import
// of which nothing is left is denied.
func TestPolicyHoldsInArchives(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	b := tarOf(t, reg("ok"), reg(".env"), dirOf("d"), reg("d/id_rsa"), linkOf(tar.TypeLink, "via", ".env"), linkOf(tar.TypeLink, ".netrc", "ok"))
	for n, agent := range []string{"a", ""} {
		got, err := f.imports(agent, fmt.Sprintf("/agents/a/workspace/%d", n), b)
		if err != nil || got.SkippedCount != 4 || got.Entries != 2 {
			t.Errorf("%q: %+v, %v", agent, got, err)
		}
		if text := strings.Join(f.tree("a", fmt.Sprint(n)), "\n"); strings.Contains(text, "env") || strings.Contains(text, "rsa") || strings.Contains(text, "netrc") {
			t.Errorf("%q:\n%s", agent, text)
		}
		if _, err := f.imports(agent, fmt.Sprintf("/agents/a/workspace/%d/d", n), tarOf(t, reg(".env"))); control.KindOf(err) != control.KindDenied {
			t.Errorf("%q: only what is denied: %v", agent, err)
		}
	}
	// The soul's home is not its to change; its notes are.
	got, err := f.imports("a", "/agents/a", tarOf(t, reg("notes/n"), reg("new"), reg("skills/s")))
	if err != nil || got.SkippedCount != 2 || got.Entries != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	ro := "ro"
	if _, err := f.client.SetAgent(t.Context(), "a", control.AgentChange{Access: &ro}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.imports("a", "new", tarOf(t, reg("f"))); control.KindOf(err) != control.KindDenied {
		t.Errorf("read-only: %v", err)
	}
	f.clean()
}

// TestImportOfPrivilegedAttributes: an agent's import sets none of them, and an
// administrator's sets them for nobody but administrators to see.
func TestImportOfPrivilegedAttributes(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	h := reg("f")
	h.Format, h.PAXRecords = tar.FormatPAX, map[string]string{"SCHILY.xattr.user.x": "x", "SCHILY.xattr.user.warren.created_by": "gaia",
		"SCHILY.xattr.user.warren.published": "f", "SCHILY.xattr.security.selinux": "label"}
	for _, name := range []string{"security.capability", "security.ima", "trusted.overlay.redirect", "trusted.overlay.opaque"} {
		h.PAXRecords["SCHILY.xattr."+name] = "x"
	}
	for agent, skipped := range map[string]int64{"a": 4, "": 0} {
		got, err := f.imports(agent, "/agents/a/workspace/by"+agent, tarOf(t, h))
		if err != nil || got.SkippedCount != skipped {
			t.Errorf("%q: %+v, %v", agent, got, err)
		}
		v, err := f.server.files("a")
		if err != nil {
			t.Fatal(err)
		}
		found, err := v.Find("/agents/a/workspace/by"+agent+"/f", false)
		if err != nil {
			t.Fatal(err)
		}
		if names, err := v.ListXattr(nil, found.Attr.Node); err != nil || !slices.Equal(names, []string{"user.x"}) {
			t.Errorf("%q: %q, %v", agent, names, err)
		}
	}
}

// TestExportLeavesOutWhatPolicyDoes: a file under a denied name does not leave.
func TestExportLeavesOutWhatPolicyDoes(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	ctx := t.Context()
	if err := f.client.AllowName(ctx, control.NameException{Name: ".env", Under: "/agents/a/workspace"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.imports("a", "app", tarOf(t, reg(".env"), reg("f"))); err != nil {
		t.Fatal(err)
	}
	if err := f.client.DisallowName(ctx, control.NameException{Name: ".env", Under: "/agents/a/workspace"}); err != nil {
		t.Fatal(err)
	}
	for _, agent := range []string{"a", ""} {
		var b bytes.Buffer
		got, err := f.client.Export(ctx, control.Export{Agent: agent, Path: "/agents/a/workspace/app"}, &b)
		if err != nil || got.SkippedCount != 1 || got.Skipped[0].Path != ".env" || strings.Contains(contents(t, b.Bytes()), ".env") {
			t.Errorf("%q: %+v, %v", agent, got, err)
		}
	}
}

func TestForceReplaces(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	b := tarOf(t, reg("f"), linkOf(tar.TypeSymlink, "s", "x"), linkOf(tar.TypeLink, "h", "f"), dirOf("d"))
	for n := range 3 {
		got, err := f.client.Import(t.Context(), control.Import{Agent: "a", Path: "app", Force: n > 0}, bytes.NewReader(b))
		if err != nil || got.SkippedCount > 0 {
			t.Fatalf("%d: %+v, %v", n, got, err)
		}
		if names, err := f.client.List(t.Context(), "a", "app"); err != nil || len(names) != 4 {
			t.Errorf("%d: %v, %v", n, names, err)
		}
	}
	f.clean()
}

func TestExportChangedSince(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	old := tarOf(t, reg("d/old"), reg("e/old"), reg("f/g/h/old"))
	if _, err := f.imports("a", "app", old); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	since := time.Now()
	time.Sleep(20 * time.Millisecond)
	if _, err := f.client.Write(t.Context(), "a", "app/f/g/h/old", strings.NewReader("new"), 0); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	got, err := f.client.Export(t.Context(), control.Export{Agent: "a", Path: "app", ChangedSince: since}, &b)
	if err != nil {
		t.Fatal(err)
	}
	text := contents(t, b.Bytes())
	if got.Files != 1 || !strings.Contains(text, `"f/g/h/old"`) || strings.Contains(text, `"d`) || strings.Contains(text, `"e`) {
		t.Errorf("%+v\n%s", got, text)
	}
}

// TestImportThatIsInterrupted: before the archive's end it has changed nothing.
func TestImportThatIsInterrupted(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write(tarOf(t, reg("f"), reg("g"))[:2048])
		cancel()
	}()
	_, err := f.client.Import(ctx, control.Import{Agent: "a", Path: "app"}, r)
	if control.KindOf(err) != control.KindInterrupted {
		t.Errorf("%v", err)
	}

	eventually(t, "nothing is left", func() bool {
		return f.inodes("/agents/a/workspace") == 1 && len(f.tree("a", "/agents/a/workspace")) == 0
	})
}
