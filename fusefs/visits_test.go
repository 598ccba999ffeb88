package fusefs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/fusefs/visitor"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

// resident is a shell in a mount, which runs commands there.
type resident struct {
	t   *testing.T
	in  io.WriteCloser
	out *bufio.Reader
}

// residentOf starts a shell in dir, as the mount's user.
func residentOf(t *testing.T, dir string, uid uint32) *resident {
	t.Helper()
	cmd := exec.Command("/bin/sh")
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &resident{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	if got := s.run("cd '" + dir + "' && echo in"); got != "in" {
		t.Fatalf("cd %s: %q", dir, got)
	}
	return s
}

// enterable lets other users into dir, a temporary directory.
func enterable(t *testing.T, dir string) {
	t.Helper()
	for ; dir != filepath.Clean(os.TempDir()); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// run runs a command and returns what it prints.
func (s *resident) run(command string) string {
	s.t.Helper()
	if _, err := fmt.Fprintf(s.in, "{ %s ; } 2>&1; echo; echo END\n", command); err != nil {
		s.t.Fatal(err)
	}
	var text strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		if line == "END\n" {
			return strings.TrimSpace(text.String())
		}
		text.WriteString(line)
	}
}

// where returns the shell's directory below dir, as the kernel says it, and the
// names found in it by `..`; "gone" where it has none.
func (s *resident) where(dir string) string {
	s.t.Helper()
	at := s.run("/bin/pwd")
	if strings.Contains(at, "No such file") {
		return "gone"
	}
	below, ok := strings.CutPrefix(at, dir+"/")
	if !ok {
		s.t.Fatalf("pwd outside of %s: %q", dir, at)
	}
	return below
}

// finds checks that the shell is at want, below dir, after do. A visit that did not
// come in time, on a slow machine, may come later; but then do has waited for it.
func (s *resident) finds(dir, want string, do func() error) {
	s.t.Helper()
	start := time.Now()
	must(s.t, do())
	took := time.Since(start)
	if got := s.where(dir); got == want {
		return
	} else if took < patience {
		s.t.Errorf("pwd: %s, want %s", got, want)
		return
	}
	s.t.Logf("the visit took more than %v", patience)
	waits.For(s.t, "the shell is at "+want, func() bool { return s.where(dir) == want })
}

// kinds are mounts of workDir/tree in which a process stands.
var kinds = []struct {
	name string
	cfg  Config
	user uint32
}{
	{"orchestrator", Config{}, 0},
	{"soul", Config{Agent: "web"}, 0},
	{"user", Config{Agent: "web", UID: 1234, GID: 1234}, 1234},
	{"user, other allowed", Config{Agent: "web", UID: 1234, GID: 1234, AllowOther: true}, 1234},
	{"read-only", Config{Agent: "web", Access: view.ReadOnly}, 0},
	{"whole tree", Config{Root: "/"}, 0},
	{"deeper root", Config{Root: workDir + "/tree"}, 0},
	{"ACL", Config{ACL: true}, 0},
}

// moves are renames of what a shell in tree/proj/sub stands in: where it is then,
// below tree.
var moves = []struct {
	name string
	do   func(tree string) error
	want string
}{
	{"the directory above", func(d string) error { return os.Rename(d+"/proj", d+"/proj.old") }, "proj.old/sub"},
	{"the directory above, made again", func(d string) error {
		return errors.Join(os.Rename(d+"/proj", d+"/proj.old"), os.MkdirAll(d+"/proj/sub", 0o777))
	}, "proj.old/sub"},
	{"the directory", func(d string) error { return os.Rename(d+"/proj/sub", d+"/proj/sub2") }, "proj/sub2"},
	{"there and back", func(d string) error {
		return errors.Join(os.Rename(d+"/proj/sub", d+"/proj/sub2"), os.Rename(d+"/proj/sub2", d+"/proj/sub"))
	}, "proj/sub"},
	{"elsewhere", func(d string) error { return os.Rename(d+"/proj/sub", d+"/other/deep/sub") }, "other/deep/sub"},
	{"exchange", func(d string) error {
		return unix.Renameat2(unix.AT_FDCWD, d+"/proj", unix.AT_FDCWD, d+"/other", unix.RENAME_EXCHANGE)
	}, "other/sub"},
	{"over an empty one", func(d string) error { return unix.Rename(d+"/proj", d+"/empty") }, "empty/sub"},
}

// TestReportDirectoryRenamedElsewhere: a process knows where its directory is,
// and works there, after another mount renamed it or one above.
func TestReportDirectoryRenamedElsewhere(t *testing.T) {
	s := newStack(t, memDriver)
	enterable(t, s.dir)
	n := s.mount("n", Config{})
	for i, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			m := s.mount(fmt.Sprint("m", i), kind.cfg)
			for _, mv := range moves {
				t.Run(mv.name, func(t *testing.T) {
					tree := n + "/tree"
					for _, d := range []string{"/proj/sub", "/other/deep", "/empty"} {
						if err := os.MkdirAll(tree+d, 0o777); err != nil {
							t.Fatal(err)
						}
					}
					defer func() {
						if err := errors.Join(os.RemoveAll(tree+"/proj"), os.RemoveAll(tree+"/proj.old"), os.RemoveAll(tree+"/other"), os.RemoveAll(tree+"/empty")); err != nil {
							t.Error(err)
						}
					}()
					seen := m + map[string]string{"/": workDir + "/tree", workDir + "/tree": ""}[kind.cfg.Root]
					if kind.cfg.Root == "" {
						seen = m + "/tree"
					}
					sh := residentOf(t, seen+"/proj/sub", kind.user)
					sh.finds(seen, mv.want, func() error { return mv.do(tree) })
					up := mv.want[:strings.LastIndexByte(mv.want, '/')]
					if got := strings.TrimPrefix(sh.run("cd -P .. && /bin/pwd"), seen+"/"); got != up {
						t.Errorf("pwd in ..: %s, want %s", got, up)
					}
				})
			}
		})
	}
}

