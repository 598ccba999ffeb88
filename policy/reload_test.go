package policy

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestCacheIsCedarWhileRulesChange: eight askers decide at random while worlds
// with other agents, modes, members and grants replace each other. Each decision,
// remembered or not, is what Cedar says in a world that was in force between the
// question and the answer. It runs under -race.
func TestCacheIsCedarWhileRulesChange(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	worlds := make([]Facts, 6)
	for i := range worlds {
		worlds[i] = randomFacts(rand.New(rand.NewPCG(seed, uint64(i))))
	}
	e := newEngine(t, worlds[0])
	swaps, each := 300, 4000
	if testing.Short() {
		swaps, each = 40, 500
	}
	// past has the snapshot of each epoch, put there before its Swap returns.
	past := &history{of: map[uint64]*snapshot{}}
	past.put(e)
	var stop atomic.Bool
	var wg, swapper sync.WaitGroup
	swapper.Go(func() {
		rnd := rand.New(rand.NewPCG(seed, 99))
		for i := 0; i < swaps || !stop.Load(); i++ {
			f := worlds[rnd.IntN(len(worlds))]
			if n := len(f.Grants); n > 0 && rnd.IntN(2) == 0 { // one that expires, or is revoked
				f.Grants = append(append([]Grant(nil), f.Grants[:n/2]...), f.Grants[n/2+1:]...)
			}
			if err := e.Swap(f); err != nil {
				t.Error(err)
				return
			}
			past.put(e)
			time.Sleep(time.Duration(rnd.IntN(int(2 * time.Millisecond))))
		}
	})
	var remembered atomic.Int64
	for n := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(100+n)))
			var p *Principal
			for i := range each {
				if p == nil || i%20 == 0 { // held over changes, as a mount's is not but a handle's may be
					p, _ = e.Principal(fmt.Sprintf("a%d", rnd.IntN(12)), AccessMode(rnd.IntN(int(numAccess))))
				}
				if p == nil {
					continue
				}
				a, r := Action(rnd.IntN(int(numActions))), randomResource(rnd)
				vol, rel := modelVolume(r)
				r.Grants = p.Grants(vol).At(rel)
				decide := e.Decide
				if rnd.IntN(3) == 0 {
					decide = e.DecideListed
				}
				for range 2 { // the second is remembered, if anything is
					first := e.Epoch()
					got := decide(p, a, r)
					last := e.Epoch()
					if !past.says(first, last, p.id, a, r, got) {
						t.Errorf("%+v %v at %+v: %+v, which Cedar says in none of the epochs %d to %d", p.id, a, r, got, first, last)
						return
					}
					if first == last {
						remembered.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	stop.Store(true)
	swapper.Wait()
	if remembered.Load() == 0 {
		t.Error("no decision was made within one epoch")
	}
	if e.Remembered() == 0 {
		t.Error("nothing was remembered")
	}
}

// history is the snapshots of all epochs so far.
type history struct {
	mu sync.Mutex
	of map[uint64]*snapshot
}

func (h *history) put(e *Engine) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := e.cur.Load()
	h.of[s.epoch] = s
}

// says tells whether Cedar decides so in one of some epochs. One that is not
// noted yet, right after its Swap, is waited for.
func (h *history) says(first, last uint64, id identity, a Action, r Resource, want Decision) bool {
	for epoch := first; epoch <= last; epoch++ {
		s := h.at(epoch)
		p, known := s.principal(id)
		if !known {
			if want == (Decision{}) {
				return true
			}
			continue
		}
		if s.unpack(p.evaluate(a, r)) == want {
			return true
		}
	}
	return false
}

func (h *history) at(epoch uint64) *snapshot {
	for {
		h.mu.Lock()
		s := h.of[epoch]
		h.mu.Unlock()
		if s != nil {
			return s
		}
		time.Sleep(50 * time.Microsecond)
	}
}
