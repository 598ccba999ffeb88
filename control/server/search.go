package server

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"path"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
)

// maxFound bounds the text of the matches of one file, maxAnswer that of all, in
// bytes.
const (
	maxFound  = 1 << 20
	maxAnswer = 16 << 20
)

// maxWalked bounds the paths of what is searched, in bytes, as PATH_MAX does: a walk
// keeps those of all directories above.
const maxWalked = 4096

// usualMatches is how many matching lines a search gives that says no limit.
const usualMatches = 1000

// fsSearch streams the lines that match in the files of a view. It ends when the
// client hangs up.
func (s *Server) fsSearch(w http.ResponseWriter, r *http.Request) error {
	var c control.Search
	if err := input(r, &c); err != nil {
		return err
	}
	if c.Limit == 0 {
		c.Limit = usualMatches
	}
	if c.Context < 0 || c.Context > control.MaxContext || c.Limit < 0 || c.Limit > control.MaxMatches || c.PerFile < 0 || len(c.Paths) > maxGlobs {
		return invalid("search: context is 0 to %d, limit 1 to %d, per_file is not negative, and there are at most %d paths",
			control.MaxContext, control.MaxMatches, maxGlobs)
	}
	v, err := s.files(c.Agent)
	if err != nil {
		return err
	}
	x := &search{v: v, c: c, jobs: make(chan *job, 2*workers()), order: make(chan *job, 64)}
	if x.m, err = newMatcher(&c); err != nil {
		return err
	}
	if x.globs, err = parseGlobs(c.Globs); err != nil {
		return err
	}
	roots, err := x.roots()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	if err := x.run(r.Context(), s.searchTime, roots, w); err != nil {
		if r.Context().Err() == nil {
			s.Log.Error("search failed", "err", err)
			_ = encode(w, control.SearchEvent{Error: control.Errorf(control.KindFailed, "%s", text(err))})
		}
		return nil
	}
	_ = encode(w, control.SearchEvent{Done: &x.sum}) // or the client hung up
	return nil
}

// workers is how many files are looked into at a time.
func workers() int { return max(2, runtime.GOMAXPROCS(0)) }

// search is one search under way. One goroutine walks, workers look into files,
// and the caller's writes what they found in the order of the walk.
type search struct {
	v     *view.View
	c     control.Search
	m     *matcher
	globs globs

	jobs  chan *job // for the workers
	order chan *job // the same, for the writer
	cpu   *budget
	sum   control.Searched
	told  int  // bytes
	full  bool // the limit was reached
	cut   bool // a file was not looked into to its end
}

// job is one file to be looked into. What is found in it is there when done is
// closed.
type job struct {
	path    string
	node    backend.NodeID
	size    uint64
	skip    skip
	done    chan struct{}
	matches []control.Match
	more    bool // the limit was reached
	stopped bool // matches are nothing to go by: the search was to end
	err     error
}

// skip says why a file was not looked into.
type skip uint8

const (
	looked skip = iota
	binary
	big
	denied
	vanished
	deep // a directory whose path is longer than maxWalked
)

// roots finds what is searched.
func (x *search) roots() (out []view.Found, err error) {
	paths := x.c.Paths
	if len(paths) == 0 {
		paths = []string{"."}
	}
	for _, p := range paths {
		if p == "" {
			return nil, invalid("search: a path is empty")
		}
		f, err := x.v.Find(place(x.c.Agent, p), true)
		if err != nil {
			return nil, err
		}
		if !f.Attr.IsDir() {
			if f, err = readable(x.v, f.Path); err != nil {
				return nil, err
			}
		}
		out = append(out, f)
	}
	return out, nil
}

// run walks, searches and writes until all is done, the processor time is used up, or
// asked ends.
func (x *search) run(asked context.Context, limit time.Duration, roots []view.Found, w http.ResponseWriter) error {
	ctx, cpu, done := withBudget(asked, limit)
	defer done()
	x.cpu = cpu
	var all sync.WaitGroup
	var walkErr error
	all.Go(func() {
		defer close(x.order)
		defer close(x.jobs)
		for _, f := range roots {
			if walkErr = x.root(ctx, f); walkErr != nil {
				return
			}
		}
	})
	for range workers() {
		all.Go(func() {
			var buf []byte
			f := x.m.finder(ctx)
			for j := range x.jobs {
				if ctx.Err() == nil {
					cpu.run(func() { buf = x.look(j, f, buf) })
				}
				j.stopped = ctx.Err() != nil
				close(j.done)
			}
		})
	}
	err := x.write(asked, w)
	spent := context.Cause(ctx) == errSpent
	done()
	for range x.order { // let the walk end
	}
	all.Wait()
	if spent && err == nil && (x.cut || walkErr != nil) && !x.full {
		x.sum.Partial, x.sum.Truncated = true, true
	}
	if err == nil && !x.sum.Truncated {
		err = walkErr
	}
	return err
}

func (x *search) root(ctx context.Context, f view.Found) error {
	if !f.Attr.IsDir() {
		return x.put(ctx, &job{path: f.Path, node: f.Attr.Node, size: f.Attr.Size})
	}
	return x.walk(ctx, f.Attr.Node, f.Path, "")
}

