package writeback_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/crashdir"
	"github.com/warrenfs/warren/backend/internal/dirfs"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/segment"
	"github.com/warrenfs/warren/backend/writeback"
	"golang.org/x/sys/unix"
)

// whole is a store of three parts, as serve opens it.
type whole struct {
	*segment.Store
	c  *segment.Content
	wb *writeback.Store
}

var partNames = []string{"badger", "log", "segments"}

// openWhole opens the store in dir.
func openWhole(t *testing.T, dir string, acceptLoss bool) (*whole, error) {
	t.Helper()
	driver, err := openBadgerDir(filepath.Join(dir, "badger"))
	if err != nil {
		return nil, err
	}
	c, err := segment.Open(segment.Options{Dir: filepath.Join(dir, "segments"), Reserve: -1, Logged: true})
	if err != nil {
		return nil, errors.Join(err, driver.Close())
	}
	wb, err := writeback.Open(t.Context(), writeback.Options{Driver: driver, Dir: filepath.Join(dir, "log"), Bulk: c,
		AcceptLoss: acceptLoss, SyncAge: 10 * time.Millisecond, CommitAge: 10 * time.Millisecond, LogFileSize: 64 << 10})
	if err != nil {
		return nil, errors.Join(err, c.Close(), driver.Close())
	}
	s, err := c.Bind(t.Context(), wb)
	if err != nil {
		return nil, errors.Join(err, wb.Close(), c.Close())
	}
	return &whole{s, c, wb}, nil
}

// work makes an age of the store: content and keys, all of it in the driver.
func (w *whole) work(t *testing.T, age string) {
	t.Helper()
	for i := range 3 {
		time.Sleep(20 * time.Millisecond) // so that each commit may take another tick
		lsn, err := w.Update(t.Context(), func(tx backend.Tx) error {
			ref, err := w.c.Put(tx, uint64(len(age)*1000+i), []byte(strings.Repeat(age, 30_000)))
			return errors.Join(err, tx.Set([]byte(fmt.Sprint(age, i)), fmt.Append(nil, ref)))
		})
		if err := errors.Join(err, w.WaitDurable(t.Context(), lsn)); err != nil {
			t.Fatal(err)
		}
		if err := w.wb.WaitCommitted(t.Context(), lsn); err != nil {
			t.Fatal(err)
		}
	}
}

func copyPart(t *testing.T, from, to, part string) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(to, part), os.DirFS(filepath.Join(from, part))); err != nil {
		t.Fatal(err)
	}
}

func copyWhole(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	for _, part := range partNames {
		copyPart(t, from, to, part)
	}
	return to
}

// TestPartsOfThreeAges puts database, log and segments of three ages of a store
// together in all ways. Only those of one age open; the others are refused, and no segment is removed.
func TestPartsOfThreeAges(t *testing.T) {
	for _, how := range []string{"closed", "killed and opened again", "running all the time"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			var ages []string
			s, err := openWhole(t, dir, false)
			if err != nil {
				t.Fatal(err)
			}
			for _, age := range []string{"a", "bb", "ccc"} {
				s.work(t, age)
				switch how {
				case "closed":
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					ages = append(ages, copyWhole(t, dir))
					s, err = openWhole(t, dir, false)
				case "killed and opened again":
					killed := copyWhole(t, dir)
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					dir = copyWhole(t, killed)
					ages = append(ages, killed)
					s, err = openWhole(t, dir, false)
				default:
					ages = append(ages, copyWhole(t, dir))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for i := range 27 {
				mix := []int{i / 9, i / 3 % 3, i % 3}
				tryMix(t, ages, mix, mix[0] == mix[1] && mix[1] == mix[2])
			}
		})
	}
}

