package fusefs

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestStress runs file stressors of stress-ng in two mounts of one directory
// while a third lists and looks at everything, for as long as a hammer test.
func TestStress(t *testing.T) {
	if _, err := exec.LookPath("stress-ng"); err != nil {
		t.Skip("no stress-ng")
	}
	s := newStack(t, memDriver)
	d := hammerTime(t)
	s.watch(d + 3*time.Minute)
	a, b, third := s.mount("a", Config{}), s.mount("b", Config{}), s.mount("c", Config{})
	ctx, cancel := context.WithTimeout(context.Background(), d+2*time.Minute)
	defer cancel()
	stressors := [][]string{
		{a, "--dentry", "1", "--dentries", "200", "--rename", "1", "--hdd", "1", "--hdd-bytes", "4m", "--link", "1"},
		{b, "--dir", "1", "--dir-dirs", "100", "--symlink", "1", "--utime", "1", "--flock", "1"},
	}
	done := make(chan error, len(stressors))
	for _, st := range stressors {
		go func() {
			args := append([]string{"--temp-path", st[0], "--timeout", fmt.Sprint(max(1, int(d.Seconds()))), "--verify"}, st[1:]...)
			cmd := exec.CommandContext(ctx, "stress-ng", args...)
			cmd.WaitDelay = time.Second
			out, err := cmd.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%v: %w\n%s", args, err, out)
			}
			done <- err
		}()
	}
	walks := 0
	for left := len(stressors); left > 0; walks++ {
		select {
		case err := <-done:
			left--
			if err != nil {
				t.Error(err)
			}
		default:
			_ = filepath.WalkDir(third, func(path string, _ fs.DirEntry, _ error) error {
				_, _ = os.Lstat(path) // what goes meanwhile is no error
				return nil
			})
		}
	}
	s.logStats(walks)
}
