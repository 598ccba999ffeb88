package control

// Figures are what a daemon counts. Counts are since its start and never get
// smaller. Nothing in them names an agent, a user, a path or a file.
type Figures struct {
	// Requests counts FUSE requests by opcode, Latency how long they took until
	// they were answered. FORGET is not answered.
	Requests map[string]uint64  `json:"requests,omitempty"`
	Latency  map[string]Latency `json:"latency,omitempty"`
	// LatencyBounds are the inclusive upper ends, in seconds, of the buckets of
	// every Latency but its last, which has none.
	LatencyBounds []float64 `json:"latency_bounds,omitempty"`

	// Notices counts what kernels were told of others' changes, by kind, and
	// NoticeWait how long changes waited for them.
	Notices    map[string]uint64 `json:"notices,omitempty"`
	NoticeWait Latency           `json:"notice_wait"`
	Nodes      int               `json:"kernel_nodes"` // that kernels hold, each for every mount
	Handles    int               `json:"open_handles"` // files and directories

	Caches   map[string]Cache `json:"caches,omitempty"` // inodes, names, decisions
	Denials  DenialCounts     `json:"denials"`
	Log      LogFigures       `json:"log"`
	Commits  CommitFigures    `json:"commits"`
	Segments *SegmentFigures  `json:"segments,omitempty"` // of content "segment"
	// Disk is what parts of the store take of the disk, in bytes: database, log,
	// segments.
	Disk map[string]uint64 `json:"disk_bytes,omitempty"`
}

// Latency is how long things took.
type Latency struct {
	Count   uint64   `json:"count"`
	Seconds float64  `json:"seconds"`           // of all together
	P50     float64  `json:"p50_seconds"`       // half of them took no longer than this
	P99     float64  `json:"p99_seconds"`       // 99 of 100
	Buckets []uint64 `json:"buckets,omitempty"` // see Figures.LatencyBounds; each for itself
}

// Cache is how a cache does.
type Cache struct {
	Hits   uint64 `json:"hits"`
	Misses uint64 `json:"misses"`
}

// DenialCounts tell how often agents were refused.
type DenialCounts struct {
	Refused uint64 `json:"refused"` // what they see
	Hidden  uint64 `json:"hidden"`  // what they do not: answered "does not exist"
}

// LogFigures tell of the redo log: updates are acknowledged when they are in it,
// durable when it was synced, and leave it when they are committed.
type LogFigures struct {
	Files         int     `json:"files"`
	Bytes         int64   `json:"bytes"`         // of records
	Pending       int     `json:"pending"`       // updates not yet committed
	PendingBytes  int64   `json:"pending_bytes"` // of memory that they take, about
	OldestSeconds float64 `json:"oldest_seconds"`
	Unsynced      uint64  `json:"unsynced"` // updates that a power cut would lose
	Syncs         uint64  `json:"syncs"`
	SyncFailures  uint64  `json:"sync_failures"`
	SyncTime      Latency `json:"sync_time"`
	Error         string  `json:"error,omitempty"` // why its file cannot be trusted
}

// CommitFigures tell of transactions of the database.
type CommitFigures struct {
	Count    uint64  `json:"count"`
	Failures uint64  `json:"failures"`
	Updates  uint64  `json:"updates"`         // that they committed
	Bytes    uint64  `json:"bytes"`           // of keys and values
	Time     Latency `json:"time"`            // until they were durable
	Error    string  `json:"error,omitempty"` // of the last one
}

// SegmentFigures tell of the files that hold contents.
type SegmentFigures struct {
	Files    int    `json:"files"`
	Broken   int    `json:"broken"` // missing or damaged
	Records  uint64 `json:"records"`
	Live     int64  `json:"live_bytes"`     // of records that are named
	Dead     int64  `json:"dead_bytes"`     // that are not; their room may have been given back
	Unsynced int64  `json:"unsynced_bytes"` // not known to be on disk
	Written  uint64 `json:"written_bytes"`  // of contents
	Returned uint64 `json:"returned_bytes"` // to the disk, out of files that stay
	Removed  uint64 `json:"removed"`        // files
	Syncs    uint64 `json:"syncs"`
	Failures uint64 `json:"sync_failures"`
}
