package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

type serveOptions struct {
	Store   string
	Content string
	Level   string
	Format  string
	Memory  int64
	ReadyFD int
	OnStop  string
	Guard   bool

	Metrics      string
	MetricsToken string

	FeedAge  string
	FeedSize string

	Transport string
	DebugFuse bool
	Profile   string
}

// defaultMemory is the soft limit of the daemon's heap, in MiB.
const defaultMemory = 256

// AddFlags adds the flags of serve.
func (o *serveOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Store, "store", "", "`DIR` of the store (WARREN_STORE; default $XDG_STATE_HOME/warren, for root /var/lib/warren)")
	f.StringVar(&o.Content, "content", "", "refuse a store that was not made with this driver of content, `segment|badger` (warren init chooses it)")
	f.StringVar(&o.Level, "log-level", "info", "what to log: `debug|info|warn|error`")
	f.StringVar(&o.Format, "log-format", "", "form of the log: `text|json` (default text, with --json json)")
	f.StringVar(&o.Metrics, "metrics", "", "serve Prometheus metrics on a loopback `ADDRESS`, such as 127.0.0.1:9464 (default: not at all)")
	f.StringVar(&o.MetricsToken, "metrics-token-file", "", "answer only who shows the token in `FILE`, as a bearer")
	f.StringVar(&o.FeedAge, "feed-age", "90d", "how long the feed of changes and denials is kept: an `AGE` such as 30d or 36h, or never to drop any for its age")
	f.StringVar(&o.FeedSize, "feed-size", "300M", "what the feed may take in the store, about: a `SIZE`; the oldest of the agents with most goes first")
	f.Int64Var(&o.Memory, "memory", defaultMemory, "soft limit of memory in `MIB`, at most two thirds of what the cgroup allows; GOMEMLIMIT takes precedence")
	f.StringVar(&o.OnStop, "on-stop", "unmount", "what becomes of mounts when it stops: `unmount|keep`; kept ones answer ENOTCONN until the next serve")
	f.BoolVar(&o.Guard, "guard", false, "run a small process beside that lets this one end if it is killed while a kernel makes it wait; for supervisors, which wait for its end")
	f.StringVar(&o.Transport, "transport", "own", "how requests of the kernel are read: `own|gofuse`")
	f.BoolVar(&o.DebugFuse, "debug-fuse", false, "log each request of the kernel and its reply: names, sizes, the first bytes of contents (implies --log-level debug)")
	f.StringVar(&o.Profile, "pprof", "", "serve profiles of the daemon on a loopback `ADDRESS`, for development")
	_ = f.MarkHidden("pprof")
	f.IntVar(&o.ReadyFD, "ready-fd", -1, "write a line to descriptor `N` and close it when requests are answered")
}

func newServeCommand(a *app) *cobra.Command {
	o := &serveOptions{}
	c := command("serve [--store DIR] [--socket PATH]", "Serve a store, in the foreground", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runServe(ctx, a, o) })
	c.Long = `Serve a store: its mounts and the admin socket. It stays in the foreground, logs to
stderr, and prints one line when it is ready (under systemd it tells that as well:
Type=notify). SIGTERM and SIGINT unmount, write everything to the disk and end it.
Mounts made by ` + "`warren mount`" + ` come back with the next serve.

With --on-stop keep the mounts stay where they are, for a daemon that is being
replaced: until the next serve takes their places, whoever uses them gets ENOTCONN,
and no program can write to the bare directories beneath.`
	o.AddFlags(c.Flags())
	return c
}

func runServe(ctx context.Context, a *app, o *serveOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	if o.DebugFuse {
		o.Level = "debug"
	}
	logger, err := newLog(a, o.Level, o.Format)
	if err != nil {
		return err
	}
	defer takePrinted(logger)()
	if o.Memory < 64 {
		return usagef("--memory %d: at least 64 (MiB)", o.Memory)
	}
	limitMemory(o.Memory<<20, logger)
	if err := checkContent(o.Content); err != nil {
		return err
	}
	dir, err := a.storeDir(o.Store)
	if err != nil {
		return err
	}
	socket, err := filepath.Abs(a.socketPath())
	if err != nil {
		return err
	}
	unix.Umask(0o022)
	kept, err := keptFeed(o.FeedAge, o.FeedSize)
	if err != nil {
		return err
	}
	d, err := newDaemon(ctx, dir, newStore{Content: o.Content, Feed: kept}, socket, logger)
	if err != nil {
		return err
	}
	for _, note := range missing() {
		logger.Warn(note)
	}
	if err := o.prepare(d); err != nil {
		return errors.Join(err, d.close(ctx))
	}
	if o.Guard {
		if err := startGuard(logger); err != nil {
			return errors.Join(err, d.close(ctx))
		}
	}
	d.leave = o.OnStop == "keep"
	err = d.serve(ctx, func() { a.ready(o.ReadyFD, d) })
	if err == nil && ctx.Err() != nil {
		logger.Info("stopped")
	}
	return err
}

// check refuses what makes no sense, before anything is opened.
func (o *serveOptions) check() error {
	if o.OnStop != "unmount" && o.OnStop != "keep" {
		return usagef("--on-stop %q is not unmount or keep", o.OnStop)
	}
	if o.Transport != "own" && o.Transport != "gofuse" {
		return usagef("--transport %q is not own or gofuse", o.Transport)
	}
	if err := checkMetrics(o.Metrics, o.MetricsToken); err != nil || o.Profile == "" {
		return err
	}
	if addr, err := netip.ParseAddrPort(o.Profile); err != nil || !addr.Addr().IsLoopback() {
		return usagef("--pprof %q is not a loopback address with a port", o.Profile)
	}
	return nil
}

// prepare sets up what mounts and developers see of d, before there is any
// mount.
func (o *serveOptions) prepare(d *daemon) error {
	if err := d.hub.SetTransport(o.Transport, o.DebugFuse); err != nil {
		return err
	}
	if o.Metrics != "" {
		if err := d.serveMetrics(o.Metrics, o.MetricsToken); err != nil {
			return err
		}
	}
	if o.Profile == "" {
		return nil
	}
	l, err := net.Listen("tcp", o.Profile)
	if err != nil {
		return fmt.Errorf("serve profiles: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	go func() { d.log.Debug("profiles end", "err", http.Serve(l, mux)) }()
	return nil
}

// ready tells whoever waits that requests are answered.
func (a *app) ready(fd int, d *daemon) {
	if a.json {
		a.writeJSON(a.stdout, struct {
			Ready  bool   `json:"ready"`
			Socket string `json:"socket"`
			Store  string `json:"store"`
			PID    int    `json:"pid"`
		}{true, d.socket, d.store.dir, os.Getpid()})
	}
	a.say("warren: ready on %s (store %s, pid %d)", d.socket, d.store.dir, os.Getpid())
	tellManager(a.getenv, "READY=1")
	if fd > 2 {
		f := os.NewFile(uintptr(fd), "ready")
		_, _ = fmt.Fprintln(f, "ready")
		_ = f.Close()
	}
}

// newLog makes the daemon's log on stderr.
func newLog(a *app, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usagef("--log-level %q is not debug, info, warn or error", level)
	}
	if a.quiet && l < slog.LevelWarn {
		l = slog.LevelWarn
	}
	o := &slog.HandlerOptions{Level: l}
	if format == "" && a.json {
		format = "json"
	}
	switch format {
	case "json":
		return slog.New(slog.NewJSONHandler(a.stderr, o)), nil
	case "text", "":
		return slog.New(slog.NewTextHandler(a.stderr, o)), nil
	}
	return nil, usagef("--log-format %q is not text or json", format)
}
