package lawtest

import (
	"path"
	"slices"
	"strings"
	"testing"
)

// rule says what one package may import of ours, and why no more. Its tests
// may import more: a test puts a real stack under what it tests.
type rule struct {
	may   []string // a trailing "/..." takes in what is below
	tests []string // besides may
	why   string
}

// The real drivers and the suites for them, which tests of upper layers stand on.
var drivers = []string{"backend", "backend/internal/...", "backend/mem", "backend/badger", "backend/segment", "backend/writeback", "backend/backendtest"}

// law is the import law. A package that is not in it may not exist.
var law = map[string]rule{
	"backend": {
		why: "the seam: everything speaks its words, so it can know nobody"},
	"backend/latency": {
		why: "counted into on every request, so it is arithmetic and nothing else"},
	"backend/uptime": {
		why: "compares two clocks, for every layer that judges an age"},
	"backend/internal/txlimit": {
		may: []string{"backend"},
		why: "the seam's limits, counted once for every driver"},
	"backend/internal/txcontent": {
		may: []string{"backend"},
		why: "content inside the transaction, the same over every driver"},
	"backend/internal/dirfs": {
		may: []string{"backend"},
		why: "a directory of files, for all that keep their own"},
	"backend/internal/mark": {
		may: []string{"backend", "backend/internal/dirfs"},
		why: "what each part of a store knows of the others"},
	"backend/internal/crashdir": {
		may: []string{"backend/internal/dirfs"},
		why: "a directory that crashes, for the tests of those"},
	"backend/mem": {
		may: []string{"backend", "backend/internal/..."}, tests: []string{"backend/backendtest"},
		why: "a driver knows keys and values, not what they mean"},
	"backend/badger": {
		may: []string{"backend", "backend/internal/..."}, tests: []string{"backend/backendtest"},
		why: "a driver knows keys and values, not what they mean"},
	"backend/segment": {
		may: []string{"backend", "backend/internal/..."}, tests: drivers,
		why: "a content driver knows refs, not files"},
	"backend/feed": {
		may: []string{"backend", "backend/uptime"}, tests: drivers,
		why: "the record of changes is written below the tree"},
	"backend/quota": {
		may: []string{"backend"}, tests: drivers,
		why: "counters are kept below the tree"},
	"backend/backendtest": {
		may: []string{"backend"},
		why: "the conformance suite sees a driver as its users do"},
	"backend/writeback": {
		may: []string{"backend", "backend/latency", "backend/internal/..."}, tests: drivers,
		why: "overlay and log go over any driver, so they know none"},
	"backend/tree": {
		may: []string{"backend", "backend/feed", "backend/quota"}, tests: drivers,
		why: "POSIX once, over any driver; rights are not its business"},
	"backend/backup": {
		may: []string{"backend", "backend/tree"}, tests: append([]string{"backend/segment"}, drivers...),
		why: "a backup is of the tree's records and their content, whatever keeps them"},
	"backend/snapshot": {
		may: []string{"backend", "backend/tree"}, tests: drivers,
		why: "snapshots are a matter of the tree's records"},
	"policy": {
		why: "it declares the facts it needs, so that it can be tested as a table"},
	"policy/view": {
		may:   []string{"policy", "backend", "backend/tree", "backend/snapshot", "backend/feed"},
		tests: drivers,
		why:   "the one door: policy in front of the tree"},
	"workspace": {
		may:   []string{"backend", "backend/uptime", "policy", "policy/view"},
		tests: append([]string{"backend/tree", "backend/feed"}, drivers...),
		why:   "the registry reaches the tree through the door as everybody does"},
	"fusefs/filelock": {
		may: []string{"backend"},
		why: "locks of open files, apart from how they are asked for"},
	"fusefs/transport": {
		why: "requests in, replies out: what they mean, it does not know"},
	"fusefs/visitor": {
		why: "the process that touches mounts; it is told where to look, and knows nothing else"},
	"fusefs/mountinfo": {
		why: "what the kernel says is mounted, for whoever mounts"},
	"fusefs": {
		may:   []string{"backend", "backend/latency", "policy/view", "fusefs/filelock", "fusefs/mountinfo", "fusefs/transport", "fusefs/visitor"},
		tests: append([]string{"backend/tree", "policy", "workspace"}, drivers...),
		why:   "the kernel's side sees one view; what it may not see it cannot reach"},
	"control": {
		why: "types and client, for any program; they drag in nothing"},
	"control/archive": {
		why: "trees as tar streams, for the client's side and the daemon's"},
	"control/server": {
		may:   []string{"control", "control/archive", "workspace", "policy", "policy/view", "backend"},
		tests: append([]string{"backend/tree", "backend/feed", "fusefs"}, drivers...),
		why:   "handlers translate; what a mount does, they are handed"},
	"control/metrics": {
		may: []string{"control"},
		why: "one more form of what the API tells, so it needs to know no more than the API"},
	"control/mcp": {may: []string{"control"}, tests: []string{"scripts/stack"}, why: "a client of the API like any other"},
	"control/web": {may: []string{"control"}, why: "a client of the API like any other"},
	"cmd/warren": {
		may: []string{"control", "control/archive", "control/mcp", "fusefs/mountinfo", "fusefs/visitor"}, tests: []string{"..."},
		why: "commands are clients of the daemon; wiring names the files that are more"},
	"scripts/lawtest":    {why: "reads source, runs none of it"},
	"scripts/stack":      {why: "drives the program from outside, as a user does"},
	"scripts/casetest":   {may: []string{"scripts/stack"}, why: "drives the program from outside, as a user does"},
	"scripts/worktest":   {may: []string{"scripts/stack"}, why: "drives the program from outside, as a user does"},
	"scripts/crashtest":  {may: []string{"scripts/stack"}, why: "drives the program from outside, as a user does"},
	"scripts/escapetest": {may: []string{"scripts/stack"}, why: "drives the program from outside, as an attacker does"},
	"scripts/fsx":        {may: []string{"scripts/stack"}, why: "drives the program from outside, as a user does"},
	"scripts/difftest":   {may: []string{"scripts/stack"}, why: "drives the program from outside, as a user does"},
	"scripts/attack":     {may: []string{"scripts/stack", "control"}, why: "drives the program from outside, as a soul does, and ends its rights by the API"},
	"scripts/soak":       {may: []string{"scripts/stack"}, why: "drives the program from outside, as a user does"},
	"scripts/lifetest":   {may: []string{"scripts/stack", "control", "fusefs/mountinfo"}, why: "drives the program from outside, reads its JSON, and looks at mounts without touching them"},
	"scripts/fulltest":   {may: []string{"scripts/stack", "control"}, why: "drives the program from outside, and reads its JSON"},
	"scripts/suite":      {why: "runs the tests, knows none of them"},
	"scripts/waits":      {why: "how tests wait: all of them may import it, so it imports nothing"},
	"scripts/bench":      {why: "drives programs from outside, ours and others"},
	"scripts/nullfs":     {why: "the floor that bench compares with: FUSE and nothing of ours"},
}

