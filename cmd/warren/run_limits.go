package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// limit is one resource limit of a command (setrlimit(2)).
type limit struct {
	Resource   int
	Soft, Hard uint64
}

// limitNames are what --limit takes. memory is RLIMIT_DATA, not RLIMIT_AS:
// node, Go and Java reserve address space that they never use.
var limitNames = map[string]int{"memory": unix.RLIMIT_DATA, "files": unix.RLIMIT_NOFILE, "procs": unix.RLIMIT_NPROC,
	"cpu": unix.RLIMIT_CPU, "filesize": unix.RLIMIT_FSIZE, "core": unix.RLIMIT_CORE}

// parseLimits reads NAME=VALUE of --limit.
func parseLimits(args []string) ([]limit, error) {
	var out []limit
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		resource, known := limitNames[name]
		if !ok || !known {
			return nil, usagef("--limit %s: expected memory, files, procs, cpu, filesize or core, = and a number", arg)
		}
		n, err := limitValue(name, value)
		if err != nil {
			return nil, usagef("--limit %s: %v", arg, err)
		}
		l := limit{resource, n, n}
		if name == "cpu" {
			l.Hard++ // SIGXCPU comes first
		}
		out = append(out, l)
	}
	return out, nil
}

// limitValue reads a number, a size such as 512M, or a time such as 10m.
func limitValue(name, value string) (uint64, error) {
	switch name {
	case "cpu":
		d, err := time.ParseDuration(value)
		if err != nil {
			if s, serr := strconv.ParseUint(value, 10, 32); serr == nil {
				return s, nil
			}
			return 0, fmt.Errorf("%q is no time such as 90s or 10m", value)
		}
		if d < time.Second {
			return 0, fmt.Errorf("it is counted in whole seconds")
		}
		return uint64(d / time.Second), nil
	case "files", "procs":
		n, err := strconv.ParseUint(value, 10, 32)
		if err != nil || n == 0 {
			return 0, fmt.Errorf("%q is no number", value)
		}
		return n, nil
	}
	digits := strings.TrimRight(strings.TrimSuffix(strings.TrimSuffix(value, "iB"), "B"), "KMGTkmgt")
	unit := strings.ToUpper(strings.TrimPrefix(strings.TrimSuffix(strings.TrimSuffix(value, "iB"), "B"), digits))
	shift, ok := map[string]uint{"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[unit]
	n, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is no size such as 512M or 2G", value)
	}
	return n << shift, nil
}

// setLimits gives this process the command's limits, for good.
func setLimits(limits []limit) error {
	for _, l := range limits {
		var now unix.Rlimit
		if err := unix.Getrlimit(l.Resource, &now); err != nil {
			return fmt.Errorf("limit: %w", err)
		}
		// No capability is left to raise one above what the caller has.
		set := unix.Rlimit{Cur: min(l.Soft, now.Max), Max: min(l.Hard, now.Max)}
		if err := unix.Setrlimit(l.Resource, &set); err != nil {
			return fmt.Errorf("limit: %w", err)
		}
	}
	return nil
}
