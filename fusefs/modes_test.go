package fusefs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// modeScripts are run in an empty directory of the caller's.
var modeScripts = []struct{ name, text string }{
	{"file without r", "echo x >f; chmod 300 f; cat f; echo y >>f; chmod 400 f; cat f; echo z >>f"},
	{"file without w", "echo x >f; chmod 444 f; echo y >f; echo y >>f; truncate -s 0 f; cat f; rm -f f; ls"},
	{"truncate on open", "echo x >f; chmod 400 f; true >f; dd status=none if=/dev/null of=f; cat f"},
	{"directory without x", "mkdir d; echo x >d/f; chmod 600 d; cat d/f; stat -c %s d/f; ls d; echo y >d/g; rm -f d/f; chmod 700 d; ls d"},
	{"directory without x, warm", "mkdir d; echo x >d/f; cat d/f; stat -c %s d/f; chmod 600 d; stat -c %s d/f; cat d/f; chmod 700 d; cat d/f"},
	{"directory without r", "mkdir d; echo x >d/f; chmod 300 d; ls d; cat d/f; echo y >d/g; rm d/f; chmod 700 d; ls d"},
	{"directory without w", "mkdir d; echo x >d/f; chmod 500 d; echo y >d/g; rm -f d/f; mv d/f d/h; ln d/f d/l; ln -s f d/s; mkdir d/k; mkfifo d/p; echo z >d/f; cat d/f; chmod 700 d; ls d"},
	{"move of a directory without w", "mkdir a b a/d; chmod 500 a/d; mv a/d a/e; mv a/e b/e; ls a b; chmod 700 a/e; mv a/e b/e; ls a b"},
	{"move into a directory without w", "mkdir a b; echo x >a/f; chmod 500 b; mv a/f b/f; ls a b; chmod 700 b; mv a/f b/f; ls a b"},
	{"replacing what is read-only", "echo x >f; chmod 400 f; echo y >g; mv -f g f; cat f"},
	{"exec", "printf '#!/bin/sh\\necho ran\\n' >f; chmod 644 f; ./f; chmod 744 f; ./f; chmod 654 f; ./f; chmod 100 f; ./f; chmod 500 f; ./f"},
	{"exec without r", "cp /bin/true t; chmod 111 t; ./t && echo ran; cat t >/dev/null; chmod 010 t; ./t"},
	{"access", "echo x >f; for m in 000 100 200 400 600 711 755; do chmod $m f; for r in r w x e; do test -$r f && echo $m $r; done; done"},
	{"access to a directory", "mkdir d; for m in 000 100 200 400 600 711 755; do chmod $m d; for r in r w x; do test -$r d && echo $m $r; done; (cd d && echo in $m); done"},
	{"times", "echo x >f; chmod 000 f; touch f && echo now; touch -d 2020-01-01 f && stat -c %Y f"},
	{"changing mode and owner", "echo x >f; chmod 640 f && stat -c %a f; chgrp $(id -g) f && echo own group; chgrp 4242 f && echo strange group; chown 4242 f && echo strange user; chown $(id -u) f && echo own; stat -c '%u:%g' f"},
	{"set-group-id", "echo x >f; chmod 2755 f; stat -c %a f; mkdir d; chmod 2755 d; stat -c %a d; echo x >d/f; mkdir d/k; stat -c %a d/k"},
	{"attributes", "echo x >f; setfattr -n user.a -v 1 f; chmod 400 f; setfattr -n user.a -v 2 f; getfattr -n user.a --only-values f; chmod 200 f; getfattr -n user.a --only-values f; setfattr -x user.a f"},
	{"sticky", "mkdir d; chmod 1777 d; echo x >d/f; rm d/f && echo gone; mkdir d/k; rmdir d/k && echo gone"},
	{"opened before", "echo x >f; exec 3<>f; chmod 000 f; cat <&3; echo y >&3; chmod 600 f; cat f"},
	{"nameless and linked", "echo x >f; chmod 000 f; ln f g && ls; cp -l f h; ls"},
}

