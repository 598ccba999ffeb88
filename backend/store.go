package backend

import "context"

// LSN is a log sequence number: the position of one Update in a store's
// history. Updates are numbered from 1 without gaps, in the order in which they
// took effect.
type LSN uint64

// Limits of the seam. A driver meets them or refuses the call with TooBig; the
// tree keeps within them.
const (
	MaxKey      = 1 << 10       // bytes in a key; a key has at least one
	MaxValue    = 64<<10 + 1024 // bytes in a value: 64 KiB of content and a header
	MaxTxBytes  = 2 << 20       // keys and values changed by one Update
	MaxTxKeys   = 10_000        // keys changed by one Update
	MaxPutBytes = 1 << 20       // content bytes the tree puts into one Update
)

// ReservedPrefix starts the keys that a layer between the tree and a driver
// keeps for itself (backend/writeback has one). Nobody else uses such keys, the
// layer hides its own, and they do not count towards MaxTxBytes and MaxTxKeys:
// a driver leaves room for 4 of them, of 1 KiB in all, in an Update.
const ReservedPrefix = "\x00warren/"

// Store is an ordered, transactional key-value store. Keys are compared byte
// by byte. Methods may be called from any goroutine.
type Store interface {
	// View runs fn on a consistent snapshot that includes every Update that
	// returned before View was called. Set and Delete fail in it.
	View(ctx context.Context, fn func(Tx) error) error

	// Update runs fn and, if it returns nil, makes its changes take effect
	// all at once: they are seen by every View and Update that starts after
	// Update returned, and they outlive the process being killed if the
	// driver says so (backend/writeback does). If fn returns an error nothing
	// happened and that error is returned as it is. Updates are serializable.
	// fn may be run more than once and must not call the store itself.
	//
	// Errors: TooBig (a limit of the seam), NoSpace, IO, Unavailable (closed).
	Update(ctx context.Context, fn func(Tx) error) (LSN, error)

	// WaitDurable returns when all Updates up to lsn are on disk. After an
	// error none of those that were not durable before may be taken for
	// durable; a later call may succeed. Errors: IO for a failed sync; NoSpace and
	// DiskReadOnly where that is the reason, as fsync(2) reports them.
	WaitDurable(ctx context.Context, lsn LSN) error

	// Close waits for running calls, makes everything durable and lets go of
	// the store. Later calls fail with Unavailable.
	Close() error
}

// Tx is one transaction, valid until its function returns and only in the
// goroutine that runs it. It sees its own changes.
type Tx interface {
	// Get returns the value of key, or NotFound. The slice is valid until the
	// transaction ends and must not be changed.
	Get(key []byte) ([]byte, error)
	// Set stores value under key. The store keeps neither slice.
	Set(key, value []byte) error
	// Delete removes key; one that is not there is no error.
	Delete(key []byte) error
	// Scan calls fn for each key in [start, end), ascending; a nil end is no
	// upper bound. An error from fn ends the scan and is returned; ErrStop
	// ends it without one. The slices are valid until fn returns. fn may call
	// Get, Set and Delete; whether the scan sees changes made meanwhile is
	// not defined.
	Scan(start, end []byte, fn func(key, value []byte) error) error
	// ScanKeys is Scan without values, which costs a third where values are big.
	ScanKeys(start, end []byte, fn func(key []byte) error) error
}

// Origin names the request behind an Update: the connection (one mount's
// /dev/fuse, or an API connection) and the request's number on it. The log
// keeps it, so that a daemon that takes a connection over can tell which
// requests were already carried out. The zero Origin is "none".
type Origin struct {
	Conn    uint64
	Request uint64
}

// Logged is a Store that records the origin of an Update in its log.
type Logged interface {
	Store
	// UpdateFrom is Update with the request it serves.
	UpdateFrom(ctx context.Context, o Origin, fn func(Tx) error) (LSN, error)
}

type stop struct{}

func (stop) Error() string { return "stop" }

// ErrStop, returned by a Scan's function, ends the scan without an error.
var ErrStop error = stop{}

// PrefixEnd is the smallest key after all keys that start with prefix, or nil
// when there is none: Scan(p, PrefixEnd(p), …) walks a prefix.
func PrefixEnd(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			end := append([]byte(nil), prefix[:i+1]...)
			end[i]++
			return end
		}
	}
	return nil
}
