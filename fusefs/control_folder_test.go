package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

// shelf is a control folder for tests: two fields ("state", of which only some
// words are valid; "list", a JSON list of digits), one that may only be read, and
// a drop with one target.
type shelf struct {
	mu     sync.Mutex
	values map[string]string
	sent   map[string]string
	writes int
}

func newShelf() *shelf {
	return &shelf{values: map[string]string{"state": "idle\n", "list": "[]\n", "fixed": "x\n"}, sent: map[string]string{}}
}

func (s *shelf) get(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[name]
}

func (s *shelf) dropped() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprint(s.sent)
}

func (s *shelf) rows() []ControlFolder {
	return []ControlFolder{{
		Name: "fields",
		Files: func(*view.View, string) []ControlEntry {
			return []ControlEntry{{"state", true}, {"list", true}, {"fixed", false}}
		},
		Read: func(_ *view.View, _, name string) ([]byte, error) { return []byte(s.get(name)), nil },
		Write: func(_ *view.View, _, name string, data []byte, ended bool) (bool, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.writes++
			text := strings.TrimSuffix(string(data), "\n")
			good, prefix := text == "idle" || text == "busy" || text == "done", false
			if name == "list" {
				good = len(text) > 1 && text[0] == '[' && text[len(text)-1] == ']' && strings.Trim(text[1:len(text)-1], "0123456789,") == ""
				prefix = text != "" && text[0] == '[' && strings.Trim(text[1:], "0123456789,") == ""
			} else {
				for _, w := range []string{"idle", "busy", "done"} {
					prefix = prefix || strings.HasPrefix(w, string(data))
				}
			}
			switch {
			case good:
				s.values[name] = text + "\n"
				return true, nil
			case prefix && !ended:
				return false, nil
			}
			return false, backend.Invalid
		},
	}, {
		Name:    "publish",
		Visible: func(v *view.View) bool { return v.Agent() != "other" },
		Subs:    func(*view.View) []string { return []string{"hall"} },
		Check: func(_ *view.View, _, name string) error {
			if name == ".env" {
				return backend.Denied
			}
			return nil
		},
		Write: func(_ *view.View, sub, name string, data []byte, ended bool) (bool, error) {
			if !ended {
				return false, nil
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			s.sent[sub+"/"+name] = string(data)
			return true, nil
		},
		Withdraw: func(_ *view.View, sub, name string) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.sent, sub+"/"+name)
			return nil
		},
	}}
}

func shelfMount(t *testing.T) (*shelf, string) {
	t.Helper()
	s := newStack(t, memDriver)
	sh := newShelf()
	return sh, s.mount("web", Config{Agent: "web", Folders: sh.rows()})
}

// shell runs a line with $F the fields, $P the drop and $W the workspace.
func shell(t *testing.T, dir, line string) (string, error) {
	t.Helper()
	ctl := dir + "/.warren"
	c := exec.CommandContext(t.Context(), "bash", "-c", line)
	c.Env = append(os.Environ(), "F="+ctl+"/fields", "P="+ctl+"/publish/hall", "W="+dir, "T="+t.TempDir())
	c.WaitDelay = time.Second
	out, err := c.CombinedOutput()
	return string(out), err
}

