package fusefs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

// two mounts a place that two souls share, for each of them. To web, and not to
// pal, names like *.key are denied, and *.pem in the directory in.
func two(t *testing.T) (s *stack, web, pal string) {
	t.Helper()
	s = newStack(t, memDriver)
	f := testFacts()
	f.Agents["pal"] = policy.Agent{Key: "pal", Role: "soul", User: "ada", Parent: "gaia"}
	f.Settings.Rules = []policy.NameRule{{Name: "*.key", Agent: "web"}, {Name: "*.pem", Agent: "web", Under: "/users/ada/in"}}
	f.Grants = []policy.Grant{{ID: "g", Agent: "web", Path: "/agents/other/workspace/given", Right: "write", Expires: time.Now().Add(time.Hour)}}
	s.publish(f)
	return s, s.mount("web", Config{Agent: "web", Root: "/"}) + "/users/ada", s.mount("pal", Config{Agent: "pal", Root: "/"}) + "/users/ada"
}

func renameat2(a, b string, flags uint) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, flags)
}

// whole is all that is below a directory, with contents.
func whole(t *testing.T, dir string) string {
	t.Helper()
	var out bytes.Buffer
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			fmt.Fprintln(&out, path)
			return err
		}
		b, err := os.ReadFile(path)
		fmt.Fprintf(&out, "%s: %s\n", path, b)
		return err
	}))
	return out.String()
}

// TestNamesDeniedToOne: what leads a name, or a file that has one, on or off one
// agent's deny-list is refused to that agent, in its mount, and to nobody else in
// another at the same time.
func TestNamesDeniedToOne(t *testing.T) {
	s, web, pal := two(t)
	s.watch(2 * time.Minute)
	files := map[string]string{"a.key": "secret", "plain": "plain", "in/d/x.pem": "pem", "in/d/y": "y", "e/z": "z"}
	for _, c := range []struct {
		name string
		do   func(d string) error
	}{
		{"make one", func(d string) error { return openWrite(d+"/new.key", os.O_WRONLY|os.O_CREATE|os.O_EXCL, "x", 0) }},
		{"make one, in another case", func(d string) error { return openWrite(d+"/NEW.KEY", os.O_RDWR|os.O_CREATE, "x", 0) }},
		{"read it", func(d string) error { _, err := os.ReadFile(d + "/a.key"); return err }},
		{"truncate it", func(d string) error { return os.Truncate(d+"/a.key", 0) }},
		{"rename to one", func(d string) error { return renameat2(d+"/plain", d+"/new.key", 0) }},
		{"rename to one that must not be there", func(d string) error { return renameat2(d+"/plain", d+"/new.key", unix.RENAME_NOREPLACE) }},
		{"rename to one elsewhere", func(d string) error { return renameat2(d+"/plain", d+"/e/new.Key", 0) }},
		{"rename over it", func(d string) error { return renameat2(d+"/plain", d+"/a.key", 0) }},
		{"link to one", func(d string) error { return os.Link(d+"/plain", d+"/new.key") }},
		{"link a nameless one", func(d string) error { return linkNameless(d, d+"/new.key") }},
		{"exchange with it", func(d string) error { return renameat2(d+"/plain", d+"/a.key", unix.RENAME_EXCHANGE) }},
		{"exchange it", func(d string) error { return renameat2(d+"/a.key", d+"/plain", unix.RENAME_EXCHANGE) }},
		{"rename it", func(d string) error { return renameat2(d+"/a.key", d+"/free", 0) }},
		{"rename it to one", func(d string) error { return renameat2(d+"/a.key", d+"/b.key", 0) }},
		{"link it", func(d string) error { return os.Link(d+"/a.key", d+"/free") }},
		{"rename to one under the path", func(d string) error { return renameat2(d+"/plain", d+"/in/d/new.pem", 0) }},
		{"rename one out", func(d string) error { return renameat2(d+"/in/d/x.pem", d+"/x.pem", 0) }},
		{"move its directory out", func(d string) error { return renameat2(d+"/in/d", d+"/d", 0) }},
		{"exchange its directory", func(d string) error { return renameat2(d+"/e", d+"/in/d", unix.RENAME_EXCHANGE) }},
		{"rename the rule's directory", func(d string) error { return renameat2(d+"/in", d+"/out", 0) }},
	} {
		must(t, unix.Chdir("/"))
		for path, text := range files {
			must(t, os.MkdirAll(filepath.Dir(pal+"/"+path), 0o755))
			must(t, os.WriteFile(pal+"/"+path, []byte(text), 0o644))
		}
		before := whole(t, pal)
		if err := c.do(web); !errors.Is(err, unix.EACCES) {
			t.Errorf("web, %s: %v", c.name, err)
		}
		if after := whole(t, pal); after != before {
			t.Errorf("web, %s: there is now\n%s", c.name, after)
		}
		if err := c.do(pal); err != nil {
			t.Errorf("pal, %s: %v", c.name, err)
		}
		entries, err := os.ReadDir(pal)
		must(t, err)
		for _, e := range entries {
			must(t, os.RemoveAll(pal+"/"+e.Name()))
		}
	}
	// What does not take a file off the list, or on it, is as free as ever.
	must(t, os.MkdirAll(pal+"/in/d/sub", 0o755))
	must(t, os.WriteFile(pal+"/in/d/sub/x.pem", nil, 0o644))
	must(t, os.WriteFile(pal+"/a.key", nil, 0o644))
	must(t, renameat2(web+"/in/d", web+"/in/e", 0))
	must(t, os.Mkdir(web+"/k.key", 0o755)) // a directory
	must(t, os.Remove(web+"/in/e/sub/x.pem"))
	must(t, renameat2(web+"/in/e", web+"/e", 0))
	must(t, os.Remove(web+"/a.key"))
}

