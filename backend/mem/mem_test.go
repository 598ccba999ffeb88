package mem_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/mem"
)

var ctx = context.Background()

// put runs one Update that sets key "k" and key i to i.
func put(t *testing.T, s *mem.Store, i int) backend.LSN {
	t.Helper()
	lsn, err := s.Update(ctx, func(tx backend.Tx) error { return setBoth(tx, i) })
	if err != nil {
		t.Fatal(err)
	}
	return lsn
}

func setBoth(tx backend.Tx, i int) error {
	v := []byte(fmt.Sprint(i))
	if err := tx.Set([]byte("k"), v); err != nil {
		return err
	}
	return tx.Set(v, v)
}

// holds checks that s holds exactly the state after put(1) … put(n).
func holds(t *testing.T, s *mem.Store, n int) {
	t.Helper()
	if got := s.LastLSN(); got != backend.LSN(n) {
		t.Errorf("LastLSN = %d, want %d", got, n)
	}
	keys := 0
	err := s.View(ctx, func(tx backend.Tx) error {
		if v, err := tx.Get([]byte("k")); n > 0 && (err != nil || string(v) != fmt.Sprint(n)) {
			t.Errorf("k = %q, %v, want %d", v, err, n)
		}
		return tx.ScanKeys(nil, nil, func([]byte) error { keys++; return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	want := n + 1
	if n == 0 {
		want = 0
	}
	if keys != want {
		t.Errorf("%d keys, want %d", keys, want)
	}
}

func TestCrashCloneKeepsDurablePrefix(t *testing.T) {
	s := mem.New(mem.Options{})
	for i := 1; i <= 10; i++ {
		put(t, s, i)
	}
	if err := s.WaitDurable(ctx, 4); err != nil {
		t.Fatal(err)
	}
	for keep, want := range map[backend.LSN]int{0: 4, 3: 4, 4: 4, 5: 5, 9: 9, 10: 10, 99: 10} {
		holds(t, s.CrashClone(keep), want)
	}
	c := s.CrashClone(6)
	if lsn := put(t, c, 7); lsn != 7 {
		t.Errorf("a clone's first LSN = %d, want 7", lsn)
	}
	holds(t, s.CrashClone(6), 6)
	holds(t, c, 7)
	holds(t, c.CrashClone(0), 6)
	holds(t, s, 10)
}

func TestCrashRandReachesEveryPrefix(t *testing.T) {
	s := mem.New(mem.Options{})
	for i := 1; i <= 5; i++ {
		put(t, s, i)
	}
	if err := s.WaitDurable(ctx, 2); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	seen := map[backend.LSN]bool{}
	for range 200 {
		c := s.CrashRand(r)
		holds(t, c, int(c.LastLSN()))
		seen[c.LastLSN()] = true
	}
	if len(seen) != 4 || seen[1] {
		t.Errorf("prefixes seen: %v, want 2 to 5", seen)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	s := mem.New(mem.Options{History: 3})
	for i := 1; i <= 10; i++ {
		put(t, s, i)
	}
	if got := s.DurableLSN(); got != 7 {
		t.Errorf("DurableLSN = %d, want 7", got)
	}
	holds(t, s.CrashClone(0), 7)
}

func TestReopenAfterClose(t *testing.T) {
	s := mem.New(mem.Options{})
	put(t, s, 1)
	put(t, s, 2)
	holds(t, s.Reopen(), 2)
	holds(t, s.CrashClone(0), 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	holds(t, s.CrashClone(0), 2)
	holds(t, s.Reopen(), 2)
}

func TestCrashInsideCommit(t *testing.T) {
	s := mem.New(mem.Options{})
	put(t, s, 1)
	clones := map[mem.Point]*mem.Store{}
	s.SetHook(func(p mem.Point, _ uint64) error {
		clones[p] = s.CrashClone(99)
		return nil
	})
	if _, err := s.Update(ctx, func(tx backend.Tx) error {
		if err := setBoth(tx, 2); err != nil {
			return err
		}
		holds(t, s.CrashClone(99), 1)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitDurable(ctx, 2); err != nil {
		t.Fatal(err)
	}
	holds(t, clones[mem.BeforeUpdate], 1)
	holds(t, clones[mem.BeforeCommit], 1)
	holds(t, clones[mem.AfterCommit], 2)
	holds(t, clones[mem.BeforeSync], 2)
	holds(t, clones[mem.AfterSync], 2)
}

func TestFailpoints(t *testing.T) {
	boom := &backend.Error{Op: "test", Kind: backend.IO}
	view := func(s *mem.Store) error { return s.View(ctx, func(backend.Tx) error { return nil }) }
	update := func(s *mem.Store) error {
		_, err := s.Update(ctx, func(tx backend.Tx) error { return setBoth(tx, 1) })
		return err
	}
	sync := func(s *mem.Store) error { return s.WaitDurable(ctx, s.LastLSN()) }
	for p, call := range map[mem.Point]func(*mem.Store) error{
		mem.BeforeView: view, mem.BeforeUpdate: update, mem.BeforeCommit: update,
		mem.BeforeSync: sync, mem.AfterSync: sync,
	} {
		s := mem.New(mem.Options{Hook: mem.Hooks(mem.FailAt(p, 1, 2, boom))})
		for i, want := range []error{nil, boom, boom, nil} {
			before := s.LastLSN()
			err := call(s)
			if !errors.Is(err, want) || (want == nil) != (err == nil) {
				t.Errorf("point %d, call %d: %v, want %v", p, i+1, err, want)
			}
			if err != nil && s.LastLSN() != before {
				t.Errorf("point %d, call %d: failed and took effect", p, i+1)
			}
		}
		if n := s.Count(p); n != 4 {
			t.Errorf("Count(%d) = %d, want 4", p, n)
		}
	}
}

func TestAfterCommitFailureBreaksTheStore(t *testing.T) {
	boom := &backend.Error{Op: "test", Kind: backend.IO}
	s := mem.New(mem.Options{Hook: mem.FailAt(mem.AfterCommit, 1, 1, boom)})
	put(t, s, 1)
	if _, err := s.Update(ctx, func(tx backend.Tx) error { return setBoth(tx, 2) }); err != error(boom) {
		t.Fatalf("Update: %v, want %v", err, boom)
	}
	holds(t, s, 1)
	if _, err := s.Update(ctx, func(backend.Tx) error { return nil }); backend.KindOf(err) != backend.IO {
		t.Fatalf("Update of a broken store: %v, want IO", err)
	}
	holds(t, s.CrashClone(1), 1)
	holds(t, s.CrashClone(2), 2)
}
