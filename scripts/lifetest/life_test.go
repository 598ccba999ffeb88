package lifetest

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/fusefs/mountinfo"
	"github.com/warrenfs/warren/scripts/stack"
	"github.com/warrenfs/warren/scripts/waits"
	"golang.org/x/sys/unix"
)

// short is how long it goes on where nobody says.
const short = 4 * time.Second

var howLong = flag.Duration("for", short, "how long mounts come and go")

// slack is how many goroutines and descriptors more are no growth: a mount keeps up to two
// that wait for its next requests, the database some for its tables.
const slack = 8

// hangTime is how long anything may take.
const hangTime = time.Minute

// world is what all workers share.
type world struct {
	t     *testing.T
	s     *stack.Stack
	ended atomic.Int64 // counts ends and starts of the daemon
	// up is held for reading by who needs the daemon, and for writing while it is
	// ended with nobody at work.
	up   sync.RWMutex
	stop atomic.Bool
}

// place is a mountpoint of one worker.
type place struct {
	w       *world
	rnd     *rand.Rand
	dir     string
	mounted bool // as the daemon has told
	// away is when another than the daemon unmounted it: for some seconds after that
	// a restart brings it back.
	away  time.Time
	ended int64 // the world's when this was looked at last
}

func TestLivesOfMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if stack.Short() {
		t.Skip("the short one is TestLifeOfMounts in fusefs")
	}
	if _, err := exec.LookPath("fusermount3"); err != nil {
		t.Skip("no fusermount3")
	}
	modes := []string{"keep"} // as the package has it
	if *howLong > short {
		modes = append(modes, "unmount")
	}
	for _, onStop := range modes {
		t.Run(onStop, func(t *testing.T) { lives(t, onStop) })
	}
}

func lives(t *testing.T, onStop string) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // for a moment, to find a free port
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	w := &world{t: t, s: stack.ForTest(t, stack.Options{Serve: []string{"--pprof", address, "--on-stop", onStop}})}
	w.s.Warren(t, "umount", w.s.Soul)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	var places []*place
	for n := range 6 {
		p := &place{w: w, rnd: rand.New(rand.NewPCG(seed, uint64(n))), dir: fmt.Sprintf("%s/p%d", w.s.Dir, n)}
		if err := os.Mkdir(p.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		places = append(places, p)
	}
	w.work(places, *howLong/8, nil) // so that what is made once is made
	w.clear(places)
	before, fds := w.size(address)
	w.work(places, *howLong/4, nil)
	w.clear(places)
	for end := waits.In(hangTime); ; time.Sleep(50 * time.Millisecond) {
		now, open := w.size(address)
		if now <= before+slack && open <= fds+slack {
			t.Logf("%d goroutines and %d descriptors before, %d and %d after", before, fds, now, open)
			break
		}
		if end.Passed() {
			t.Fatalf("%d goroutines and %d descriptors, and there were %d and %d", now, open, before, fds)
		}
	}
	w.work(places, *howLong/8, func(rnd *rand.Rand) { w.end(rnd, places) })
	w.clear(places)
	w.s.Fsck(t)
	w.s.Warren(t, "umount", w.s.Gaia)
}

// work has two places worked on by each of three workers for d, and ends the daemon meanwhile.
func (w *world) work(places []*place, d time.Duration, end func(*rand.Rand)) {
	begun := time.Now()
	goOn := func() bool { return time.Since(begun) < d && !w.stop.Load() }
	var steps atomic.Int64
	var wg sync.WaitGroup
	for n := range len(places) / 2 {
		wg.Go(func() {
			for i := 0; goOn(); i++ {
				p := places[n*2+i%2]
				if err := p.step(); err != nil {
					w.stop.Store(true)
					w.t.Errorf("%s: %v", p.dir, err)
				}
				steps.Add(1)
			}
		})
	}
	if end != nil {
		rnd := rand.New(rand.NewPCG(uint64(begun.UnixNano()), 0))
		wg.Go(func() {
			for ends := 0; goOn() || ends < 2 && !w.stop.Load(); ends++ {
				time.Sleep(time.Duration(rnd.IntN(1000)) * time.Millisecond)
				end(rnd)
			}
		})
	}
	wg.Wait()
	w.t.Logf("%d steps in %v, and the daemon was ended %d times", steps.Load(), time.Since(begun).Round(time.Millisecond), w.ended.Load()/2)
}

