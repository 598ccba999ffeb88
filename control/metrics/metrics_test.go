package metrics

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/warrenfs/warren/control"
)

// secret stands wherever a Status has a name or a path.
const secret = "s3cret-name"

// full is a Status with something in every field.
func full() control.Status {
	l := control.Latency{Count: 3, Seconds: 0.5, P50: 0.01, P99: 1, Buckets: []uint64{1, 0, 2}}
	return control.Status{
		Version: "v1.2.3", PID: 7, Store: "/" + secret, Socket: "/" + secret, Kernel: secret, Content: secret, Notes: []string{secret},
		Agents: 123456, Users: 123457, Volumes: 123458, Mounts: 2, Free: 10, Total: 100,
		Figures: control.Figures{
			Requests: map[string]uint64{"LOOKUP": 5, "FORGET": 2}, Latency: map[string]control.Latency{"LOOKUP": l},
			LatencyBounds: []float64{0.01, 1}, Notices: map[string]uint64{"INVAL_ENTRY": 4}, NoticeWait: l, Nodes: 8, Handles: 9,
			Caches:  map[string]control.Cache{"inodes": {Hits: 11, Misses: 12}},
			Denials: control.DenialCounts{Refused: 13, Hidden: 14},
			Log:     control.LogFigures{Files: 1, Bytes: 2, Pending: 3, OldestSeconds: 0.25, Unsynced: 4, SyncTime: l, Error: secret},
			Commits: control.CommitFigures{Count: 3, Updates: 30, Bytes: 300, Time: l, Error: secret}, Segments: &control.SegmentFigures{Files: 15, Live: 16},
			Disk: map[string]uint64{"log": 17},
		},
	}
}

// scrape asks a handler over HTTP.
func scrape(t *testing.T, s control.Status, token, shown string) (int, string) {
	t.Helper()
	h, err := Handler(func(context.Context) control.Status { return s }, token, nil)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(h)
	defer srv.Close()
	r, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	if shown != "" {
		r.Header.Set("Authorization", shown)
	}
	resp, err := srv.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestScrape(t *testing.T) {
	status, text := scrape(t, full(), "", "")
	if status != 200 {
		t.Fatalf("status %d: %s", status, text)
	}
	for _, want := range []string{
		`warren_build_info{version="v1.2.3"} 1`,
		`warren_mounts 2`,
		`warren_fuse_requests_total{opcode="LOOKUP"} 5`,
		`warren_fuse_request_duration_seconds_bucket{opcode="LOOKUP",le="0.01"} 1`,
		`warren_fuse_request_duration_seconds_bucket{opcode="LOOKUP",le="1"} 1`,
		`warren_fuse_request_duration_seconds_bucket{opcode="LOOKUP",le="+Inf"} 3`,
		`warren_fuse_request_duration_seconds_sum{opcode="LOOKUP"} 0.5`,
		`warren_notice_wait_seconds_count 3`,
		`warren_cache_lookups_total{cache="inodes",result="miss"} 12`,
		`warren_denials_total{answer="hidden"} 14`,
		`warren_log_oldest_update_seconds 0.25`,
		`warren_commit_updates_total 30`,
		`warren_segment_live_bytes 16`,
		`warren_store_disk_bytes{part="log"} 17`,
		`warren_disk_free_bytes 10`,
		"# TYPE warren_log_sync_duration_seconds histogram",
		"go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no line %s", want)
		}
	}
	s := full()
	s.Segments = nil
	if _, text := scrape(t, s, "", ""); strings.Contains(text, "warren_segment_") {
		t.Error("metrics of segments where there are none")
	}
}

// TestNothingIsNamed: whoever reaches the port learns no name, no path and no
// error text, and not how many agents, users and volumes there are.
func TestNothingIsNamed(t *testing.T) {
	_, text := scrape(t, full(), "", "")
	for _, leak := range []string{secret, "123456", "123457", "123458"} {
		if strings.Contains(text, leak) {
			t.Errorf("the metrics tell %q", leak)
		}
	}
	labels := regexp.MustCompile(`(?m)^warren_\w+\{(.*)\}`)
	known := []string{"version", "opcode", "kind", "cache", "result", "answer", "part", "le"}
	for _, m := range labels.FindAllStringSubmatch(text, -1) {
		for _, pair := range strings.Split(m[1], ",") {
			if name, _, _ := strings.Cut(pair, "="); !slices.Contains(known, name) {
				t.Errorf("label %s, whose values nobody has bounded", name)
			}
		}
	}
}

func TestToken(t *testing.T) {
	for _, c := range []struct {
		token, shown string
		want         int
	}{
		{"", "", 200},
		{"t0ken", "Bearer t0ken", 200},
		{"t0ken", "", 401},
		{"t0ken", "Bearer ", 401},
		{"t0ken", "Bearer t0ke", 401},
		{"t0ken", "Bearer t0kenn", 401},
		{"t0ken", "Basic t0ken", 401},
	} {
		got, text := scrape(t, full(), c.token, c.shown)
		if got != c.want || (got == 401) == strings.Contains(text, "warren_mounts") || strings.Contains(text, "t0ken") {
			t.Errorf("token %q, shown %q: %d %.60s", c.token, c.shown, got, text)
		}
	}
}

