package fusefs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSetIDIsNotCarriedOut: a soul's set-id file is no program of root's in a
// root's mount, nor in what root copies out of it; neither are its capabilities.
// A soul's own mount shows both.
func TestSetIDIsNotCarriedOut(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	const uid = 12345
	web := s.mount("web", Config{Agent: "web", Root: "/", UID: uid, GID: uid, AllowOther: true})
	gaia := s.mount("gaia", Config{Root: "/"})
	soul := exec.Command("python3", "-c", `import os, sys
os.chdir(sys.argv[1]); os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
os.execlp("sh", "sh", "-c", "echo 'echo hi' > src && install -m 6755 src t")`, web+workDir, fmt.Sprint(uid))
	if out, err := soul.CombinedOutput(); err != nil {
		t.Fatalf("install: %v %s", err, out)
	}
	mode := func(path string, want, owner uint32) {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil || st.Mode&0o7777 != want || st.Uid != owner {
			t.Errorf("%s: %o of %d, want %o of %d (%v)", path, st.Mode&0o7777, st.Uid, want, owner, err)
		}
	}
	caps := []byte("\x01\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x00")
	if err := unix.Setxattr(web+workDir+"/t", "security.capability", caps, 0); err != nil {
		t.Logf("no capabilities here: %v", err)
	}
	mode(web+workDir+"/t", 0o6755, uid)
	mode(gaia+workDir+"/t", 0o755, 0)
	out := filepath.Join(s.dir, "out")
	if b, err := exec.Command("cp", "-a", gaia+workDir+"/t", out).CombinedOutput(); err != nil {
		t.Fatalf("cp -a: %v %s", err, b)
	}
	mode(out, 0o755, 0)
	if n, err := unix.Getxattr(out, "security.capability", nil); err == nil {
		t.Errorf("%d bytes of capabilities carried out", n)
	}
	// A tidying chmod leaves what it says, at both ends.
	must(t, exec.Command("chmod", "g+w", gaia+workDir+"/t").Run())
	mode(gaia+workDir+"/t", 0o775, 0)
	mode(web+workDir+"/t", 0o775, uid)
	must(t, os.Chmod(gaia+workDir+"/t", 0o755|os.ModeSetuid))
	mode(gaia+workDir+"/t", 0o755, 0)
	mode(web+workDir+"/t", 0o755, uid)
}
