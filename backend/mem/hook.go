package mem

import "sync"

// Point is a step at which a Hook is called.
type Point uint8

// The points, and what an error returned there does.
const (
	// BeforeView: View fails with the error; its function does not run.
	BeforeView Point = iota
	// BeforeUpdate: Update fails with the error; its function does not run.
	BeforeUpdate
	// BeforeCommit, after the function returned nil: Update fails with the
	// error and nothing happened.
	BeforeCommit
	// AfterCommit: the changes have been written, and crash clones may hold
	// them. On an error Update fails with it, Views go on seeing the state
	// before, and every later Update fails with IO: a disk that failed halfway,
	// where only a restart can tell what survived.
	AfterCommit
	// BeforeSync: WaitDurable fails with the error; nothing became durable.
	BeforeSync
	// AfterSync: WaitDurable fails with the error although its Updates are
	// durable.
	AfterSync
	numPoints
)

// Hook is called at point p for the n-th time in this store's life, from 1. An
// error it returns is returned by the call, as it is. It may take crash clones
// and block; it may run in several goroutines at once.
type Hook func(p Point, n uint64) error

// SetHook replaces the store's Hook; nil: none. The counts go on.
func (s *Store) SetHook(h Hook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = h
}

// Count is the number of times that p was reached.
func (s *Store) Count(p Point) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[p]
}

// at counts p and calls the Hook; mu not held.
func (s *Store) at(p Point) error {
	s.mu.Lock()
	s.counts[p]++
	h, n := s.hook, s.counts[p]
	s.mu.Unlock()
	if h == nil {
		return nil
	}
	return h(p, n)
}

// FailAt gives a Hook that returns err the next times that p is reached, after
// it passed skip times.
func FailAt(p Point, skip, times int, err error) Hook {
	var mu sync.Mutex
	seen := 0
	return func(q Point, _ uint64) error {
		if q != p {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		seen++
		if seen > skip && seen <= skip+times {
			return err
		}
		return nil
	}
}

// Hooks gives a Hook that calls each of hs in turn until one returns an error.
func Hooks(hs ...Hook) Hook {
	return func(p Point, n uint64) error {
		for _, h := range hs {
			if err := h(p, n); err != nil {
				return err
			}
		}
		return nil
	}
}
