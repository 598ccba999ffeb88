package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// slow is the duration from which a passed test has a line of its own.
const slow = 5 * time.Second

// suite is one run of the tests.
type suite struct {
	name  string
	begun time.Time

	mu      sync.Mutex
	out     io.Writer
	running []*result
	done    []*result
	leftOut []string
}

// result counts the results of one package's tests so far. The suite's mu guards it.
type result struct {
	s      *suite
	pkg    string
	begun  time.Time
	took   time.Duration
	passed int
	failed int
	skips  []string             // names and reasons
	tests  map[string]time.Time // those that run, and since when
	output map[string][]string  // of the tests that run; "" is the package's own
}

// event is a line of go test -json (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Elapsed float64
	Output  string
}

func newSuite(out io.Writer, name string) *suite {
	return &suite{name: name, begun: time.Now(), out: out}
}

// printf prints a line with the time since the start; mu held.
func (s *suite) printf(format string, args ...any) {
	fmt.Fprintf(s.out, "%7s  %s\n", clock(time.Since(s.begun)), fmt.Sprintf(format, args...))
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

func short(pkg string) string { return strings.TrimPrefix(pkg, module) }

func (s *suite) begin(pkg string) *result {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &result{s: s, pkg: pkg, begun: time.Now(), tests: map[string]time.Time{}, output: map[string][]string{}}
	s.running = append(s.running, r)
	s.printf("%s %s", s.name, short(pkg))
	return r
}

func (s *suite) leaveOut(pkg string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leftOut = append(s.leftOut, short(pkg))
}

// read takes in the output of go test -json until it ends.
func (r *result) read(out io.Reader) error {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *result) line(line string) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	var e event
	if err := json.Unmarshal([]byte(line), &e); err != nil { // what a test wrote past the testing package
		r.output[""] = append(r.output[""], line)
		return
	}
	switch e.Action {
	case "run":
		r.tests[e.Test] = time.Now()
	case "output", "build-output":
		r.output[e.Test] = append(r.output[e.Test], e.Output)
	case "pass", "fail", "skip":
		if e.Test != "" {
			r.endTest(e)
		}
	}
}

// endTest counts a test that has ended, and shows it if it failed or was slow.
func (r *result) endTest(e event) {
	took := time.Duration(e.Elapsed * float64(time.Second))
	said := r.output[e.Test]
	delete(r.tests, e.Test)
	delete(r.output, e.Test)
	switch e.Action {
	case "pass":
		r.passed++
		if took >= slow && !strings.Contains(e.Test, "/") {
			r.s.printf("  %s %s %.1f s", short(r.pkg), e.Test, e.Elapsed)
		}
	case "skip":
		r.skips = append(r.skips, short(r.pkg)+" "+e.Test+": "+reason(said))
	case "fail":
		r.failed++
		r.s.printf("FAIL %s %s %.1f s", short(r.pkg), e.Test, e.Elapsed)
		for _, l := range said {
			io.WriteString(r.s.out, l)
		}
	}
}

// reason returns why a test was skipped: the last of what it said.
func reason(said []string) string {
	for _, l := range slices.Backward(said) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "---") && !strings.HasPrefix(l, "===") {
			return l
		}
	}
	return "no reason"
}

// end takes in how go test ended and what it and scripts/cleanly said besides.
func (s *suite) end(r *result, err error, said string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.took = time.Since(r.begun)
	s.running = slices.DeleteFunc(s.running, func(x *result) bool { return x == r })
	s.done = append(s.done, r)
	if err == nil {
		s.printf("ok   %s, %d passed in %s", short(r.pkg), r.passed, clock(r.took))
		return
	}
	if r.failed == 0 { // it was not built, ended early or left something behind
		r.failed = 1
	}
	s.printf("FAIL %s: %v, after %s", short(r.pkg), err, clock(r.took))
	for _, name := range slices.Sorted(maps.Keys(r.output)) {
		io.WriteString(s.out, strings.Join(r.output[name], ""))
	}
	io.WriteString(s.out, said)
}

// showRunning shows which tests run, and for how long they have.
func (s *suite) showRunning() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.running {
		var tests []string
		for _, name := range slices.Sorted(maps.Keys(r.tests)) {
			tests = append(tests, fmt.Sprintf("%s (%s)", name, clock(time.Since(r.tests[name]))))
		}
		if len(tests) == 0 {
			tests = []string{"being built"}
		}
		const most = 6
		more := ""
		if len(tests) > most {
			more = fmt.Sprintf(" and %d more", len(tests)-most)
			tests = tests[:most]
		}
		s.printf("...  %s, %d passed in %s: %s%s", short(r.pkg), r.passed, clock(time.Since(r.begun)), strings.Join(tests, ", "), more)
	}
}

func (s *suite) failed() (n int) {
	for _, r := range s.done {
		n += r.failed
	}
	return n
}

// report prints a table of the packages, what was skipped or left out, and the
// closing line.
func (s *suite) report() {
	s.mu.Lock()
	defer s.mu.Unlock()
	passed, skipped := 0, 0
	fmt.Fprintf(s.out, "\n%-28s %7s %7s %7s %8s\n", s.name+" "+clock(time.Since(s.begun)), "passed", "failed", "skipped", "time")
	for _, r := range s.done {
		passed, skipped = passed+r.passed, skipped+len(r.skips)
		fmt.Fprintf(s.out, "%-28s %7d %7d %7d %8s\n", short(r.pkg), r.passed, r.failed, len(r.skips), clock(r.took))
	}
	if _, err := os.Stat("/dev/fuse"); err == nil { // everything could have run
		for _, r := range s.done {
			for _, skip := range r.skips {
				fmt.Fprintln(s.out, "skipped:", skip)
			}
		}
	}
	if len(s.leftOut) > 0 {
		fmt.Fprintln(s.out, "left out, not failed:", strings.Join(s.leftOut, " "))
	}
	fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", passed, s.failed(), skipped)
}