// TestFieldFiles: what programs do to replace a file, done to a field. Valid
// values are applied whole; others are refused with an error that the program
// shows, and the old value stays.
func TestFieldFiles(t *testing.T) {
	sh, dir := shelfMount(t)
	_, noVim := exec.LookPath("vim")
	for _, c := range []struct{ name, ok, bad string }{
		{"echo", `echo busy > $F/state`, `echo bad > $F/state`},
		{"printf", `printf busy > $F/state`, `printf bad > $F/state`},
		{"cat", `echo busy | cat > $F/state`, `echo no | cat > $F/state`},
		{"cp", `echo busy > $T/v; cp $T/v $F/state`, `echo bad > $T/v; cp $T/v $F/state`},
		{"cp -p", `echo busy > $T/v; cp -p $T/v $F/state`, `echo bad > $T/v; cp -p $T/v $F/state`},
		{"cp --remove-destination", `echo busy > $T/v; cp --remove-destination $T/v $F/state`, `echo bad > $T/v; cp --remove-destination $T/v $F/state`},
		{"mv from outside", `echo busy > $T/v; mv $T/v $F/state`, `echo bad > $T/v; mv $T/v $F/state`},
		{"mv from the tree", `echo busy > $W/v; mv $W/v $F/state; test ! -e $W/v`, `echo bad > $W/v; mv $W/v $F/state`},
		{"tee", `echo busy | tee $F/state`, `echo bad | tee $F/state`},
		{"dd", `echo busy | dd of=$F/state status=none`, `echo bad | dd of=$F/state status=none`},
		{"sed -i", `sed -i s/idle/busy/ $F/state`, `sed -i s/idle/bad/ $F/state`},
		{"temp and rename", `echo busy > $F/.t && mv $F/.t $F/state`, `echo bad > $F/.t && mv $F/.t $F/state`},
		{"backup and write", `mv $F/state $F/state~ && echo busy > $F/state && rm $F/state~`, `mv $F/state $F/state~ && echo bad > $F/state`},
		{"python", `python3 -c "open('$F/state','w').write('busy')"`, `python3 -c "
with open('$F/state','w') as f: f.write('bad')"`},
		{"python in pieces", `python3 -c "
f=open('$F/state','wb',buffering=0)
for c in b'busy': f.write(bytes([c]))
f.close()"`, `python3 -c "
f=open('$F/state','wb',buffering=0)
for c in b'busier': f.write(bytes([c]))
f.close()"`},
		{"python replace", `python3 -c "
import os
open('$F/.n','w').write('busy'); os.replace('$F/.n','$F/state')"`, `python3 -c "
import os
open('$F/.n','w').write('bad'); os.replace('$F/.n','$F/state')"`},
		{"two programs, one descriptor", `{ /usr/bin/printf bu; /usr/bin/printf sy; } > $F/state`, `{ /usr/bin/printf bu; /usr/bin/printf x; } > $F/state`},
		{"vim", `vim -Nu NONE -n -es -c '%s/idle/busy/' -c wq $F/state`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "vim" && noVim != nil {
				t.Skip("no vim")
			}
			sh.mu.Lock()
			sh.values["state"] = "idle\n"
			sh.mu.Unlock()
			if c.bad != "" {
				out, err := shell(t, dir, c.bad)
				// mv(1) has a text of its own for EINVAL.
				if out = strings.ToLower(out); err == nil || !strings.Contains(out, "invalid argument") && !strings.Contains(out, "mv: cannot move") {
					t.Errorf("an invalid value: %v, %s", err, out)
				}
				if got := sh.get("state"); got != "idle\n" {
					t.Errorf("after an invalid value: %q", got)
				}
			}
			_, _ = shell(t, dir, `rm -f $F/.t $F/.n $F/sed* $F/state~`)
			time.Sleep(10 * time.Millisecond)
			if c.bad != "" && strings.Contains(c.name, "remove") || strings.Contains(c.name, "outside") || strings.Contains(c.name, "backup") {
				waitFor(t, dir+"/.warren/fields/state") // its name is back
			}
			if out, err := shell(t, dir, c.ok); err != nil {
				t.Errorf("a valid value: %v, %s", err, out)
			}
			waitFor(t, dir+"/.warren/fields/state")
			if got, err := os.ReadFile(dir + "/.warren/fields/state"); err != nil || string(got) != "busy\n" || sh.get("state") != "busy\n" {
				t.Errorf("after a valid value: %q, %v; %q", got, err, sh.get("state"))
			}
		})
	}
}

// waitFor returns when a file is there.
func waitFor(t *testing.T, path string) {
	t.Helper()
	for end := waits.In(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			return
		}
		if end.Passed() {
			t.Fatalf("%s does not come back", path)
		}
	}
}

