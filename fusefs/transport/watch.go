package transport

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// tick is how often a Watch looks.
	tick = 2 * time.Millisecond
	// calm is how many ticks without requests let a Watch rest.
	calm = 50
	// maxBusy bounds the handlers of one loop that run because requests
	// queue, not because others wait.
	maxBusy = 4
)

// Watch looks after the loops of a daemon while they have requests. Its zero
// value is ready. A goroutine runs only while there is something to watch.
type Watch struct {
	awake atomic.Bool
	loops atomic.Pointer[[]*Loop] // replaced under mu
	mu    sync.Mutex
}

// seen is what the Watch saw of a loop at its last tick.
type seen struct {
	requests uint64
	stuck    bool // nobody read then
}

func (w *Watch) add(l *Loop) {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := []*Loop{l}
	if have := w.loops.Load(); have != nil {
		list = append(list, *have...)
	}
	w.loops.Store(&list)
}

func (w *Watch) remove(l *Loop) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*Loop
	for _, o := range *w.loops.Load() {
		if o != l {
			list = append(list, o)
		}
	}
	w.loops.Store(&list)
}

// stir is called for every request.
func (w *Watch) stir() {
	if !w.awake.Load() && w.awake.CompareAndSwap(false, true) {
		go w.run()
	}
}

func (w *Watch) run() {
	t := time.NewTicker(tick)
	defer t.Stop()
	last := make(map[*Loop]seen)
	for quiet := 0; quiet < calm; quiet++ {
		<-t.C
		for _, l := range *w.loops.Load() {
			now := l.look(last[l])
			if now.stuck || now.requests != last[l].requests {
				quiet = 0
			}
			last[l] = now
		}
	}
	w.awake.Store(false)
	// A request that came in between may have found it awake: its loop is
	// looked at once more.
	for _, l := range *w.loops.Load() {
		if l.busy.Load() > 0 && !l.reading.Load() {
			w.stir()
		}
	}
}

// look sends another reader where one is missing.
func (l *Loop) look(last seen) seen {
	now := seen{requests: l.requests.Load(), stuck: !l.reading.Load() && l.busy.Load() > 0}
	if !now.stuck || !last.stuck {
		return now
	}
	if now.requests == last.requests || l.backlog() {
		l.Standby()
		now.stuck = false
	}
	return now
}

// backlog tells whether requests queue that another processor could handle.
func (l *Loop) backlog() bool {
	return int(l.busy.Load()) < min(runtime.GOMAXPROCS(0)/2, maxBusy) && l.wait(0)
}
