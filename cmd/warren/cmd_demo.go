package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/warrenfs/warren/control"
)

type demoOptions struct {
	Keep   bool
	Source string
}

// AddFlags adds the flags of demo.
func (o *demoOptions) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.Keep, "keep", false, "leave it up, and say how to go on")
	f.StringVar(&o.Source, "source", "", "git `DIR` for a soul to clone (default: the one around, or a small one made for it)")
}

func newDemoCommand(a *app) *cobra.Command {
	o := &demoOptions{}
	c := command("demo [--keep] [--source DIR]", "Show agents at work in one tree, in a store of its own", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runDemo(ctx, a, o) })
	c.Long = `Show the main job in a temporary store: a daemon, a user, an orchestrator, two souls, a
shared agent and a mount for each; a soul clones a git repository, builds and tests in
it and writes a database; the orchestrator reads and edits that by the same path; the
others do not see it. It leaves nothing mounted or running unless --keep is given.`
	o.AddFlags(c.Flags())
	return c
}

// demo is one show.
type demo struct {
	a      *app
	o      *demoOptions
	dir    string // everything is in it
	self   string // this program
	source string // git repository to clone
	serve  *exec.Cmd
	exited chan error // of serve
}

// agents of the show, in the order of their mounts.
var demoAgents = []string{"gaia", "coder", "writer", "concierge"}

func runDemo(ctx context.Context, a *app, o *demoOptions) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := demoDir()
	if err != nil {
		return err
	}
	d := &demo{a: a, o: o, dir: dir, self: self}
	start := time.Now()
	err = d.play(ctx)
	if err == nil && o.Keep {
		d.howToGoOn()
		return nil
	}
	err = errors.Join(err, d.clean())
	if err == nil {
		d.say("Done in %.1f s. Nothing is left mounted or running.", time.Since(start).Seconds())
	}
	return err
}

// demoDir makes the directory of the show, where a socket's path is not too long.
func demoDir() (string, error) {
	parent := os.TempDir()
	if len(filepath.Join(parent, "warren-demo.0123456789/run/admin/admin.sock")) > maxSocketPath {
		parent = "/tmp"
	}
	return os.MkdirTemp(parent, "warren-demo.")
}

// play is the whole show.
func (d *demo) play(ctx context.Context) error {
	if err := d.findSource(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{d.setUp, d.work, d.look, d.finish} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) setUp(ctx context.Context) error {
	d.say("A store with a user, an orchestrator and a first soul; a daemon that serves it.")
	if err := d.warren(ctx, "init", "--store", d.path("store"), "--user", "ada", "--soul", "coder"); err != nil {
		return err
	}
	if err := d.startDaemon(ctx); err != nil {
		return err
	}
	d.say("A second soul of the same user, and a shared agent. A mount for each.")
	if err := d.warren(ctx, "agent", "add", "writer", "--role", "soul", "--user", "ada"); err != nil {
		return err
	}
	if err := d.warren(ctx, "agent", "add", "concierge", "--role", "shared"); err != nil {
		return err
	}
	for _, agent := range demoAgents {
		if err := os.MkdirAll(d.mnt(agent), 0o755); err != nil {
			return err
		}
		if err := d.warren(ctx, "mount", "--agent", agent, d.mnt(agent)); err != nil {
			return err
		}
	}
	return d.warren(ctx, "mounts")
}

// script is what the soul does: clone, build, test, and keep books.
const script = `set -eu
git config --global --add safe.directory '*'
git clone -q "file://$SOURCE" app
cd app
echo "cloned $(git ls-files | wc -l) files: $(git log -1 --format='%h %s')"
if command -v go >/dev/null; then
  go build $PACKAGE
  go test $PACKAGE
fi
if command -v sqlite3 >/dev/null; then
  sqlite3 ../books.db "create table done(what text); insert into done values('built'),('tested'); select count(*) || ' rows in books.db' from done"
else
  python3 -c "import sqlite3
db = sqlite3.connect('../books.db')
db.execute('create table done(what text)'); db.execute(\"insert into done values('built'),('tested')\"); db.commit()
print(db.execute('select count(*) from done').fetchone()[0], 'rows in books.db')"
fi
echo 'Built and tested. Please review.' > ../report.txt
`

func (d *demo) work(ctx context.Context) error {
	d.say("The soul `coder` works, confined: it sees its view and a read-only host, nothing else.")
	args := []string{"run", "--agent", "coder", "--env", "PACKAGE=" + d.pkg()}
	args = append(args, d.showSource(ctx)...)
	d.show("warren run --agent coder -- sh -c 'git clone …; go build %s; go test %s; sqlite3 …'", d.pkg(), d.pkg())
	return d.quietly(ctx, append(args, "--", "sh", "-c", script)...)
}

// pkg is the Go package that the soul builds and tests.
func (d *demo) pkg() string {
	for _, p := range []string{"backend/mem", "policy"} {
		if tests, _ := filepath.Glob(filepath.Join(d.source, p, "*_test.go")); len(tests) > 0 {
			return "./" + p
		}
	}
	return "./..."
}

func (d *demo) look(ctx context.Context) error {
	const work = "/agents/coder/workspace"
	d.say("Gaia mounts the root view. She finds the work by the same tree path, reads it and edits it.")
	gaia := d.mnt("gaia") + work
	if err := d.sh(ctx, "ls "+gaia+" && cat "+gaia+"/report.txt && echo 'Reviewed by gaia.' >> "+gaia+"/report.txt"); err != nil {
		return err
	}
	d.say("The soul sees the edit in its own mount, and who made it.")
	coder := d.mnt("coder") + work
	if err := d.sh(ctx, "cat "+coder+"/report.txt && ls "+d.mnt("coder")+"/agents"); err != nil {
		return err
	}
	if err := d.warren(ctx, "fs", "stat", "--agent", "coder", "report.txt"); err != nil {
		return err
	}
	d.say("The other soul, of the same user, and the shared agent: for them it does not exist.")
	for _, other := range []string{"writer", "concierge"} {
		if err := d.hidden(d.mnt(other) + work + "/report.txt"); err != nil {
			return err
		}
		if err := d.sh(ctx, "ls "+d.mnt(other)+" "+d.mnt(other)+"/agents"); err != nil {
			return err
		}
	}
	return nil
}

// hidden shows that path does not exist.
func (d *demo) hidden(path string) error {
	d.show("cat %s", path)
	_, err := os.ReadFile(path)
	if !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s should not exist, and: %v", path, err)
	}
	_, _ = fmt.Fprintf(d.a.stdout, "%v\n", err)
	return nil
}