// TestFieldStages: truncation only stages, incomplete data waits, and is refused
// at close; what is written in the middle of the old value counts with it.
func TestFieldStages(t *testing.T) {
	sh, dir := shelfMount(t)
	at := dir + "/.warren/fields/list"
	f, err := os.OpenFile(at, os.O_WRONLY|os.O_TRUNC, 0)
	must(t, err)
	if got := sh.get("list"); got != "[]\n" {
		t.Errorf("truncated: %q", got)
	}
	must(t, f.Truncate(0))
	for _, part := range []string{"[1", ",2"} {
		_, err = f.WriteString(part)
		must(t, err)
		if got := sh.get("list"); got != "[]\n" {
			t.Errorf("after a part: %q", got)
		}
	}
	_, err = f.WriteString("]")
	must(t, err)
	if got := sh.get("list"); got != "[1,2]\n" {
		t.Errorf("complete before close: %q", got)
	}
	must(t, f.Close())
	f, err = os.OpenFile(at, os.O_WRONLY|os.O_TRUNC, 0)
	must(t, err)
	_, err = f.WriteString("[3")
	must(t, err)
	if err := f.Close(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("close of an incomplete value: %v", err)
	}
	f, err = os.OpenFile(at, os.O_RDWR, 0)
	must(t, err)
	if _, err := f.WriteAt([]byte("x"), 1); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("an impossible write: %v", err)
	}
	_ = f.Close()
	f, err = os.OpenFile(at, os.O_RDWR, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("9"), 1)
	must(t, err)
	must(t, f.Close())
	if got := sh.get("list"); got != "[9,2]\n" {
		t.Errorf("written in the middle: %q", got)
	}
	must(t, os.Truncate(at, 0))
	if got := sh.get("list"); got != "[9,2]\n" {
		t.Errorf("truncate(2): %q", got)
	}
	if _, err := os.OpenFile(dir+"/.warren/fields/fixed", os.O_WRONLY, 0); !errors.Is(err, syscall.EACCES) && os.Geteuid() != 0 {
		t.Errorf("a read-only field: %v", err)
	}
	if err := os.WriteFile(dir+"/.warren/fields/fixed", []byte("y"), 0o600); !errors.Is(err, syscall.EACCES) {
		t.Errorf("a read-only field is written: %v", err)
	}
	if err := os.Remove(dir + "/.warren/fields/fixed"); !errors.Is(err, syscall.EACCES) {
		t.Errorf("a read-only field is removed: %v", err)
	}
	must(t, os.Remove(at))
	if got := sh.get("list"); got != "[9,2]\n" {
		t.Errorf("removed: %q", got)
	}
	waitFor(t, at)
}

// TestDrop: what programs do to make or replace a file, done to the drop. It is
// handed over whole, and cannot be read or listed.
func TestDrop(t *testing.T) {
	sh, dir := shelfMount(t)
	for _, c := range []string{
		`echo eggs > $P/n`, `printf 'eggs\n' > $P/n`, `echo eggs > $T/v; cp $T/v $P/n`, `echo eggs > $T/v; cp -p $T/v $P/n`,
		`echo eggs > $T/v; mv $T/v $P/n`, `echo eggs > $W/v; mv $W/v $P/n && test ! -e $W/v`, `echo eggs | tee $P/n`,
		`echo eggs > $P/.n.tmp && mv $P/.n.tmp $P/n`, `python3 -c "
f=open('$P/n','wb',buffering=0)
for c in b'eggs\n': f.write(bytes([c]))
f.close()"`,
		`{ /usr/bin/printf eg; /usr/bin/printf 'gs\n'; } > $P/n`,
	} {
		sh.mu.Lock()
		clear(sh.sent)
		sh.mu.Unlock()
		if out, err := shell(t, dir, c); err != nil {
			t.Errorf("%s: %v, %s", c, err, out)
		}
		if got := sh.dropped(); got != "map[hall/n:eggs\n]" {
			t.Errorf("%s: %q", c, got)
		}
	}
	if out, err := shell(t, dir, `sed -i s/eggs/milk/ $P/m`); err == nil {
		t.Errorf("sed -i of what cannot be read: %s", out)
	}
	if out, err := shell(t, dir, `echo x > $P/.env`); err == nil || !strings.Contains(strings.ToLower(out), "permission denied") {
		t.Errorf("a refusal is not shown: %v, %s", err, out)
	}
	if out, err := shell(t, dir, `ls -A $P; ls $P/..`); err != nil || out != "hall\n" {
		t.Errorf("the drop is listed: %v, %s", err, out)
	}
	if _, err := os.ReadFile(dir + "/.warren/publish/hall/n"); err == nil {
		t.Error("the drop is read")
	}
	if out, err := shell(t, dir, `echo x > $P/../nobody/n`); err == nil || !strings.Contains(out, "No such file") {
		t.Errorf("an unknown target: %v, %s", err, out)
	}
}

