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

func (s *Server) fsck(w http.ResponseWriter, r *http.Request) error {
	c, err := Check(r.Context(), s.Daemon.Check)
	if err != nil {
		return err
	}
	return reply(w, c)
}

// Check collects what check reports.
func Check(ctx context.Context, check func(context.Context, func(control.Problem)) error) (control.Check, error) {
	start := time.Now()
	c := control.Check{Problems: []control.Problem{}}
	err := check(ctx, func(p control.Problem) {
		if c.Count++; len(c.Problems) < maxProblems {
			c.Problems = append(c.Problems, p)
		}
	})
	c.Clean, c.Millis = c.Count == 0, time.Since(start).Milliseconds()
	return c, err
}
