package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend/latency"
	"github.com/warrenfs/warren/backend/segment"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/control/metrics"
	"golang.org/x/sys/unix"
)

// figuresTime is how long the store is given to add up what it has.
const figuresTime = 2 * time.Second

// figures gives what all parts of the daemon count. It waits for no mount and no
// disk sync.
func (d *daemon) figures(ctx context.Context) control.Figures {
	t := d.hub.Totals()
	f := control.Figures{Requests: t.Requests, Notices: t.Notices, NoticeWait: taken(t.Waits), Nodes: t.Nodes, Handles: t.Handles,
		Latency: map[string]control.Latency{}, Caches: d.caches(), Disk: d.store.usage()}
	for op, s := range t.Latency {
		f.Latency[op] = taken(s)
	}
	for _, b := range latency.Bounds() {
		f.LatencyBounds = append(f.LatencyBounds, b.Seconds())
	}
	f.Denials.Refused, f.Denials.Hidden = d.space.DenialCounts()
	f.Log, f.Commits = d.store.logFigures()
	f.Segments = d.store.segmentFigures(ctx)
	return f
}

// checkMetrics refuses what makes no sense, before anything is opened.
func checkMetrics(address, tokenFile string) error {
	if address == "" {
		if tokenFile != "" {
			return usagef("--metrics-token-file without --metrics")
		}
		return nil
	}
	if tokenFile != "" {
		if _, err := readToken(tokenFile); err != nil {
			return err
		}
	}
	return metrics.CheckAddress(address)
}

// serveMetrics answers Prometheus on address until close. If tokenFile is set,
// only who shows the token in it.
func (d *daemon) serveMetrics(address, tokenFile string) error {
	token := ""
	if tokenFile != "" {
		var err error
		if token, err = readToken(tokenFile); err != nil {
			return err
		}
	}
	log := d.log.With("part", "metrics")
	h, err := metrics.Handler(d.server.Status, token, log)
	if err != nil {
		return err
	}
	l, err := metrics.Listen(address)
	if err != nil {
		return err
	}
	d.metrics = &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	log.Info("serving metrics", "url", "http://"+l.Addr().String()+"/metrics", "token", token != "")
	go func() {
		if err := d.metrics.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics end", "err", err)
		}
	}()
	return nil
}

// readToken reads the first line of a file that only the daemon's user, or root,
// can read.
func readToken(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", localError(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", localError(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o077 != 0 || st.Uid != uint32(os.Geteuid()) && st.Uid != 0 {
		return "", control.Errorf(control.KindDenied,
			"%s: a token's file must be this user's or root's, and closed to others (chmod 600)", file)
	}
	b, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", file, err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	if line = strings.TrimSpace(line); len(line) < 8 {
		return "", usagef("%s: its first line is no token, or one that is guessed (under 8 characters)", file)
	}
	return line, nil
}

// taken puts a snapshot into the words of the API.
func taken(s latency.Snapshot) control.Latency {
	return control.Latency{Count: s.Count(), Seconds: s.Sum.Seconds(), Buckets: s.Counts[:],
		P50: s.Quantile(0.5).Seconds(), P99: s.Quantile(0.99).Seconds()}
}

func (d *daemon) caches() map[string]control.Cache {
	c, e := d.store.tree.CacheStats(), d.space.Engine()
	return map[string]control.Cache{
		"inodes":    {Hits: c.InodeHits, Misses: c.InodeMisses},
		"names":     {Hits: c.NameHits, Misses: c.NameMisses},
		"decisions": {Hits: e.Remembered(), Misses: e.Evaluations()},
	}
}

func (s *store) logFigures() (control.LogFigures, control.CommitFigures) {
	st := s.wb.Stats()
	l := control.LogFigures{Files: st.LogFiles, Bytes: st.LogBytes, Pending: st.Pending, PendingBytes: st.PendingBytes,
		OldestSeconds: st.OldestAge.Seconds(), Unsynced: uint64(st.Last - min(st.Durable, st.Last)),
		Syncs: st.Syncs, SyncFailures: st.SyncFailures, SyncTime: taken(st.Work.SyncTime)}
	c := control.CommitFigures{Count: st.Commits, Failures: st.CommitFails, Updates: st.Updates,
		Bytes: st.Work.CommitBytes, Time: taken(st.Work.CommitTime)}
	if st.LogError != nil {
		l.Error = st.LogError.Error()
	}
	if st.CommitError != nil {
		c.Error = st.CommitError.Error()
	}
	return l, c
}

// segmentFigures is nil where contents are not in segments.
func (s *store) segmentFigures(ctx context.Context) *control.SegmentFigures {
	c, ok := s.content.(*segment.Content)
	bound, isBound := s.kv.(*segment.Store)
	if !ok || !isBound {
		return nil
	}
	st := c.Stats()
	f := &control.SegmentFigures{Files: st.Segments, Broken: st.Broken, Unsynced: st.Unsynced, Written: st.PutBytes,
		Returned: st.Punched, Removed: st.Unlinked, Syncs: st.Syncs, Failures: st.SyncFailures}
	ctx, cancel := context.WithTimeout(ctx, figuresTime)
	defer cancel()
	if live, err := bound.Live(ctx); err == nil { // else the counts are damaged, which fsck tells of
		f.Records, f.Live, f.Dead = live.Records, live.Bytes, live.Dead
	}
	return f
}

// usage tells what the parts of the store take of the disk, in bytes.
func (s *store) usage() map[string]uint64 {
	out := map[string]uint64{}
	for part, dir := range map[string]string{"database": badgerDir, "log": logDir, "segments": segmentDir} {
		entries, err := os.ReadDir(filepath.Join(s.dir, dir))
		if err != nil {
			continue
		}
		out[part] = 0
		for _, e := range entries {
			var st unix.Stat_t
			if unix.Lstat(filepath.Join(s.dir, dir, e.Name()), &st) == nil {
				out[part] += uint64(st.Blocks) * 512
			}
		}
	}
	return out
}