// modeCallers are who runs them.
var modeCallers = []struct {
	name string
	uid  uint32
	run  []string
}{
	{"user", 1000, nil},
	{"root", 0, nil},
	{"root without capabilities", 0, []string{"setpriv", "--bounding-set=-all", "--inh-caps=-all"}},
	{"user with capabilities", 1000, []string{"setpriv", "--inh-caps=+dac_override,+fowner", "--ambient-caps=+dac_override,+fowner"}},
}

// TestModesOfOwner: in a mount that leaves mode bits to the view, scripts print what they
// print on a local file system.
func TestModesOfOwner(t *testing.T) {
	for _, tool := range []string{"setpriv", "setfattr"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	s := newStack(t, memDriver)
	s.watch(5 * time.Minute)
	s.openUp()
	for _, who := range modeCallers {
		name := strings.ReplaceAll(who.name, " ", "-")
		m := s.mount(name, Config{UID: who.uid, GID: who.uid})
		local := filepath.Join(s.dir, "local-"+name)
		must(t, os.Mkdir(local, 0o755))
		must(t, os.Chown(local, int(who.uid), int(who.uid)))
		for i, c := range modeScripts {
			dir := name + "-" + string(rune('a'+i))
			run := func(base string) string {
				script := "umask 022; mkdir " + dir + " && cd " + dir + " && { " + c.text + "; } 2>&1; echo exit $?"
				cmd := exec.Command("sh", "-c", script)
				if who.run != nil {
					cmd = exec.Command(who.run[0], append(who.run[1:], "sh", "-c", script)...)
				}
				cmd.Dir = "/"
				cmd.Args[len(cmd.Args)-1] = "cd " + base + " && " + script
				cmd.Env = append(os.Environ(), "LC_ALL=C")
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: who.uid, Gid: who.uid}}
				if who.uid != 0 && who.run != nil {
					cmd.SysProcAttr.AmbientCaps = []uintptr{capDACOverride, capFowner}
					cmd.Args = cmd.Args[len(who.run):]
					cmd.Path = "/bin/sh"
				}
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Errorf("%s, %s: %v\n%s", who.name, c.name, err, out)
				}
				return strings.ReplaceAll(string(out), base, "")
			}
			if got, want := run(m), run(local); got != want {
				t.Errorf("%s, %s: %s\nin the mount:\n%s\nlocally:\n%s", who.name, c.name, c.text, got, want)
			}
		}
	}
}

// TestOpenAfterSizeChanged: a file that another mount made longer or shorter is opened with its
// size of now, also where it is mapped.
func TestOpenAfterSizeChanged(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	a, b := s.mount("a", Config{}), s.mount("b", Config{})
	must(t, os.WriteFile(a+"/f", []byte("x"), 0o644))
	for _, size := range []int{9000, 100, 70_000} {
		if got, err := os.ReadFile(b + "/f"); err != nil {
			t.Fatal(len(got), err)
		}
		must(t, os.WriteFile(a+"/f", []byte(strings.Repeat("y", size)), 0o644))
		// In a process of its own: a fault that waits for the daemon would stop this one,
		// which is the daemon too.
		out, err := exec.Command("python3", "-c", mapAll, b+"/f", strconv.Itoa(size)).CombinedOutput()
		if err != nil || string(out) != strings.Repeat("y", size) {
			t.Errorf("%d bytes: %d are in the map (%v)", size, len(out), err)
		}
	}
}

// mapAll opens a file and prints all of a map of it, which asks for no attributes.
const mapAll = `
import ctypes, os, sys
fd, size = os.open(sys.argv[1], os.O_RDONLY), int(sys.argv[2])
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
at = libc.mmap(None, size, 1, 1, fd, 0)
sys.stdout.write(ctypes.string_at(at, size).decode())`
