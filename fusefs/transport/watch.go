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
	// crowded is for how many ticks requests queue before one more goroutine
	// of a loop may read at once, slack for how many they do not before one
	// less may, maxReaders how many at most.
	crowded    = 3
	slack      = 10
	maxReaders = 4
)

// Watch looks after the loops of a daemon while they have requests. Its zero
// value is ready. A goroutine runs only while there is something to watch.
type Watch struct {
	awake atomic.Bool
	loops atomic.Pointer[[]*Loop] // replaced under mu
	mu    sync.Mutex
}

// seen is what the Watch saw of a loop at its last ticks.
type seen struct {
	requests uint64
	stuck    bool // nobody read
	queued   int  // for how many ticks requests have queued
	slack    int  // for how many they have not
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
		if l.busy.Load() > 0 && l.reading.Load() == 0 {
			w.stir()
		}
	}
}

// look sends another reader where one is missing.
func (l *Loop) look(last seen) seen {
	reading := l.reading.Load()
	now := seen{requests: l.requests.Load(), stuck: reading == 0 && l.busy.Load() > 0}
	if now.stuck && last.stuck && now.requests == last.requests {
		l.Standby()
		now.stuck = false
		return now
	}
	l.crowd(&now, last)
	return now
}

// crowd lets more goroutines read while requests queue behind handlers that are
// busy, and fewer when they do not.
func (l *Loop) crowd(now *seen, last seen) {
	limit := int32(min(runtime.GOMAXPROCS(0), maxReaders))
	most := l.most.Load()
	switch {
	case now.stuck && l.wait(0):
		now.queued = last.queued + 1
		if now.queued >= crowded && most < limit {
			l.most.Store(most + 1)
			l.send()
			now.queued = 0
		}
	case most > 1:
		now.slack = last.slack + 1
		if now.slack >= slack {
			l.most.Store(most - 1)
			now.slack = 0
		}
	}
}
