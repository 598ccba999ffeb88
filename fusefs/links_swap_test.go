package fusefs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// swapping exchanges files and directories with links that lead out, and moves links
// with ".." between two depths, while gaia opens paths through them; it prints what
// she was led to.
const swapping = `
import ctypes, os, sys, time, multiprocessing as mp
S, G, secret = sys.argv[1:]
W, end, deep = "/agents/web/workspace", time.time() + 3, "r/1/2/3/4/5/6/deep"
libc = ctypes.CDLL(None)
def exchange(a, b): return libc.renameat2(-100, a.encode(), -100, b.encode(), 2)
os.chdir(S + W)
os.makedirs(deep); os.mkdir("r/dir")
for k in range(3, 30): os.symlink("../" * k + secret.lstrip("/"), "%s/u%d" % (deep, k))
for f in "r/file", "r/dir/secret":
    with open(f, "w") as o: o.write("plain")
os.symlink(secret, "r/lnk"); os.symlink(os.path.dirname(secret), "r/dlnk")
def soul():
    while time.time() < end:
        exchange("r/file", "r/lnk"); exchange("r/dir", "r/dlnk")
        os.rename(deep, "r/deep"); os.rename("r/deep", deep)
def gaia(q):
    os.chdir(G + W)
    got, read = [], 0
    paths = ["r/file", "r/lnk", "r/dir/secret", "r/dlnk/secret"] + ["%s/u%d" % (d, k) for d in (deep, "r/deep") for k in range(3, 30)]
    while time.time() < end:
        for p in paths:
            try:
                with open(p) as f: text = f.read()
            except OSError: continue
            read += text == "plain"
            if text != "plain": got.append(p)
    q.put((read, got))
q = mp.Queue()
ps = [mp.Process(target=soul)] + [mp.Process(target=gaia, args=(q,)) for _ in range(2)]
for p in ps: p.start()
for _ in ps[1:]:
    read, got = q.get()
    if got or not read: print(read, got)
for p in ps: p.join()
`

// TestLinksSwappedDuringAWalk: nothing that the maker of a link moves while it is
// followed leads out of the tree.
func TestLinksSwappedDuringAWalk(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("needs python3")
	}
	s := newStack(t, memDriver)
	s.watch(3 * time.Minute)
	soul, gaia := s.mount("soul", Config{Agent: "web", Root: "/"}), s.mount("gaia", Config{Root: "/"})
	secret := filepath.Join(s.dir, "host", "secret")
	must(t, os.Mkdir(filepath.Dir(secret), 0o755))
	must(t, os.WriteFile(secret, []byte("secret"), 0o600))
	out, err := exec.Command("python3", "-c", swapping, soul, gaia, secret).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("led out: %s %v", out, err)
	}
}
