package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// cell is what a target did in a row, at its best.
type cell struct {
	Seconds  float64           `json:"seconds"`
	Ratio    float64           `json:"ratio,omitempty"` // to native
	Requests map[string]uint64 `json:"requests,omitempty"`
	Count    int               `json:"operations,omitempty"`
	Error    string            `json:"error,omitempty"`
}

// results are all that was measured.
type results struct {
	Machine string                      `json:"machine"`
	Scale   float64                     `json:"scale"`
	Rounds  int                         `json:"rounds"`
	Rows    map[string]map[string]*cell `json:"rows"`           // row, target
	Peak    map[string]uint64           `json:"peak_anonymous"` // of the target's daemon, bytes

	rows, targets []string // in the order they came
}

func newResults(o options) *results {
	return &results{Machine: machine(), Scale: o.scale, Rounds: o.rounds, Rows: map[string]map[string]*cell{}, Peak: map[string]uint64{}}
}

func machine() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d CPUs, Linux %s, %s", runtime.NumCPU(), unix.ByteSliceToString(u.Release[:]), runtime.Version())
}

func (r *results) add(row, target string, took time.Duration, count int, before, after map[string]uint64, failed error) {
	if r.Rows[row] == nil {
		r.Rows[row] = map[string]*cell{}
		r.rows = append(r.rows, row)
	}
	if !slices.Contains(r.targets, target) {
		r.targets = append(r.targets, target)
	}
	c := &cell{Seconds: took.Seconds(), Count: count}
	if failed != nil {
		c.Error = failed.Error()
	}
	for op, n := range after {
		if n > before[op] {
			if c.Requests == nil {
				c.Requests = map[string]uint64{}
			}
			c.Requests[op] = n - before[op]
		}
	}
	if old := r.Rows[row][target]; old == nil || old.Error == "" && failed != nil || old.Error == "" && c.Seconds < old.Seconds {
		r.Rows[row][target] = c
	}
}

func (r *results) memory(target string, peak uint64) {
	if peak > r.Peak[target] {
		r.Peak[target] = peak
	}
}

// ratios fills in what each took compared to native.
func (r *results) ratios() {
	for _, row := range r.Rows {
		native := row["native"]
		if native == nil || native.Error != "" {
			continue
		}
		for _, c := range row {
			if c.Error == "" {
				c.Ratio = c.Seconds / native.Seconds
			}
		}
	}
}

// table writes the ratios, what they are to be, and the requests.
func (r *results) table(w io.Writer) error {
	r.ratios()
	slices.SortStableFunc(r.targets, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	t := tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s; scale %g, best of %d; time relative to native, lower is better\n\n", r.Machine, r.Scale, r.Rounds)
	fmt.Fprintf(t, "workload\twant\t%s\n", strings.Join(r.targets[1:], "\t"))
	for _, row := range r.rows {
		fmt.Fprintf(t, "%s\t%s", row, wanted[row])
		for _, target := range r.targets[1:] {
			switch c := r.Rows[row][target]; {
			case c == nil:
				fmt.Fprint(t, "\t-")
			case c.Error != "":
				fmt.Fprint(t, "\tfailed")
			default:
				fmt.Fprintf(t, "\t%.3g", c.Ratio)
			}
		}
		fmt.Fprintln(t)
	}
	fmt.Fprint(t, "peak memory, MiB\t")
	for _, target := range r.targets[1:] {
		fmt.Fprintf(t, "\t%d", r.Peak[target]>>20)
	}
	fmt.Fprint(t, "\n\nrequests to warren for one operation\n")
	for _, row := range r.rows {
		if c := r.Rows[row]["warren"]; c != nil && c.Count > 0 {
			fmt.Fprintf(t, "%s\t%s\n", row, perOperation(c))
		}
	}
	return t.Flush()
}

// perOperation lists the requests that come at least once in twenty operations.
func perOperation(c *cell) string {
	var total uint64
	var parts []string
	ops := slices.SortedFunc(maps.Keys(c.Requests), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.Requests[b], c.Requests[a]), cmp.Compare(a, b))
	})
	for _, op := range ops {
		total += c.Requests[op]
		if each := float64(c.Requests[op]) / float64(c.Count); each >= 0.05 {
			parts = append(parts, fmt.Sprintf("%s %.2f", op, each))
		}
	}
	return fmt.Sprintf("%.2f\t%s", float64(total)/float64(c.Count), strings.Join(parts, ", "))
}

// wanted is what design says is to be reached at once, then, relative to native.
var wanted = map[string]string{
	"untar": "10 / 5", "git clone": "3.2 / 1.8", "git status, warm": "2 / 1.2", "ripgrep, warm": "4.5 / 1.5",
	"find, warm": "4 / 1.3", "du, warm": "4 / 1.3", "cp -r": "9 / 3", "rm -r": "5 / 2", "create 1 KB": "3.8 / 2",
	"stat": "2.2 / 1.2", "open+read": "3.2 / 1.5", "rename": "3.5 / 1.8", "unlink": "3 / 1.5", "append, reopen": "4.5 / 2",
	"sequential write + fsync": "1.5 / 1", "read, cached": "1.2 / 1", "read, cold": "2 / 1",
	"4 KiB random read-write": "2 / 1.3", "SQLite, rollback journal": "1.5 / 1", "SQLite, WAL": "2.5 / 1.5",
}

// rank puts the targets in the order of the table.
func rank(target string) int {
	return slices.Index([]string{"native", "warren", "warren+gaia", "floor"}, target) & 0xff // others last
}

func (r *results) writeJSON(file string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o644)
}
