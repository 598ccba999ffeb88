package server

import (
	"context"
	"encoding/hex"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

const (
	defaultLog = 1000
	maxLog     = 10_000      // entries of an answer
	maxLogText = 1 << 20     // bytes of their paths
	logStep    = 1000        // events that are read at once
	maxLogLook = time.Second // how long events are looked at for one
	maxLogWait = time.Minute
)

// logFilter is what is asked of the feed.
type logFilter struct {
	agent, under, op string
	denied           bool
	limit            int
	wait             time.Duration
}

func parseLogFilter(q url.Values) (f logFilter, err error) {
	f = logFilter{agent: q.Get("agent"), op: q.Get("kind"), denied: q.Get("denied") == "true", limit: defaultLog}
	if p := q.Get("path"); p != "" {
		if !strings.HasPrefix(p, "/") {
			return f, invalid("path %q is not a tree path: it must start with /", p)
		}
		f.under = strings.TrimSuffix(path.Clean(p), "/")
	}
	if s := q.Get("limit"); s != "" {
		if f.limit, err = strconv.Atoi(s); err != nil || f.limit < 1 || f.limit > maxLog {
			return f, invalid("limit %q is not a number from 1 to %d", s, maxLog)
		}
	}
	if s := q.Get("wait"); s != "" {
		if f.wait, err = time.ParseDuration(s); err != nil || f.wait < 0 || f.wait > maxLogWait {
			return f, invalid("wait %q is not a time of a minute at most, such as 30s", s)
		}
	}
	return f, nil
}

func (f *logFilter) wants(e *view.Event) bool {
	under := func(p string) bool { return p == f.under || strings.HasPrefix(p, f.under+"/") }
	return (f.agent == "" || e.Agent == f.agent) && (f.op == "" || e.Op == f.op) && (!f.denied || e.Denied) &&
		(f.under == "" || under(e.Path) || under(e.To))
}

func (s *Server) showLog(w http.ResponseWriter, r *http.Request) error {
	a, q := askerOf(r), r.URL.Query()
	f, err := parseLogFilter(q)
	if err != nil {
		return err
	}
	v, err := s.viewOf(a)
	if err != nil {
		return err
	}
	c, err := s.Registry.Cursors(r.Context(), a.agent)
	if err != nil {
		return err
	}
	var after uint64
	switch at := q.Get("after"); {
	case at != "":
		after, err = c.Open(at)
	case q.Get("since") != "":
		var t time.Time
		if t, err = time.Parse(time.RFC3339, q.Get("since")); err != nil {
			return invalid("since %q is not a time such as 2026-01-02T15:04:05Z", q.Get("since"))
		}
		after, err = v.FeedSince(r.Context(), t)
	}
	if err != nil {
		return err
	}
	out, err := s.readLog(r.Context(), v, c, f, after)
	if err != nil {
		return err
	}
	return reply(w, out)
}

// verifyLog writes whether events were removed from the feed.
func (s *Server) verifyLog(w http.ResponseWriter, r *http.Request) error {
	v, err := s.viewOf(askerOf(r))
	if err != nil {
		return err
	}
	got, err := v.FeedVerify(r.Context())
	if err != nil {
		return err
	}
	return reply(w, control.LogVerdict{OK: got.Broken == 0, Entries: got.Events, Unchained: got.Unchained, Aged: got.Aged,
		Gaps: got.Gaps, Broken: got.Broken, Head: got.Head, Chain: hex.EncodeToString(got.Chain[:])})
}

// readLog reads until there is something to tell, or nothing more to wait for.
func (s *Server) readLog(ctx context.Context, v *view.View, c workspace.Cursors, f logFilter, after uint64) (out control.Log, err error) {
	out.Entries = []control.LogEntry{}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	end, begun, told := time.After(f.wait), time.Now(), 0
	for {
		events, next, err := v.Feed(ctx, after, min(logStep, f.limit-len(out.Entries)))
		if err != nil {
			return out, err
		}
		for i := range events {
			if !f.wants(&events[i]) {
				continue
			}
			e, err := logEntry(&events[i], c)
			if err != nil {
				return out, err
			}
			out.Entries = append(out.Entries, e)
			told += len(events[i].Path) + len(events[i].To)
		}
		ended := next == after
		after = next
		// A bound on how many are looked at would count for an agent what it may not know of.
		if len(out.Entries) >= f.limit || told > maxLogText || !ended && time.Since(begun) > maxLogLook || ended && len(out.Entries) > 0 {
			out.More = !ended
			break
		}
		if !ended {
			continue
		}
		if !s.awaitLog(ctx, v, after, end) {
			break
		}
		begun = time.Now()
	}
	out.Next, err = c.Seal(after)
	return out, err
}

// awaitLog waits for another event; false: it is time to answer.
func (s *Server) awaitLog(ctx context.Context, v *view.View, after uint64, end <-chan time.Time) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	came := make(chan error, 1)
	go func() { came <- v.FeedWait(ctx, after) }()
	select {
	case err := <-came:
		return err == nil
	case <-end:
	case <-s.done:
	}
	return false
}

func logEntry(e *view.Event, c workspace.Cursors) (out control.LogEntry, err error) {
	out = control.LogEntry{Time: e.Time.UTC(), Op: e.Op, Agent: e.Agent, Mount: e.Mount, Denied: e.Denied, Rule: e.Rule, Count: e.Count}
	out.Path, out.PathBytes = logText(e.Path)
	out.To, out.ToBytes = logText(e.To)
	out.Cursor, err = c.Seal(e.Seq)
	return out, err
}

// logText gives a path as JSON can say it: as text, or as bytes.
func logText(p string) (string, []byte) {
	if utf8.ValidString(p) {
		return p, nil
	}
	return "", []byte(p)
}