// end ends the daemon and starts it again, at rest or in the midst.
func (w *world) end(rnd *rand.Rand, places []*place) {
	sig := []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}[rnd.IntN(2)]
	rest := rnd.IntN(2) == 0
	if rest {
		w.up.Lock()
		defer w.up.Unlock()
	}
	w.ended.Add(1)
	err := w.s.Signal(sig)
	if err == nil {
		err = w.s.Restart(w.s.Gaia)
	}
	w.ended.Add(1)
	if err != nil {
		w.stop.Store(true)
		w.t.Errorf("after %v: %v", sig, err)
		return
	}
	if rest {
		for _, p := range places {
			look, now := p.check, w.ended.Load()
			if time.Since(p.away) < hangTime || p.ended != now-2 {
				look = p.settle
			}
			if err := look(); err == nil {
				p.ended = now
			} else {
				w.stop.Store(true)
				w.t.Errorf("after %v: %s: %v", sig, p.dir, err)
			}
		}
		w.s.Fsck(w.t)
	}
}

// clear unmounts all places.
func (w *world) clear(places []*place) {
	for _, p := range places {
		if p.ended != w.ended.Load() {
			if err := p.settle(); err != nil {
				w.t.Error(err)
			}
		}
		if p.mounted {
			if _, err := w.s.Try("umount", "--force", p.dir); err != nil {
				w.t.Error(err)
			}
			p.mounted = false
		}
		if err := p.check(); err != nil {
			w.t.Error(err)
		}
	}
}

// size gives the daemon's goroutines and descriptors.
func (w *world) size(address string) (goroutines, descriptors int) {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: hangTime}
	resp, err := c.Get("http://" + address + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if _, serr := fmt.Sscanf(string(text), "goroutine profile: total %d", &goroutines); err != nil || serr != nil {
		w.t.Fatal(err, serr)
	}
	var st control.Status
	w.json(&st, "status")
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", st.PID))
	if err != nil {
		w.t.Fatal(err)
	}
	return goroutines, len(open)
}

func (w *world) json(to any, args ...string) {
	w.t.Helper()
	out, err := w.s.Try(append([]string{"--json"}, args...)...)
	if err == nil {
		err = json.Unmarshal([]byte(out), to)
	}
	if err != nil {
		w.t.Error(err)
	}
}

// step does something at one place. An error that an end of the daemon explains is
// none: then what the daemon has recorded is what holds.
func (p *place) step() error {
	p.w.up.RLock()
	defer p.w.up.RUnlock()
	if p.w.ended.Load() != p.ended { // while the worker was at its other place
		return p.settle()
	}
	err := p.one()
	if err == nil {
		err = p.check()
	}
	if p.w.ended.Load() == p.ended {
		return err
	}
	return p.settle()
}

// settle waits until the daemon answers, and goes by what it has recorded.
func (p *place) settle() error {
	for end := waits.In(2 * hangTime); ; time.Sleep(20 * time.Millisecond) {
		n := p.w.ended.Load()
		out, err := p.w.s.Try("--json", "mounts")
		var all []control.Mount
		if err == nil {
			err = json.Unmarshal([]byte(out), &all)
		}
		if err == nil && n%2 == 0 {
			i := slices.IndexFunc(all, func(m control.Mount) bool { return m.Dir == p.dir })
			if p.mounted = i >= 0 && all[i].State == "up"; i >= 0 && !p.mounted && !strings.HasPrefix(all[i].State, "gone:") {
				return fmt.Errorf("it is recorded and %q", all[i].State)
			}
			if !p.mounted { // a daemon that was killed may have left what nobody was told of
				err = clearDead(p.dir)
			}
			if err == nil {
				err = p.check()
			}
		}
		if p.w.ended.Load() == n && n%2 == 0 && err == nil {
			p.ended = n
			return nil
		}
		if end.Passed() {
			return fmt.Errorf("it does not settle: %w", err)
		}
	}
}

// clearDead takes a dead mount at dir away.
func clearDead(dir string) error {
	for {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); !errors.Is(err, unix.ENOTCONN) {
			return err
		}
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			return err
		}
	}
}

