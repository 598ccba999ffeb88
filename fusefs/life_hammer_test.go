package fusefs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/scripts/waits"
)

// place is a mountpoint that one goroutine mounts on and unmounts.
type place struct {
	s     *stack
	rnd   *rand.Rand
	above string // the directory that dir is in
	dir   string
	m     *Mount
}

// TestLifeOfMounts mounts and unmounts in every way at once, while rules change and
// files are worked with. After each step what should be mounted is and answers, and what
// should not is not. Nothing is left at the end. WARREN_HAMMER makes it longer.
func TestLifeOfMounts(t *testing.T) {
	if _, err := exec.LookPath("fusermount3"); err != nil {
		t.Skip("no fusermount3")
	}
	for _, helper := range []bool{false, true} {
		t.Run(map[bool]string{false: "mount(2)", true: "fusermount3"}[helper], func(t *testing.T) { lifeOfMounts(t, helper) })
	}
}

func lifeOfMounts(t *testing.T, helper bool) {
	s := newStack(t, memDriver)
	s.hub.tests.helper = helper
	d := hammerTime(t)
	if testing.Short() {
		d = min(d, time.Second)
	}
	s.watch(d + 3*time.Minute)
	in, out := s.site()
	before, begun := len(ours()), time.Now()
	stays := s.mounted("stays", Config{})
	work := stays.Dir()
	seed := uint64(begun.UnixNano())
	var steps atomic.Int64
	var failed atomic.Bool
	goOn := func() bool { return time.Since(begun) < d && !failed.Load() }
	var wg sync.WaitGroup
	for n := range 3 {
		p := &place{s: s, rnd: rand.New(rand.NewPCG(seed, uint64(n))), above: fmt.Sprintf("%s/p%d", s.dir, n)}
		p.dir = p.above + "/m"
		must(t, os.MkdirAll(p.dir, 0o755))
		wg.Go(func() {
			for goOn() {
				if err := p.live(); err != nil {
					failed.Store(true)
					t.Errorf("%s, seed %d: %v", p.dir, seed, err)
				}
				steps.Add(1)
			}
		})
	}
	wg.Go(func() { // others change rules and names
		for n := 0; goOn(); n++ {
			err := errors.Join(s.space.Publish(context.Background(), out), os.WriteFile(work+"/changing", nil, 0o644),
				s.space.Publish(context.Background(), in), os.Remove(work+"/changing"))
			if err != nil {
				failed.Store(true)
				t.Error(err)
			}
			_ = s.hub.Totals()
		}
	})
	wg.Wait()
	t.Logf("%d lives in %v", steps.Load(), time.Since(begun).Round(time.Millisecond))
	s.unmount(stays)
	for end := waits.In(time.Minute); len(ours()) > before; time.Sleep(10 * time.Millisecond) {
		if end.Passed() {
			t.Errorf("%d descriptors of /dev/fuse left, and of these %d goroutines all except %d:\n%s",
				fuseDescriptors(), len(ours()), before, strings.Join(ours(), "\n\n"))
			break
		}
	}
}