func tryMix(t *testing.T, ages []string, mix []int, opens bool) {
	t.Helper()
	dir := t.TempDir()
	for i, part := range partNames {
		copyPart(t, ages[mix[i]], dir, part)
	}
	before, err := filepath.Glob(filepath.Join(dir, "segments", "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := openWhole(t, dir, false)
	if err == nil {
		if !opens {
			t.Errorf("%s of ages %v: it opens", partNames, mix)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		return
	}
	if opens || backend.KindOf(err) != backend.IO || !strings.Contains(err.Error(), "of one copy of the store in place") {
		t.Errorf("%s of ages %v: %v", partNames, mix, err)
	}
	if after, err := filepath.Glob(filepath.Join(dir, "segments", "*.seg")); err != nil || len(after) != len(before) {
		t.Errorf("%s of ages %v: %d segments were there, now %d, %v", partNames, mix, len(before), len(after), err)
	}
}

// TestPartsOfAnOlderWarren opens a store without marks and without a generation.
func TestPartsOfAnOlderWarren(t *testing.T) {
	d := newDisk()
	d.Names["0000000000000001.log"] = crashdir.Whole(newFile(1, 1).rec(1, 0, "a", "1").bytes())
	s := open(t, options(d, preparedDriver(t, 0)))
	defer s.Close()
	formatCase{want: state{"a": "1"}}.holds(t, s, 1)
	if d.Names["synced"] == nil {
		t.Error("the log has no mark")
	}
}

// synced returns a killed store of n synced Updates, and the log file that has them.
func synced(t *testing.T, n int) (*disk, *mem.Store, string) {
	t.Helper()
	d, driver := newDisk(), mem.New(mem.Options{})
	s := open(t, options(d, driver))
	for i := range n {
		if _, err := apply1(t.Context(), s, []edit{{key: fmt.Sprint("key", i), value: "v"}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, driver = d.Killed(crashdir.Call{}, 0), driver.CrashClone(0)
	s.Kill()
	for name := range d.Names {
		if strings.HasSuffix(name, ".log") {
			return d, driver, name
		}
	}
	t.Fatal("no log")
	return nil, nil, ""
}

// TestDamagedSyncedLog flips one bit in the first and in the last record of what was synced, and cuts
// it off. Nothing that was synced is dropped in silence: Open refuses, and keeps the file.
func TestDamagedSyncedLog(t *testing.T) {
	const n, head = 50, 4096
	for what, change := range map[string]func(b []byte, end int) []byte{
		"a bit of the first record": func(b []byte, _ int) []byte { b[head+50] ^= 1; return b },
		"a bit of the last record":  func(b []byte, end int) []byte { b[end-10] ^= 1; return b },
		"the last record is zero":   func(b []byte, end int) []byte { clear(b[end-72:]); return b },
		"the end is cut off":        func(b []byte, end int) []byte { return b[:end-100] },
		"no record is there":        func(b []byte, _ int) []byte { return b[:head] },
	} {
		t.Run(what, func(t *testing.T) {
			d, driver, name := synced(t, n)
			f := d.Names[name]
			end := len(strings.TrimRight(string(f.Cache), "\x00"))
			d.Names[name] = crashdir.Whole(change(f.Cache, end))
			_, err := writeback.Open(t.Context(), options(d, driver))
			if err == nil || backend.KindOf(err) != backend.IO {
				t.Fatalf("Open: %v", err)
			}
			for _, word := range []string{name, "offset", "is missing, though", "on disk", "AcceptLoss"} {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not say %q", err, word)
				}
			}
			o := options(d, driver)
			o.AcceptLoss = true
			s := open(t, o)
			if aside, err := s.SetAside(); err != nil || len(aside) != 1 || d.Names[name+".damaged"] == nil {
				t.Errorf("set aside %q, %v", aside, err)
			}
			if _, err := apply1(t.Context(), s, []edit{{key: "more", value: "m"}}); err != nil {
				t.Error(err)
			}
			s.Kill() // the mark is that of what is left
			again := open(t, options(d.Killed(crashdir.Call{}, 0), driver.CrashClone(0)))
			again.Kill()
		})
	}
}

// TestHoleInTheUnsyncedTail: records behind one that is missing and was not synced do not
// take effect. After a power cut their file goes, and it is no finding; after a kill it stays.
func TestHoleInTheUnsyncedTail(t *testing.T) {
	for what, cut := range map[string]bool{"power cut": true, "killed": false} {
		t.Run(what, func(t *testing.T) {
			d, driver, name := synced(t, 1)
			if cut {
				d = d.PowerCut(nil, 0)
			}
			told := &strings.Builder{}
			o := options(d, driver)
			s := open(t, o)
			for _, key := range []string{"a", "b", "c"} {
				set(t, s, key, "v")
			}
			left := d.Killed(crashdir.Call{}, 0)
			s.Kill()
			if cut { // another run, that has the last of the three and a part of the second
				left = left.PowerCut(nil, 0)
			}
			for name = range left.Names {
				if strings.HasSuffix(name, ".log") {
					break
				}
			}
			b := left.Names[name].Cache
			end := len(strings.TrimRight(string(b), "\x00"))
			clear(b[end-64-40 : end-64])
			o = options(left, driver.CrashClone(0))
			o.Log = slog.New(slog.NewTextHandler(told, nil))
			s = open(t, o)
			defer s.Close()
			if got, err := readAll(t.Context(), s); err != nil || got["a"] != "v" || got["b"] != "" || got["c"] != "" {
				t.Errorf("holds %q, %v", got, err)
			}
			aside, err := s.SetAside()
			if kept := left.Names[name+".damaged"] != nil; err != nil || kept == cut || len(aside) == 1 == cut {
				t.Errorf("kept: %v, set aside %q, %v", kept, aside, err)
			}
			if warned := strings.Contains(told.String(), "level=WARN"); warned == cut {
				t.Errorf("warned: %v: %s", warned, told)
			}
		})
	}
}

// TestRunOfADirectory: each mount is a run of its own.
func TestRunOfADirectory(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounts a filesystem: needs root")
	}
	dir := t.TempDir()
	run := func() dirfs.Run {
		fs, err := dirfs.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return fs.Run()
	}
	below := run()
	if below == (dirfs.Run{}) {
		t.Skip("a kernel without unique mount ids")
	}
	if again := run(); again != below {
		t.Errorf("two runs of one mount: %x, %x", below, again)
	}
	seen := map[dirfs.Run]bool{below: true}
	for range 2 {
		if err := unix.Mount("none", dir, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		seen[run()] = true
		if err := unix.Unmount(dir, 0); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 3 {
		t.Errorf("%d runs of three mounts", len(seen))
	}
}

// TestSyncCostsOneSync: a WaitDurable is one sync of one file, the mark needs none.
func TestSyncCostsOneSync(t *testing.T) {
	d := newDisk()
	s := open(t, options(d, mem.New(mem.Options{})))
	defer s.Close()
	syncs := 0
	d.SetHook(func(c crashdir.Call, done bool) error {
		if done && c.Op == "sync" {
			syncs++
		}
		return nil
	})
	for i := range 20 {
		lsn, err := apply1(t.Context(), s, []edit{{key: fmt.Sprint(i), value: "v"}})
		if err := errors.Join(err, s.WaitDurable(t.Context(), lsn)); err != nil {
			t.Fatal(err)
		}
	}
	d.SetHook(nil)
	if syncs != 20 {
		t.Errorf("20 waits cost %d syncs", syncs)
	}
}

// TestAcceptedLossOpensAgain puts a database of an earlier age beside the log and the segments. Once
// opened with AcceptLoss the store needs it no more, whatever ends that opening.
func TestAcceptedLossOpensAgain(t *testing.T) {
	dir := t.TempDir()
	s, err := openWhole(t, dir, false)
	if err != nil {
		t.Fatal(err)
	}
	s.work(t, "a")
	old := copyWhole(t, dir)
	s.work(t, "bb")
	s.work(t, "ccc")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mixed := t.TempDir()
	copyPart(t, old, mixed, "badger")
	copyPart(t, dir, mixed, "log")
	copyPart(t, dir, mixed, "segments")
	if s, err := openWhole(t, mixed, false); err == nil {
		t.Errorf("an older database opens: %v", s.Close())
	}
	if s, err = openWhole(t, mixed, true); err != nil {
		t.Fatal(err)
	}
	killed := copyWhole(t, mixed)
	s.work(t, "d")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for what, dir := range map[string]string{"killed at once": killed, "closed": mixed} {
		s, err := openWhole(t, dir, false)
		if err != nil {
			t.Errorf("%s: %v", what, err)
		} else if err := s.Close(); err != nil {
			t.Errorf("%s: Close: %v", what, err)
		}
	}
}
