package view_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

func (w *world) settings(s policy.Settings) {
	w.t.Helper()
	w.facts.Settings = s
	w.publish()
}

// TestDenyList: a name on the list cannot be made, linked or renamed to, in any
// view; directories and symlinks may be called so.
func TestDenyList(t *testing.T) {
	w := newWorld(t)
	for _, who := range []string{"web", "gaia", "lim", "boss"} {
		v := w.openAs(who)
		for _, name := range []string{".env", ".ENV", "id_rsa", "Id_Ed25519", ".netrc", ".env.local"} {
			dir := w.mkdir("/agents/web/workspace/" + who + "/" + name + ".d")
			w.write("/agents/web/workspace/"+who+"/"+name+".d/f", "f")
			f := w.node("/agents/web/workspace/" + who + "/" + name + ".d/f")
			_, _, err := v.Create(nil, dir, name, 0o644, false, view.OpenFlags{Write: true})
			w.kind(err, backend.Denied, who+": create "+name)
			_, err = v.Mknod(nil, dir, name, backend.TypeRegular, 0o644, 0)
			w.kind(err, backend.Denied, who+": mknod "+name)
			_, err = v.Link(nil, f, dir, name)
			w.kind(err, backend.Denied, who+": link to "+name)
			w.kind(v.Rename(nil, dir, "f", dir, name, 0), backend.Denied, who+": rename to "+name)
			_, err = v.WriteFile("/agents/web/workspace/"+who+"/"+name+".d/"+name, []byte("x"), 0o644)
			w.kind(err, backend.Denied, who+": write "+name)
			tmp, err := v.Tmpfile(nil, dir, 0o644)
			w.ok(err, "tmpfile")
			_, err = v.Link(nil, tmp.Node, dir, name)
			w.kind(err, backend.Denied, who+": name a nameless file "+name)
			w.space.Dropped(tmp.Node)
			_, err = v.Mkdir(nil, dir, name, 0o755)
			w.ok(err, who+": mkdir "+name)
			w.kind(v.Rename(nil, dir, "f", dir, name, view.Exchange), backend.Denied, who+": exchange with directory "+name)
			w.ok(v.Rmdir(nil, dir, name), who+": rmdir "+name)
			_, err = v.Symlink(nil, dir, name, "f")
			w.ok(err, who+": symlink "+name)
			w.kind(v.Rename(nil, dir, "f", dir, name, 0), backend.Denied, who+": rename over symlink "+name)
			w.ok(v.Unlink(nil, dir, name), who+": unlink "+name)
			for _, fine := range []string{name + ".example", "x" + name, "server.pem"} {
				_, _, err = v.Create(nil, dir, fine, 0o644, true, view.OpenFlags{Write: true})
				w.ok(err, who+": create "+fine)
			}
		}
	}
}

// TestDenialsAreCounted: each refusal, however alike, and apart from them what
// was hidden.
func TestDenialsAreCounted(t *testing.T) {
	w := newWorld(t)
	web := w.open("web")
	dir := w.mkdir("/agents/web/workspace/app")
	other := w.node("/agents/conc/workspace")
	refused, hidden := w.space.DenialCounts()
	for range 3 {
		if _, _, err := web.Create(nil, dir, ".env", 0o644, false, view.OpenFlags{Write: true}); err == nil {
			t.Fatal("a name on the deny-list was made")
		}
	}
	if r, h := w.space.DenialCounts(); r != refused+3 || h != hidden {
		t.Errorf("3 refusals count as %d, and %d hidden", r-refused, h-hidden)
	}
	for range 2 {
		if _, err := web.Getattr(nil, other); err == nil {
			t.Fatal("another soul's directory is seen")
		}
	}
	if r, h := w.space.DenialCounts(); r != refused+3 || h != hidden+2 {
		t.Errorf("2 look-ups of what is hidden count as %d, and %d refused", h-hidden, r-refused-3)
	}
}

func TestDenialNamesTheCommand(t *testing.T) {
	w := newWorld(t)
	web := w.open("web")
	dir := w.mkdir("/agents/web/workspace/my app")
	_, _, err := web.Create(nil, dir, ".env", 0o644, false, view.OpenFlags{Write: true})
	if err == nil || !strings.Contains(err.Error(), "warren policy allow-name .env --under '/agents/web/workspace/my app'") {
		t.Errorf("the denial says: %v", err)
	}
	d := w.space.Denials("web")
	if len(d) != 1 || d[0].Op != "create" || d[0].Path != "/agents/web/workspace/my app/.env" || d[0].Rule != "deny-names" || d[0].Count != 1 {
		t.Errorf("noted as %+v", d)
	}
}