// ours lists the goroutines of this package and of transports, without those of tests.
func ours() (stacks []string) {
	text := make([]byte, 1<<20)
	text = text[:runtime.Stack(text, true)]
	for stack := range strings.SplitSeq(string(text), "\n\n") {
		if (strings.Contains(stack, "/fusefs.") || strings.Contains(stack, "/fusefs/") || strings.Contains(stack, "/go-fuse/")) &&
			!strings.Contains(stack, "_test.go") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// live mounts, works, and unmounts in some way.
func (p *place) live() error {
	cfg := Config{Agent: "gaia", Root: workDir, Dir: p.dir, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()),
		AllowOther: p.rnd.IntN(2) == 0, Transport: Transports()[p.rnd.IntN(2)]}
	if p.rnd.IntN(2) == 0 {
		cfg.Agent = "web"
	}
	if p.rnd.IntN(4) == 0 {
		cfg.Access = view.ReadOnly
	}
	var err error
	if p.m, err = p.s.hub.Mount(context.Background(), cfg); err != nil {
		return err
	}
	latchPoll(p.dir)
	if err := p.answers(); err != nil {
		return err
	}
	ways := lives()
	way := ways[p.rnd.IntN(len(ways))]
	if err := way.end(p); err != nil {
		return fmt.Errorf("%s, by %q: %w", cfg.Transport, way.name, err)
	}
	if e, ok := topMount(p.dir); ok {
		return fmt.Errorf("after %q it is still mounted: %+v", way.name, e)
	}
	if list, err := os.ReadDir(p.dir); err != nil || len(list) > 0 {
		return fmt.Errorf("after %q the directory beneath has %v: %w", way.name, list, err)
	}
	return nil
}

// answers checks that the mount is there and shows what it should.
func (p *place) answers() error {
	e, ok := topMount(p.dir)
	if !ok || e.Minor != p.m.Connection() || e.Type != fsType {
		return fmt.Errorf("there is %+v, %v", e, ok)
	}
	name := fmt.Sprintf("%s/%s", p.dir, filepath.Base(p.above))
	if p.m.Config().Access == view.ReadOnly {
		_, err := os.Lstat(p.dir)
		return err
	}
	if err := os.WriteFile(name, []byte(name), 0o644); err != nil {
		return err
	}
	if b, err := os.ReadFile(name); string(b) != name {
		return fmt.Errorf("%q: %w", b, err)
	}
	return nil
}

// hold opens something in the mount.
func (p *place) hold() (*os.File, error) { return os.Open(p.dir) }

// gone waits for the end of the mount.
func (p *place) gone(err error) error {
	if err == nil && !waits.Received(time.Minute, p.m.Done()) {
		return errors.New("it does not end")
	}
	if err == nil && !p.m.Taken() {
		return errors.New("it is not said to have been taken away")
	}
	return err
}

// gently unmounts without force.
func (p *place) gently() error {
	err := p.m.Unmount(context.Background(), false)
	if errors.Is(err, ErrElsewhere) { // a namespace that another package's tests have made
		err = nil
	}
	return p.gone(err)
}

// refused tells what is wrong with an unmount that was to be refused.
func refused(err error) error {
	if backend.KindOf(err) != backend.Busy || errors.Is(err, ErrElsewhere) {
		return fmt.Errorf("unmounted though it is in use: %w", err)
	}
	return nil
}

// life is a way for a mount to end.
type life struct {
	name string
	end  func(*place) error
}

func lives() []life {
	return []life{
		{"unmount", (*place).gently},
		{"unmount in use", func(p *place) error {
			f, err := p.hold()
			if err != nil {
				return err
			}
			defer f.Close()
			if err := refused(p.m.Unmount(context.Background(), false)); err != nil {
				return err
			}
			if err := errors.Join(p.answers(), f.Close()); err != nil {
				return err
			}
			return p.gently()
		}},
		{"force in use", func(p *place) error {
			f, err := p.hold()
			if err != nil {
				return err
			}
			defer f.Close()
			if err := p.m.Unmount(context.Background(), true); err != nil {
				return err
			}
			if _, err := f.ReadDir(-1); !errors.Is(err, syscall.ENOTCONN) {
				return fmt.Errorf("reading on: %w", err)
			}
			return p.gone(nil)
		}},
		{"umount(8)", func(p *place) error { return p.gone(patiently(func() error { return unix.Unmount(p.dir, 0) })) }},
		{"umount -f", func(p *place) error {
			return p.gone(patiently(func() error { return unix.Unmount(p.dir, unix.MNT_FORCE) }))
		}},
		{"umount -l in use", func(p *place) error {
			f, err := p.hold()
			if err != nil {
				return err
			}
			err = unix.Unmount(p.dir, unix.MNT_DETACH)
			return p.gone(errors.Join(err, f.Close()))
		}},
		{"fusermount3 -u", func(p *place) error {
			return p.gone(patiently(func() error { return fusermountU(context.Background(), "-u", p.dir) }))
		}},
		{"fusermount3 -uz", func(p *place) error { return p.gone(fusermountU(context.Background(), "-uz", p.dir)) }},
		{"mounted over", func(p *place) error {
			if err := unix.Mount("over", p.dir, "tmpfs", 0, ""); err != nil {
				return err
			}
			err := p.m.Unmount(context.Background(), p.rnd.IntN(2) == 0)
			if err := errors.Join(refused(err), unix.Unmount(p.dir, 0), p.answers()); err != nil {
				return err
			}
			return p.gently()
		}},
		{"moved along", func(p *place) error {
			if err := os.Rename(p.above, p.above+"-moved"); err != nil {
				return err
			}
			err := p.m.Unmount(context.Background(), p.rnd.IntN(2) == 0)
			return p.gone(errors.Join(err, os.Rename(p.above+"-moved", p.above)))
		}},
		{"all at once", (*place).race},
	}
}

// patiently tries again while something is busy: a process that has just been
// started has copies of our descriptors for a moment, a RELEASE may be under way.
func patiently(try func() error) (err error) {
	for range 100 {
		if err = try(); !errors.Is(err, unix.EBUSY) {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// race unmounts in several ways at once, and mounts anew as soon as that can be. What
// is mounted then stays.
func (p *place) race() error {
	old := p.m
	var wg sync.WaitGroup
	if p.rnd.IntN(3) == 0 {
		if err := patiently(func() error { return unix.Unmount(p.dir, 0) }); err != nil {
			return err
		}
	}
	for range 1 + p.rnd.IntN(3) {
		force := p.rnd.IntN(2) == 0
		late := time.Duration(p.rnd.IntN(5)) * time.Millisecond
		wg.Go(func() {
			time.Sleep(late)
			_ = old.Unmount(context.Background(), force)
		})
	}
	cfg := old.Config()
	for end := waits.In(time.Minute); ; time.Sleep(time.Millisecond) {
		m, err := p.s.hub.Mount(context.Background(), cfg)
		if err == nil {
			p.m = m
			break
		}
		if end.Passed() {
			return err
		}
	}
	wg.Wait()
	latchPoll(p.dir)
	if err := p.answers(); err != nil {
		return fmt.Errorf("the next mount: %w", err)
	}
	return p.gently()
}
