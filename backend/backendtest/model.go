package backendtest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/warrenfs/warren/backend"
)

// testRandomOperations runs random transactions on the store and on a map, and
// compares them all the time.
func testRandomOperations(t *testing.T, h *harness) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("BACKENDTEST_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("BACKENDTEST_SEED: %v", err)
		}
		seed = n
	}
	steps := 300
	if s := os.Getenv("BACKENDTEST_STEPS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("BACKENDTEST_STEPS: %v", err)
		}
		steps = n
	}
	t.Logf("BACKENDTEST_SEED=%d BACKENDTEST_STEPS=%d", seed, steps)
	m := &model{h: h, r: rand.New(rand.NewPCG(seed, 0)), states: []pairs{{}}}
	for i := 0; i < steps && !t.Failed(); i++ {
		m.step(i)
	}
	m.compare(h.s, m.now())
}

// pairs is a state of the store.
type pairs map[string]string

// list gives the pairs of [start, end) in order; a nil end is no bound.
func (p pairs) list(start, end []byte) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(p)) {
		if k >= string(start) && (end == nil || k < string(end)) {
			out = append(out, k, p[k])
		}
	}
	return out
}

// model is the map beside the store. states[i] is the state after the Update
// with LSN base+i: the last is now, the first is durable.
type model struct {
	h      *harness
	r      *rand.Rand
	base   backend.LSN
	states []pairs
}

func (m *model) now() pairs { return m.states[len(m.states)-1] }

func (m *model) step(i int) {
	m.h.t.Helper()
	switch n := m.r.IntN(100); {
	case n < 60:
		m.update(i, m.r.IntN(8) == 0)
	case n < 85:
		m.h.view(func(tx backend.Tx) error { return m.read(tx, m.now()) })
	case n < 90:
		m.compare(m.h.s, m.now())
	case n < 94:
		m.waitDurable()
	case n < 97:
		m.h.reopen()
		m.settle(len(m.states) - 1)
		m.compare(m.h.s, m.now())
	default:
		m.crash()
	}
}

// update runs one transaction; one that aborts must change nothing.
func (m *model) update(i int, abort bool) {
	m.h.t.Helper()
	ops := m.ops()
	reads := m.r.Uint64()
	var next pairs
	lsn, err := m.h.tryUpdate(func(tx backend.Tx) error {
		next = maps.Clone(m.now())
		r := rand.New(rand.NewPCG(reads, 0)) // a repeated run reads the same
		for _, o := range ops {
			if err := o.run(tx, next); err != nil {
				return err
			}
			if r.IntN(4) == 0 {
				if err := readWith(r, tx, next); err != nil {
					return fmt.Errorf("inside an Update, after %v: %w", o, err)
				}
			}
		}
		if abort {
			return errTest
		}
		return nil
	})
	switch {
	case abort && err != errTest:
		m.h.t.Fatalf("step %d: Update returned %v, want its function's error", i, err)
	case !abort && err != nil:
		m.h.t.Fatalf("step %d: Update: %v", i, err)
	case !abort:
		m.states = append(m.states, next)
		if want := m.base + backend.LSN(len(m.states)-1); lsn != want {
			m.h.t.Fatalf("step %d: LSN %d, want %d", i, lsn, want)
		}
	}
}

// op is a Set, or a Delete when value is nil.
type op struct{ key, value []byte }

func (o op) String() string {
	if o.value == nil {
		return fmt.Sprintf("delete %.40q", o.key)
	}
	return fmt.Sprintf("set %.40q to %d bytes", o.key, len(o.value))
}

func (o op) run(tx backend.Tx, p pairs) error {
	if o.value == nil {
		delete(p, string(o.key))
		return tx.Delete(o.key)
	}
	p[string(o.key)] = string(o.value)
	return tx.Set(o.key, o.value)
}

