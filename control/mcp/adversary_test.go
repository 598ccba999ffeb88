package mcp_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/warrenfs/warren/scripts/stack"
	"golang.org/x/sys/unix"
)

// mark is in the content of all that is hidden from the soul, and in names that it
// never says: no answer has it.
const mark = "zq9mark"

// plot is a soul that tries, by the drop, the fields and the tools of files, to
// reach what is hidden from it: the trees of stranger, and of concierge, to whom it
// may only publish. To strangex, of whom there is none, it does the same.
type plot struct {
	t     *testing.T
	s     *stack.Stack
	h     *host
	work  string // the soul's directory for it, through its mount
	path  string // its tree path
	drop  string // the drop's directory for concierge
	field string // the directory of fields
	hall  string // concierge's workspace, through Gaia's mount
	was   map[string]string
}

// hidden and absent are a directory that is hidden from the soul, and one that is
// not there.
const (
	hidden = "/agents/stranger/workspace/plot"
	absent = "/agents/strangex/workspace/plot"
)

// newPlot makes what there is to be reached.
func newPlot(t *testing.T, name string) *plot {
	t.Helper()
	s := running(t)
	p := &plot{t: t, s: s, path: "/agents/" + soul + "/workspace/" + name, drop: filepath.Join(s.Soul, ".warren/publish/concierge"),
		field: filepath.Join(s.Soul, ".warren/fields"), hall: filepath.Join(s.Gaia, "agents/concierge/workspace")}
	p.work = filepath.Join(s.Soul, p.path)
	schema := filepath.Join(s.Gaia, "agents", soul, "fields.json")
	old, err := os.ReadFile(schema)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.RemoveAll(filepath.Join(s.Gaia, hidden)),
		os.MkdirAll(filepath.Join(s.Gaia, hidden, mark+"-dir"), 0o755),
		os.WriteFile(filepath.Join(s.Gaia, hidden, "secret"), []byte(mark+" of stranger\n"), 0o644),
		os.WriteFile(filepath.Join(s.Gaia, hidden, mark+"-dir", "f"), []byte(mark+" below\n"), 0o644),
		os.WriteFile(filepath.Join(s.Gaia, "agents/stranger/fields.json"), []byte(`{"type":"object","properties":{"theirs":{"type":"string","default":"`+mark+`"}}}`), 0o644),
		os.WriteFile(schema, []byte(`{"type":"object","properties":{"note":{"type":"string"},"n":{"type":"integer"}}}`), 0o644),
		os.WriteFile(filepath.Join(p.hall, "private"), []byte(mark+" of concierge\n"), 0o644),
		os.RemoveAll(filepath.Join(p.hall, ".published")),
		os.RemoveAll(p.work),
		os.MkdirAll(p.work, 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	p.h = connect(t, s, "--agent", soul, "--project", name)
	p.was = p.survey()
	t.Cleanup(func() {
		if err := os.WriteFile(schema, old, 0o644); err != nil { // for other tests
			t.Error(err)
		}
		// The versions that its own publications replaced are the agent's.
		if err := os.RemoveAll(filepath.Join(p.hall, ".published")); err != nil {
			t.Error(err)
		}
		for path, now := range p.survey() {
			if was := p.was[path]; was != now {
				t.Errorf("%s was %q, and is %q", path, was, now)
			}
			delete(p.was, path)
		}
		for path, was := range p.was {
			t.Errorf("%s was %q, and is gone", path, was)
		}
	})
	return p
}

// survey tells, by tree path, what the soul must not have changed.
func (p *plot) survey() map[string]string {
	p.t.Helper()
	out := map[string]string{}
	for _, top := range []string{"agents/stranger", "users/bob", "agents/concierge", "agents/gaia/soul.md", "agents/" + soul + "/soul.md", "agents/" + soul + "/config.toml"} {
		err := filepath.WalkDir(filepath.Join(p.s.Gaia, top), func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			i, err := e.Info()
			if err != nil {
				return err
			}
			st := i.Sys().(*syscall.Stat_t)
			fact := fmt.Sprintf("%v %d", i.Mode(), st.Ino)
			if i.Mode().IsRegular() {
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				fact += fmt.Sprintf(" %d bytes %x, %v", len(b), sha256.Sum256(b), i.ModTime())
			}
			out[strings.TrimPrefix(path, p.s.Gaia)] = fact
			return nil
		})
		if err != nil {
			p.t.Fatal(err)
		}
	}
	return out
}

// sameSize puts a name in place of another of the same length.
var sameSize = strings.NewReplacer("stranger", "strangex", "to-h", "to-a")

// alike puts what is told of the hidden into words of the absent.
func alike(text string) string { return sameSize.Replace(text) }

