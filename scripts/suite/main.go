// Command suite runs warren's tests, shows the running ones, and counts the results.
//
//	suite [-budget D] FORM [PACKAGE...]
//
// FORM is one of
//
//	short  every package, long cases shortened: what make test runs
//	quick  the light packages in their short form; results may come from Go's cache
//	long   every package with its long cases
//	race   the short form under the race detector
//	one    the short form with GOMAXPROCS=1
//
// Each package runs under scripts/cleanly in a temporary directory of its own.
// Packages that mount and load the machine run alone, the others two at a time.
// Without PACKAGE, all run, the light ones first; packages that are named run in
// the order they are named in.
//
// A failed test's output is shown at once, the tests that run are shown every
// 30 seconds, and the last line is "N passed, N failed, N skipped", subtests
// counted. With -budget D no package begins later than D after the start. The
// packages left out are listed; that is no failure. The exit status is 1 if
// something failed, 2 for a wrong call, and 130 or 143 after a signal, which
// ends all that the tests started.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const module = "github.com/warrenfs/warren/"

// heartbeat is the interval at which the running tests are shown.
const heartbeat = 30 * time.Second

// heavy are the packages that mount and load the machine: they run alone.
var heavy = []string{
	"backend/badger", "control/server", "control/mcp", "fusefs", "cmd/warren",
	"scripts/fsx", "scripts/difftest", "scripts/lifetest", "scripts/escapetest", "scripts/attack",
	"scripts/casetest", "scripts/worktest", "scripts/crashtest", "scripts/fulltest", "scripts/soak",
	"scripts/bench",
}

// form is a way to run the tests.
type form struct {
	args  []string // of go test
	env   []string
	light bool // only the light packages
}

var forms = map[string]form{
	"short": {args: []string{"-short", "-count=1"}},
	"quick": {args: []string{"-short"}, light: true},
	"long":  {args: []string{"-count=1"}},
	"race": {args: []string{"-short", "-count=1", "-vet=off", "-race"},
		// A program with the race detector waits a second before it ends, by default.
		env: []string{"CGO_ENABLED=1", "GORACE=atexit_sleep_ms=10"}},
	"one": {args: []string{"-short", "-count=1", "-vet=off", "-exec", "env GOMAXPROCS=1"}},
}

func main() {
	budget := flag.Duration("budget", 0, "begin no package later than `D` after the start; 0: no limit")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: suite [-budget D] short|quick|long|race|one [PACKAGE...]")
		flag.PrintDefaults()
	}
	flag.Parse()
	f, ok := forms[flag.Arg(0)]
	if !ok {
		flag.Usage()
		os.Exit(2)
	}
	pkgs, err := packages(f, flag.Args()[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(2)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { cancel(interrupted{(<-signals).(syscall.Signal)}) }()
	s := newSuite(os.Stdout, flag.Arg(0))
	s.runAll(ctx, f, pkgs, *budget)
	s.report()
	var by interrupted
	switch {
	case errors.As(context.Cause(ctx), &by):
		os.Exit(128 + int(by.Signal))
	case s.failed() > 0:
		os.Exit(1)
	}
}

// interrupted is why a run ended early.
type interrupted struct{ syscall.Signal }

func (i interrupted) Error() string { return i.String() }

// packages returns the packages with tests that match the patterns, or all, the
// light ones first.
func packages(f form, patterns []string) ([]string, error) {
	named := len(patterns) > 0 && !slices.Contains(patterns, "./...")
	if !named {
		patterns = []string{"./..."}
	}
	var all []string
	for _, p := range patterns { // go list sorts: one call each keeps the order
		out, err := exec.Command("go", "list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", p).Output()
		if err != nil {
			return nil, fmt.Errorf("go list %s: %w", p, err)
		}
		for _, pkg := range strings.Fields(string(out)) {
			if !slices.Contains(all, pkg) && !(f.light && isHeavy(pkg)) {
				all = append(all, pkg)
			}
		}
	}
	if !named {
		slices.SortStableFunc(all, func(a, b string) int { return rank(a) - rank(b) })
	}
	return all, nil
}

func rank(pkg string) int { return slices.Index(heavy, strings.TrimPrefix(pkg, module)) }

func isHeavy(pkg string) bool { return rank(pkg) >= 0 }

// runAll runs pkgs in their order. A heavy package begins when all before it have
// ended, and nothing begins beside it.
func (s *suite) runAll(ctx context.Context, f form, pkgs []string, budget time.Duration) {
	const slots = 2
	free := make(chan struct{}, slots)
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-beat.C:
				s.showRunning()
			case <-ended:
				return
			}
		}
	}()
	defer close(ended)
	var running sync.WaitGroup
	for _, pkg := range pkgs {
		takes := 1
		if isHeavy(pkg) {
			takes = slots
		}
		for range takes {
			free <- struct{}{}
		}
		if ctx.Err() != nil || budget > 0 && time.Since(s.begun) > budget {
			s.leaveOut(pkg)
			for range takes {
				<-free
			}
			continue
		}
		running.Go(func() {
			s.runPackage(ctx, f, pkg)
			for range takes {
				<-free
			}
		})
	}
	running.Wait()
}

// runPackage runs the tests of one package. When ctx ends, scripts/cleanly is
// asked to end them and to clear away what they leave.
func (s *suite) runPackage(ctx context.Context, f form, pkg string) {
	r := s.begin(pkg)
	parallel := strconv.Itoa(2 * runtime.NumCPU()) // scripts wait more than they compute
	args := append([]string{"go", "test", "-json", "-timeout", "60m", "-parallel", parallel}, f.args...)
	cmd := exec.CommandContext(ctx, "scripts/cleanly", append(args, pkg)...)
	cmd.Env = append(os.Environ(), f.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal of the terminal is for us alone
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 2 * time.Minute
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		err = errors.Join(r.read(out), cmd.Wait())
	}
	s.end(r, err, said.String())
}