// TestDropOfTwo: what several programs write under one name of one mount at the
// same time is handed over whole, each what it wrote.
func TestDropOfTwo(t *testing.T) {
	sh, dir := shelfMount(t)
	at := dir + "/.warren/publish/hall/n"
	a, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	must(t, err)
	_, err = a.WriteString("first")
	must(t, err)
	b, err := os.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	must(t, err)
	must(t, a.Close())
	if got := sh.dropped(); got != "map[hall/n:first]" {
		t.Errorf("one that another has opened meanwhile: %q", got)
	}
	_, err = b.WriteString("second")
	must(t, err)
	must(t, b.Close())
	if got := sh.dropped(); got != "map[hall/n:second]" {
		t.Errorf("the other: %q", got)
	}
	for range 3 { // what opens held is let go of
		must(t, os.WriteFile(at, bytes.Repeat([]byte("x"), maxStagedFile), 0o600))
	}
	f, err := os.OpenFile(at, os.O_WRONLY, 0o600)
	must(t, err)
	must(t, f.Truncate(3))
	_, err = f.WriteAt([]byte("yyy"), 1)
	must(t, err)
	must(t, f.Close())
	if got := sh.dropped(); got != "map[hall/n:xyyy]" {
		t.Errorf("written in place: %.50q", got)
	}
}

// TestDropBounds: a file, and all together, have a bound.
func TestDropBounds(t *testing.T) {
	sh, dir := shelfMount(t)
	at := dir + "/.warren/publish/hall/"
	big := bytes.Repeat([]byte("x"), maxStagedFile)
	must(t, os.WriteFile(at+"big", big, 0o600))
	sh.mu.Lock()
	got := sh.sent["hall/big"]
	sh.mu.Unlock()
	if len(got) != len(big) {
		t.Errorf("%d bytes", len(got))
	}
	if err := os.WriteFile(at+"bigger", append(big, 'x'), 0o600); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("too big: %v", err)
	}
	var open []io.Closer
	defer func() {
		for _, c := range open {
			_ = c.Close()
		}
	}()
	for i := range maxStaged + 10 {
		f, err := os.OpenFile(at+fmt.Sprint("f", i), os.O_WRONLY|os.O_CREATE, 0o600)
		if err == nil {
			open = append(open, f)
			continue
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("file %d: %v", i, err)
		}
		return
	}
	t.Error("files without bound")
}

// TestFoldersOfAView: a folder that is not for a view is not there.
func TestFoldersOfAView(t *testing.T) {
	s := newStack(t, memDriver)
	sh := newShelf()
	dir := s.mount("other", Config{Agent: "other", Root: "/agents/other/workspace", Folders: sh.rows()})
	if _, err := os.Stat(filepath.Join(dir, ".warren/publish")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("publish: %v", err)
	}
	if err := os.WriteFile(dir+"/.warren/publish/hall/n", []byte("x"), 0o600); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("publish: %v", err)
	}
	if got, err := listing(dir + "/.warren/fields"); err != nil || strings.Join(got, " ") != "fixed list state" {
		t.Errorf("%v, %v", got, err)
	}
	if err := os.Mkdir(dir+"/.warren/fields/d", 0o700); !errors.Is(err, syscall.EACCES) {
		t.Errorf("mkdir: %v", err)
	}
}
