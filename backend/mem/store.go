package mem

import (
	"bytes"
	"context"
	"errors"
	"sync"

	"github.com/tidwall/btree"
	"github.com/warrenfs/warren/backend"
)

// defaultHistory is the number of states kept that are not durable.
const defaultHistory = 1000

// Options of a Store; the zero Options are useful.
type Options struct {
	// History is the number of Updates that may be not yet durable; the oldest
	// becomes durable when there are more. 0: 1000.
	History int
	// Hook is called at every Point; nil: none.
	Hook Hook
}

// item is one key with its value. Both are never changed once in a tree.
type item struct{ key, value []byte }

type itemTree = btree.BTreeG[item]

func newTree() *itemTree {
	less := func(a, b item) bool { return bytes.Compare(a.key, b.key) < 0 }
	return btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
}

// state is the store as it was after Update lsn. Its tree is never changed.
type state struct {
	lsn  backend.LSN
	tree *itemTree
}

// Store is an in-memory backend.Store. Make one with New.
type Store struct {
	history int

	writer  chan struct{} // holds a token while an Update runs
	running sync.WaitGroup

	mu      sync.Mutex
	hook    Hook
	counts  [numPoints]uint64
	closed  bool
	broken  error   // Updates fail with it after an AfterCommit failpoint
	current state   // what Views see
	states  []state // states[0] is durable; ascending by lsn
}

var _ backend.Store = (*Store)(nil)

// New makes an empty store.
func New(o Options) *Store { return newStore(o, state{tree: newTree()}) }

func newStore(o Options, from state) *Store {
	if o.History <= 0 {
		o.History = defaultHistory
	}
	return &Store{
		history: o.History, writer: make(chan struct{}, 1), hook: o.Hook,
		current: from, states: []state{from},
	}
}

// LastLSN is the number of the last Update that took effect; 0: none yet.
func (s *Store) LastLSN() backend.LSN {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current.lsn
}

// DurableLSN is the number of the last Update that would survive a power cut.
func (s *Store) DurableLSN() backend.LSN {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[0].lsn
}

// View runs fn on the state after the last Update.
func (s *Store) View(ctx context.Context, fn func(backend.Tx) error) error {
	if err := s.enter(ctx, "view"); err != nil {
		return err
	}
	defer s.running.Done()
	if err := s.at(BeforeView); err != nil {
		return err
	}
	s.mu.Lock()
	t := tx{tree: s.current.tree, readonly: true}
	s.mu.Unlock()
	defer t.end()
	return fn(&t)
}

// Update runs fn, alone among Updates, and publishes its changes. Waiting for
// other Updates ends with Interrupted when ctx is done.
func (s *Store) Update(ctx context.Context, fn func(backend.Tx) error) (backend.LSN, error) {
	if err := s.enter(ctx, "update"); err != nil {
		return 0, err
	}
	defer s.running.Done()
	select {
	case s.writer <- struct{}{}:
		defer func() { <-s.writer }()
	case <-ctx.Done():
		return 0, interrupted(ctx, "update")
	}
	if err := s.at(BeforeUpdate); err != nil {
		return 0, err
	}
	s.mu.Lock()
	next, err := state{lsn: s.current.lsn + 1, tree: s.current.tree.Copy()}, s.broken
	s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	t := tx{tree: next.tree}
	defer t.end()
	if err := fn(&t); err != nil {
		return 0, err
	}
	return s.commit(next)
}

// commit makes next the current state; writer held.
func (s *Store) commit(next state) (backend.LSN, error) {
	if err := s.at(BeforeCommit); err != nil {
		return 0, err
	}
	s.mu.Lock()
	s.states = append(s.states, next)
	if drop := len(s.states) - 1 - s.history; drop > 0 {
		s.forget(drop)
	}
	s.mu.Unlock()
	err := s.at(AfterCommit)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.broken = &backend.Error{Op: "update", Kind: backend.IO,
			Err: errors.New("an earlier Update failed while it was written; reopen the store")}
		return 0, err
	}
	s.current = next
	return next.lsn, nil
}

// WaitDurable makes all Updates up to lsn durable. Errors: Invalid for an lsn
// that no Update has been given, Interrupted, Unavailable.
func (s *Store) WaitDurable(ctx context.Context, lsn backend.LSN) error {
	if err := s.enter(ctx, "wait durable"); err != nil {
		return err
	}
	defer s.running.Done()
	if err := s.at(BeforeSync); err != nil {
		return err
	}
	s.mu.Lock()
	if lsn > s.current.lsn {
		s.mu.Unlock()
		return &backend.Error{Op: "wait durable", Kind: backend.Invalid,
			Err: errors.New("no Update has this LSN yet")}
	}
	s.settle(lsn)
	s.mu.Unlock()
	return s.at(AfterSync)
}

// settle makes lsn durable; mu held.
func (s *Store) settle(lsn backend.LSN) {
	n := 0
	for n+1 < len(s.states) && s.states[n+1].lsn <= lsn {
		n++
	}
	s.forget(n)
}

// forget lets go of the n oldest states; mu held.
func (s *Store) forget(n int) {
	clear(s.states[:n]) // the array outlives the slice; the trees need not
	s.states = s.states[n:]
}

// Close waits for running calls and makes everything durable. Closing again is
// no error.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.running.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(s.current.lsn)
	return nil
}

// enter counts a call in, unless the store is closed or ctx is done.
func (s *Store) enter(ctx context.Context, op string) error {
	if ctx.Err() != nil {
		return interrupted(ctx, op)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return &backend.Error{Op: op, Kind: backend.Unavailable, Err: errors.New("the store is closed")}
	}
	s.running.Add(1)
	return nil
}

func interrupted(ctx context.Context, op string) error {
	return &backend.Error{Op: op, Kind: backend.Interrupted, Err: ctx.Err()}
}
