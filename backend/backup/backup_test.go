package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/badger"
	"github.com/warrenfs/warren/backend/mem"
	"github.com/warrenfs/warren/backend/segment"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/backend/writeback"
)

// stack is a store with its content.
type stack struct {
	driver  string
	store   backend.Store
	content backend.Content
}

func (s stack) source() Source {
	return Source{Store: s.store, Content: s.content, Format: 1, Driver: s.driver}
}

// stacks are the ways to keep content.
var stacks = map[string]func(t *testing.T) stack{
	"mem": func(t *testing.T) stack { return stack{"mem", mem.New(mem.Options{}), mem.Content{}} },
	"badger": func(t *testing.T) stack {
		kv, err := badger.Open(t.Context(), badger.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		wb, err := writeback.Open(t.Context(), writeback.Options{Driver: kv, Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = wb.Close() })
		return stack{"badger", wb, badger.Content{}}
	},
	"segment": func(t *testing.T) stack {
		c, err := segment.Open(segment.Options{Dir: t.TempDir(), Logged: true})
		if err != nil {
			t.Fatal(err)
		}
		wb, err := writeback.Open(t.Context(), writeback.Options{Driver: mem.New(mem.Options{}), Dir: t.TempDir(), Bulk: c})
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Bind(t.Context(), wb)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return stack{"segment", s, c}
	},
}

func each(t *testing.T, fn func(t *testing.T, make func(*testing.T) stack)) {
	for _, name := range []string{"mem", "badger", "segment"} {
		t.Run(name, func(t *testing.T) { fn(t, stacks[name]) })
	}
}

func open(t *testing.T, s stack) *tree.Tree {
	t.Helper()
	tr, err := tree.Open(t.Context(), tree.Options{Store: s.store, Content: s.content})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// scribbler does random things to one volume.
type scribbler struct {
	t   testing.TB
	rng *rand.Rand
	tr  *tree.Tree
	vol backend.VolumeID
}

func newScribbler(t *testing.T, tr *tree.Tree, seed uint64) *scribbler {
	t.Helper()
	t.Logf("seed %d", seed)
	v, _, err := tr.CreateVolume(t.Context(), tree.VolumeSpec{Label: tree.Label{Kind: tree.KindProject, Owner: "p"}, Parent: tr.Root(), Name: "p", Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	return &scribbler{t: t, rng: rand.New(rand.NewPCG(seed, 1)), tr: tr, vol: v.ID}
}

func (s *scribbler) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.rng.Uint32())
	}
	return b
}

func (s *scribbler) step() {
	err := s.tr.With(s.vol, func(tx *tree.Txn) error {
		name := fmt.Sprintf("n%d", s.rng.IntN(60))
		id, typ, err := tx.Lookup(backend.RootIno, name)
		if err != nil {
			spec := tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o640}
			switch s.rng.IntN(6) {
			case 0:
				spec = tree.CreateSpec{Type: backend.TypeSymlink, Target: "x\xff"}
			case 1:
				spec.Type = backend.TypeDir
			}
			a, err := tx.Create(backend.RootIno, name, spec)
			if err == nil && spec.Type == backend.TypeRegular {
				_, err = tx.Write(a.Node.Ino(), s.bytes(1+s.rng.IntN(200_000)), uint64(s.rng.IntN(1<<20)))
			}
			return err
		}
		if typ != backend.TypeRegular {
			if s.rng.IntN(3) > 0 {
				return tx.SetXattr(id.Ino(), "user.x", s.bytes(s.rng.IntN(300)), false, false)
			}
			if typ == backend.TypeDir {
				return tx.Rmdir(backend.RootIno, name)
			}
			return tx.Unlink(backend.RootIno, name)
		}
		switch s.rng.IntN(7) {
		case 0:
			return tx.Unlink(backend.RootIno, name)
		case 1:
			_, err = tx.Link(id.Ino(), backend.RootIno, name+"'")
			if backend.KindOf(err) == backend.Exist {
				err = nil
			}
		case 2:
			size := uint64(s.rng.IntN(1 << 20))
			_, err = tx.Setattr(id.Ino(), backend.SetAttr{Size: &size})
		case 3:
			a, cerr := tx.Create(backend.RootIno, name+"c", tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o600})
			if cerr != nil {
				return nil
			}
			_, err = tx.CopyRange(id.Ino(), 0, a.Node.Ino(), 0, 1<<30)
		default:
			_, err = tx.Write(id.Ino(), s.bytes(1+s.rng.IntN(30_000)), uint64(s.rng.IntN(1<<20)))
		}
		return err
	})
	if err != nil {
		s.t.Errorf("step: %v", err)
	}
}

