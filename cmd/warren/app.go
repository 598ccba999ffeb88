package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

// app is one run of the command line.
type app struct {
	// Global flags.
	socket string
	token  string
	secret string // name of the file that has the token
	json   bool
	quiet  bool

	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	getenv func(string) string
}

func newApp() *app {
	return &app{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
}

// AddFlags adds the global flags.
func (a *app) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&a.socket, "socket", "", "`SOCKET` of the daemon (WARREN_SOCKET; default "+shortSocket+"; with a token agent.sock, in the directory above)")
	f.StringVar(&a.token, "token", "", "be the agent whose `TOKEN` this is (WARREN_TOKEN; others can read it in the list of processes)")
	f.StringVar(&a.secret, "token-file", "", "be the agent whose token is in `FILE`")
	f.BoolVar(&a.json, "json", false, "answer, also errors, in JSON")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print nothing but what was asked for, and errors")
}

// shortSocket is how help texts name the default socket: the same for every
// user, so that generated pages do not depend on who makes them.
const shortSocket = "$XDG_RUNTIME_DIR/warren/admin/admin.sock, for root /run/warren/admin/admin.sock"

// main runs one command line and gives the exit code.
func (a *app) main(args []string) int {
	out := &errWriter{w: a.stdout}
	a.stdout = out
	root := newRootCommand(a)
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(context.Background())
	if err == nil && out.err != nil && !errors.Is(out.err, syscall.EPIPE) {
		err = fmt.Errorf("write the answer: %w", out.err)
	}
	if err != nil {
		err = hostPath(err, args)
		a.report(err)
	}
	return exitCode(err)
}

// interruptible gives a context that ends at the first SIGINT or SIGTERM. The
// second ends the process as if it were not expected.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// client makes the client for the socket that flags and environment name.
func (a *app) client() *control.Client {
	token := a.showToken()
	if token != "" {
		return control.NewClient(a.agentSocket(), token)
	}
	return control.NewClient(a.socketPath(), "")
}

// showToken is the token that is shown to the daemon; "": it is the administrator
// who asks.
func (a *app) showToken() string {
	if a.token != "" {
		return a.token
	}
	return a.getenv("WARREN_TOKEN")
}

// readToken takes the token of --token-file.
func (a *app) readToken() error {
	if a.secret == "" {
		return nil
	}
	if a.token != "" {
		return usagef("--token and --token-file: which of them?")
	}
	f, err := os.Open(a.secret)
	if err != nil {
		return localError(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return localError(err)
	}
	if a.token = strings.TrimSpace(string(b)); a.token == "" {
		return usagef("--token-file %s: there is nothing in it", a.secret)
	}
	return nil
}

func (a *app) socketPath() string {
	for _, s := range []string{a.socket, a.getenv("WARREN_SOCKET")} {
		if s != "" {
			return s
		}
	}
	return filepath.Join(a.runtimeDir(), "admin", "admin.sock")
}

// agentSocket is where a token is shown: at the socket that --socket names; else
// beside the directory of the administrator's, whether WARREN_SOCKET names that or
// nothing does; else, in a container, where root's daemon has it.
func (a *app) agentSocket() string {
	if a.socket != "" {
		return a.socket
	}
	if s := a.getenv("WARREN_SOCKET"); s != "" {
		if strings.HasSuffix(s, "/admin/admin.sock") {
			return agentSocketOf(s)
		}
		return s
	}
	own := filepath.Join(a.runtimeDir(), "agent.sock")
	for _, s := range []string{own, boundSocket(own), "/run/warren/agent.sock", "/run/warren/agent/agent.sock"} {
		if _, err := os.Stat(s); err == nil {
			return s
		}
	}
	return own
}

// agentSocketOf gives the agents' socket of the daemon with an admin socket.
func agentSocketOf(admin string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(admin)), "agent.sock")
}

// needAgent is the error of a command that works for an agent and was told none.
// With a token there is one: the token's.
func (a *app) needAgent(agent string) error {
	if agent == "" && a.showToken() == "" {
		return usagef("which agent? give --agent KEY (`warren agent list` lists them)")
	}
	return nil
}

// runtimeDir is where sockets go unless told otherwise.
func (a *app) runtimeDir() string {
	if os.Geteuid() == 0 {
		return "/run/warren"
	}
	if d := a.getenv("XDG_RUNTIME_DIR"); d != "" {
		return filepath.Join(d, "warren")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("warren-%d", os.Geteuid()))
}

// storeDir is the store that flag and environment name, made absolute.
func (a *app) storeDir(flag string) (string, error) {
	for _, s := range []string{flag, a.getenv("WARREN_STORE")} {
		if s != "" {
			return filepath.Abs(s)
		}
	}
	if os.Geteuid() == 0 {
		return "/var/lib/warren", nil
	}
	state := a.getenv("XDG_STATE_HOME")
	if state == "" {
		home := a.getenv("HOME")
		if home == "" {
			return "", usagef("no store: give --store DIR or set WARREN_STORE, XDG_STATE_HOME or HOME")
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "warren"), nil
}

// answer prints v as JSON with --json, else what text writes.
func (a *app) answer(v any, text func(w io.Writer)) error {
	if a.json {
		a.writeJSON(a.stdout, v)
		return nil
	}
	text(a.stdout)
	return nil
}

// say prints a line that --quiet and --json leave out.
func (a *app) say(format string, args ...any) {
	if !a.quiet && !a.json {
		_, _ = fmt.Fprintf(a.stdout, format+"\n", args...)
	}
}

// done answers a command that has nothing to show but that it worked.
func (a *app) done(v any, format string, args ...any) error {
	if a.json {
		a.writeJSON(a.stdout, v)
		return nil
	}
	a.say(format, args...)
	return nil
}

func (a *app) writeJSON(w io.Writer, v any) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	_ = e.Encode(v) // a failed write is kept by errWriter
}

// table prints rows in columns.
func table(w io.Writer, head []string, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, r := range rows {
		_, _ = fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	_ = t.Flush()
}

// dash shows an empty value in a table.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// command makes a cobra command whose function may be interrupted.
func command(use, short string, args cobra.PositionalArgs, run func(ctx context.Context, args []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: usageArgs(args), DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := interruptible(c.Context())
			defer stop()
			return run(ctx, args)
		},
	}
}

// usageArgs turns a refusal of arguments into an error of usage that shows how
// the command is spelled.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return usagef("%v; usage: %s (see `%s --help`)", err, c.UseLine(), c.CommandPath())
		}
		return nil
	}
}

// noun makes a command that only groups others.
func noun(use, short string, subs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, DisableFlagsInUseLine: true}
	c.SuggestionsMinimumDistance = 2
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(c, args[0])
		}
		return c.Help()
	}
	c.AddCommand(subs...)
	return c
}
