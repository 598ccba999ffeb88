package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// options are the flags.
type options struct {
	work    string
	rows    string
	targets string
	scale   float64
	rounds  int
	json    string
}

func (o *options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.work, "work", "", "a directory on the disk to compare on (default: the temporary directory)")
	f.StringVar(&o.rows, "rows", ".", "only groups whose name matches")
	f.StringVar(&o.targets, "targets", ".", "only targets whose name matches; native always runs")
	f.Float64Var(&o.scale, "scale", 1, "how much work: 1 is what the documentation's table has, 0.1 a tenth")
	f.IntVar(&o.rounds, "rounds", 2, "how often each target does each group; the best counts")
	f.StringVar(&o.json, "json", "", "write all results to this file too")
}

func main() {
	var o options
	o.AddFlags(pflag.CommandLine)
	pflag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	rows, err := regexp.Compile(o.rows)
	if err != nil {
		return err
	}
	wanted, err := regexp.Compile(o.targets)
	if err != nil {
		return err
	}
	if pflag.NArg() > 0 || o.rounds < 1 || o.scale <= 0 {
		return errors.New("no arguments are taken, --rounds is 1 or more, --scale above 0; see --help")
	}
	if os.Getuid() != 0 {
		return errors.New("must run as root: it mounts filesystems and drops the kernel's caches")
	}
	dir, err := os.MkdirTemp(o.work, "bench")
	if err != nil {
		return err
	}
	in, err := prepare(ctx, dir, o.scale)
	defer func() {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, "targets")), os.RemoveAll(in.dir), os.Remove(dir))
	}()
	if err != nil {
		return err
	}
	groups := slices.DeleteFunc(groups(in), func(g group) bool { return !rows.MatchString(g.name) })
	res := newResults(o)
	for round := range o.rounds {
		for _, g := range groups {
			ts := targets(filepath.Join(dir, "targets"), wanted)
			if round%2 == 1 {
				slices.Reverse(ts)
			}
			for _, t := range ts {
				if err := measure(ctx, t, g, in, res); err != nil {
					return err
				}
			}
		}
	}
	if err := res.table(os.Stdout); err != nil {
		return err
	}
	if o.json != "" {
		return res.writeJSON(o.json)
	}
	return nil
}

// measure does the steps of a group on one target. What a target cannot do is
// noted and does not end the run; that the target cannot be set up does.
func measure(ctx context.Context, t target, g group, in inputs, res *results) (err error) {
	if g.skips[t.name()] {
		return nil
	}
	dir, err := t.start(ctx)
	defer func() { err = errors.Join(err, t.stop()) }()
	if err != nil {
		return fmt.Errorf("start %s: %w", t.name(), err)
	}
	for _, s := range g.steps {
		if s.before != nil {
			if err := s.before(ctx, dir); err != nil {
				return fmt.Errorf("%s: before %s: %w", t.name(), s.row, err)
			}
		}
		if err := t.warm(ctx, g.reads); err != nil {
			return fmt.Errorf("%s: warm up before %s: %w", t.name(), s.row, err)
		}
		unix.Sync()
		if s.cold {
			if err := os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0); err != nil {
				return err
			}
		}
		before, err := t.requests(ctx)
		if err != nil {
			return err
		}
		start := time.Now()
		failed := s.do(ctx, dir)
		took := time.Since(start)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		after, err := t.requests(ctx)
		if err != nil {
			return err
		}
		res.add(s.row, t.name(), took, s.count, before, after, failed)
		fmt.Fprintf(os.Stderr, "%-28s %-16s %8.3f s  %v\n", s.row, t.name(), took.Seconds(), orEmpty(failed))
		if failed != nil {
			break // the steps after it build on it
		}
	}
	res.memory(t.name(), t.peak())
	return nil
}

func orEmpty(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
