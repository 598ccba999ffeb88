package feed_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/feed"
	"github.com/warrenfs/warren/backend/mem"
)

// TestSharesOfAgents: an agent's noise takes its own events, and no denials.
func TestSharesOfAgents(t *testing.T) {
	c := clock{now: backend.Time(time.Hour)}
	f := open(t, mem.New(mem.Options{}), feed.Options{MaxEvents: 100, Clock: c.moved()})
	for i := range 30 {
		add(t, f, feed.Event{Op: "write", Agent: "quiet", Path: fmt.Sprint(i)})
	}
	add(t, f, feed.Event{Op: "write", Agent: "noisy", Path: "the deed"})
	for i := range 10 {
		add(t, f, feed.Event{Op: "open", Agent: "noisy", Flags: feed.Denied, Path: fmt.Sprint(i)})
	}
	for round := range 5 {
		for i := range 300 {
			add(t, f, feed.Event{Op: "create", Agent: "noisy", Path: fmt.Sprint(i)})
			add(t, f, feed.Event{Op: "open", Agent: "prober", Flags: feed.Denied, Path: fmt.Sprint(i)})
		}
		if err := f.Trim(t.Context()); err != nil {
			t.Fatal(err)
		}
		left := map[string]int{}
		all := read(t, f, 0)
		for _, e := range all {
			left[fmt.Sprint(e.Agent, " ", e.Flags)]++
		}
		if len(all) > 100 || left["quiet 0"] != 30 || left["noisy 1"] != 10 || left["noisy 0"] < 40 || left["prober 1"] > 15 {
			t.Errorf("round %d: %d are left: %v", round, len(all), left)
		}
		if v, err := f.Verify(t.Context()); err != nil || v.Broken != 0 || v.Events != uint64(len(all)) || v.Aged == 0 || v.Gaps > v.Events+1 {
			t.Errorf("round %d: %+v, %v", round, v, err)
		}
	}
}

// TestVerify: whatever is taken out, changed or added by hand is found.
func TestVerify(t *testing.T) {
	keyOf := func(seq uint64) []byte { return binary.BigEndian.AppendUint64([]byte{feed.Family}, seq) }
	change := func(t *testing.T, s backend.Store, do func(kv backend.Tx) error) {
		t.Helper()
		if _, err := s.Update(t.Context(), do); err != nil {
			t.Fatal(err)
		}
	}
	for name, spoil := range map[string]func(kv backend.Tx) error{
		"nothing":              func(backend.Tx) error { return nil },
		"the first":            func(kv backend.Tx) error { return kv.Delete(keyOf(1)) },
		"one inside":           func(kv backend.Tx) error { return kv.Delete(keyOf(7)) },
		"the last":             func(kv backend.Tx) error { return kv.Delete(keyOf(20)) },
		"the end of the chain": func(kv backend.Tx) error { return kv.Delete([]byte{feed.Family, 'h'}) },
		"one changed": func(kv backend.Tx) error {
			b, err := kv.Get(keyOf(7))
			if err != nil {
				return err
			}
			b = append([]byte(nil), b...)
			b[len(b)-3] ^= 1
			return kv.Set(keyOf(7), b)
		},
		"one moved": func(kv backend.Tx) error {
			b, err := kv.Get(keyOf(7))
			if err != nil {
				return err
			}
			return kv.Set(keyOf(8), append([]byte(nil), b...))
		},
		"all": func(kv backend.Tx) error {
			for seq := range uint64(21) {
				if err := kv.Delete(keyOf(seq)); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := clock{now: backend.Time(time.Hour)}
			s := mem.New(mem.Options{})
			f := open(t, s, feed.Options{Clock: c.moved()})
			for i := range 20 {
				add(t, f, feed.Event{Op: "write", Agent: "web", Path: fmt.Sprint("/a/b/", i)})
			}
			change(t, s, spoil)
			v, err := f.Verify(t.Context())
			if err != nil || (v.Broken == 0) != (name == "nothing") {
				t.Errorf("%+v, %v", v, err)
			}
		})
	}
}

// TestOldRecords: events of before there was a chain are read and aged, and the chain
// begins behind them.
func TestOldRecords(t *testing.T) {
	c := clock{now: backend.Time(time.Hour)}
	s := mem.New(mem.Options{})
	_, err := s.Update(t.Context(), func(kv backend.Tx) error {
		for seq := range uint64(5) {
			b := binary.AppendVarint([]byte{1, 0}, int64(c.now))
			b = append(b, 7, 1) // node, count
			for _, text := range []string{"write", "web", "", "/old", "", ""} {
				b = append(append(b, byte(len(text))), text...)
			}
			if err := kv.Set(binary.BigEndian.AppendUint64([]byte{feed.Family}, seq+1), b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, s, feed.Options{MaxEvents: 8, Clock: c.moved()})
	add(t, f, feed.Event{Op: "write", Agent: "web", Path: "/new"})
	got := read(t, f, 0)
	if len(got) != 6 || got[0].Path != "/old" || got[5].Path != "/new" || got[5].Seq != 6 {
		t.Fatalf("%+v", got)
	}
	if v, err := f.Verify(t.Context()); err != nil || v.Broken != 0 || v.Unchained != 5 || v.Events != 1 || v.Head != 6 {
		t.Errorf("%+v, %v", v, err)
	}
	for range 6 {
		add(t, f, feed.Event{Op: "write", Agent: "web", Path: "/new"})
	}
	if err := f.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v, err := f.Verify(t.Context()); err != nil || v.Broken != 0 || v.Events != 7 || v.Aged != 4 {
		t.Errorf("%+v, %v", v, err)
	}
}