// untold fails if an answer tells of what is hidden.
func (p *plot) untold(what, answer string) {
	p.t.Helper()
	if strings.Contains(answer, mark) {
		p.t.Errorf("%s is told %.500s", what, answer)
	}
}

// outcome is an answer in words, without what differs between any two files.
func (p *plot) outcome(tool string, args object) string {
	p.t.Helper()
	r := p.h.raw(tool, args)
	p.untold(fmt.Sprint(tool, args), textOf(r))
	if r.IsError {
		return "fails: " + textOf(r)
	}
	o := p.h.checked(tool, r)
	for _, k := range []string{"mtime", "ctime", "btime", "etag", "created_at", "modified_at"} {
		delete(o, k)
	}
	b, err := json.Marshal(o)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// same makes a call about what is hidden, and the same about what is not there:
// to the byte, the answers must be the same.
func (p *plot) same(tool string, of func(string) object, hidden, absent string) {
	p.t.Helper()
	x, y := p.outcome(tool, of(hidden)), p.outcome(tool, of(absent))
	if alike(x) != alike(y) {
		p.t.Errorf("%s of %s: %s; of %s: %s", tool, hidden, x, absent, y)
	}
}

// errno is what a system call fails with, without its path.
func errno(err error) string {
	var e syscall.Errno
	if errors.As(err, &e) {
		return e.Error()
	}
	return fmt.Sprint(err)
}

// sameCall is same for what is done in the mount.
func (p *plot) sameCall(what string, do func(name string) error, hidden, absent string) error {
	p.t.Helper()
	x, y := do(hidden), do(absent)
	if errno(x) != errno(y) {
		p.t.Errorf("%s of %s: %v; of %s: %v", what, hidden, x, absent, y)
	}
	return x
}

// sameCommand is same for a command.
func (p *plot) sameCommand(hidden, absent string, args ...string) {
	p.t.Helper()
	run := func(name string) string {
		line := slices.Clone(args)
		for i := range line {
			line[i] = strings.ReplaceAll(line[i], "NAME", name)
		}
		cmd := p.s.Command(line...)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			p.t.Fatal(err)
		}
		return fmt.Sprintf("exit %d: %s", cmd.ProcessState.ExitCode(), out)
	}
	x, y := run(hidden), run(absent)
	if alike(x) != alike(y) {
		p.t.Errorf("warren %v of %s: %s; of %s: %s", args, hidden, x, absent, y)
	}
	p.untold(fmt.Sprint(args, " of ", hidden), x)
}

// allPaths are the calls whose argument is a path, those of roles_test.go and more.
func allPaths() map[string]func(string) object {
	out := map[string]func(string) object{
		"explain":        func(q string) object { return object{"action": "read", "path": q} },
		"workspace_info": func(q string) object { return object{"project": q} },
		"journal_append": func(q string) object { return object{"project": q, "summary": "x"} },
		"workspace_init": func(q string) object { return object{"name": "x", "local_path": q + "/x"} },
	}
	for tool, of := range pathArguments {
		out[tool] = of
	}
	return out
}

