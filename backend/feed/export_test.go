package feed

import "context"

// Flush writes what is noted now.
func (f *Feed) Flush(ctx context.Context) error { return f.flush(ctx) }
