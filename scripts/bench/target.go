package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// target is a filesystem to measure. start gives a fresh directory on it, stop
// takes everything away again, also what a start that failed has left.
type target interface {
	name() string
	start(ctx context.Context) (dir string, err error)
	stop() error
	// warm makes the mount beside it warm, if it has one; reads means all bytes.
	warm(ctx context.Context, reads bool) error
	// requests are the FUSE requests so far by opcode, if it counts them.
	requests(ctx context.Context) (map[string]uint64, error)
	// peak is the most anonymous memory its daemon had, in bytes; 0: no daemon.
	peak() uint64
}

// targets are those there are whose name is wanted, native first.
func targets(dir string, wanted *regexp.Regexp) []target {
	all := []target{&plain{dir: filepath.Join(dir, "native")}, newWarren(dir, false), newWarren(dir, true)}
	for _, p := range peers {
		all = append(all, &peer{peerKind: p, top: filepath.Join(dir, p.label)})
	}
	var out []target
	for i, t := range all {
		if p, ok := t.(*peer); ok && !p.installed() {
			continue
		}
		if i == 0 || wanted.MatchString(t.name()) {
			out = append(out, t)
		}
	}
	return out
}

// plain is a directory of the native filesystem.
type plain struct{ dir string }

func (p *plain) name() string                                        { return "native" }
func (p *plain) start(context.Context) (string, error)               { return p.dir, os.MkdirAll(p.dir, 0o755) }
func (p *plain) stop() error                                         { return os.RemoveAll(p.dir) }
func (p *plain) warm(context.Context, bool) error                    { return nil }
func (p *plain) requests(context.Context) (map[string]uint64, error) { return nil, nil }
func (p *plain) peak() uint64                                        { return 0 }

// daemon is a process that serves a mount, with its memory watched.
type daemon struct {
	cmd    *exec.Cmd
	log    strings.Builder // written until it has ended
	exited chan struct{}
	most   atomic.Uint64
}

// run starts a program. It does not wait for what it does.
func (d *daemon) run(env []string, argv ...string) error {
	d.cmd = exec.Command(argv[0], argv[1:]...)
	d.cmd.Env, d.cmd.Stdout, d.cmd.Stderr = append(os.Environ(), env...), &d.log, &d.log
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := d.cmd.Start(); err != nil {
		return err
	}
	d.exited = make(chan struct{})
	go func() {
		_ = d.cmd.Wait() // said by ended
		close(d.exited)
	}()
	go d.watch()
	return nil
}

// watch notes the most RssAnon until the process has ended.
func (d *daemon) watch() {
	for {
		select {
		case <-d.exited:
			return
		case <-time.After(100 * time.Millisecond):
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
		if err != nil {
			return
		}
		var kib uint64
		if _, after, ok := strings.Cut(string(b), "RssAnon:"); ok {
			if _, err := fmt.Sscan(after, &kib); err == nil && kib<<10 > d.most.Load() {
				d.most.Store(kib << 10)
			}
		}
	}
}

// end tells the process to end and waits.
func (d *daemon) end() error {
	if d.cmd == nil || d.cmd.Process == nil {
		return nil
	}
	_ = d.cmd.Process.Signal(unix.SIGTERM) // that it has ended is seen next
	select {
	case <-d.exited:
		return nil
	case <-time.After(20 * time.Second):
		return errors.Join(fmt.Errorf("%s does not end", d.cmd.Path), d.cmd.Process.Kill())
	}
}

// until waits for ok, as long as the process lives.
func (d *daemon) until(ctx context.Context, ok func() bool) error {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		if ok() {
			return nil
		}
		select {
		case <-d.exited:
			return fmt.Errorf("%s ended: %s: %s", d.cmd.Path, d.cmd.ProcessState, d.log.String())
		default:
		}
	}
	return errors.Join(ctx.Err(), fmt.Errorf("%s is not ready", d.cmd.Path))
}

// isMount tells whether another filesystem is mounted at dir.
func isMount(dir string) bool {
	var a, b unix.Stat_t
	return unix.Stat(dir, &a) == nil && unix.Stat(filepath.Dir(dir), &b) == nil && a.Dev != b.Dev
}

// unmount takes away what is mounted at dir, if anything.
func unmount(dir string) error {
	for range 100 {
		err := unix.Unmount(dir, 0)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("unmount %s: %w", dir, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("%s stays busy", dir)
}