// take makes a backup that goes on from the chain.
func take(t *testing.T, s stack, chain [][]byte) []byte {
	t.Helper()
	var index io.Reader
	if len(chain) > 0 {
		c, err := NewChain(readers(chain), true)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := Index(&b, c); err != nil {
			t.Fatal(err)
		}
		index = &b
	}
	var b bytes.Buffer
	sum, err := Write(t.Context(), &b, s.source(), index)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Verify(bytes.NewReader(b.Bytes()))
	if err != nil || got != sum {
		t.Fatalf("%+v, %+v, %v", sum, got, err)
	}
	return b.Bytes()
}

func readers(chain [][]byte) []io.Reader {
	var out []io.Reader
	for _, b := range chain {
		out = append(out, bytes.NewReader(b))
	}
	return out
}

func restore(t *testing.T, to stack, chain [][]byte) {
	t.Helper()
	p, err := Examine(t.Context(), readers(chain))
	if err != nil {
		t.Fatal(err)
	}
	if err := Restore(t.Context(), readers(chain), p, Target{to.store, to.content}, nil); err != nil {
		t.Fatal(err)
	}
}

// records is all that a full backup has, in words.
func records(t *testing.T, b []byte) []string {
	t.Helper()
	r, err := NewReader(bytes.NewReader(b), false)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for {
		rec, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%x=%x %t %x", rec.Key, rec.Value, rec.Again, digest(rec.Content)))
	}
}

func clean(t *testing.T, s stack) {
	t.Helper()
	err := tree.Check(t.Context(), s.store, s.content, tree.CheckOptions{Content: true}, func(p tree.Problem) { t.Error(p) })
	if err != nil {
		t.Error(err)
	}
}

// TestRestoredStoreIsTheSame: full and incremental, over every content driver,
// while it is written to.
func TestRestoredStoreIsTheSame(t *testing.T) {
	each(t, func(t *testing.T, make func(*testing.T) stack) {
		s := make(t)
		tr := open(t, s)
		w := newScribbler(t, tr, rand.Uint64())
		if _, err := s.store.Update(t.Context(), func(kv backend.Tx) error { return kv.Set([]byte("gsettings/"), []byte("{}")) }); err != nil {
			t.Fatal(err)
		}
		var chain [][]byte
		for range 4 {
			for range 120 {
				w.step()
			}
			var wg sync.WaitGroup
			stop := newFlag()
			wg.Go(func() {
				for !stop.done() {
					w.step()
				}
			})
			b := take(t, s, chain)
			stop.stop()
			wg.Wait()
			chain = append(chain, b)
			to := make(t)
			restore(t, to, chain)
			clean(t, to)
			// A full backup of what was restored, restored, is the same again.
			full := take(t, to, nil)
			again := make(t)
			restore(t, again, [][]byte{full})
			clean(t, again)
			if one, two := records(t, full), records(t, take(t, again, nil)); !slices.Equal(one, two) {
				t.Errorf("%d records, then %d", len(one), len(two))
			}
		}
		// With nothing under way, the last backup has what the store has.
		if err := tr.Close(); err != nil {
			t.Fatal(err)
		}
		chain = append(chain, take(t, s, chain))
		to := make(t)
		restore(t, to, chain)
		one, two := records(t, take(t, s, nil)), records(t, take(t, to, nil))
		if !slices.Equal(one, two) {
			t.Errorf("the store has %d records, what was restored %d", len(one), len(two))
		}
		if last := take(t, s, chain); len(last) > 2000 {
			t.Errorf("nothing changed, and the backup has %d bytes", len(last))
		}
		clean(t, s)
		restored := open(t, to)
		if err := restored.Close(); err != nil {
			t.Error(err)
		}
	})
}

