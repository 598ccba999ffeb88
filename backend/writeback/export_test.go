package writeback

// Kill ends the store's goroutines and does nothing else: its files and its
// driver stay as kill -9 would leave them. No call may run.
func (s *Store) Kill() {
	s.halt()
	s.mu.Lock()
	s.views.shut()
	s.mu.Unlock()
	s.views.running.Wait()
}
