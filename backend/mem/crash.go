package mem

import (
	"math/rand/v2"

	"github.com/warrenfs/warren/backend"
)

// CrashClone gives an independent store that holds what a disk could hold if
// the power failed now: the state after Update keep. A keep below the durable
// LSN gives the durable state, one above the last Update's gives that state;
// so CrashClone(0) loses all that may be lost. Its LSNs go on after the state
// it holds. The clone has the same History and no Hook.
//
// It works on a closed store too, and from inside Hooks and transactions.
func (s *Store) CrashClone(keep backend.LSN) *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := len(s.states) - 1
	for i > 0 && s.states[i].lsn > keep {
		i--
	}
	return s.clone(s.states[i])
}

// CrashRand is CrashClone with a keep drawn from r among all that are possible.
func (s *Store) CrashRand(r *rand.Rand) *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clone(s.states[r.IntN(len(s.states))])
}

// Reopen gives an independent store with everything that took effect in s: what
// closing a driver on a disk and opening it again gives, and what kill -9 of
// the process would leave. It works on a closed store.
func (s *Store) Reopen() *Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clone(s.states[len(s.states)-1])
}

// clone makes a store out of one of s's states; mu held.
func (s *Store) clone(from state) *Store {
	// Copy changes the tree's own mark only, which readers never look at.
	return newStore(Options{History: s.history}, state{lsn: from.lsn, tree: from.tree.Copy()})
}