// linkNameless makes a file without a name and then gives it one.
func linkNameless(dir, to string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, to, unix.AT_SYMLINK_FOLLOW)
}

// readAt reads what an open file has.
func readAt(f *os.File) (string, error) {
	b := make([]byte, 64)
	n, err := f.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	return string(b[:n]), err
}

// TestNameDeniedToOneIsNotShedByRemoving: an agent that has another name of a file
// from before it got one that is denied to it cannot remove that one; and what it
// has open it cannot read, not even when no name is left.
func TestNameDeniedToOneIsNotShedByRemoving(t *testing.T) {
	s, web, pal := two(t)
	s.watch(time.Minute)
	must(t, os.WriteFile(pal+"/f.txt", []byte("public"), 0o644))
	held, err := os.Open(web + "/f.txt")
	must(t, err)
	defer held.Close()
	must(t, os.Link(web+"/f.txt", web+"/mine"))
	if got, err := readAt(held); got != "public" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	must(t, os.Rename(pal+"/f.txt", pal+"/f.key"))
	must(t, os.WriteFile(pal+"/f.key", []byte("secret"), 0o644))
	denied := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, unix.EACCES) {
			t.Errorf("%s: %v", what, err)
		}
	}
	sealed := func(when string) {
		t.Helper()
		got, err := readAt(held)
		if got != "" {
			t.Errorf("%s: read %q", when, got)
		}
		denied(when, err)
	}
	sealed("renamed")
	_, err = os.ReadFile(web + "/mine")
	denied("by the other name", err)
	denied("remove the denied name", os.Remove(web+"/f.key"))
	denied("rename the other", os.Rename(web+"/mine", web+"/mine2"))
	must(t, os.Symlink("mine", web+"/soft"))
	denied("put a symlink in its place", os.Rename(web+"/soft", web+"/f.key"))
	x, err := s.space.Explain("web", policy.Remove, "/users/ada/f.key")
	if err != nil || x.Allow || len(x.Rules) != 1 || x.Rules[0].ID != "deny-names/web" {
		t.Errorf("explain: %+v, %v", x, err)
	}
	must(t, os.Remove(web+"/mine"))
	must(t, os.Remove(web+"/f.key")) // the last
	sealed("without a name")

	// It goes by the names that the file has, if others see to it.
	must(t, os.WriteFile(pal+"/g.txt", []byte("public"), 0o644))
	must(t, os.Link(pal+"/g.txt", pal+"/g.key"))
	_, err = os.ReadFile(web + "/g.txt")
	denied("a second name", err)
	must(t, os.Remove(pal+"/g.key"))
	if b, err := os.ReadFile(web + "/g.txt"); string(b) != "public" || err != nil {
		t.Errorf("removed by another: %q, %v", b, err)
	}
}

