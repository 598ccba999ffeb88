package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// warren is a soul's workspace in a store of its own.
type warren struct {
	daemon
	label string
	top   string
	bin   string
	gaia  bool // the orchestrator's mount is open beside it, and warm
}

func newWarren(dir string, gaia bool) *warren {
	w := &warren{label: "warren", gaia: gaia}
	if gaia {
		w.label = "warren+gaia"
	}
	w.top = filepath.Join(dir, w.label)
	w.bin = filepath.Join(w.top, "warren-bench")
	return w
}

func (w *warren) name() string { return w.label }

const (
	benchSoul = "web_designer"
	benchDir  = "agents/" + benchSoul + "/workspace/bench"
)

func (w *warren) env() []string {
	return []string{"WARREN_STORE=" + filepath.Join(w.top, "store"), "WARREN_SOCKET=" + filepath.Join(w.top, "run", "admin", "admin.sock")}
}

// command runs the program as a client and gives what it prints.
func (w *warren) command(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, w.bin, args...)
	cmd.Env = append(os.Environ(), w.env()...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("warren %v: %w: %s", args, err, exit.Stderr)
	}
	return out, err
}

func (w *warren) start(ctx context.Context) (string, error) {
	if err := os.MkdirAll(w.top, 0o755); err != nil {
		return "", err
	}
	if err := build(ctx, w.bin, "./cmd/warren"); err != nil {
		return "", err
	}
	if _, err := w.command(ctx, "init", "--user", "ada", "--soul", benchSoul); err != nil {
		return "", err
	}
	if err := w.run(w.env(), w.bin, "serve"); err != nil {
		return "", err
	}
	answers := func() bool { _, err := w.command(ctx, "status"); return err == nil }
	if err := w.until(ctx, answers); err != nil {
		return "", err
	}
	agents := map[string]string{benchSoul: "soul"}
	if w.gaia {
		agents["gaia"] = "gaia"
	}
	for agent, dir := range agents {
		mnt := filepath.Join(w.top, dir)
		if err := os.Mkdir(mnt, 0o755); err != nil {
			return "", err
		}
		if _, err := w.command(ctx, "mount", "--agent", agent, mnt); err != nil {
			return "", err
		}
	}
	dir := filepath.Join(w.top, "soul", benchDir)
	return dir, os.Mkdir(dir, 0o755)
}

func (w *warren) stop() error {
	err := errors.Join(unmount(filepath.Join(w.top, "soul")), unmount(filepath.Join(w.top, "gaia")))
	if err = errors.Join(err, w.end()); err != nil {
		return err // nothing is removed through a mount
	}
	return os.RemoveAll(w.top)
}

func (w *warren) warm(ctx context.Context, reads bool) error {
	if !w.gaia {
		return nil
	}
	if reads {
		return shell(ctx, filepath.Join(w.top, "gaia", benchDir), `find . -type f -exec cat {} + >/dev/null; find . >/dev/null`)
	}
	return shell(ctx, filepath.Join(w.top, "gaia", benchDir), `find . -size +1G >/dev/null`)
}

func (w *warren) requests(ctx context.Context) (map[string]uint64, error) {
	out, err := w.command(ctx, "status", "--json")
	if err != nil {
		return nil, err
	}
	var status struct {
		Requests map[string]uint64 `json:"requests"`
	}
	return status.Requests, json.Unmarshal(out, &status)
}

func (w *warren) peak() uint64 { return w.most.Load() }