// TestReportRenamedToWhereTheMountSeesNothing: the directory of a process is gone
// when it was moved out of what its mount shows, without a hint where to, and
// is back when it is moved back in.
func TestReportRenamedToWhereTheMountSeesNothing(t *testing.T) {
	s := newStack(t, memDriver)
	n := s.mount("n", Config{})
	if err := errors.Join(os.MkdirAll(n+"/tree/proj/sub/leaf", 0o777), os.Mkdir(n+"/secret", 0o777)); err != nil {
		t.Fatal(err)
	}
	m := s.mount("m", Config{Agent: "web", Root: workDir + "/tree"})
	for _, at := range []string{"/proj", "/proj/sub", "/proj/sub/leaf"} {
		t.Run(at, func(t *testing.T) {
			sh := residentOf(t, m+at, 0)
			if err := os.Rename(n+"/tree/proj", n+"/secret/hidden"); err != nil {
				t.Fatal(err)
			}
			if got := sh.where(m); got != "gone" {
				t.Errorf("pwd of a directory that left the mount: %s", got)
			}
			if err := os.MkdirAll(n+"/tree"+at, 0o777); err != nil {
				t.Fatal(err)
			}
			if got := sh.where(m); got != "gone" {
				t.Errorf("pwd once another has its name: %s", got)
			}
			must(t, os.RemoveAll(n+"/tree/proj"))
			sh.finds(m, "back"+strings.TrimPrefix(at, "/proj"), func() error { return os.Rename(n+"/secret/hidden", n+"/tree/back") })
			if err := os.Rename(n+"/tree/back", n+"/tree/proj"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestReportRenamedByTheAPI: it is the same where no mount renames.
func TestReportRenamedByTheAPI(t *testing.T) {
	s := newStack(t, memDriver)
	m := s.mount("m", Config{Agent: "web"})
	must(t, os.MkdirAll(m+"/proj/sub", 0o755))
	sh := residentOf(t, m+"/proj/sub", 0)
	api, err := s.space.Open(view.Options{Administrator: true})
	must(t, err)
	defer api.Close()
	dir, err := api.Find(workDir, true)
	must(t, err)
	sh.finds(m, "moved/sub", func() error { return api.Rename(nil, dir.Attr.Node, "proj", dir.Attr.Node, "moved", 0) })
	if got := sh.run("echo out > $(/bin/pwd)/out; cat " + m + "/moved/sub/out"); got != "out" {
		t.Errorf("what the shell wrote: %q", got)
	}
}

// TestVisitToAMountThatKeepsALock: a mount that does not let its visitor in holds
// nobody up for longer than promised, and knows the new name once it lets go.
func TestVisitToAMountThatKeepsALock(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(2 * time.Minute)
	gaia := s.mount("gaia", Config{})
	soul := s.mounted("soul", Config{Agent: "web"})
	must(t, os.MkdirAll(gaia+"/d/proj/sub", 0o755))
	must(t, os.MkdirAll(gaia+"/e/proj", 0o755))
	sh := residentOf(t, soul.Dir()+"/d/proj/sub", 0)
	also := residentOf(t, soul.Dir()+"/e/proj", 0)
	release := s.pin(soul.Dir() + "/d")
	names := []string{"proj"}
	for i := range 4 {
		names = append(names, fmt.Sprint("proj", i))
		start := time.Now()
		must(t, os.Rename(gaia+"/d/"+names[i], gaia+"/d/"+names[i+1]))
		took := time.Since(start)
		t.Logf("rename %d took %v", i, took)
		if limit := 2 * patience; took > limit {
			t.Errorf("rename %d took %v", i, took)
		}
	}
	release()
	waits.For(t, "the names are right", func() bool { return sh.where(soul.Dir()) == "d/proj3/sub" })
	must(t, os.Rename(gaia+"/e/proj", gaia+"/e/other"))
	waits.For(t, "the names are right", func() bool { return also.where(soul.Dir()) == "e/other" })
}

// TestDirectoriesRenamedFromTwoMounts: two mounts that rename at once what the
// other's processes stand in wait for each other a moment at most, and both are right
// afterwards.
func TestDirectoriesRenamedFromTwoMounts(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(3 * time.Minute)
	a, b := s.mount("a", Config{}), s.mount("b", Config{})
	must(t, os.MkdirAll(a+"/one/sub", 0o755))
	must(t, os.MkdirAll(a+"/two/sub", 0o755))
	inA, inB := residentOf(t, a+"/one/sub", 0), residentOf(t, b+"/two/sub", 0)
	const turns = 50
	rename := func(m, name string) error { // what the other mount's resident is in
		for i := range turns {
			from := fmt.Sprint(name, i)
			if i == 0 {
				from = name
			}
			start := time.Now()
			if err := os.Rename(m+"/"+from, fmt.Sprint(m, "/", name, i+1)); err != nil {
				return err
			}
			if took := time.Since(start); took > 10*time.Second {
				return fmt.Errorf("a rename took %v", took)
			}
		}
		return nil
	}
	errs := make(chan error, 2)
	start := time.Now()
	go func() { errs <- rename(a, "two") }()
	go func() { errs <- rename(b, "one") }()
	must(t, errors.Join(<-errs, <-errs))
	t.Logf("%d renames took %v", 2*turns, time.Since(start))
	waits.For(t, "the names are right", func() bool { return inA.where(a) == fmt.Sprint("one", turns, "/sub") })
	waits.For(t, "the names are right", func() bool { return inB.where(b) == fmt.Sprint("two", turns, "/sub") })
}

// TestVisitorComesBack: a visitor that was killed is started again, one is enough for
// all mounts, and none outlives the hub. A rename of what no other mount holds, or of
// a file, starts none.
func TestVisitorComesBack(t *testing.T) {
	s := newStack(t, memDriver)
	a, b := s.mount("a", Config{}), s.mount("b", Config{Agent: "web"})
	must(t, os.MkdirAll(a+"/proj/sub", 0o755))
	must(t, os.WriteFile(a+"/f", nil, 0o644))
	_, err := os.Stat(b + "/f")
	must(t, err)
	sh := residentOf(t, b, 0)
	before := descriptors(t)
	must(t, os.Rename(a+"/f", a+"/g"))
	must(t, os.Rename(a+"/proj", a+"/first"))
	if got := visitors(t); len(got) > 0 {
		t.Errorf("visitors that nobody needs: %v", got)
	}
	sh.run("cd first/sub")
	for i, from := range []string{"first", "p0", "p1", "p2"} {
		sh.finds(b, fmt.Sprint("p", i, "/sub"), func() error { return os.Rename(a+"/"+from, fmt.Sprint(a, "/p", i)) })
		pids := visitors(t)
		if len(pids) != 1 {
			t.Errorf("visitors: %v", pids)
		}
		for _, pid := range pids {
			must(t, unix.Kill(pid, unix.SIGKILL))
		}
	}
	s.hub.endVisits()
	waits.For(t, "no visitor", func() bool { return len(visitors(t)) == 0 })
	must(t, os.Rename(a+"/p3", a+"/last")) // nobody looks it up, and nobody waits
	waits.For(t, "no more descriptors", func() bool { return descriptors(t) <= before })
}

// visitors lists the visitors of this process.
func visitors(t *testing.T) (pids []int) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, name := range all {
		line, _ := os.ReadFile(name)
		if strings.TrimRight(string(line), "\x00") != visitor.Stage {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		must(t, err)
		status, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "status"))
		if strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())) {
			pids = append(pids, pid)
		}
	}
	return pids
}
