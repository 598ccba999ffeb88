package fusefs

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

// quota sets the hard limits of a volume.
func (s *stack) quota(path string, bytes, inodes uint64) {
	s.t.Helper()
	v, err := s.space.Open(view.Options{Agent: "gaia", UID: backend.OwnerID, GID: backend.OwnerID})
	must(s.t, err)
	_, err = v.SetQuota(path, view.QuotaChange{Bytes: &bytes, Inodes: &inodes})
	must(s.t, err)
}

// TestQuotaRace: eight writers on two mounts race to the limits. Each ends with
// EDQUOT; what the files hold, df, df -i and the control file agree with the
// limits, and fsck (at the test's end) with what is there.
func TestQuotaRace(t *testing.T) {
	s := newStack(t, badgerDriver)
	s.watch(2 * time.Minute)
	const bytes, inodes = 4 << 20, 60
	s.quota(workDir, bytes, inodes)
	mounts := []string{s.mount("web", Config{Agent: "web"}), s.mount("gaia", Config{Agent: "gaia"})}
	var wg sync.WaitGroup
	for w := range 8 { // each has one file at least to fill
		must(t, os.WriteFile(fmt.Sprintf("%s/%d-0", mounts[w%2], w), nil, 0o644))
	}
	for w := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			refused := 0
			for i := 0; refused < 10; i++ {
				name := fmt.Sprintf("%s/%d-%d", mounts[w%2], w, i%12)
				f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
				if errors.Is(err, syscall.EDQUOT) {
					continue // of inodes
				}
				if err == nil {
					_, err = f.Write(make([]byte, 3001+i*997%40_000))
					err = errors.Join(err, f.Close())
				}
				if errors.Is(err, syscall.EDQUOT) {
					refused++
				} else if err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	for _, dir := range mounts {
		var sum, blocks, files int64
		must(t, filepath.Walk(dir, func(_ string, fi os.FileInfo, err error) error {
			if err == nil && fi.Mode().IsRegular() {
				sum, blocks, files = sum+fi.Size(), blocks+fi.Sys().(*syscall.Stat_t).Blocks, files+1
			}
			return err
		}))
		if sum != bytes || files != inodes-1 || blocks*512 < bytes || blocks*512 >= bytes+files*512 {
			t.Errorf("%s: %d files hold %d bytes in %d blocks", dir, files, sum, blocks)
		}
		var st unix.Statfs_t
		must(t, unix.Statfs(dir+"/0-0", &st))
		if int64(st.Blocks)*st.Bsize != bytes || st.Bfree != 0 || st.Bavail != 0 || st.Files != inodes || st.Ffree != 0 {
			t.Errorf("df %s: %+v", dir, st)
		}
		text, err := os.ReadFile(dir + "/.warren/quota")
		must(t, err)
		var q view.Quota
		must(t, json.Unmarshal(text, &q))
		if q.Path != workDir || q.Bytes.Used != bytes || q.Bytes.Hard != bytes || q.Inodes.Used != inodes {
			t.Errorf("%s", text)
		}
	}
}

// TestQuotaAtTheLimit: a write that does not fit is done as far as it does; what
// is deleted can be written again as soon as the kernel has let go of it; another
// volume has its own.
func TestQuotaAtTheLimit(t *testing.T) {
	s := newStack(t, memDriver)
	s.watch(time.Minute)
	const limit = 300_000
	s.quota(workDir, limit, 0)
	dir := s.mount("web", Config{Agent: "web", Root: "/"})
	work := dir + workDir
	gaia, err := s.space.Open(view.Options{Agent: "gaia", UID: backend.OwnerID, GID: backend.OwnerID})
	must(t, err)
	for _, flags := range []int{os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND} {
		for range 5 {
			f, err := os.OpenFile(work+"/f", flags|os.O_CREATE, 0o644)
			must(t, err)
			n, err := f.Write(make([]byte, limit+1))
			if n != limit || !errors.Is(err, syscall.EDQUOT) {
				t.Errorf("flags %x: wrote %d, %v", flags, n, err)
			}
			if n, err := f.WriteAt(make([]byte, 5000), 100); flags&os.O_APPEND == 0 && (n != 5000 || err != nil) {
				t.Errorf("flags %x: over what is there, wrote %d, %v", flags, n, err)
			}
			fi, err := f.Stat()
			must(t, err)
			if fi.Size() != limit {
				t.Errorf("flags %x: size %d", flags, fi.Size())
			}
			must(t, f.Close())
			a, err := gaia.Resolve(workDir + "/f")
			must(t, err)
			must(t, os.Remove(work+"/f"))
			for end := waits.In(time.Minute); s.hub.InUse(a.Node); time.Sleep(time.Millisecond) {
				if end.Passed() {
					t.Fatal("the kernel keeps what was deleted")
				}
			}
		}
	}
	must(t, os.WriteFile(work+"/full", make([]byte, limit), 0o644))
	must(t, os.WriteFile(dir+"/agents/web/scratch/f", make([]byte, limit), 0o644))
	text, err := os.ReadFile(dir + "/.warren/quota")
	must(t, err)
	if strings.Contains(string(text), "other") || strings.Count(string(text), "\n") != 4 {
		t.Errorf("web is told %s", text)
	}
}
