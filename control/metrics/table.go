package metrics

import "github.com/warrenfs/warren/control"

// kind is the type of a metric.
type kind string

const (
	gauge     kind = "gauge"
	counter   kind = "counter"
	histogram kind = "histogram"
)

// sample is one value: a number, or of a histogram how long things took.
type sample struct {
	labels []string
	value  float64
	took   control.Latency
}

// metric is a row of the table. read gives its samples.
type metric struct {
	name   string
	kind   kind
	labels []string
	help   string
	read   func(s *control.Status, give func(sample))
}

// table is all that is told of a daemon.
var table = []metric{
	{"warren_build_info", gauge, []string{"version"}, "1, with the daemon's version.",
		func(s *control.Status, give func(sample)) { give(sample{labels: []string{s.Version}, value: 1}) }},
	one("warren_mounts", gauge, "Mounts that are up.", func(s *control.Status) float64 { return float64(s.Mounts) }),
	one("warren_kernel_nodes", gauge, "Files and directories that kernels hold, each for every mount.",
		func(s *control.Status) float64 { return float64(s.Nodes) }),
	one("warren_open_handles", gauge, "Open files and directories of all mounts.",
		func(s *control.Status) float64 { return float64(s.Handles) }),
	{"warren_fuse_requests_total", counter, []string{"opcode"}, "Requests of kernels.",
		func(s *control.Status, give func(sample)) { counts(s.Requests, give) }},
	{"warren_fuse_request_duration_seconds", histogram, []string{"opcode"},
		"From reading a request to its answer. SETLKW has the wait for the lock; FORGET has no answer.",
		func(s *control.Status, give func(sample)) {
			for op, l := range s.Latency {
				give(sample{labels: []string{op}, took: l})
			}
		}},
	{"warren_notices_total", counter, []string{"kind"}, "What kernels were told of changes made by others.",
		func(s *control.Status, give func(sample)) { counts(s.Notices, give) }},
	took("warren_notice_wait_seconds", "How long changes waited until the other kernels had taken their notices.",
		func(s *control.Status) control.Latency { return s.NoticeWait }),
	{"warren_cache_lookups_total", counter, []string{"cache", "result"}, "Look-ups in the daemon's caches.",
		func(s *control.Status, give func(sample)) {
			for name, c := range s.Caches {
				give(sample{labels: []string{name, "hit"}, value: float64(c.Hits)})
				give(sample{labels: []string{name, "miss"}, value: float64(c.Misses)})
			}
		}},
	{"warren_denials_total", counter, []string{"answer"}, "Requests that policy denied.",
		func(s *control.Status, give func(sample)) {
			give(sample{labels: []string{"refused"}, value: float64(s.Denials.Refused)})
			give(sample{labels: []string{"hidden"}, value: float64(s.Denials.Hidden)})
		}},

	one("warren_log_files", gauge, "Files of the redo log.", func(s *control.Status) float64 { return float64(s.Log.Files) }),
	one("warren_log_bytes", gauge, "Records in the redo log.", func(s *control.Status) float64 { return float64(s.Log.Bytes) }),
	one("warren_log_pending_updates", gauge, "Updates that are in the log and not yet in the database.",
		func(s *control.Status) float64 { return float64(s.Log.Pending) }),
	one("warren_log_pending_bytes", gauge, "Memory that these updates take, about.",
		func(s *control.Status) float64 { return float64(s.Log.PendingBytes) }),
	one("warren_log_oldest_update_seconds", gauge, "Age of the oldest of them; 0 without any.",
		func(s *control.Status) float64 { return s.Log.OldestSeconds }),
	one("warren_log_unsynced_updates", gauge, "Updates that a power cut would lose now.",
		func(s *control.Status) float64 { return float64(s.Log.Unsynced) }),
	took("warren_log_sync_duration_seconds", "Syncs of the redo log.",
		func(s *control.Status) control.Latency { return s.Log.SyncTime }),
	one("warren_log_sync_failures_total", counter, "Syncs of the redo log that failed.",
		func(s *control.Status) float64 { return float64(s.Log.SyncFailures) }),

	took("warren_commit_duration_seconds", "Transactions of the database, until they were durable.",
		func(s *control.Status) control.Latency { return s.Commits.Time }),
	one("warren_commit_updates_total", counter, "Updates that they committed.",
		func(s *control.Status) float64 { return float64(s.Commits.Updates) }),
	one("warren_commit_bytes_total", counter, "Keys and values that they wrote.",
		func(s *control.Status) float64 { return float64(s.Commits.Bytes) }),
	one("warren_commit_failures_total", counter, "Transactions that failed and are tried again.",
		func(s *control.Status) float64 { return float64(s.Commits.Failures) }),

	ofSegments("warren_segment_files", gauge, "Segments.", func(g *control.SegmentFigures) float64 { return float64(g.Files) }),
	ofSegments("warren_segment_broken_files", gauge, "Segments that are missing or damaged.",
		func(g *control.SegmentFigures) float64 { return float64(g.Broken) }),
	ofSegments("warren_segment_records", gauge, "Contents in segments.",
		func(g *control.SegmentFigures) float64 { return float64(g.Records) }),
	ofSegments("warren_segment_live_bytes", gauge, "Of these contents.",
		func(g *control.SegmentFigures) float64 { return float64(g.Live) }),
	ofSegments("warren_segment_dead_bytes", gauge, "Of contents that nothing needs any more; their room may have been given back.",
		func(g *control.SegmentFigures) float64 { return float64(g.Dead) }),
	ofSegments("warren_segment_unsynced_bytes", gauge, "Not known to be on disk.",
		func(g *control.SegmentFigures) float64 { return float64(g.Unsynced) }),
	ofSegments("warren_segment_written_bytes_total", counter, "Contents written.",
		func(g *control.SegmentFigures) float64 { return float64(g.Written) }),
	ofSegments("warren_segment_returned_bytes_total", counter, "Given back to the disk out of segments that stay.",
		func(g *control.SegmentFigures) float64 { return float64(g.Returned) }),
	ofSegments("warren_segment_files_removed_total", counter, "Segments removed.",
		func(g *control.SegmentFigures) float64 { return float64(g.Removed) }),
	ofSegments("warren_segment_syncs_total", counter, "Syncs of segments.",
		func(g *control.SegmentFigures) float64 { return float64(g.Syncs) }),
	ofSegments("warren_segment_sync_failures_total", counter, "Syncs of segments that failed.",
		func(g *control.SegmentFigures) float64 { return float64(g.Failures) }),

	{"warren_store_disk_bytes", gauge, []string{"part"}, "What the parts of the store take of the disk.",
		func(s *control.Status, give func(sample)) { counts(s.Disk, give) }},
	one("warren_disk_free_bytes", gauge, "What may still be written.", func(s *control.Status) float64 { return float64(s.Free) }),
	one("warren_disk_size_bytes", gauge, "Size of the disk.", func(s *control.Status) float64 { return float64(s.Total) }),
}

// one is a metric of one number.
func one(name string, k kind, help string, value func(*control.Status) float64) metric {
	return metric{name, k, nil, help, func(s *control.Status, give func(sample)) { give(sample{value: value(s)}) }}
}

// took is a metric of how long something takes.
func took(name, help string, value func(*control.Status) control.Latency) metric {
	return metric{name, histogram, nil, help, func(s *control.Status, give func(sample)) { give(sample{took: value(s)}) }}
}

// ofSegments is a metric that a store without segments does not have.
func ofSegments(name string, k kind, help string, value func(*control.SegmentFigures) float64) metric {
	return metric{name, k, nil, help, func(s *control.Status, give func(sample)) {
		if s.Segments != nil {
			give(sample{value: value(s.Segments)})
		}
	}}
}

// counts gives a sample for each entry, labelled with its key.
func counts(of map[string]uint64, give func(sample)) {
	for key, n := range of {
		give(sample{labels: []string{key}, value: float64(n)})
	}
}