// TestNameDeniedToOneInRaces: pal keeps renaming a file between a name that is
// denied to web and one that is not, and has something secret in it while it bears
// the first; web tries at the same time whatever might lead around that.
func TestNameDeniedToOneInRaces(t *testing.T) {
	s, web, pal := two(t)
	s.watch(3 * time.Minute)
	rounds := 150
	if testing.Short() {
		rounds = 25
	}
	const secret = "the secret"
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var over atomic.Bool
	var wg sync.WaitGroup
	look := func(how, got string) {
		if bytes.Contains([]byte(got), []byte(secret)) {
			t.Errorf("%s: read %q", how, got)
			over.Store(true)
		}
	}
	names := []string{"f.txt", "f.key", "mine1", "mine2", "got", "x.key"}
	var tried, held atomic.Int64
	for n := range uint64(2) {
		rnd := rand.New(rand.NewPCG(seed, n))
		wg.Go(func() { // names
			for !over.Load() {
				a, b := web+"/"+names[rnd.IntN(len(names))], web+"/"+names[rnd.IntN(len(names))]
				switch rnd.IntN(6) {
				case 0, 1:
					_ = os.Link(a, b)
				case 2:
					_ = renameat2(a, b, unix.RENAME_EXCHANGE)
				case 3:
					_ = renameat2(a, b, 0)
				case 4:
					_ = os.Remove(a)
				case 5:
					_ = os.WriteFile(web+"/mine1", []byte("web's"), 0o644)
				}
				got, _ := os.ReadFile(a)
				look("by its name", string(got))
				tried.Add(1)
			}
		})
		wg.Go(func() { keepOpen(web, names[:3], &over, func(got string) { look("by a handle", got); held.Add(1) }) })
	}
	sealed := 0
	enough := func() bool {
		return sealed >= rounds && tried.Load() >= int64(rounds) && held.Load() >= int64(rounds)
	}
	end := waits.In(2 * time.Minute)
	for !enough() && !over.Load() && !end.Passed() {
		_ = os.WriteFile(pal+"/f.txt", []byte("public"), 0o644)
		if os.Rename(pal+"/f.txt", pal+"/f.key") != nil {
			continue // web took it away meanwhile
		}
		if os.WriteFile(pal+"/f.key", []byte(secret), 0o600) == nil {
			sealed++
		}
		for os.WriteFile(pal+"/f.key", []byte("public"), 0o600) != nil && !end.Passed() {
		}
		_ = os.Rename(pal+"/f.key", pal+"/f.txt")
	}
	over.Store(true)
	wg.Wait()
	t.Logf("%d rounds, %d attempts by name, %d by handle", sealed, tried.Load(), held.Load())
	if sealed < rounds && !t.Failed() {
		t.Errorf("%d of %d rounds in two minutes", sealed, rounds)
	}
}