// TestDeniedFiles: a file whose name came under a rule can be seen, stat'ed and
// removed, and nothing else; in every view.
func TestDeniedFiles(t *testing.T) {
	for _, who := range []string{"web", "gaia"} {
		w := newWorld(t)
		w.settings(policy.Settings{DenyNames: []string{}})
		f := w.write("/agents/web/workspace/.env", "SECRET=1")
		dir := w.node("/agents/web/workspace")
		other := w.write("/agents/web/workspace/other", "o")
		v := w.openAs(who)
		_, err := v.Read(nil, f, make([]byte, 8), 0)
		w.ok(err, "read before the rule")
		w.settings(policy.Settings{})
		a, err := v.Lookup(nil, dir, ".env")
		if err != nil || a.Mode != 0o444 {
			t.Errorf("lookup: %+v, %v", a, err)
		}
		_, err = v.Getattr(nil, f)
		w.ok(err, "getattr")
		_, err = v.GetXattr(nil, f, "user.none")
		w.kind(err, backend.NoData, "getxattr")
		for what, do := range map[string]func() error{
			"open":     func() error { return second(v.Open(nil, f, view.OpenFlags{Read: true})) },
			"write":    func() error { return second(v.Open(nil, f, view.OpenFlags{Write: true})) },
			"truncate": func() error { return second(v.Open(nil, f, view.OpenFlags{Truncate: true})) },
			"read":     func() error { return second(v.Read(nil, f, make([]byte, 8), 0)) },
			"pwrite":   func() error { return second(v.Write(nil, f, []byte("x"), 0)) },
			"append":   func() error { return second(v.Append(nil, f, []byte("x"))) },
			"seek":     func() error { return second(v.Seek(nil, f, 0, false)) },
			"copy out": func() error { return second(v.CopyRange(nil, f, 0, other, 0, 8)) },
			"copy in":  func() error { return second(v.CopyRange(nil, other, 0, f, 0, 1)) },
			"size":     func() error { n := uint64(0); return second(v.Setattr(nil, f, backend.SetAttr{Size: &n})) },
			"chmod":    func() error { n := uint32(0o777); return second(v.Setattr(nil, f, backend.SetAttr{Mode: &n})) },
			"punch":    func() error { return v.Fallocate(nil, f, 0, 1, 3) },
			"link":     func() error { return second(v.Link(nil, f, dir, "plain")) },
			"rename":   func() error { return v.Rename(nil, dir, ".env", dir, "plain", 0) },
			"exchange": func() error { return v.Rename(nil, dir, "other", dir, ".env", view.Exchange) },
			"back":     func() error { return v.Rename(nil, dir, ".env", dir, "other", view.Exchange) },
			"over":     func() error { return v.Rename(nil, dir, "other", dir, ".env", 0) },
			"reopen": func() error {
				_, _, err := v.Create(nil, dir, ".env", 0o644, false, view.OpenFlags{Read: true})
				return err
			},
			"readfile":  func() error { _, _, err := v.ReadFile("/agents/web/workspace/.env", -1); return err },
			"writefile": func() error { return second(v.WriteFile("/agents/web/workspace/.env", nil, 0)) },
		} {
			w.kind(do(), backend.Denied, who+": "+what)
		}
		_, err = v.Symlink(nil, dir, "via", ".env")
		w.ok(err, "symlink to it")
		_, _, err = v.ReadFile("/agents/web/workspace/via", -1)
		w.kind(err, backend.Denied, "read through a symlink")
		w.ok(v.Unlink(nil, dir, ".env"), "unlink")
	}
}

// TestLinkMadeBeforeTheRule (failure 35): a second name from before the rule
// does not go round it, also when the denied name is gone.
func TestLinkMadeBeforeTheRule(t *testing.T) {
	w := newWorld(t)
	w.settings(policy.Settings{DenyNames: []string{}})
	f := w.write("/agents/web/workspace/.env", "SECRET=1")
	dir := w.node("/agents/web/workspace")
	web := w.open("web")
	_, err := web.Link(nil, f, dir, "plain")
	w.ok(err, "link before the rule")
	w.settings(policy.Settings{})
	read := func(want backend.Kind, what string) {
		t.Helper()
		_, err := web.Open(nil, f, view.OpenFlags{Read: true})
		if want == 0 {
			w.ok(err, what)
		} else {
			w.kind(err, want, what)
		}
	}
	read(backend.Denied, "open by the plain name")
	w.kind(web.Rename(nil, dir, "plain", dir, "plainer", 0), backend.Denied, "rename of the plain name")
	w.hub.hold(f, true)
	w.ok(web.Unlink(nil, dir, ".env"), "unlink of the denied name")
	read(backend.Denied, "open when only the plain name is left")
	w.kind(web.Rename(nil, dir, "plain", dir, "plainer", 0), backend.Denied, "rename when only the plain name is left")
	w.ok(web.Unlink(nil, dir, "plain"), "unlink of the plain name")
	_, err = web.Read(nil, f, make([]byte, 4), 0)
	w.kind(err, backend.Denied, "read of the open file without a name")
	w.hub.hold(f, false)
	w.space.Dropped(f)

	// The one name of an open file goes: it stays denied.
	w.settings(policy.Settings{DenyNames: []string{}})
	f = w.write("/agents/web/workspace/id_rsa", "KEY")
	w.hub.hold(f, true)
	w.settings(policy.Settings{})
	w.ok(web.Unlink(nil, dir, "id_rsa"), "unlink of an open file")
	read(backend.Denied, "open file whose denied name is gone")
	// And so does one that a symlink replaced.
	w.settings(policy.Settings{DenyNames: []string{}})
	f = w.write("/agents/web/workspace/.netrc", "KEY")
	w.hub.hold(f, true)
	_, err = web.Symlink(nil, dir, "s", "x")
	w.ok(err, "symlink")
	w.settings(policy.Settings{})
	w.ok(web.Rename(nil, dir, "s", dir, ".netrc", 0), "rename of a symlink over it")
	read(backend.Denied, "open file whose denied name was taken over")
	// The list's end is the end of it.
	w.settings(policy.Settings{DenyNames: []string{}})
	read(0, "without a deny-list")
}