// ops draws the changes of one Update: at least one, at most 15 of them big.
func (m *model) ops() []op {
	n := 1 + m.r.IntN(12)
	if m.r.IntN(20) == 0 {
		n = 200
	}
	ops := make([]op, n)
	for i := range ops {
		ops[i].key = randomKey(m.r)
		if m.r.IntN(3) > 0 {
			size := m.r.IntN(64)
			if i < 15 && m.r.IntN(30) == 0 {
				size = m.r.IntN(backend.MaxValue + 1)
			}
			ops[i].value = fill(byte(m.r.Uint32()), size)
		}
	}
	return ops
}

// randomKey draws keys that are close to each other, so that they meet.
func randomKey(r *rand.Rand) []byte {
	const alphabet = "\x00\x01ab\xfe\xff"
	n := 1 + r.IntN(4)
	if r.IntN(50) == 0 {
		n = 1 + r.IntN(backend.MaxKey)
	}
	key := make([]byte, n)
	for i := range key {
		key[i] = alphabet[r.IntN(len(alphabet))]
	}
	return key
}

func (m *model) read(tx backend.Tx, want pairs) error { return readWith(m.r, tx, want) }

// readWith compares one random Get and one random Scan with want.
func readWith(r *rand.Rand, tx backend.Tx, want pairs) error {
	key := randomKey(r)
	v, err := tx.Get(key)
	if w, ok := want[string(key)]; ok && (err != nil || string(v) != w) {
		return fmt.Errorf("Get(%.40q): %d bytes, %v, want %d", key, len(v), err, len(w))
	} else if !ok && backend.KindOf(orNil(err)) != backend.NotFound {
		return fmt.Errorf("Get(%.40q): %d bytes, %v, want NotFound", key, len(v), err)
	}
	start, end := randomKey(r), randomKey(r)
	switch {
	case r.IntN(8) == 0:
		end = nil
	case bytes.Compare(start, end) > 0 && r.IntN(8) > 0:
		start, end = end, start
	}
	list := want.list(start, end)
	if n := len(list) / 2; n > 0 && r.IntN(4) == 0 { // a Scan that stops early
		list = list[:2*(1+r.IntN(n))]
	}
	var got []string
	err = tx.Scan(start, end, func(k, v []byte) error {
		got = append(got, string(k), string(v))
		if len(got) == len(list) {
			return backend.ErrStop
		}
		return nil
	})
	if err == nil {
		err = same(got, list)
	}
	if err != nil {
		return fmt.Errorf("Scan(%.40q, %.40q): %w", start, end, err)
	}
	return nil
}

// orNil makes a missing error one of no kind.
func orNil(err error) error {
	if err == nil {
		return errTest
	}
	return err
}

// compare checks that s holds exactly want.
func (m *model) compare(s backend.Store, want pairs) {
	m.h.t.Helper()
	if err := view(s, func(tx backend.Tx) error { return holds(tx, want.list(nil, nil)) }); err != nil {
		m.h.t.Fatal(err)
	}
}

func (m *model) waitDurable() {
	m.h.t.Helper()
	i := m.r.IntN(len(m.states))
	ctx, cancel := background()
	defer cancel()
	if err := m.h.s.WaitDurable(ctx, m.base+backend.LSN(i)); err != nil {
		m.h.t.Fatalf("WaitDurable: %v", err)
	}
	m.settle(i)
}

// settle notes that states[i] is durable.
func (m *model) settle(i int) {
	m.states = slices.Clone(m.states[i:])
	m.base += backend.LSN(i)
}

// crash checks that a crash now leaves one of the states that may be left.
func (m *model) crash() {
	m.h.t.Helper()
	if m.h.fix.Crash == nil {
		return
	}
	s := m.h.fix.Crash(m.h.t)
	defer s.Close()
	var got []string
	if err := view(s, func(tx backend.Tx) (err error) {
		got, err = scanAll(tx, nil, nil)
		return err
	}); err != nil {
		m.h.t.Fatalf("View after a crash: %v", err)
	}
	for i := len(m.states) - 1; i >= 0; i-- {
		if same(got, m.states[i].list(nil, nil)) == nil {
			return
		}
	}
	m.h.t.Fatalf("a crash left %d keys, which is no state since the durable one (%d states)", len(got)/2, len(m.states))
}
