package fulltest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/stack"
)

// hurt is one way to damage a store.
type hurt struct {
	name  string
	files string // a pattern; the last that matches is damaged
	do    func(t *testing.T, file string)
	// opens: the store may open all the same. Otherwise says is in what fsck
	// says, which must name the file or directory.
	opens bool
	says  []string
}

// middle damages bytes in the middle of what a file has.
func middle(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	used := len(bytes.TrimRight(b, "\x00"))
	r := rand.New(rand.NewPCG(1, 1))
	for i := used / 2; i < min(used/2+40, len(b)); i++ {
		b[i] ^= byte(1 + r.IntN(255))
	}
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func head(t *testing.T, file string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte("XXXXXXXXXXXXXXXXXXXXXXXX"), 0); err != nil {
		t.Fatal(err)
	}
}

func gone(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

func torn(t *testing.T, file string) {
	t.Helper()
	info, err := os.Stat(file)
	if err == nil {
		err = os.Truncate(file, info.Size()*2/3)
	}
	if err != nil {
		t.Fatal(err)
	}
}

const acceptLoss = "--accept-loss"

func hurts() []hurt {
	return []hurt{
		{name: "manifest flipped", files: "badger/MANIFEST", do: middle, says: []string{"MANIFEST", "damaged", "backup"}},
		{name: "manifest of another", files: "badger/MANIFEST", do: head, says: []string{"MANIFEST"}},
		{name: "manifest missing", files: "badger/MANIFEST", do: gone, says: []string{"MANIFEST", "missing", "backup"}},
		{name: "table flipped", files: "badger/*.sst", do: middle, says: []string{".sst", "damaged", "backup"}},
		{name: "table torn", files: "badger/*.sst", do: torn, says: []string{".sst", "damaged", "backup"}},
		{name: "table missing", files: "badger/*.sst", do: gone, says: []string{".sst", "damaged", "backup"}},
		{name: "database log flipped", files: "badger/*.mem", do: middle, says: []string{"damaged", "acknowledged and are missing", "remove"}},
		{name: "database log missing", files: "badger/*.mem", do: gone, says: []string{"damaged", "acknowledged and are missing", "remove"}},
		{name: "log of another", files: "log/*.log", do: head, says: []string{".log", "damaged", acceptLoss}},
		{name: "log missing", files: "log/*.log", do: gone, says: []string{"log", acceptLoss}},
		{name: "log flipped", files: "log/*.log", do: middle, opens: true},
		{name: "segment flipped", files: "segments/*.seg", do: middle, opens: true},
		{name: "segment missing", files: "segments/*.seg", do: gone, says: []string{".seg"}},
		{name: "format garbled", files: "format", do: head, says: []string{"format", "damaged"}},
		{name: "format missing", files: "format", do: gone, says: []string{"no store at"}},
	}
}

// damagedStore makes a store with something in all of its files, as a kill left it.
func damagedStore(t *testing.T) (s *stack.Stack, store string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts of a stack need root")
	}
	t.Setenv("STACK_CONTENT", "segment")
	store = filepath.Join(t.TempDir(), "store")
	s = stack.ForTest(t, stack.Options{Store: store})
	work := filepath.Join(s.Soul, "agents/web_designer/workspace")
	write := func(from, to int) {
		for i := from; i < to; i++ {
			name := filepath.Join(work, fmt.Sprint(i))
			if err := os.WriteFile(name, content(name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	write(0, 200)
	if err := s.Signal(syscall.SIGTERM); err != nil { // tables
		t.Fatal(err)
	}
	if err := s.Restart(work); err != nil {
		t.Fatal(err)
	}
	write(200, 300)
	time.Sleep(4 * time.Second) // the database has these in its log
	write(300, 320)
	if err := s.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	return s, store
}

// TestDamage damages each file of a store: fsck of the store that does not open
// says which file it is and what to do, and nothing ends by a panic.
func TestDamage(t *testing.T) {
	s, store := damagedStore(t)
	for _, h := range hurts() {
		t.Run(h.name, func(t *testing.T) {
			copied := filepath.Join(t.TempDir(), "store")
			if out, err := exec.Command("cp", "-a", "--sparse=always", store, copied).CombinedOutput(); err != nil {
				t.Fatalf("cp: %v: %s", err, out)
			}
			files, err := filepath.Glob(filepath.Join(copied, h.files))
			if err != nil || len(files) == 0 {
				t.Fatalf("no file %s: %v", h.files, err)
			}
			victim := files[0]
			for _, f := range files { // the biggest: others may hold nothing
				a, _ := os.Stat(f)
				if b, _ := os.Stat(victim); a.Size() > b.Size() {
					victim = f
				}
			}
			h.do(t, victim)
			out, err := s.Try("fsck", "--store", copied)
			text := out
			if err != nil {
				text += err.Error()
			}
			if strings.Contains(text, "goroutine ") || strings.Contains(text, "panic") {
				t.Errorf("a crash: %s", text)
			}
			if err == nil && !h.opens {
				t.Errorf("fsck of the damaged store finds nothing: %s", text)
			}
			for _, word := range h.says {
				if !strings.Contains(text, word) {
					t.Errorf("fsck does not say %q: %s", word, text)
				}
			}
			if strings.Contains(text, acceptLoss) {
				out, err := s.Try("fsck", "--store", copied, "--repair", acceptLoss)
				if err != nil {
					t.Errorf("the way out does not work: %v: %s", err, out)
				}
			}
		})
	}
	if out, err := s.Try("fsck", "--store", store); err != nil {
		t.Errorf("the store itself: %v: %s", err, out)
	}
	if err := s.Start(); err != nil { // for Stop to end in good order
		t.Error(err)
	}
}