// TestAdversaryPaths: links of all kinds, and other ways to spell a path, that
// lead to what is hidden, are as those that lead nowhere, to every tool that takes a
// path and to the commands.
func TestAdversaryPaths(t *testing.T) {
	p := newPlot(t, "paths")
	up := "../../.."
	p.h.call("write", object{"path": "own", "content": "own"})
	pairs := [][2]string{{hidden + "/secret", absent + "/secret"}, {hidden, absent}, {"/agents/stranger", "/agents/strangex"}}
	targets := []string{"/warren" + hidden + "/secret", up + "/stranger/workspace/plot", "/warren/agents/stranger", hidden, "./" + up + "/" + soul + "/../stranger/soul.md",
		"/warren/../.." + hidden, "/warren/agents/stranger/workspace/../../../agents/stranger/workspace/plot/secret", "/proc/self/root/" + hidden, "/warren/.warren/publish/stranger/x"}
	if stack.Short() {
		targets = targets[:3]
	}
	for i, target := range targets {
		x, y := fmt.Sprint("to-h", i), fmt.Sprint("to-a", i)
		for name, to := range map[string]string{x: target, y: strings.ReplaceAll(target, "stranger", "strangex"), x + "-again": x, y + "-again": y} {
			if err := os.Symlink(to, filepath.Join(p.work, name)); err != nil {
				t.Fatal(err)
			}
		}
		for _, more := range []string{"", "-again", "/secret", "/", "/..", "/../x"} {
			pairs = append(pairs, [2]string{p.path + "/" + x + more, p.path + "/" + y + more})
		}
	}
	for _, pair := range pairs {
		for tool, of := range allPaths() {
			if tool != "remove" { // with etags; of links below
				p.same(tool, of, pair[0], pair[1])
			}
		}
		p.same("stat", func(q string) object { return object{"path": q} }, pair[0], pair[1])
		p.same("move", func(q string) object { return object{"from": "own", "to": q} }, pair[0], pair[1])
		p.same("write", func(q string) object { return object{"path": q, "content": "x", "mode": "append"} }, pair[0], pair[1])
	}
	for _, pair := range pairs[2:5] {
		p.sameCommand(pair[0], pair[1], "publish", "--agent", soul, "--to", "concierge", "NAME")
		p.sameCommand(pair[0], pair[1], "fs", "cat", "--agent", soul, "NAME")
	}
	for _, spelt := range []string{"/AGENTS/stranger", "/agents/Stranger", "/agents/STRANGER/workspace", "/agents/stranger ", "/agents//stranger/./workspace", "/agents/stranger\n", "/agents/\u017ftranger"} {
		for tool, of := range pathArguments {
			if got := p.outcome(tool, of(spelt)); !strings.HasPrefix(got, "fails: ") {
				t.Errorf("%s of %q: %s", tool, spelt, got)
			}
		}
	}
	b, err := os.ReadFile(filepath.Join(p.s.Soul, ".warren/denials"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) { // what another test had a grant on was seen
		if strings.Contains(line, "/agents/stranger/") && !strings.Contains(line, hidden+"/shared") {
			t.Errorf("the soul's denials tell of what is hidden: %s", line)
		}
	}
	// A link itself is the soul's to remove, and nothing but it goes.
	links, err := filepath.Glob(filepath.Join(p.work, "to-*"))
	if err != nil || len(links) != 4*len(targets) {
		t.Fatalf("%d links, %v", len(links), err)
	}
	for _, l := range links {
		p.h.call("remove", object{"path": filepath.Base(l), "recursive": true})
	}
}

// TestAdversaryNames: whatever something is called under that is published, made an
// item or set, it becomes a file of that name in its place, or is refused.
func TestAdversaryNames(t *testing.T) {
	p := newPlot(t, "names")
	p.h.call("workspace_write", object{"key": "plain", "value": "plain"})
	names := []string{"", ".", "..", "/", "a/b", "../private", "./x", "a\x00b", "x/", "\n", "a\nb", "a\rb", " ", "-rf", "$(id)", ".env", "id_rsa", ".netrc", ".ENV", "Id_Rsa",
		".env\n", ".env ", "\u202eexe", "\uff0e\uff0e", ".warren", ".warren-x", "PRIVATE", strings.Repeat("n", 255), strings.Repeat("n", 256), "caf\u00e9", "cafe\u0301", "\xff\xfe"}
	items := filepath.Join(p.s.Gaia, "users/ada")
	for _, name := range names {
		cut := fmt.Sprintf("%.20q", name)
		for what, do := range map[string]func() bool{
			"publish": func() bool {
				return p.h.tryAs("workspace_publish", object{"key": "plain", "target_agent_id": "concierge", "target_key": name}) == "ok"
			},
			"item": func() bool { return p.h.tryAs("workspace_write", object{"key": name, "value": "plain"}) == "ok" },
			"drop": func() bool {
				return strings.ContainsAny(name, "/\x00") || name == "." || name == ".." || name == "" || os.WriteFile(filepath.Join(p.drop, name), []byte("plain"), 0o644) == nil
			},
		} {
			if what != "drop" && !utf8.ValidString(name) { // JSON cannot say it
				continue
			}
			dir := map[string]string{"publish": p.hall, "item": items, "drop": p.hall}[what]
			before := dirNames(t, dir)
			ok := do()
			after := dirNames(t, dir)
			made := slices.DeleteFunc(slices.Clone(after), func(n string) bool { return slices.Contains(before, n) })
			switch {
			case len(after)-len(made) != len(before):
				t.Errorf("%s under %s: there was %q, and is %q", what, cut, before, after)
			case len(made) == 0 && ok && what != "drop", len(made) > 1, len(made) == 1 && (!ok || made[0] != name):
				t.Errorf("%s under %s works: %t, and made %q", what, cut, ok, made)
			}
			for _, n := range made {
				if b, err := os.ReadFile(filepath.Join(dir, n)); err != nil || string(b) != "plain" {
					t.Errorf("%s under %s: %q, %v", what, cut, b, err)
				}
				if err := os.Remove(filepath.Join(dir, n)); err != nil {
					t.Error(err)
				}
			}
		}
		if name != "" && utf8.ValidString(name) {
			if got := p.h.tryAs("update_workspace", object{"field_name": name, "value": "x"}); got != "not_found" && got != "invalid" {
				t.Errorf("field %s: %s", cut, got)
			}
		}
	}
	p.h.call("workspace_delete", object{"key": "plain"})
}

func dirNames(t *testing.T, dir string) (out []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// TestAdversaryDoors: what can be done in the directories of the drop and of the
// fields with links, renames and names of others is refused, and in the same way
// whether they lead to what is hidden or to nothing.
func TestAdversaryDoors(t *testing.T) {
	p := newPlot(t, "doors")
	own := filepath.Join(p.work, "own")
	if err := os.WriteFile(own, []byte("own\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{p.drop, p.field} {
		in := filepath.Join(dir, "x")
		for what, do := range map[string]func(name string) error{
			"symlink":  func(name string) error { return os.Symlink("/warren"+name, in) },
			"link":     func(name string) error { return os.Link(filepath.Join(p.s.Soul, name), in) },
			"rename":   func(name string) error { return os.Rename(filepath.Join(p.s.Soul, name), in) },
			"exchange": func(name string) error { return exchange(filepath.Join(p.s.Soul, name), in) },
			"out":      func(name string) error { return os.Rename(in, filepath.Join(p.s.Soul, name)) },
			"moved link": func(name string) error {
				link := filepath.Join(p.work, "link")
				if err := os.Symlink("/warren"+name, link); err != nil {
					return err
				}
				if err := os.Rename(link, in); err != nil {
					return errors.Join(err, os.Remove(link))
				}
				return nil
			},
		} {
			if err := p.sameCall(what+" in "+filepath.Base(dir), do, hidden+"/secret", absent+"/secret"); err == nil {
				t.Errorf("%s in %s works", what, dir)
			}
		}
		for what, err := range map[string]error{
			"a hard link": os.Link(own, in), "a directory": os.Mkdir(in, 0o755), "a fifo": unix.Mkfifo(in, 0o644), "a moved directory": os.Rename(p.work, in),
		} {
			if err == nil {
				t.Errorf("%s can be made in %s", what, dir)
			}
		}
	}
	// The drop of whom there is, but not for the soul to know.
	for _, pair := range [][2]string{{"stranger", "strangex"}, {"gaia", "gaix"}, {"Concierge", "Conciergx"}} {
		at := func(name string) string { return filepath.Join(p.s.Soul, ".warren/publish", name) }
		if err := p.sameCall("stat", func(n string) error { _, err := os.Stat(at(n)); return err }, pair[0], pair[1]); err == nil {
			t.Errorf("there is a drop for %s", pair[0])
		}
		p.sameCall("write", func(n string) error { return os.WriteFile(at(n)+"/x", []byte("x"), 0o644) }, pair[0], pair[1])
		p.sameCall("mkdir", func(n string) error { return os.Mkdir(at(n), 0o755) }, pair[0], pair[1])
	}
	// Another's fields.
	p.sameCall("read", func(n string) error { _, err := os.ReadFile(filepath.Join(p.field, n)); return err }, "theirs", "nobodys")
	p.same("update_workspace", func(n string) object { return object{"field_name": n, "value": "x"} }, "stranger", "strangex")
	for _, args := range [][]string{{"field", "get", "--agent", soul, "--of", "NAME", "theirs"}, {"field", "set", "--agent", soul, "--of", "NAME", "theirs", "x"}, {"field", "list", "--agent", soul, "--of", "NAME"},
		{"publish", "--agent", soul, "doors/own", "--to", "NAME"}} {
		p.sameCommand("stranger", "strangex", args...)
	}
	p.ownLinks()
}

// ownLinks: a name of one's own for a file that one may only read gives no right to
// write it.
func (p *plot) ownLinks() {
	home := filepath.Join(p.s.Soul, "agents", soul)
	for _, name := range []string{"soul.md", "config.toml", "fields.json"} {
		at := filepath.Join(home, "notes", "link-"+name)
		was, err := os.ReadFile(filepath.Join(p.s.Gaia, "agents", soul, name))
		if err != nil {
			p.t.Fatal(err)
		}
		if os.Link(filepath.Join(home, name), at) == nil {
			if err := os.WriteFile(at, []byte("mine"), 0o644); err == nil {
				p.t.Errorf("a hard link to %s can be written", name)
			}
			p.h.fails("write", object{"path": "/agents/" + soul + "/notes/link-" + name, "content": "mine", "mode": "append"}, "denied")
			if err := os.Remove(at); err != nil {
				p.t.Error(err)
			}
		}
		if now, err := os.ReadFile(filepath.Join(p.s.Gaia, "agents", soul, name)); err != nil || string(now) != string(was) {
			p.t.Errorf("%s is %q, and was %q: %v", name, now, was, err)
		}
	}
}

// exchange swaps two names in one step.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
