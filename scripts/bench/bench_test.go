package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A small run does every row on warren and on the floor, and says what it took
// and what was asked of the daemon.
func TestSmallRun(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounts filesystems: needs root")
	}
	if testing.Short() {
		t.Skip("the long suite runs it")
	}
	out := filepath.Join(t.TempDir(), "results.json")
	o := options{work: t.TempDir(), rows: ".", targets: "^(warren|floor)", scale: 0.002, rounds: 1, json: out}
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var res results
	if err := json.Unmarshal(b, &res); err != nil {
		t.Fatal(err)
	}
	for row := range wanted {
		for _, target := range []string{"native", "warren", "warren+gaia", "floor"} {
			c := res.Rows[row][target]
			switch {
			case c == nil:
				if target != "floor" {
					t.Errorf("%s: nothing of %s", row, target)
				}
			case c.Error != "":
				t.Errorf("%s: %s failed: %s", row, target, c.Error)
			case c.Seconds <= 0 || c.Ratio <= 0:
				t.Errorf("%s: %s took %v s, %v of native", row, target, c.Seconds, c.Ratio)
			}
		}
	}
	if c := res.Rows["untar"]["warren"]; c != nil && c.Requests["CREATE"] != uint64(c.Count) {
		t.Errorf("untar of %d files asked for %d CREATE", c.Count, c.Requests["CREATE"])
	}
	if res.Peak["warren"] == 0 {
		t.Error("no memory measured")
	}
	if left, err := os.ReadDir(o.work); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

func TestBestCounts(t *testing.T) {
	r := newResults(options{})
	r.add("row", "native", 2, 1, nil, nil, nil)
	r.add("row", "native", 1, 1, map[string]uint64{"READ": 3}, map[string]uint64{"READ": 5, "OPEN": 1}, nil)
	r.add("row", "native", 3, 1, nil, nil, nil)
	r.add("row", "other", 4, 1, nil, nil, nil)
	r.ratios()
	if c := r.Rows["row"]["native"]; c.Ratio != 1 || c.Requests["READ"] != 2 || c.Requests["OPEN"] != 1 {
		t.Errorf("native: %+v", c)
	}
	if c := r.Rows["row"]["other"]; c.Ratio != 4 {
		t.Errorf("other: %+v", c)
	}
	if !slices.Equal(r.targets, []string{"native", "other"}) {
		t.Errorf("targets: %v", r.targets)
	}
	r.add("row", "other", 1, 1, nil, nil, os.ErrInvalid)
	if c := r.Rows["row"]["other"]; c.Error == "" {
		t.Error("an error was lost behind a good time")
	}
}