// waits is the package that every test may import, and every package that is
// part of tests only.
const waits = "scripts/waits"

// forTests reports whether a package is part of tests only.
func forTests(dir string) bool {
	return strings.HasPrefix(dir, "scripts/") || dir == "backend/backendtest"
}

// wiring are the files of cmd/warren that may import anything: the daemon
// itself, and commands on a store that no daemon holds.
var wiring = map[string]string{
	"cmd/warren/serve.go":          "puts the daemon together",
	"cmd/warren/controls.go":       "the control files of the workspace layer",
	"cmd/warren/figures.go":        "puts what all parts count into the words of the API",
	"cmd/warren/store.go":          "opens a store: drivers, log, tree",
	"cmd/warren/space.go":          "shares the disk between its parts",
	"cmd/warren/offline.go":        "commands on a store that no daemon holds",
	"cmd/warren/offline_backup.go": "the same: backups are read and written on both sides",
}

// outside says which packages may use which modules of others: a driver's
// library, the kernel's, the policy language and the command line each stay
// behind one package of ours. Tests are bound too.
var outside = map[string][]string{
	"github.com/dgraph-io/badger/":           {"backend/badger"},
	"github.com/hanwen/go-fuse/":             {"fusefs", "scripts/nullfs", "scripts/crashtest", "backend/badger"}, // the last two in tests: disks that fail
	"github.com/cedar-policy/cedar-go":       {"policy"},
	"github.com/santhosh-tekuri/jsonschema/": {"workspace"},
	"github.com/spf13/":                      {"cmd/warren", "scripts/bench"},
	"github.com/tidwall/btree":               {"backend/mem", "backend/badger", "backend/writeback"},
	"github.com/rogpeppe/go-internal/":       {"cmd/warren"},
	"github.com/prometheus/":                 {"control/metrics"},
	"github.com/schollz/progressbar/":        {"cmd/warren"},
	"github.com/klauspost/compress":          {"cmd/warren"},
	"github.com/modelcontextprotocol/":       {"control/mcp"},
	"github.com/google/jsonschema-go/":       {"control/mcp"},
	"github.com/BurntSushi/toml":             {"workspace", "policy", "cmd/warren"},
	"pgregory.net/rapid":                     {"backend", "policy", "workspace", "fusefs"},
	"golang.org/x/":                          {"backend", "fusefs", "control", "cmd/warren", "scripts"},
}

