package soak

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/stack"
)

var (
	ops   = flag.Int64("ops", 0, "how many operations; 0: a few")
	serve = flag.String("serve", "", "more arguments of warren serve, separated by spaces")
)

func TestMain(m *testing.M) {
	flag.Parse()
	syscall.Umask(0)
	os.Exit(m.Run())
}

// worker does operations in one directory.
type worker interface {
	verify(root string) error
	live() int64
}

// job is a worker, what it does, and every place where its directory is shown.
type job struct {
	worker
	step  func() error
	roots []string
}

// soak is a run.
type soak struct {
	s    *stack.Stack
	jobs []job
	done atomic.Int64
	stop atomic.Bool
	fail atomic.Pointer[error]
}

func TestSoak(t *testing.T) {
	total := *ops
	if total == 0 {
		total = 30_000
		if stack.Short() {
			total = 8_000
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	k := &soak{s: stack.ForTest(t, stack.Options{Serve: strings.Fields(*serve)})}
	k.setUp(t, rand.New(rand.NewPCG(seed, 0)))
	start := time.Now()
	k.until(t, total/10)
	k.restart(t, syscall.SIGTERM)
	k.until(t, total/5)
	k.restart(t, syscall.SIGKILL)
	every := min(max(time.Duration(total)*time.Second/100_000, 100*time.Millisecond), 5*time.Second)
	stop := watch(t, k.pid(t), every)
	k.until(t, total)
	all := stop()
	t.Logf("%d operations in %v", k.done.Load(), time.Since(start).Round(time.Second))
	k.requests(t)
	holdsNoOthers(t, k.pid(t), filepath.Join(k.s.Dir, "store"))
	grew(t, all, total >= 1_000_000)
	k.verify(t)
	k.s.Fsck(t)
	settles(t, filepath.Join(k.s.Dir, "store"), k.live())
	if total >= 1_000_000 { // what becomes of it in the end
		time.Sleep(2 * time.Minute)
		settles(t, filepath.Join(k.s.Dir, "store"), k.live())
	}
}

// setUp makes four mounts and the workers on them.
func (k *soak) setUp(t *testing.T, r *rand.Rand) {
	s := k.s
	s.Warren(t, "agent", "add", "researcher", "--role", "soul", "--user", "ada")
	researcher := s.Mount(t, "--agent", "researcher")
	rooted := s.Mount(t, "--agent", "web_designer", "--root", "/agents/web_designer/workspace")
	workspace := func(mount, agent string) string { return filepath.Join(mount, "agents", agent, "workspace") }
	soul := workspace(s.Soul, "web_designer")
	add := func(mine string, others ...string) {
		o, err := newOwn(mine, r.Uint64())
		if err != nil {
			t.Fatal(err)
		}
		all := kinds()
		weights := 0
		for _, one := range all {
			weights += one.weight
		}
		k.jobs = append(k.jobs, job{o, func() error { return o.step(all, weights) }, append(others, mine)})
	}
	add(filepath.Join(workspace(s.Gaia, "gaia"), "own"))
	add(filepath.Join(soul, "own"), filepath.Join(workspace(s.Gaia, "web_designer"), "own"), filepath.Join(rooted, "own"))
	add(filepath.Join(rooted, "rooted"), filepath.Join(soul, "rooted"))
	add(filepath.Join(workspace(researcher, "researcher"), "own"), filepath.Join(workspace(s.Gaia, "researcher"), "own"))
	for _, dirs := range [][]string{
		{filepath.Join(soul, "shared"), filepath.Join(rooted, "shared"), filepath.Join(workspace(s.Gaia, "web_designer"), "shared")},
		{filepath.Join(s.Soul, "users", "ada", "soak"), filepath.Join(researcher, "users", "ada", "soak"), filepath.Join(s.Gaia, "users", "ada", "soak")},
	} {
		if err := os.Mkdir(dirs[0], 0o755); err != nil {
			t.Fatal(err)
		}
		both := &shared{}
		for _, d := range dirs {
			g := newGuest(both, d, r.Uint64())
			k.jobs = append(k.jobs, job{g, g.step, dirs})
		}
	}
}

// until has all workers work until so many operations are done.
func (k *soak) until(t *testing.T, total int64) {
	t.Helper()
	var wg sync.WaitGroup
	for _, j := range k.jobs {
		wg.Go(func() {
			for !k.stop.Load() && k.done.Add(1) <= total {
				if err := j.step(); err != nil {
					k.fail.CompareAndSwap(nil, &err)
					k.stop.Store(true)
				}
			}
		})
	}
	wg.Wait()
	k.done.Store(min(k.done.Load(), total))
	if err := k.fail.Load(); err != nil {
		t.Fatalf("after %d operations: %v; the daemon's log says:\n%s", k.done.Load(), *err, k.s.Log())
	}
}

// restart ends the daemon with a signal while nobody works, and compares all
// that is there when the next one runs.
func (k *soak) restart(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := k.s.Signal(sig); err != nil {
		t.Fatal(err)
	}
	var roots []string
	for _, j := range k.jobs {
		roots = append(roots, j.roots...)
	}
	if err := k.s.Restart(roots...); err != nil {
		t.Fatal(err)
	}
	k.verify(t)
}

func (k *soak) verify(t *testing.T) {
	t.Helper()
	for _, j := range k.jobs {
		for _, root := range j.roots {
			if err := j.verify(root); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (k *soak) live() (n int64) {
	seen := map[string]bool{}
	for _, j := range k.jobs {
		if !seen[j.roots[0]] { // a shared directory has several workers
			seen[j.roots[0]] = true
			n += j.live()
		}
	}
	return n
}

// status asks the daemon.
func (k *soak) status(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(k.s.Warren(t, "status", "--json")), into); err != nil {
		t.Fatal(err)
	}
}

func (k *soak) pid(t *testing.T) int {
	var st struct {
		PID int `json:"pid"`
	}
	k.status(t, &st)
	return st.PID
}

// requests tells what the daemon's last life was about.
func (k *soak) requests(t *testing.T) {
	var st struct {
		Requests map[string]uint64 `json:"requests"`
		Commits  struct {
			Count uint64 `json:"count"`
			Bytes uint64 `json:"bytes"`
		} `json:"commits"`
		Segments struct {
			Written  uint64 `json:"written_bytes"`
			Returned uint64 `json:"returned_bytes"`
			Removed  uint64 `json:"removed"`
		} `json:"segments"`
	}
	k.status(t, &st)
	sum := uint64(0)
	for _, n := range st.Requests {
		sum += n
	}
	g, c := st.Segments, st.Commits
	t.Logf("last life of the daemon: %d requests; %d commits of %d MiB; %d MiB of contents written, %d MiB given back, %d segments removed",
		sum, c.Count, c.Bytes>>20, g.Written>>20, g.Returned>>20, g.Removed)
}