// one is a step.
func (p *place) one() error {
	if !p.mounted {
		args := []string{"mount", "--agent", []string{"gaia", "web_designer"}[p.rnd.IntN(2)], p.dir}
		if p.rnd.IntN(4) == 0 {
			args = append(args, "--access", "ro")
		}
		if p.rnd.IntN(2) == 0 {
			args = append(args, "--allow-other")
		}
		err := p.warren(args...)
		for end := waits.In(hangTime); err != nil && strings.Contains(err.Error(), "in use elsewhere") && !end.Passed(); {
			err = p.warren(args...) // a run that has just begun has a copy of every mount for a moment
		}
		p.mounted = err == nil
		return err
	}
	ways := ends()
	way := ways[p.rnd.IntN(len(ways))]
	if err := way.do(p); err != nil {
		return fmt.Errorf("%s: %w", way.name, err)
	}
	return nil
}

// check looks at the place.
func (p *place) check() error {
	all, err := mountinfo.Read()
	if err != nil {
		return err
	}
	var here []mountinfo.Entry
	for _, e := range all {
		if e.Dir == p.dir {
			here = append(here, e)
		}
	}
	if p.mounted && len(here) != 1 || !p.mounted && len(here) > 0 {
		return fmt.Errorf("mounted %v, and there is %+v", p.mounted, here)
	}
	names := make(chan error, 1)
	go func() {
		list, err := os.ReadDir(p.dir)
		if err == nil && p.mounted != slices.ContainsFunc(list, func(e os.DirEntry) bool { return e.Name() == "agents" }) {
			err = fmt.Errorf("mounted %v, and it shows %v", p.mounted, list)
		}
		names <- err
	}()
	select {
	case err := <-names:
		return err
	case <-waits.After(p.w.t, hangTime):
		return errors.New("it hangs")
	}
}

// way is what is done with a mount.
type way struct {
	name string
	do   func(*place) error
}

// user uses the mount while do runs.
func (p *place) user(do func() error) error {
	f, err := os.Open(filepath.Join(p.dir, "agents"))
	if err != nil {
		return err
	}
	defer f.Close()
	return do()
}

// by unmounts by another than the daemon, or by it.
func (p *place) by(unmount func() error) error {
	var err error
	for range 100 { // a RELEASE may be on its way
		if err = unmount(); !errors.Is(err, unix.EBUSY) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.mounted, p.away = err != nil, time.Now()
	return err
}

func (p *place) warren(args ...string) error {
	_, err := p.w.s.Try(args...)
	return err
}

func ends() []way {
	umount := func(args ...string) func(*place) error {
		return func(p *place) error {
			return p.by(func() error { return p.warren(append(append([]string{"umount"}, args...), p.dir)...) })
		}
	}
	flags := func(f int) func(*place) error {
		return func(p *place) error { return p.by(func() error { return unix.Unmount(p.dir, f) }) }
	}
	helper := func(flag string) func(*place) error {
		return func(p *place) error {
			return p.by(func() error { return exec.Command("fusermount3", flag, p.dir).Run() })
		}
	}
	return []way{
		{"umount", umount()}, {"umount --force", umount("--force")},
		{"umount --force in use", func(p *place) error { return p.user(func() error { return umount("--force")(p) }) }},
		{"umount in use", func(p *place) error {
			return p.user(func() error {
				if err := p.warren("umount", p.dir); err == nil || !strings.Contains(err.Error(), "in use") {
					return fmt.Errorf("it is not refused: %w", err)
				}
				return nil
			})
		}},
		{"umount(2)", flags(0)}, {"umount -f", flags(unix.MNT_FORCE)}, {"umount -l", flags(unix.MNT_DETACH)},
		{"fusermount3 -u", helper("-u")}, {"fusermount3 -uz", helper("-uz")},
		{"mount again", func(p *place) error {
			if err := p.warren("mount", "--agent", "gaia", p.dir); err == nil || !strings.Contains(err.Error(), "mounted there already") {
				return fmt.Errorf("it is not refused: %w", err)
			}
			return nil
		}},
		{"run", func(p *place) error { return p.warren("run", "--agent", "web_designer", "--", "true") }},
		{"agent", func(p *place) error {
			key := fmt.Sprintf("a%x", p.rnd.Uint64())
			return errors.Join(p.warren("agent", "add", key, "--role", "soul", "--user", "ada"), p.warren("agent", "rm", key, "--yes"))
		}},
	}
}
