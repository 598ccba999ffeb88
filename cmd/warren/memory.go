package main

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
)

// smallMemory is the soft limit, in bytes, below which the log keeps less pending:
// a daemon that starts again after kill -9 has all of that in memory at once.
const smallMemory = 128 << 20

// limitMemory sets the soft limit of memory: what was asked for, in bytes, and at most
// two thirds of what the cgroup allows. GOMEMLIMIT takes precedence.
func limitMemory(asked int64, log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := asked
	if group := cgroupMemory("/proc/self/cgroup", "/sys/fs/cgroup"); group/3*2 < asked {
		limit = group / 3 * 2
		log.Info("the cgroup's limit of memory is small; the daemon uses less", "cgroup", group, "limit", limit)
	}
	debug.SetMemoryLimit(limit)
}

// cgroupMemory returns the least limit of memory, in bytes, of a process's cgroup and
// those above it, of version 1 or 2. list is its /proc/PID/cgroup.
func cgroupMemory(list, root string) int64 {
	least := int64(math.MaxInt64)
	b, err := os.ReadFile(list)
	if err != nil {
		return least
	}
	for line := range strings.Lines(string(b)) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), ":")
		kinds, at, _ := strings.Cut(line, ":")
		top, file := root, "memory.max"
		switch {
		case kinds == "":
		case strings.Contains(","+kinds+",", ",memory,"):
			top, file = filepath.Join(root, "memory"), "memory.limit_in_bytes"
		default:
			continue
		}
		// In a container the path may be the host's: a missing file means no limit.
		for dir := filepath.Join("/", at); ; dir = filepath.Dir(dir) {
			text, err := os.ReadFile(filepath.Join(top, dir, file))
			if n, perr := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && perr == nil && n > 0 {
				least = min(least, n)
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}

// fitMemory returns the plan with less pending where memory is small.
func (p diskPlan) fitMemory(limit int64) diskPlan {
	if limit < smallMemory {
		p.pending = min(p.pending, max(limit/8, 4<<20))
		p.logFile = min(p.logFile, max(limit/4, 4<<20))
	}
	return p
}