func (d *demo) finish(ctx context.Context) error {
	d.say("Every invariant of the store holds.")
	return d.warren(ctx, "fsck")
}

func (d *demo) howToGoOn() {
	d.say("It is left up. Go on with:")
	_, _ = fmt.Fprintf(d.a.stdout, `
  export WARREN_SOCKET=%s
  ls %s/agents
  %s status
  %s run --agent coder -- sh
  %s fs ls --agent writer /

and end it with:

  kill %d; while kill -0 %[6]d 2>/dev/null; do sleep 0.1; done; rm -rf %s
`, d.socket(), d.mnt("gaia"), d.self, d.self, d.self, d.serve.Process.Pid, d.dir)
}

func (d *demo) path(name string) string   { return filepath.Join(d.dir, name) }
func (d *demo) socket() string            { return d.path("run/admin/admin.sock") }
func (d *demo) mnt(agent string) string   { return filepath.Join(d.dir, "mnt", agent) }
func (d *demo) say(f string, args ...any) { _, _ = fmt.Fprintf(d.a.stdout, "\n# "+f+"\n", args...) }
func (d *demo) show(f string, args ...any) {
	_, _ = fmt.Fprintf(d.a.stdout, "$ "+f+"\n", args...)
}

// warren shows and runs one command of this program.
func (d *demo) warren(ctx context.Context, args ...string) error {
	d.show("warren %s", strings.Join(args, " "))
	return d.quietly(ctx, args...)
}

func (d *demo) quietly(ctx context.Context, args ...string) error {
	return d.do(exec.CommandContext(ctx, d.self, args...))
}

func (d *demo) sh(ctx context.Context, line string) error {
	d.show("%s", line)
	return d.do(exec.CommandContext(ctx, "sh", "-c", line))
}

func (d *demo) do(c *exec.Cmd) error {
	c.Env = append(os.Environ(), "WARREN_SOCKET="+d.socket())
	c.Stdout, c.Stderr = d.a.stdout, d.a.stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 10 * time.Second
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(c.Args, " "), err)
	}
	return nil
}

// startDaemon starts serve and waits until it answers.
func (d *demo) startDaemon(ctx context.Context) error {
	d.show("warren serve --store %s &", d.path("store"))
	logFile, err := os.Create(d.path("log"))
	if err != nil {
		return err
	}
	defer logFile.Close()
	c := exec.Command(d.self, "serve", "--store", d.path("store"), "--quiet")
	c.Env = append(os.Environ(), "WARREN_SOCKET="+d.socket())
	c.Stdout, c.Stderr = logFile, logFile
	c.SysProcAttr = ownSession() // a Ctrl-C is for the show, which then stops it in order
	if err := c.Start(); err != nil {
		return err
	}
	d.serve, d.exited = c, make(chan error, 1)
	go func() { d.exited <- c.Wait() }()
	wait, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	up := make(chan error, 1)
	go func() { up <- control.NewClient(d.socket(), "").Wait(wait) }()
	select {
	case err := <-up:
		return err
	case err := <-d.exited:
		d.exited <- err
		text, _ := os.ReadFile(d.path("log"))
		return fmt.Errorf("the daemon did not start: %v\n%s", err, text)
	}
}

// clean stops the daemon, which unmounts everything, and removes the files.
func (d *demo) clean() error {
	if d.serve != nil {
		_ = d.serve.Process.Signal(os.Interrupt)
		select {
		case err := <-d.exited:
			if err != nil && exitOf(err) != exitInterrupted {
				text, _ := os.ReadFile(d.path("log"))
				return fmt.Errorf("the daemon ended badly: %w\n%s", err, text)
			}
		case <-time.After(30 * time.Second):
			return errors.Join(errors.New("the daemon does not stop; it was killed"), d.serve.Process.Kill())
		}
	}
	left, err := mountsUnder(d.dir)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("still mounted: %v", left)
	}
	if err != nil {
		return err // and remove nothing: it could be somebody's files in a mount
	}
	return os.RemoveAll(d.dir)
}

func exitOf(err error) int {
	var x *exec.ExitError
	if errors.As(err, &x) {
		return x.ExitCode()
	}
	return -1
}