// walk puts the files below dir into the queue; rel is its path below the root
// of the walk.
func (x *search) walk(ctx context.Context, dir backend.NodeID, at, rel string) error {
	var children []view.Child
	var err error
	x.cpu.run(func() { children, err = x.v.Children(dir) })
	switch {
	case errors.Is(err, backend.NotFound), errors.Is(err, backend.NotDir):
		return nil // removed meanwhile
	case err != nil:
		return err
	}
	for i := range children {
		ch := &children[i]
		if !x.c.Hidden && strings.HasPrefix(ch.Name, ".") {
			continue
		}
		here, below := path.Join(at, ch.Name), path.Join(rel, ch.Name)
		switch ch.Type {
		case backend.TypeDir:
			switch {
			case x.globs.left(ch.Name, below):
			case len(here) > maxWalked:
				err = x.put(ctx, &job{skip: deep})
			default:
				err = x.walk(ctx, ch.Node, here, below)
			}
		case backend.TypeRegular:
			if x.globs.file(ch.Name, below) {
				j := &job{path: here, node: ch.Node, size: ch.Size}
				if !ch.Readable {
					j.skip = denied
				}
				err = x.put(ctx, j)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put queues one file.
func (x *search) put(ctx context.Context, j *job) error {
	if j.size > control.MaxSearched {
		j.skip = big
	}
	if j.skip == looked && j.size == 0 {
		j.skip = vanished // there is nothing in it
	}
	j.done = make(chan struct{})
	select {
	case x.order <- j:
	case <-ctx.Done():
		return ctx.Err()
	}
	if j.skip != looked {
		close(j.done)
		return nil
	}
	x.jobs <- j // a worker takes it, also when ctx has ended
	return nil
}

// look reads a file and finds what matches.
func (x *search) look(j *job, f *finder, buf []byte) []byte {
	if uint64(cap(buf)) < j.size {
		buf = make([]byte, max(j.size, 256<<10))
	}
	text := buf[:j.size]
	n, err := x.v.ReadChild(j.node, text, 0)
	switch {
	case errors.Is(err, backend.NotFound):
		j.skip = vanished
	case errors.Is(err, backend.Denied):
		j.skip = denied
	case err != nil:
		j.err = err
	case bytes.IndexByte(text[:min(n, 8<<10)], 0) >= 0:
		j.skip = binary
	default:
		x.match(j, f, text[:n])
	}
	return buf
}

// match finds the matching lines of a text.
func (x *search) match(j *job, f *finder, text []byte) {
	limit := x.c.Limit
	if x.c.PerFile > 0 {
		limit = min(limit, x.c.PerFile)
	}
	line, counted, found := 1, 0, 0
	f.lines(text, func(from, to, at int) bool {
		if len(j.matches) == limit || found > maxFound {
			j.more = true
			return false
		}
		line += bytes.Count(text[counted:from], newline)
		counted = from
		m := control.Match{Path: j.path, Line: line, Column: at - from + 1}
		m.Text, m.Cut = clip(text[from:to])
		m.Before, m.After = around(text, from, to, x.c.Context)
		m.SetBytes()
		found += size(&m)
		j.matches = append(j.matches, m)
		return true
	})
}

// size is how much text m has.
func size(m *control.Match) int {
	n := len(m.Path) + len(m.Text) + 100
	for _, l := range m.Before {
		n += len(l)
	}
	for _, l := range m.After {
		n += len(l)
	}
	return n
}

// clip makes text of a line, at most control.MaxMatchBytes of it.
func clip(b []byte) (string, bool) {
	b = bytes.TrimSuffix(b, []byte("\r"))
	if len(b) > control.MaxMatchBytes {
		return strings.ToValidUTF8(string(b[:control.MaxMatchBytes]), "\uFFFD"), true
	}
	return strings.ToValidUTF8(string(b), "\uFFFD"), false
}

// around gives n lines before and after the line at [from, to).
func around(text []byte, from, to, n int) (before, after []string) {
	start := from
	for range n {
		if start == 0 {
			break
		}
		start = bytes.LastIndexByte(text[:start-1], '\n') + 1
	}
	for start < from {
		end := start + bytes.IndexByte(text[start:], '\n')
		l, _ := clip(text[start:end])
		before, start = append(before, l), end+1
	}
	if to < len(text) && text[to] == '\r' {
		to++
	}
	for next := to + 1; len(after) < n && next < len(text); {
		end := len(text)
		if i := bytes.IndexByte(text[next:], '\n'); i >= 0 {
			end = next + i
		}
		l, _ := clip(text[next:end])
		after, next = append(after, l), end+1
	}
	return before, after
}

// write answers with what was found, in order, until the limit.
func (x *search) write(ctx context.Context, w http.ResponseWriter) error {
	for j := range x.order {
		select {
		case <-j.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if j.stopped {
			x.cut = true
			return ctx.Err()
		}
		if j.err != nil {
			return j.err
		}
		switch j.skip {
		case binary:
			x.sum.Binary++
		case big:
			x.sum.Big++
		case denied:
			x.sum.Denied++
		case deep:
			x.sum.Truncated = true
		case looked:
			x.sum.Files++
		}
		if len(j.matches) > 0 {
			x.sum.Matched++
		}
		for i := range j.matches {
			if x.sum.Matches == x.c.Limit || x.told > maxAnswer {
				x.sum.Truncated, x.full = true, true
				return nil
			}
			if err := encode(w, control.SearchEvent{Match: &j.matches[i]}); err != nil {
				return err
			}
			x.sum.Matches++
			x.told += size(&j.matches[i])
		}
		x.sum.Truncated = x.sum.Truncated || j.more
		if j.more && x.sum.Matches == x.c.Limit {
			x.full = true
			return nil
		}
		if len(x.order) == 0 && len(j.matches) > 0 {
			_ = http.NewResponseController(w).Flush() // what is found is told while it is looked for more
		}
	}
	return ctx.Err()
}