func TestImportLaw(t *testing.T) {
	for _, s := range load(t) {
		r, ok := law[s.dir]
		if !ok {
			t.Errorf("%s: package %s is not in the law: add it, with its reason", path.Join(s.dir, s.name), s.dir)
			continue
		}
		may := r.may
		if s.test {
			may = append(slices.Clone(may), r.tests...)
		}
		if s.test || forTests(s.dir) {
			may = append(slices.Clone(may), waits)
		}
		if _, ok := wiring[path.Join(s.dir, s.name)]; ok {
			may = []string{"..."}
		}
		for _, imp := range s.imports {
			ours, ok := strings.CutPrefix(imp, module+"/")
			if !ok {
				if imp == module {
					t.Errorf("%s imports the top of the module", path.Join(s.dir, s.name))
				}
				continue
			}
			if ours == s.dir && s.test || allowed(may, ours) {
				continue
			}
			t.Errorf("%s imports %s, which %s may not: %s", path.Join(s.dir, s.name), ours, s.dir, r.why)
		}
	}
}

func TestForeignModulesStayBehindOnePackage(t *testing.T) {
	for _, s := range load(t) {
		for _, imp := range s.imports {
			first, _, _ := strings.Cut(imp, "/")
			if !strings.Contains(first, ".") || strings.HasPrefix(imp, module) {
				continue
			}
			users, known := lookup(imp)
			if !known {
				t.Errorf("%s imports %s: no package may, so far; add it to outside", path.Join(s.dir, s.name), imp)
			} else if !slices.ContainsFunc(users, func(u string) bool { return s.dir == u || strings.HasPrefix(s.dir, u+"/") }) {
				t.Errorf("%s imports %s, which stays in %s", path.Join(s.dir, s.name), imp, strings.Join(users, ", "))
			}
		}
	}
}

// TestWiringIsUsed fails when a file that was let off the law is gone.
func TestWiringIsUsed(t *testing.T) {
	found := map[string]bool{}
	for _, s := range load(t) {
		found[path.Join(s.dir, s.name)] = true
	}
	for name := range wiring {
		if !found[name] {
			t.Errorf("%s is let off the law and does not exist", name)
		}
	}
}

func TestAllowed(t *testing.T) {
	for _, c := range []struct {
		may  []string
		pkg  string
		want bool
	}{
		{nil, "backend", false},
		{[]string{"backend"}, "backend", true},
		{[]string{"backend"}, "backend/tree", false},
		{[]string{"backend/..."}, "backend/tree", true},
		{[]string{"backend/..."}, "backend", true},
		{[]string{"backend/..."}, "backendx", false},
		{[]string{"..."}, "cmd/warren", true},
	} {
		if got := allowed(c.may, c.pkg); got != c.want {
			t.Errorf("allowed(%q, %q) = %v", c.may, c.pkg, got)
		}
	}
}

func allowed(may []string, pkg string) bool {
	return slices.ContainsFunc(may, func(m string) bool {
		prefix, below := strings.CutSuffix(m, "...")
		if !below {
			return m == pkg
		}
		return strings.HasPrefix(pkg+"/", prefix)
	})
}

// lookup finds the longest entry of outside that imp is in.
func lookup(imp string) (users []string, known bool) {
	longest := -1
	for prefix, u := range outside {
		if strings.HasPrefix(imp, prefix) && len(prefix) > longest {
			users, known, longest = u, true, len(prefix)
		}
	}
	return users, known
}
