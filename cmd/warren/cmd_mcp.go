package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/control/mcp"
)

type mcpOptions struct {
	Agent      string
	Project    string
	ReadOnly   bool
	Tools      []string
	Log        string
	PrintTools string
	Listen     string
	DeployKeys []string
}

// AddFlags adds the flags of mcp.
func (o *mcpOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Agent, "agent", "", "`KEY` of the agent that the tools work for (default: the token's)")
	f.StringVar(&o.Project, "project", "", "`NAME` of a directory of the agent's workspace, made if it is not there, or /projects/NAME: where relative paths start")
	f.BoolVar(&o.ReadOnly, "read-only", false, "only tools that change nothing")
	f.StringSliceVar(&o.Tools, "tools", nil, "only these tools or groups of tools: `NAME,…` ("+strings.Join(mcp.Groups(), ", ")+")")
	f.StringVar(&o.Log, "log", "", "add a line of JSON for each call to `FILE` (default: text on stderr)")
	f.StringVar(&o.Listen, "listen", "", "serve hosts over HTTP at `ADDRESS:PORT` of this machine alone, each by the token that it sends (port 0: any)")
	f.StringArrayVar(&o.DeployKeys, "deploy-key", nil, "private key that git's ssh may sign with: `[AGENT=]FILE`, which may be /dev/fd/N; may be repeated")
	f.StringVar(&o.PrintTools, "print-tools", "", "print the tools' definitions as `json|xml`, for hosts that do not speak MCP, and end")
}

func newMCPCommand(a *app) *cobra.Command {
	o := &mcpOptions{}
	c := command("mcp --agent KEY", "Serve an agent's files, items, fields and session to an MCP host", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runMCP(ctx, a, o) })
	c.Long = `Serve an agent's files, items, fields and session to a host that speaks the Model
Context Protocol, over standard input and output. It needs no mount: it is a client of
the daemon, and every tool is decided by the policy as in the agent's mounts. With a token
(--token, WARREN_TOKEN) it works inside a container that has only agent.sock.

With --listen it serves any number of hosts by streamable HTTP, at /mcp, on a loopback
address. Each sends a token with every request (Authorization: Bearer) and works as that
token's agent, and can do no more than that agent.

It goes on while the daemon restarts: calls fail with the kind unavailable meanwhile.`
	o.AddFlags(c.Flags())
	return c
}

// projectName is how a project may be named: a slug, or one that is shared.
var projectName = regexp.MustCompile(`^(/projects/)?[a-z0-9][a-z0-9._-]{0,62}$`)

func runMCP(ctx context.Context, a *app, o *mcpOptions) error {
	if o.Tools != nil && len(o.Tools) == 0 {
		return usagef("--tools: name at least one tool or group of tools, or leave it out for all")
	}
	opts := mcp.Options{Agent: o.Agent, Project: o.Project, ReadOnly: o.ReadOnly, Tools: o.Tools, Version: versionText()}
	switch o.PrintTools {
	case "json", "xml":
		return mcp.Print(a.stdout, opts, o.PrintTools)
	case "":
	default:
		return usagef("--print-tools %s: it is json or xml", o.PrintTools)
	}
	keys, err := readDeployKeys(o.DeployKeys)
	if err != nil {
		return err
	}
	if a.showToken() == "" {
		opts.Git = a.gitRunner(keys)
	}
	someone := o.Agent != "" || a.showToken() != ""
	switch {
	case o.Listen != "" && someone:
		return usagef("--listen: every host works as the agent of the token that it sends; leave out --agent and the token")
	case o.Listen == "" && !someone:
		return usagef("which agent? give --agent KEY (`warren agent list` lists them), or a token")
	case o.Project != "" && !projectName.MatchString(o.Project):
		return usagef("--project %s: a name of a-z, 0-9, . _ and -, or /projects/NAME", o.Project)
	}
	logger, closeLog, err := a.callLog(o.Log)
	if err != nil {
		return err
	}
	defer closeLog()
	opts.Log = logger
	if o.Listen != "" {
		return serveMCP(ctx, a, o.Listen, opts)
	}
	opts.Client = a.client()
	defer opts.Client.Close()
	if o.Agent != "" { // a daemon that is not there yet is waited for
		if _, err := opts.Client.Agent(ctx, o.Agent); control.KindOf(err) == control.KindNotFound || control.KindOf(err) == control.KindInvalid {
			return err
		}
	}
	s, err := mcp.New(opts)
	if err != nil {
		return err
	}
	if err := s.EnterProject(ctx); err != nil {
		logger.Warn("the project is not there yet", "project", o.Project, "err", err)
	}
	err = s.Run(ctx, a.stdin, a.stdout)
	if errors.Is(err, context.Canceled) {
		return nil // a host ends its server by a signal
	}
	return err
}

// callLog opens the log of calls. close is to be called in the end.
func (a *app) callLog(file string) (l *slog.Logger, closeLog func(), err error) {
	if file == "" {
		return slog.New(slog.NewTextHandler(a.stderr, nil)), func() {}, nil
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, localError(err)
	}
	return slog.New(slog.NewJSONHandler(f, nil)), func() { _ = f.Close() }, nil
}
