package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/control/mcp"
)

type gitOptions struct {
	Agent   string
	Project string
}

// AddFlags adds the flags of git.
func (o *gitOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Agent, "agent", "", "`KEY` of the agent whose view is used")
	f.StringVar(&o.Project, "project", "", "tree `PATH` of the repository, or the name of a directory of the agent's workspace (default: the active project)")
}

func newGitCommand(a *app) *cobra.Command {
	o := &gitOptions{}
	c := &cobra.Command{
		Use: "git --agent KEY [--project PATH] -- COMMAND [ARG…]", Short: "Look at a repository that another agent wrote",
		Args: usageArgs(cobra.MinimumNArgs(1)), DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error { return runGit(c.Context(), a, o, args) },
	}
	c.Long = `Run a git command that reads: status, log, diff, show, blame, grep and the like. Nothing
that the repository names runs: no hooks, filters, file watchers or programs of its
configuration. git sees the project read-only, and nothing else of the tree or of your
home. Use it to review the work of an agent that you do not trust to run code as you:

  warren git --agent gaia --project /agents/coder/workspace/app -- log -p

The exit status is git's.`
	c.Flags().SetInterspersed(false)
	o.AddFlags(c.Flags())
	return c
}

func runGit(ctx context.Context, a *app, o *gitOptions, args []string) error {
	if o.Agent == "" {
		return usagef("which agent? give --agent KEY")
	}
	client := a.client()
	defer client.Close()
	runner := a.gitRunner(deployKeys{})
	if runner == nil {
		return control.Errorf(control.KindDenied, "git: only the administrator may run git for an agent: %s is not yours to use", a.socketPath())
	}
	call, err := mcp.Review(ctx, mcp.Options{Agent: o.Agent, Client: client, Git: runner}, o.Project, args)
	if err != nil {
		return err
	}
	cmd := a.selfCommand(ctx, append(append(gitRun(call), "--", "git"), call.Args...))
	out, errOut := &shownWriter{w: a.stdout}, &shownWriter{w: a.stderr}
	cmd.Stdout, cmd.Stderr = out, errOut
	err = cmd.Run()
	if werr := errors.Join(out.flush(), errOut.flush()); werr != nil && err == nil {
		err = localError(werr)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 {
		return &statusError{code: exit.ExitCode()}
	}
	return err
}

// maxShownLine bounds the part of a line that shownWriter keeps, in bytes.
const maxShownLine = 64 << 10

// shownWriter writes lines to w as shownText does: a terminal obeys nothing that agents
// wrote.
type shownWriter struct {
	w    io.Writer
	rest []byte // of a line that has no end yet
}

// Write returns the errors of w.
func (s *shownWriter) Write(p []byte) (int, error) {
	s.rest = append(s.rest, p...)
	end := bytes.LastIndexByte(s.rest, '\n') + 1
	if end == 0 && len(s.rest) >= maxShownLine {
		end = len(s.rest)
	}
	_, err := io.WriteString(s.w, shownText(s.w, string(s.rest[:end])))
	s.rest = append([]byte(nil), s.rest[end:]...)
	return len(p), err
}

// flush writes a last line that has no end.
func (s *shownWriter) flush() error {
	_, err := io.WriteString(s.w, shownText(s.w, string(s.rest)))
	s.rest = nil
	return err
}