// TestException: a denied name is free under one directory, by its components,
// and denied again outside; leaving under the name is refused.
func TestException(t *testing.T) {
	for _, slash := range []string{"", "/"} {
		w := newWorld(t)
		app := w.mkdir("/agents/web/workspace/app/sub")
		w.mkdir("/agents/web/workspace/app2")
		work := w.node("/agents/web/workspace")
		w.settings(policy.Settings{Exceptions: []policy.NameException{{Name: ".env", Under: "/agents/web/workspace/app" + slash}}})
		web := w.open("web")
		a, _, err := web.Create(nil, app, ".env", 0o644, true, view.OpenFlags{Write: true})
		w.ok(err, "create under the exception")
		_, err = web.Write(nil, a.Node, []byte("x"), 0)
		w.ok(err, "write under the exception")
		if a.Mode != 0o644 {
			t.Errorf("shown as %o", a.Mode)
		}
		for what, err := range map[string]error{
			"another name":  second3(web.Create(nil, app, "id_rsa", 0o644, true, view.OpenFlags{Write: true})),
			"above":         second3(web.Create(nil, work, ".env", 0o644, true, view.OpenFlags{Write: true})),
			"sibling":       second3(web.Create(nil, w.node("/agents/web/workspace/app2"), ".env", 0o644, true, view.OpenFlags{Write: true})),
			"leaving":       web.Rename(nil, app, ".env", work, ".env", 0),
			"leaving by ln": second(web.Link(nil, a.Node, work, ".env")),
		} {
			w.kind(err, backend.Denied, what)
		}
		w.ok(web.Rename(nil, app, ".env", w.node("/agents/web/workspace/app"), ".env", 0), "moving below the exception")
		// A directory that leaves takes its files under the rule.
		w.ok(web.Rename(nil, w.node("/agents/web/workspace/app"), ".env", app, ".env", 0), "moving back")
		w.ok(web.Rename(nil, w.node("/agents/web/workspace/app"), "sub", work, "sub", 0), "moving the directory out")
		_, err = web.Open(nil, a.Node, view.OpenFlags{Read: true})
		w.kind(err, backend.Denied, "open outside")
		w.kind(web.Rename(nil, app, ".env", app, "plain", 0), backend.Denied, "rename outside")
		w.ok(web.Rename(nil, work, "sub", w.node("/agents/web/workspace/app"), "sub", 0), "moving it in again")
		_, err = web.Open(nil, a.Node, view.OpenFlags{Read: true})
		w.ok(err, "open inside")
		// Without the exception the file is denied where it stands.
		w.settings(policy.Settings{})
		_, err = web.Open(nil, a.Node, view.OpenFlags{Read: true})
		w.kind(err, backend.Denied, "open when the exception is gone")
	}
}

func second3[A, B any](_ A, _ B, err error) error { return err }

// TestDenyListPolicyOff: an empty list denies nothing, not even by a mark.
func TestDeniedBeatsNothingElse(t *testing.T) {
	w := newWorld(t)
	guest := w.open("guest")
	_, _, err := guest.Create(nil, w.node("/projects/site"), ".env", 0o644, false, view.OpenFlags{Write: true})
	w.kind(err, backend.Denied, "create in a project one only reads")
	_, _, err = guest.Create(nil, w.node("/users/ada"), ".env", 0o644, false, view.OpenFlags{Write: true})
	if !errors.Is(err, backend.NotFound) || strings.Contains(err.Error(), "deny-list") {
		t.Errorf("a denied name in a hidden place: %v", err)
	}
}
