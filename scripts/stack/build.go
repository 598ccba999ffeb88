package stack

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// build puts the program in its place. Under scripts/cleanly it is built once
// for all packages.
func (s *Stack) build() error {
	if err := os.Mkdir(filepath.Dir(s.bin), 0o755); err != nil {
		return err
	}
	if run := os.Getenv("WARREN_TEST_RUN"); run == "" {
		if err := compile(s.bin); err != nil {
			return err
		}
	} else if err := compileOnce(filepath.Join(run, "under-test"), s.bin); err != nil {
		return err
	}
	return os.Symlink(filepath.Base(s.bin), filepath.Join(filepath.Dir(s.bin), "warren"))
}

// compileOnce makes bin a link to shared, which the first of all processes that
// ask builds.
func compileOnce(shared, bin string) error {
	lock, err := os.OpenFile(shared+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	if _, err := os.Stat(shared); errors.Is(err, os.ErrNotExist) {
		if err := compile(shared + ".new"); err != nil {
			return err
		}
		if err := os.Rename(shared+".new", shared); err != nil {
			return err
		}
	}
	return os.Link(shared, bin)
}

// compile builds the program, with the race detector where these tests have it.
func compile(bin string) error {
	top, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return fmt.Errorf("go list -m: %w", err)
	}
	args := []string{"build", "-buildvcs=false", "-o", bin}
	if raceDetector {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/warren")...)
	cmd.Dir = strings.TrimSpace(string(top))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}
