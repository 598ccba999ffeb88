package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type runOptions struct {
	Agent   string
	Access  string
	UID     int64
	GID     int64
	Workdir string
	Project string
	Mode    string
	Map     []string
	Only    []string
	Net     string
	Show    []string
	Env     []string
	Limits  []string
	Report  string
}

// AddFlags adds the flags of run.
func (o *runOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Agent, "agent", "", "`KEY` of the agent the command works as")
	f.StringVar(&o.Access, "access", "", "`rw|ro` for its view (default rw)")
	f.Int64Var(&o.UID, "uid", -1, "`UID` the command runs as (root only; default the agent's own)")
	f.Int64Var(&o.GID, "gid", -1, "`GID` the command runs as (root only; default the uid's number)")
	f.StringVar(&o.Project, "project", "", "start in project `NAME`, a directory of the workspace that is made if need be; - makes a fresh one; /projects/NAME is a shared one")
	f.StringVar(&o.Workdir, "workdir", "", "`PATH` to start in: a tree path, or one below the workspace or project; an orchestrator's may be in another agent's tree")
	f.StringVar(&o.Mode, "mode", "", "what it sees: `own|inherit|inherit-ro|mapped|home-only` (default: the agent's mode, which is own unless it was set)")
	f.StringArrayVar(&o.Map, "map", nil, "in the mode mapped (which this is enough to ask for), show the tree path `PATH:ro|rw`; may be repeated")
	f.StringArrayVar(&o.Only, "only", nil, "show the tree path `PATH:ro|rw`, the host's programs, an empty /tmp as its home, and nothing else; may be repeated")
	f.StringVar(&o.Net, "net", "host", "`host|none`: the host's network, or none but a loopback of its own")
	f.StringArrayVar(&o.Limits, "limit", nil, "`NAME=VALUE` for each process: memory=2G, files=1024, cpu=10m, filesize=1G, core=0; procs=200 for all together; may be repeated")
	f.StringArrayVar(&o.Show, "show", nil, "also show host directory `SRC[:DST]`, read-only; may be repeated")
	f.StringVar(&o.Report, "report", "", "write the list of files that it added, changed, renamed and removed where it started into the host's `FILE`, with --json as JSON; -: on stderr")
	f.StringArrayVar(&o.Env, "env", nil, "set `NAME=VALUE`, or pass NAME on; may be repeated")
}

func newRunCommand(a *app) *cobra.Command {
	o := &runOptions{}
	c := &cobra.Command{
		Use: "run --agent KEY -- CMD [ARG…]", Short: "Run a command that sees nothing but an agent's view",
		Args: usageArgs(cobra.MinimumNArgs(1)), DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error { return runRun(c.Context(), a, o, args) },
	}
	c.Long = `Run a command in user, mount, pid and ipc namespaces of its own. It finds the agent's
view at /warren, its home in the agent's caches, /tmp in the agent's scratch, and
starts in the agent's workspace. Around that it sees the host read-only, without
home directories, /run, /sys, sockets, the store and other mounts; Go's module cache
is passed through, and more with --show. It has no capabilities and cannot get any.
The network is the host's, or none (--net none).

With --mode home-only it sees no more of the tree than its home, read-only, and its
scratch, where it starts; with mapped, that and the paths of --map. With inherit it
works in the workspace of its agent's parent, as far as it has rights there, and with
inherit-ro it cannot write to it.

Run by root, the command has a uid of the agent's own (` + "`warren agent show`" + `), or
--uid. Run by anyone else, it has the caller's uid, and on the host the mount is the
caller's own.

With --only it sees the named directories and the host's programs, libraries and
certificates: no other part of the tree, no home and no temporary files of the agent's.
The git tools run git so. Use it to build or to look at what another agent wrote:

  warren run --agent gaia --only /agents/coder/workspace/app:rw --net none -- make -C /warren/agents/coder/workspace/app

With --report it is told in the end which files of the project, or workspace, the agent
added, changed, renamed and removed meanwhile.

Isolation that cannot be set up is an error. The exit status is the command's; 128
and the signal that ended it; 125 when warren failed, 126 and 127 when the command
could not be run or found.`
	c.Flags().SetInterspersed(false)
	o.AddFlags(c.Flags())
	return c
}

// runRun runs one command and ends with its status. Signals are passed on to
// it, so its context does not end by them.
func runRun(ctx context.Context, a *app, o *runOptions, args []string) error {
	code, err := runInView(ctx, a, o, args)
	if err != nil {
		if code == 0 {
			code = exitRunFailed
		}
		return &statusError{code, fmt.Errorf("run: %w", err)}
	}
	if code != 0 {
		return &statusError{code: code}
	}
	return nil
}

func runInView(ctx context.Context, a *app, o *runOptions, args []string) (int, error) {
	if o.Agent == "" {
		return 0, usagef("which agent? give --agent KEY")
	}
	spec, err := o.spec()
	if err != nil {
		return 0, err
	}
	c := a.client()
	hold, err := c.StartRun(ctx, spec)
	if err != nil {
		return 0, err
	}
	defer hold.Close()
	sandbox, err := newSandboxSpec(o, hold.Run, args)
	if err != nil {
		return 0, errors.Join(err, endRun(c, hold))
	}
	// A daemon that goes away leaves the command without its files: end it.
	lost, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { hold.Gone(); cancel() }()
	code, err := runInTerminal(lost, sandbox)
	if lost.Err() != nil {
		return 0, errors.New("the daemon ended the run or went away; the command was killed")
	}
	if err := errors.Join(err, endRun(c, hold)); err != nil || o.Report == "" {
		return code, err
	}
	return code, reportRun(ctx, a, c, o, hold.Run.Delegation)
}

// reportRun writes what a run changed, once its mount is gone.
func reportRun(ctx context.Context, a *app, c *control.Client, o *runOptions, delegation string) error {
	got, err := c.DelegationChanges(ctx, control.DelegationQuery{ID: delegation})
	if err != nil {
		return fmt.Errorf("the command ended; its report: %w", err)
	}
	var b bytes.Buffer
	if a.json {
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err = e.Encode(got)
	} else {
		showChanges(&b, &got.Changes, false)
	}
	if err == nil && o.Report == "-" {
		_, err = io.WriteString(a.stderr, shownText(a.stderr, b.String()))
	} else if err == nil {
		err = os.WriteFile(o.Report, b.Bytes(), 0o644)
	}
	return err
}

// spec is what the daemon is asked for. Flags that only this process needs are
// looked at here too, before anything is mounted.
func (o *runOptions) spec() (s control.RunSpec, err error) {
	s = control.RunSpec{Agent: o.Agent, Access: o.Access, Project: o.Project, Mode: o.Mode}
	if s.UID, err = idFlag("uid", o.UID); err != nil {
		return s, err
	}
	if s.GID, err = idFlag("gid", o.GID); err != nil {
		return s, err
	}
	if o.Net != "host" && o.Net != "none" {
		return s, usagef("--net %q is not host or none", o.Net)
	}
	if _, err := parseLimits(o.Limits); err != nil {
		return s, err
	}
	if len(o.Only) > 0 && (s.Mode != "" || len(o.Map) > 0) {
		return s, usagef("--only and --mode or --map are mutually exclusive")
	}
	if _, err := parseParts("only", o.Only); err != nil {
		return s, err
	}
	s.Map, err = parseParts("map", o.Map)
	return s, err
}

// endRun waits until the run's mount is gone.
func endRun(c *control.Client, hold *control.Hold) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return c.EndRun(ctx, hold.Run.ID)
}
