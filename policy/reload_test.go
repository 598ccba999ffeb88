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
// remembered or not, is what Cedar says in the epoch of who was asked about, which
// was in force when that was looked up. It runs under -race. What views make of it
// while files move is TestCacheIsCedarWhileFilesMove there.
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
	for n := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(100+n)))
			var p *Principal
			for i := range each {
				if p == nil || i%20 == 0 { // held over changes, as a call of a view may
					first := e.Epoch()
					p, _ = e.Principal(fmt.Sprintf("a%d", rnd.IntN(12)), AccessMode(rnd.IntN(int(numAccess))))
					if last := e.Epoch(); p != nil && (p.Epoch() < first || p.Epoch() > last) {
						t.Errorf("%+v: of epoch %d, though those from %d to %d were in force", p.id, p.Epoch(), first, last)
						return
					}
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
					if got := decide(p, a, r); !past.says(p.Epoch(), p.id, a, r, got) {
						t.Errorf("%+v %v at %+v: %+v, which Cedar does not say in epoch %d", p.id, a, r, got, p.Epoch())
						return
					}
				}
			}
		})
	}
	wg.Wait()
	stop.Store(true)
	swapper.Wait()
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

// says tells whether Cedar decides so in an epoch. One that is not noted yet,
// right after its Swap, is waited for.
func (h *history) says(epoch uint64, id identity, a Action, r Resource, want Decision) bool {
	s := h.at(epoch)
	p, known := s.principal(id)
	return known && s.unpack(p.evaluate(a, r)) == want
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
