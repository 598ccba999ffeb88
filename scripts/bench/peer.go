package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// peerKind is how to run another filesystem over a plain directory, in the
// foreground.
type peerKind struct {
	label   string
	program string // to be on the PATH; "": the Go package is built
	pkg     string
	init    string                           // script; $1 is the lower directory
	argv    func(lower, mnt string) []string // without the program
}

var peers = []peerKind{
	{label: "floor", pkg: "./scripts/nullfs", argv: func(_, mnt string) []string { return []string{mnt} }},
	{label: "loopback", pkg: "github.com/hanwen/go-fuse/v2/example/loopback",
		argv: func(lower, mnt string) []string { return []string{"-allow-other", mnt, lower} }},
	{label: "gocryptfs", program: "gocryptfs", init: `echo secret >"$1.pass"; gocryptfs -q -init -scryptn 10 -passfile "$1.pass" "$1"`,
		argv: func(lower, mnt string) []string {
			return []string{"-q", "-fg", "-passfile", lower + ".pass", lower, mnt}
		}},
	{label: "bindfs", program: "bindfs", argv: func(lower, mnt string) []string { return []string{"-f", lower, mnt} }},
	{label: "fuse-overlayfs", program: "fuse-overlayfs", init: `mkdir "$1/lower" "$1/upper" "$1/work"`,
		argv: func(lower, mnt string) []string {
			return []string{"-f", "-o", fmt.Sprintf("lowerdir=%s/lower,upperdir=%s/upper,workdir=%s/work", lower, lower, lower), mnt}
		}},
}

// peer is another filesystem, mounted over a fresh directory.
type peer struct {
	peerKind
	daemon
	top string
}

func (p *peer) name() string { return p.label }

func (p *peer) installed() bool {
	if p.program == "" {
		return true
	}
	_, err := exec.LookPath(p.program)
	return err == nil
}

func (p *peer) start(ctx context.Context) (string, error) {
	lower, mnt := filepath.Join(p.top, "lower"), filepath.Join(p.top, "mnt")
	if err := errors.Join(os.MkdirAll(lower, 0o755), os.MkdirAll(mnt, 0o755)); err != nil {
		return "", err
	}
	program := p.program
	if program == "" {
		program = filepath.Join(p.top, p.label)
		if err := build(ctx, program, p.pkg); err != nil {
			return "", err
		}
	}
	if p.init != "" {
		if err := shell(ctx, p.top, p.init, lower); err != nil {
			return "", err
		}
	}
	if err := p.run(nil, append([]string{program}, p.argv(lower, mnt)...)...); err != nil {
		return "", err
	}
	if err := p.until(ctx, func() bool { return isMount(mnt) }); err != nil {
		return "", err
	}
	dir := filepath.Join(mnt, "bench")
	return dir, os.Mkdir(dir, 0o755)
}

func (p *peer) stop() error {
	err := unmount(filepath.Join(p.top, "mnt"))
	if err = errors.Join(err, p.end()); err != nil {
		return err // nothing is removed through a mount
	}
	return os.RemoveAll(p.top)
}

func (p *peer) warm(context.Context, bool) error                    { return nil }
func (p *peer) requests(context.Context) (map[string]uint64, error) { return nil, nil }
func (p *peer) peak() uint64                                        { return p.most.Load() }
