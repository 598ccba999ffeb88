package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/control/mcp"
	"golang.org/x/sys/unix"
)

// gitTime bounds one run of git.
const gitTime = 10 * time.Minute

// gitEnd is how long git and what it started may take to end when it is told to.
const gitEnd = 5 * time.Second

// gitRunner returns the function that runs git for an agent's tools, by `warren run`
// with --only. It returns nil if the caller is not the administrator.
func (a *app) gitRunner(keys deployKeys) mcp.Git {
	if unix.Access(a.socketPath(), unix.W_OK) != nil {
		return nil
	}
	turns := &gitTurns{of: map[string]chan struct{}{}}
	return func(ctx context.Context, c mcp.GitCall) (mcp.GitAnswer, error) {
		ctx, cancel := context.WithTimeout(ctx, gitTime)
		defer cancel()
		done, err := turns.take(ctx, c.Agent)
		if err != nil {
			return mcp.GitAnswer{}, err
		}
		defer done()
		args := gitRun(c)
		if c.KnownHosts != "" {
			if err := a.haveFile(ctx, c.Agent, c.KnownHosts); err != nil {
				return mcp.GitAnswer{}, err
			}
		}
		if c.Key {
			lent, err := keys.lend(ctx, c.Agent, func() (int, error) { return uidOf(ctx, a.client(), c.Agent) })
			if err != nil {
				return mcp.GitAnswer{}, err
			}
			defer lent.close()
			args = append(args, lent.args...)
		}
		return a.runSelf(ctx, append(append(args, "--", "git"), c.Args...))
	}
}

// gitRun returns the arguments of warren for c, without the command.
func gitRun(c mcp.GitCall) []string {
	args := append([]string{"run", "--agent", c.Agent, "--workdir", c.Dir}, onlyArgs(c)...)
	if !c.Spawn {
		// One process, git itself: no other program is started, even if an agent
		// writes into the repository while git runs.
		args = append(args, "--limit", "procs=1")
	}
	if !c.Net {
		args = append(args, "--net", "none")
	}
	for _, e := range c.Env {
		args = append(args, "--env", e)
	}
	return args
}

// onlyArgs returns the options that confine a run of git to what c names.
func onlyArgs(c mcp.GitCall) (args []string) {
	parts := append([]control.RunPart{{Path: c.Dir, Write: c.Write}}, c.Repos...)
	if c.KnownHosts != "" {
		parts = append(parts, control.RunPart{Path: c.KnownHosts, Write: true})
	}
	for _, p := range parts {
		how := ":ro"
		if p.Write {
			how = ":rw"
		}
		args = append(args, "--only", p.Path+how)
	}
	return args
}

// haveFile creates an empty file of an agent and its directories, if the file is missing.
func (a *app) haveFile(ctx context.Context, agent, file string) error {
	c := a.client()
	if _, err := c.MakeDir(ctx, control.MakeDir{Agent: agent, Path: path.Dir(file), Mode: 0o700, Parents: true}); err != nil {
		return err
	}
	_, err := c.WriteIf(ctx, agent, file, strings.NewReader(""), control.Writing{Mode: 0o600, NoClobber: true})
	if control.KindOf(err) == control.KindConflict {
		return nil
	}
	return err
}

// gitAtOnce is how many runs of git one agent may have at once; each is a mount and
// a few processes. Others wait.
const gitAtOnce = 4

// gitTurns are the runs of git that go on, by agent.
type gitTurns struct {
	mu sync.Mutex
	of map[string]chan struct{} // there are as many as agents
}

// take waits for a turn; done gives it back. KindInterrupted: ctx ended before.
func (g *gitTurns) take(ctx context.Context, agent string) (done func(), err error) {
	g.mu.Lock()
	turn := g.of[agent]
	if turn == nil {
		turn = make(chan struct{}, gitAtOnce)
		g.of[agent] = turn
	}
	g.mu.Unlock()
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, control.Errorf(control.KindInterrupted, "git was not begun: %v", ctx.Err())
	}
}

// runSelf runs this program with args, as the administrator.
func (a *app) runSelf(ctx context.Context, args []string) (mcp.GitAnswer, error) {
	cmd := a.selfCommand(ctx, args)
	out, errOut := &bounded{most: mcp.MaxGitOutput}, &bounded{most: mcp.MaxGitOutput}
	cmd.Stdout, cmd.Stderr = out, errOut
	err := cmd.Run()
	got := mcp.GitAnswer{Out: out.Bytes(), Err: errOut.Bytes(), Cut: out.cut}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return got, nil
	case ctx.Err() != nil:
		return got, control.Errorf(control.KindInterrupted, "git was ended: %v", ctx.Err())
	case !errors.As(err, &exit) || exit.ExitCode() < 0:
		return got, control.Errorf(control.KindUnavailable, "run git: %v", err)
	}
	got.Status = exit.ExitCode()
	switch got.Status {
	case exitRunFailed:
		return got, control.Errorf(control.KindUnavailable, "%s", strings.TrimSpace(string(got.Err)))
	case 126, 127:
		return got, control.Errorf(control.KindUnavailable, "git cannot be run here (is it installed?): %s", strings.TrimSpace(string(got.Err)))
	}
	return got, nil
}

// selfCommand returns the command that runs this program with args, as the
// administrator. It ends with SIGTERM when ctx ends.
func (a *app) selfCommand(ctx context.Context, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, selfExe())
	cmd.Args = append([]string{"warren"}, args...)
	cmd.Env = append(withoutToken(os.Environ()), "WARREN_SOCKET="+a.socketPath())
	cmd.Cancel, cmd.WaitDelay = func() error { return cmd.Process.Signal(unix.SIGTERM) }, gitEnd
	return cmd
}

// withoutToken leaves out what would make a client somebody else than the
// administrator.
func withoutToken(env []string) (out []string) {
	for _, e := range env {
		if !strings.HasPrefix(e, "WARREN_TOKEN=") {
			out = append(out, e)
		}
	}
	return out
}

// bounded keeps the first bytes that are written to it.
type bounded struct {
	bytes.Buffer
	most int
	cut  bool
}

// Write never fails.
func (b *bounded) Write(p []byte) (int, error) {
	if room := b.most - b.Len(); len(p) > room {
		b.cut = true
		b.Buffer.Write(p[:room])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

// uidOf is the uid that an agent's commands have here.
func uidOf(ctx context.Context, c *control.Client, agent string) (int, error) {
	if os.Geteuid() != 0 {
		return os.Geteuid(), nil
	}
	x, err := c.Agent(ctx, agent)
	return int(x.RunUID), err
}
