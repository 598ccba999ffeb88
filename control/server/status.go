package server

import (
	"context"
	"net/http"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/warrenfs/warren/control"
	"golang.org/x/sys/unix"
)

func (s *Server) version(w http.ResponseWriter, r *http.Request) error {
	v := control.Version{Version: s.Daemon.Version, API: 1}
	if askerOf(r).administrator() {
		v.PID = os.Getpid()
	}
	return reply(w, v)
}

func (s *Server) status(w http.ResponseWriter, r *http.Request) error {
	return reply(w, s.Status(r.Context()))
}

// Status tells how the daemon fares. It waits for no mount and no disk sync.
func (s *Server) Status(ctx context.Context) control.Status {
	free, total := s.Daemon.Disk()
	var kernel string
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		kernel = unix.ByteSliceToString(u.Release[:])
	}
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(heap)
	return control.Status{
		Version: s.Daemon.Version, PID: os.Getpid(), Started: s.Daemon.Started,
		Store: s.Daemon.Store, Content: s.Daemon.Content, Format: s.Daemon.Format, Socket: s.Daemon.Socket,
		Kernel: kernel, Agents: len(s.Registry.Agents()), Users: len(s.Registry.Users()),
		Mounts: len(s.Mounts.Mounted()), Volumes: s.Daemon.Volumes(), Free: free, Total: total,
		HeapBytes: heap[0].Value.Uint64(), LimitBytes: uint64(debug.SetMemoryLimit(-1)),
		Figures: s.Daemon.Figures(ctx), Notes: s.Daemon.Notes(),
	}
}

func (s *Server) sync(w http.ResponseWriter, r *http.Request) error {
	if err := s.Space.Sync(r.Context()); err != nil {
		return err
	}
	return ok(w)
}

// maxProblems bounds what one fsck reports.
const maxProblems = 10_000

// CheckFunc checks a store. It tells progress how many inodes it has looked at, and
// of how many (0: not known), and report what is broken, one call at a time.
type CheckFunc func(ctx context.Context, progress func(done, total uint64), report func(control.Problem)) error

func (s *Server) fsck(w http.ResponseWriter, r *http.Request) error {
	if r.URL.Query().Get("progress") != "true" {
		c, err := Check(r.Context(), s.Daemon.Check, func(uint64, uint64) {})
		if err != nil {
			return err
		}
		return reply(w, c)
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	var told time.Time
	c, err := Check(r.Context(), s.Daemon.Check, func(done, total uint64) {
		if now := time.Now(); now.Sub(told) >= progressEvery {
			told = now
			_ = encode(w, control.CheckEvent{Progress: &control.Progress{Done: done, Total: total}})
			_ = http.NewResponseController(w).Flush() // where nobody listens any more the context ends
		}
	})
	switch {
	case err == nil:
		_ = encode(w, control.CheckEvent{Check: &c})
	case r.Context().Err() == nil:
		s.Log.Error("fsck failed", "err", err)
		_ = encode(w, control.CheckEvent{Error: control.Errorf(control.KindFailed, "%s", text(err))})
	}
	return nil
}

// progressEvery is how often progress is told.
const progressEvery = 100 * time.Millisecond

// Check collects what check reports.
func Check(ctx context.Context, check CheckFunc, progress func(done, total uint64)) (control.Check, error) {
	start := time.Now()
	c := control.Check{Problems: []control.Problem{}}
	err := check(ctx, progress, func(p control.Problem) {
		if c.Count++; len(c.Problems) < maxProblems {
			c.Problems = append(c.Problems, p)
		}
	})
	c.Clean, c.Millis = c.Count == 0, time.Since(start).Milliseconds()
	return c, err
}