type flag struct{ c chan struct{} }

func newFlag() flag  { return flag{make(chan struct{})} }
func (f flag) stop() { close(f.c) }
func (f flag) done() bool {
	select {
	case <-f.c:
		return true
	default:
		return false
	}
}

// small is a store with a little of everything, and two backups of it.
func small(t testing.TB) (full, incremental []byte) {
	s := stack{"mem", mem.New(mem.Options{}), mem.Content{}}
	tr, err := tree.Open(context.Background(), tree.Options{Store: s.store, Content: s.content})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	do := func(name string, text []byte) {
		err := tr.With(tr.Root().Volume(), func(tx *tree.Txn) error {
			a, err := tx.Create(backend.RootIno, name, tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o600})
			if err == nil {
				_, err = tx.Write(a.Node.Ino(), text, 0)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	do("inline", []byte("text"))
	do("content", bytes.Repeat([]byte("abc"), 2000))
	var a, b, idx bytes.Buffer
	if _, err := Write(context.Background(), &a, s.source(), nil); err != nil {
		t.Fatal(err)
	}
	do("more", bytes.Repeat([]byte("xyz"), 1000))
	err = tr.With(tr.Root().Volume(), func(tx *tree.Txn) error { return tx.Unlink(backend.RootIno, "inline") })
	if err != nil {
		t.Fatal(err)
	}
	c, err := NewChain([]io.Reader{bytes.NewReader(a.Bytes())}, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := Index(&idx, c); err != nil {
		t.Fatal(err)
	}
	if _, err := Write(context.Background(), &b, s.source(), &idx); err != nil {
		t.Fatal(err)
	}
	return a.Bytes(), b.Bytes()
}

// TestDamagedBackupsAreRefused: each byte changed, each length cut, anything
// appended, a wrong order.
func TestDamagedBackupsAreRefused(t *testing.T) {
	full, inc := small(t)
	if _, err := Examine(t.Context(), readers([][]byte{full, inc})); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, chain ...[]byte) {
		t.Helper()
		if _, err := Examine(t.Context(), readers(chain)); err == nil || backend.KindOf(err) != backend.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	for n := range full {
		b := bytes.Clone(full)
		b[n] ^= 1 << (n % 8)
		refused(fmt.Sprintf("byte %d", n), b, inc)
		refused(fmt.Sprintf("cut at %d", n), full[:n])
	}
	for n := range inc {
		refused(fmt.Sprintf("incremental cut at %d", n), full, inc[:n])
	}
	refused("appended", append(bytes.Clone(full), 0))
	refused("none")
	refused("only the incremental", inc)
	refused("wrong order", inc, full)
	refused("the full one twice", full, full)
	refused("the incremental one twice", full, inc, inc)
	other, _ := small(t)
	refused("of another", other, inc)
}

// TestSharedContentIsWrittenOnce: a copy that shares its content adds no bytes.
func TestSharedContentIsWrittenOnce(t *testing.T) {
	each(t, func(t *testing.T, make func(*testing.T) stack) {
		s := make(t)
		tr := open(t, s)
		defer tr.Close()
		err := tr.With(tr.Root().Volume(), func(tx *tree.Txn) error {
			a, err := tx.Create(backend.RootIno, "a", tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o600})
			if err != nil {
				return err
			}
			if _, err := tx.Write(a.Node.Ino(), bytes.Repeat([]byte("abcde"), 50_000), 0); err != nil {
				return err
			}
			for n := range 5 {
				b, err := tx.Create(backend.RootIno, fmt.Sprint(n), tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o600})
				if err != nil {
					return err
				}
				if n, err := tx.CopyRange(a.Node.Ino(), 0, b.Node.Ino(), 0, 250_000); err != nil || n != 250_000 {
					return fmt.Errorf("copied %d, %w", n, err)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		b := take(t, s, nil)
		if len(b) > 300_000 {
			t.Errorf("the backup has %d bytes", len(b))
		}
		to := make(t)
		restore(t, to, [][]byte{b})
		clean(t, to)
	})
}

// TestDamagedContentIsNoBackup: it fails, and says which file it is.
func TestDamagedContentIsNoBackup(t *testing.T) {
	s := stacks["mem"](t)
	tr := open(t, s)
	defer tr.Close()
	home, _, err := tr.CreateVolume(t.Context(), tree.VolumeSpec{Label: tree.Label{Kind: tree.KindWorkspace}, Parent: tr.Root(), Name: "home", Mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	var lost backend.Ino
	err = tr.With(home.ID, func(tx *tree.Txn) error {
		d, err := tx.Create(backend.RootIno, "notes", tree.CreateSpec{Type: backend.TypeDir, Mode: 0o755})
		if err != nil {
			return err
		}
		f, err := tx.Create(d.Node.Ino(), "today", tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o600})
		if err == nil {
			lost = f.Node.Ino()
			_, err = tx.Write(lost, bytes.Repeat([]byte("abc"), 2000), 0)
		}
		return err
	})
	if err == nil {
		_, err = s.store.Update(t.Context(), func(kv backend.Tx) error {
			var key []byte
			err := kv.ScanKeys([]byte{'c'}, []byte{'d'}, func(k []byte) error { key = bytes.Clone(k); return backend.ErrStop })
			if err != nil {
				return err
			}
			return kv.Set(key, []byte("damaged"))
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	_, err = Write(t.Context(), io.Discard, s.source(), nil)
	var e *backend.Error
	if !errors.As(err, &e) || e.Kind != backend.IO || e.Path != "/home/notes/today" {
		t.Errorf("%v", err)
	}
	var found []tree.Problem
	if err := tree.Check(t.Context(), s.store, s.content, tree.CheckOptions{Content: true}, func(p tree.Problem) { found = append(found, p) }); err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || found[0].Path != "/home/notes/today" || found[0].Ino != lost {
		t.Errorf("%+v", found)
	}
}

func TestDamagedIndexIsRefused(t *testing.T) {
	full, _ := small(t)
	c, err := NewChain(readers([][]byte{full}), true)
	if err != nil {
		t.Fatal(err)
	}
	var idx bytes.Buffer
	if err := Index(&idx, c); err != nil {
		t.Fatal(err)
	}
	s := stacks["mem"](t)
	defer open(t, s).Close()
	for n := range idx.Len() {
		if n >= 8 && n < 24 {
			continue // the id: covered by the checksum at the end alone
		}
		b := bytes.Clone(idx.Bytes())
		b[n] ^= 4
		if _, err := Write(t.Context(), io.Discard, s.source(), bytes.NewReader(b)); err == nil {
			t.Errorf("byte %d of the index is damaged, and nobody minds", n)
		}
		if _, err := Write(t.Context(), io.Discard, s.source(), strings.NewReader(idx.String()[:n])); err == nil {
			t.Errorf("the index is cut at %d, and nobody minds", n)
		}
	}
}

// FuzzReader: whatever the bytes are, reading ends with a whole backup or an
// error, and takes no memory that they did not pay for.
func FuzzReader(f *testing.F) {
	full, inc := small(f)
	f.Add(full, inc)
	f.Add(full, []byte{})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		chain := [][]byte{a}
		if len(b) > 0 {
			chain = append(chain, b)
		}
		p, err := Examine(context.Background(), readers(chain))
		if err != nil {
			return
		}
		s := mem.New(mem.Options{})
		if err := Restore(context.Background(), readers(chain), p, Target{s, mem.Content{}}, nil); err != nil {
			t.Fatalf("examined and not restored: %v", err)
		}
	})
}
