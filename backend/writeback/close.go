package writeback

import (
	"context"
	"errors"
	"fmt"

	"github.com/warrenfs/warren/backend"
)

// calls counts the running calls, so that Close can wait for them. Store.mu
// guards it; closing itself may be received from without.
type calls struct {
	running int
	closing chan struct{} // closed when Close began
	idle    chan struct{} // closed when it began and no call runs any more
	closed  chan struct{} // closed when Close is done
	err     error         // of Close
}

func (c *calls) init() {
	c.closing, c.idle, c.closed = make(chan struct{}), make(chan struct{}), make(chan struct{})
}

func (c *calls) isClosing() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

// enter counts a call in, or is false: the store is closing.
func (c *calls) enter() bool {
	if c.isClosing() {
		return false
	}
	c.running++
	return true
}

func (c *calls) leave() {
	if c.running--; c.running == 0 && c.isClosing() {
		close(c.idle)
	}
}

// enter counts a call in, unless the store is closing or ctx is done.
func (s *Store) enter(ctx context.Context, op string) error {
	if ctx.Err() != nil {
		return interrupted(ctx, op)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.calls.enter() {
		return unavailable(op)
	}
	return nil
}

func (s *Store) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls.leave()
}

// Close waits for running calls, commits everything to the driver and closes
// it. If the driver refuses, everything stays in the log, synced, for the next
// Open; the error says so. Closing again gives the same error.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.calls.isClosing() {
		s.mu.Unlock()
		<-s.calls.closed
		return s.calls.err
	}
	close(s.calls.closing)
	if s.calls.running == 0 {
		close(s.calls.idle)
	}
	s.mu.Unlock()
	<-s.calls.idle
	s.calls.err = s.shutdown()
	close(s.calls.closed)
	return s.calls.err
}

// shutdown is Close once no call runs.
func (s *Store) shutdown() error {
	ctx := context.Background()
	err := s.flush(ctx)
	s.halt()
	if err == nil {
		s.emptyLog()
	} else {
		err = s.keepLog(ctx, err)
	}
	s.mu.Lock()
	s.views.shut()
	files := append(append([]*logFile(nil), s.redo.old...), s.redo.cur)
	s.mu.Unlock()
	s.views.running.Wait()
	for _, lf := range files {
		err = errors.Join(err, lf.f.Close())
	}
	err = errors.Join(err, s.dir.parts.close())
	return errors.Join(err, s.driver.Close())
}

// halt ends the goroutines.
func (s *Store) halt() {
	close(s.work.stop)
	s.work.group.Wait()
}

// emptyLog leaves one small file in the log: there is nothing to recover, but
// a log that is not there any more is told from an empty one.
func (s *Store) emptyLog() {
	s.opts.LogFileSize = 0 // allocate nothing
	if err := s.replaceLog(); err != nil {
		s.log.Warn("log is left as it is", "err", err)
	}
}

// keepLog makes sure that what could not be committed is on disk in the log.
func (s *Store) keepLog(ctx context.Context, cause error) error {
	s.mu.Lock()
	last, committed := s.over.last, s.commit.committed
	spare := s.redo.spare
	s.redo.spare = nil
	s.mu.Unlock()
	if spare != nil {
		s.removeFiles([]*logFile{spare})
	}
	if err := s.makeDurable(ctx, last); err != nil {
		return &backend.Error{Op: "close store", Kind: backend.IO,
			Err: fmt.Errorf("updates %d to %d are neither in the driver nor on disk in the log: %w; %w", committed+1, last, cause, err)}
	}
	return &backend.Error{Op: "close store", Kind: backend.KindOf(cause),
		Err: fmt.Errorf("updates %d to %d stay in the log: %w", committed+1, last, cause)}
}