// keepOpen reads files of these names by handles that are kept for a while, and shows
// what they gave, until it is over.
func keepOpen(dir string, names []string, over *atomic.Bool, show func(string)) {
	var open [8]*os.File
	for i := 0; !over.Load(); i++ {
		at := &open[i%len(open)]
		if *at == nil || i%50 == 0 {
			if *at != nil {
				(*at).Close()
			}
			*at, _ = os.Open(dir + "/" + names[i%len(names)])
		}
		if *at != nil {
			got, _ := readAt(*at)
			show(got)
		}
	}
	for _, f := range open {
		if f != nil {
			f.Close()
		}
	}
}

// TestHiddenNamesInRenames: for rename, link and exchange, from and to, what is
// hidden is as what is not there, also under names that are denied, for each of two
// agents; the one that sees it may do it.
func TestHiddenNamesInRenames(t *testing.T) {
	s, web, _ := two(t)
	s.watch(time.Minute)
	gaia, err := s.space.Open(view.Options{Agent: "gaia"})
	must(t, err)
	const work = "/agents/other/workspace"
	for _, f := range []string{work + "/there", work + "/there.key", work + "/given/f", workDir + "/own"} {
		must(t, gaia.MkdirAll(filepath.Dir(f), 0o755))
		_, err := gaia.WriteFile(f, []byte("x"), 0o644)
		must(t, err)
	}
	top := filepath.Dir(filepath.Dir(web))
	other := s.mount("other", Config{Agent: "other", Root: "/"})
	ops := map[string]func(a, b string) error{
		"rename":    func(a, b string) error { return renameat2(a, b, 0) },
		"noreplace": func(a, b string) error { return renameat2(a, b, unix.RENAME_NOREPLACE) },
		"exchange":  func(a, b string) error { return renameat2(a, b, unix.RENAME_EXCHANGE) },
		"link":      os.Link,
	}
	for _, c := range []struct{ mount, mine, hidden, absent string }{
		{top, workDir + "/own", work + "/there", work + "/absnt"},          // beside what is granted
		{top, work + "/given/f", work + "/there", work + "/absnt"},         // in the same volume
		{top, work + "/given/f", work + "/there.key", work + "/absnt.key"}, // under a name that is denied
		{top, workDir + "/own", "/agents/other/there", "/agents/other/absnt"},
		{top, workDir + "/own", "/users/bob/there", "/users/nobody/there"},
		{other, work + "/there", workDir + "/own", "/agents/nobody/workspace/own"},
		{other, work + "/there", workDir + "/own.key", "/agents/nobody/workspace/own.key"},
	} {
		for name, op := range ops {
			for _, way := range []string{"to", "from"} {
				try := func(path string) unix.Errno {
					a, b := c.mount+c.mine, c.mount+path
					if way == "from" {
						a, b = b, a
					}
					var errno unix.Errno
					if err := op(a, b); !errors.As(err, &errno) {
						t.Errorf("%s %s %s: %v", name, way, path, err)
					}
					return errno
				}
				h, a := try(c.hidden), try(c.absent)
				if h != a {
					t.Errorf("%s %s %s: %v; %s, which is not there: %v", name, way, c.hidden, h, c.absent, a)
				}
			}
		}
	}
	// What it was refused to make beside what is granted to it is told for both alike.
	b, err := os.ReadFile(top + "/.warren/denials")
	must(t, err)
	told := map[string]int{}
	for line := range strings.Lines(string(b)) {
		var d struct {
			Op, Path string
			Count    int
		}
		must(t, json.Unmarshal([]byte(line), &d))
		if strings.Contains(d.Path, "there") {
			told[d.Op+strings.Replace(d.Path, "there", "", 1)] += d.Count
		} else {
			told[d.Op+strings.Replace(d.Path, "absnt", "", 1)] -= d.Count
		}
	}
	for what, n := range told {
		if n != 0 {
			t.Errorf("web's denials tell %d times more of what is hidden: %s\n%s", n, what, b)
		}
	}
	must(t, renameat2(other+work+"/there", other+work+"/there.key", unix.RENAME_EXCHANGE))
	must(t, os.Link(other+work+"/there.key", other+work+"/absnt"))
}
