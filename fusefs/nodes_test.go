package fusefs

import (
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/warrenfs/warren/backend"
)

// TestNodeTable does the same with a table and with a map.
func TestNodeTable(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	table, model := newNodeTable(), map[backend.NodeID]known{}
	node := func() backend.NodeID {
		switch r.IntN(3) {
		case 0:
			return backend.NodeID(r.IntN(2000))
		case 1:
			return backend.NodeID(1)<<40 + backend.NodeID(r.IntN(300))
		default:
			return backend.NodeID(r.Uint64() >> 1 & 0x7fff_ff00_0000_000f)
		}
	}
	const steps = 200_000
	for step := range steps {
		n := node()
		switch mostly := step < steps/2; {
		case r.IntN(10) < 3 == mostly: // first it grows, then it shrinks
			table.remove(n)
			delete(model, n)
		default:
			k := known{name: r.Uint64(), seq: r.Uint32(), at: r.Uint32(), lookups: uint32(r.IntN(3)), opens: uint32(r.IntN(2)), marks: marks(r.UintN(256))}
			switch r.IntN(10) {
			case 0:
				k.lookups = math.MaxUint16 - 1 + uint32(r.IntN(3))
			case 1:
				k.opens = math.MaxUint8 - 1 + uint32(r.IntN(3))
			case 2:
				k.lookups, k.opens = math.MaxUint16, math.MaxUint8
			}
			table.put(n, k)
			model[n] = k
		}
		n = node()
		got, ok := table.get(n)
		if want, there := model[n]; got != want || ok != there {
			t.Fatalf("step %d, node %x: %+v, %v, want %+v, %v", step, n, got, ok, want, there)
		}
		if table.n != len(model) {
			t.Fatalf("step %d: %d nodes, want %d", step, table.n, len(model))
		}
	}
	all := map[backend.NodeID]bool{}
	for n := range table.all() {
		all[n] = true
	}
	for n := range maps.Keys(model) {
		if !all[n] {
			t.Errorf("%x is not among all", n)
		}
		table.remove(n)
	}
	if len(all) != len(model) || table.n != 0 || len(table.chunks) != 0 || len(table.wide) != 0 {
		t.Errorf("%d of %d; without them there are %d nodes, %d chunks, %d wide", len(all), len(model), table.n, len(table.chunks), len(table.wide))
	}
}

// TestNodeTableMemory: a kernel's memory of many nodes is small, and goes.
func TestNodeTableMemory(t *testing.T) {
	const nodes, most = 300_000, 30
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	table := newNodeTable()
	for n := range backend.NodeID(nodes) { // as four programs that make files at once
		table.put(n%4<<30+n/4, known{name: uint64(n), seq: uint32(n), lookups: 1, marks: markEntry | markAttr})
	}
	if each := float64(heap()-before) / nodes; each > most {
		t.Errorf("a node takes %.1f bytes, want at most %d", each, most)
	} else {
		t.Logf("a node takes %.1f bytes", each)
	}
	for n := range backend.NodeID(nodes) {
		table.remove(n%4<<30 + n/4)
	}
	if left := heap() - before; left > 1<<20 {
		t.Errorf("without nodes it takes %d bytes", left)
	}
	runtime.KeepAlive(&table)
}