func TestOnlyLoopback(t *testing.T) {
	for _, address := range []string{"", "9464", ":9464", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "10.0.0.1:9464", "localhost:9464",
		"127.0.0.1", "example.org:80", "[2001:db8::1]:0"} {
		l, err := Listen(address)
		if err == nil {
			_ = l.Close()
		}
		if control.KindOf(err) != control.KindInvalid || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("%q: %v", address, err)
		}
	}
	l, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(l.Addr().String()); err == nil || control.KindOf(err) == control.KindInvalid {
		t.Errorf("an address that is taken: %v", err)
	}
	_ = l.Close()
}

// TestDocMatches: docs/metrics.md has each metric with its type, labels and
// help, and no other.
func TestDocMatches(t *testing.T) {
	b, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var doc, code [][]string
	row := regexp.MustCompile("(?m)^\\| `(warren_\\w+)` \\| (\\w+) \\| (.*?) \\| (.*) \\|$")
	for _, m := range row.FindAllStringSubmatch(string(b), -1) {
		doc = append(doc, m[1:])
	}
	for _, m := range table {
		var labels []string
		for _, l := range m.labels {
			labels = append(labels, "`"+l+"`")
		}
		code = append(code, []string{m.name, string(m.kind), strings.Join(labels, ", "), m.help})
	}
	for i := range max(len(doc), len(code)) {
		var d, c []string
		if i < len(doc) {
			d = doc[i]
		}
		if i < len(code) {
			c = code[i]
		}
		if !slices.Equal(d, c) {
			t.Errorf("row %d of docs/metrics.md is %q and the metric is %q", i, d, c)
		}
	}
}

// TestNamesAreConventional: prefix, base units, _total for counters alone.
func TestNamesAreConventional(t *testing.T) {
	seen := map[string]bool{}
	name := regexp.MustCompile(`^warren_[a-z]+(_[a-z]+)*$`)
	for _, m := range table {
		if !name.MatchString(m.name) || seen[m.name] {
			t.Errorf("%s: not a name, or there twice", m.name)
		}
		seen[m.name] = true
		if strings.HasSuffix(m.name, "_total") != (m.kind == counter) {
			t.Errorf("%s is a %s", m.name, m.kind)
		}
		if m.kind == histogram && !strings.HasSuffix(m.name, "_seconds") {
			t.Errorf("%s: a histogram of seconds", m.name)
		}
		for _, unit := range []string{"_ms", "_millis", "_kb", "_mb", "_kib", "_mib", "_count"} {
			if strings.Contains(m.name+"_", unit+"_") {
				t.Errorf("%s is not in base units", m.name)
			}
		}
	}
}

// TestEveryFigureIsTold: what is added to the Status is added here, too.
func TestEveryFigureIsTold(t *testing.T) {
	elsewhere := map[string]string{"LatencyBounds": "the buckets", "P50": "Prometheus computes it", "P99": "Prometheus computes it",
		"Log.Error": "a text", "Commits.Error": "a text", "Log.Syncs": "in the histogram", "Commits.Count": "in the histogram"}
	f := full().Figures
	f.Log.Syncs, f.Commits.Count = 0, 0
	_, before := scrape(t, full(), "", "")
	var visit func(path string, v reflect.Value)
	visit = func(path string, v reflect.Value) {
		for i := range v.NumField() {
			name, field := path+v.Type().Field(i).Name, v.Field(i)
			if elsewhere[name] != "" || field.Type() == reflect.TypeFor[control.Latency]() {
				continue
			}
			if field.Kind() == reflect.Pointer {
				field = field.Elem()
			}
			s := full()
			switch field.Kind() {
			case reflect.Struct:
				visit(name+".", field)
				continue
			case reflect.Map:
				continue // TestScrape has them
			}
			to := reflect.ValueOf(&s.Figures).Elem()
			for _, step := range strings.Split(name, ".") {
				if to.Kind() == reflect.Pointer {
					to = to.Elem()
				}
				to = to.FieldByName(step)
			}
			switch {
			case to.CanInt():
				to.SetInt(987_654)
			case to.CanUint():
				to.SetUint(987_654)
			case to.CanFloat():
				to.SetFloat(987_654)
			}
			if _, after := scrape(t, s, "", ""); !strings.Contains(after, " 987654\n") {
				t.Errorf("%s is not among the metrics", name)
			}
		}
	}
	visit("", reflect.ValueOf(f))
	if strings.Contains(before, " 987654\n") {
		t.Error("the test proves nothing")
	}
}
