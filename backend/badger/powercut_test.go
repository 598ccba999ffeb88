package badger_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"golang.org/x/sys/unix"
)

// bulk is a value of Update n that fills logs and tables quickly.
func bulk(n int) string {
	r := rand.New(rand.NewPCG(uint64(n), 3))
	b := make([]byte, 60<<10)
	for i := 0; i < len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], r.Uint64())
	}
	return string(b)
}

// TestInWriter is not a test of its own: TestPowerCut and TestKill run it in a
// process of its own. It makes Updates for ever and prints the number of each
// that returned.
func TestInWriter(t *testing.T) {
	dir := os.Getenv("WRITER_DIR")
	if dir == "" {
		t.Skip("runs in a child only")
	}
	full := os.Getenv("WRITER_BALLAST") != ""
	s := open(t, dir)
	if full {
		closeStore(t, s)
		s = openFull(t, dir)
	}
	for n := int(s.LastLSN()) + 1; ; n++ {
		_, err := s.Update(ctx, func(tx backend.Tx) error {
			if err := tx.Set([]byte("zbulk"), []byte(bulk(n))); err != nil {
				return err
			}
			return apply(tx, step(n))
		})
		if full && err != nil && backend.KindOf(err) == backend.NoSpace {
			n--
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("ACK", n)
	}
}

// writer is a running TestInWriter.
type writer struct {
	cmd   *exec.Cmd
	acked chan int        // the last number, when its output ended
	said  strings.Builder // the rest of its output, once it ended
}

// ended tells whether the writer has ended by itself.
func (w *writer) ended() bool { return len(w.acked) > 0 }

func startWriter(t *testing.T, dir string, env ...string) *writer {
	t.Helper()
	w := &writer{cmd: exec.Command(os.Args[0], "-test.run=^TestInWriter$", "-test.timeout=120s"), acked: make(chan int, 1)}
	w.cmd.Env = append(os.Environ(), append(env, "WRITER_DIR="+dir)...)
	out, err := w.cmd.StdoutPipe()
	w.cmd.Stderr = w.cmd.Stdout
	if err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		last := 0
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if n, _ := fmt.Sscanf(lines.Text(), "ACK %d", &last); n == 0 && w.said.Len() < 4000 {
				fmt.Fprintln(&w.said, lines.Text())
			}
		}
		w.acked <- last
	}()
	t.Cleanup(func() { _ = w.cmd.Process.Kill() })
	return w
}

// kill ends the writer and gives the number of the last Update it had been told
// of.
func (w *writer) kill(t *testing.T) int {
	t.Helper()
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	last := <-w.acked
	_ = w.cmd.Wait()
	return last
}

// checkAfter opens dir after a crash: it has exactly the state after some
// Update, and the one last acknowledged is in it.
func checkAfter(t *testing.T, dir string, acked int) int {
	t.Helper()
	got := openInChild(t, dir, "CHILD_BULK=1")
	lsn := 0
	if _, err := fmt.Sscanf(got, "lsn %d", &lsn); err != nil || lsn < acked || lsn > acked+1 {
		t.Errorf("after a crash with Update %d acknowledged: %s", acked, got)
	}
	return lsn
}

// TestKill kills a process that writes, again and again, on one store.
func TestKill(t *testing.T) {
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for i := range 3 * scale(t) {
		dir := t.TempDir()
		w := startWriter(t, dir)
		time.Sleep(time.Duration(200+r.IntN(800)) * time.Millisecond)
		acked := w.kill(t)
		if acked == 0 && i > 0 {
			t.Error("nothing was written")
		}
		checkAfter(t, dir, acked)
	}
}

// TestPowerCut cuts the power: the store is on a filesystem in an image, and
// what of the image the disk has been given at some moment is mounted again.
func TestPowerCut(t *testing.T) {
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for range 3 * scale(t) {
		cutPower(t, time.Duration(400+r.IntN(1600))*time.Millisecond)
	}
}

func cutPower(t *testing.T, after time.Duration) {
	t.Helper()
	tmp := t.TempDir()
	image, copied := filepath.Join(tmp, "image"), filepath.Join(tmp, "copy")
	mkfs(t, image, "500M")
	unmount := mountImage(t, image)
	w := startWriter(t, filepath.Join(image+".d", "store"))
	time.Sleep(after)
	if err := w.cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // its threads stop, its writes reach the image
	if err := sparseCopy(image, copied); err != nil {
		t.Fatal(err)
	}
	acked := w.kill(t)
	unmount()
	unmountCopy := mountImage(t, copied)
	defer unmountCopy()
	if acked < 2 {
		t.Logf("only %d Updates: a slow disk", acked)
	}
	checkAfter(t, filepath.Join(copied+".d", "store"), acked)
}

// mkfs makes an image with an ext4, or skips the test.
func mkfs(t *testing.T, image, size string, options ...string) {
	t.Helper()
	if out, err := exec.Command("mkfs.ext4", append(options, "-q", "-F", image, size)...).CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4: %v: %s", err, out)
	}
}

// mountImage mounts an image beside itself, or skips the test.
func mountImage(t *testing.T, image string) (unmount func()) {
	t.Helper()
	dir := image + ".d"
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("mount an image: %v: %s", err, strings.TrimSpace(string(out)))
	}
	done := false
	unmount = func() {
		if !done {
			done = true
			_ = exec.Command("umount", "-l", dir).Run()
		}
	}
	t.Cleanup(unmount)
	return unmount
}

func sparseCopy(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	for off := int64(0); ; {
		start, err := unix.Seek(int(in.Fd()), off, unix.SEEK_DATA)
		if err != nil { // ENXIO: no more data
			return out.Truncate(info.Size())
		}
		if off, err = unix.Seek(int(in.Fd()), start, unix.SEEK_HOLE); err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(out, start), io.NewSectionReader(in, start, off-start)); err != nil {
			return err
		}
	}
}
