package mcp

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/warrenfs/warren/control"
)

// GitCall is one run of the system's git for an agent. Its filesystem is the directory
// Dir, the repositories Repos and a minimal host.
type GitCall struct {
	Agent string
	Dir   string   // tree path to run in
	Args  []string // after "git"
	Env   []string // NAME=VALUE, beside the sandbox's own
	Write bool     // Dir is writable
	Spawn bool     // git may start other programs: ssh, transport helpers
	Net   bool     // the host's network is there
	Host  GitHost  // the ssh server to reach; Name "": none
	Key   bool     // Host is approved for the agent's deploy key
	Repos []control.RunPart

	KnownHosts string // tree path of ssh's file of known hosts; only with Host
}

// GitAnswer is what came of it. Out and Err are cut at MaxGitOutput bytes each.
type GitAnswer struct {
	Status   int
	Out, Err []byte
	Cut      bool // Out is not all
}

// MaxGitOutput bounds what is kept of what git prints, in bytes.
const MaxGitOutput = 8 << 20

// Git runs git in a sandbox that holds what the call names and nothing else, as the
// agent's user. Errors: KindDenied, KindNotFound, KindUnavailable of the sandbox itself;
// a failure of git is in Status.
type Git func(context.Context, GitCall) (GitAnswer, error)

// protocolsKey is the setting that says by which protocols git may go to a remote:
// file, https, http, ssh. Of the store's config.toml, or of the agent's home's.
const protocolsKey = "git.protocols"

// defaultProtocols are taken where nothing is set.
var defaultProtocols = []string{"https", "ssh"}

// Where what a repository's own configuration says may run a program or send
// something, these say otherwise: hooks, file watchers, credentials, signing,
// maintenance, submodules. Drivers that have names of their own are added by
// overrides.
var gitSafe = []setting{
	{"core.hooksPath", "/dev/null"}, {"core.fsmonitor", "false"}, {"core.alternateRefsCommand", "true"}, {"core.gitProxy", ""}, {"core.askPass", ""},
	{"core.pager", "cat"}, {"credential.helper", ""}, {"commit.gpgSign", "false"}, {"tag.gpgSign", "false"}, {"push.gpgSign", "false"},
	{"log.showSignature", "false"}, {"merge.verifySignatures", "false"}, {"gc.auto", "0"}, {"maintenance.auto", "false"}, {"submodule.recurse", "false"},
	{"fetch.recurseSubmodules", "false"}, {"push.recurseSubmodules", "no"}, {"status.submoduleSummary", "false"}, {"diff.submodule", "short"},
	{"safe.directory", "*"}, {"init.templateDir", ""}, {"protocol.allow", "never"}, {"color.ui", "false"}, {"core.quotePath", "false"},
	{"merge.autoStash", "false"}, {"fetch.all", "false"}, {"push.followTags", "false"}, {"i18n.logOutputEncoding", "UTF-8"}, {"i18n.commitEncoding", "UTF-8"},
	{"core.preloadIndex", "false"}, {"index.threads", "1"}, {"pack.threads", "1"}, {"grep.threads", "1"}, {"checkout.workers", "1"}, // it may start no thread either
}

// setting is one value of git's configuration. The key may have any bytes in its
// middle, = too, so that it is given to git in the environment and not by -c.
type setting struct{ key, value string }

// gitEnv is what git's environment has: no configuration but the repository's, no
// questions, no helpers of other protocols, no objects fetched behind one's back.
func gitEnv(protocols []string) []string {
	return []string{
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=", "SSH_ASKPASS=", "GIT_EDITOR=false",
		"GIT_PAGER=cat", "GIT_NO_LAZY_FETCH=1", "GIT_ATTR_NOSYSTEM=1",
		"GIT_ALLOW_PROTOCOL=" + strings.Join(protocols, ":"), "GIT_SSH_VARIANT=ssh", "GIT_SSH_COMMAND=false",
	}
}

// drivers are the parts of a configuration that name a program under a name of
// the repository's choice, and what takes it out.
var drivers = []struct {
	key   *regexp.Regexp
	value string
}{
	{regexp.MustCompile(`(?is)^filter\..+\.(clean|smudge|process)$`), ""},
	{regexp.MustCompile(`(?is)^filter\..+\.required$`), "false"},
	{regexp.MustCompile(`(?is)^merge\..+\.driver$`), "false"},
	{regexp.MustCompile(`(?is)^diff\..+\.(command|textconv)$`), ""},
	{regexp.MustCompile(`(?is)^remote\..+\.uploadpack$`), "git-upload-pack"},
	{regexp.MustCompile(`(?is)^remote\..+\.receivepack$`), "git-receive-pack"},
	{regexp.MustCompile(`(?is)^remote\..+\.vcs$`), ""},
	{regexp.MustCompile(`(?is)^credential\..+\.helper$`), ""},
	{regexp.MustCompile(`(?is)^submodule\..+\.update$`), "none"},
	{regexp.MustCompile(`(?is)^gpg\.(.+\.)?program$`), "false"},
	{regexp.MustCompile(`(?is)^hook\..+\.command$`), "true"}, // of git 2.54 and later
	{regexp.MustCompile(`(?is)^hook\..+\.enabled$`), "false"},
	{regexp.MustCompile(`(?is)^branch\..+\.mergeoptions$`), ""},
}

// overrides gives what takes the drivers out that names of a configuration have,
// and the names of the content filters among them.
func overrides(keys []string) (set []setting, filters []string) {
	for _, k := range keys {
		for _, d := range drivers {
			if !d.key.MatchString(k) {
				continue
			}
			set = append(set, setting{k, d.value})
			if name, ok := strings.CutPrefix(strings.ToLower(k), "filter."); ok {
				filters = append(filters, name[:strings.LastIndex(name, ".")])
			}
		}
	}
	slices.Sort(filters)
	return set, slices.Compact(filters)
}

// repo is a project's repository, in which git may be run.
type repo struct {
	s     *Server
	agent *control.Agent
	dir   string // tree path
	env   []string

	protocols []string
	remotes   []string  // as remotesKey lists them
	keys      []string  // of the repository's configuration
	set       []setting // over the repository's own configuration
	filters   []string  // content filters that are not run
}

// errNoGit is the error of the git tools where there is no git.
var errNoGit = control.Errorf(control.KindUnavailable, "git works here where `warren run` does: on the daemon's host, for who may speak to the administrator's socket")

// repoOf looks at the repository of a project.
func (s *Server) repoOf(ctx context.Context, project string) (*repo, error) {
	if s.o.Git == nil {
		return nil, errNoGit
	}
	place, err := s.o.Client.ProjectPlace(ctx, s.o.Agent, s.in(project))
	if err != nil {
		return nil, err
	}
	r, err := s.gitIn(ctx, place.Path)
	if err != nil {
		return nil, err
	}
	got, err := r.run(ctx, "config", "--list", "--show-origin", "-z", "--name-only")
	if err != nil {
		return nil, err
	}
	keys, files := configKeys(string(got.Out))
	switch {
	case got.Status != 0 || got.Cut:
		return nil, control.Errorf(control.KindInvalid, "%s: git does not understand the configuration: %s", place.Path, shortened(got.Err))
	case !slices.Contains(keys, "core.repositoryformatversion"): // every repository has it
		return nil, control.Errorf(control.KindInvalid, "%s is no git repository", place.Path)
	}
	if err := r.inTree(ctx, keys, files); err != nil {
		return nil, err
	}
	set, filters := overrides(keys)
	r.keys = keys
	r.set, r.filters = append(slices.Clone(r.set), set...), filters
	return r, nil
}

// configKeys reads what `git config --list --show-origin -z --name-only` prints: the
// keys, and the files that they are from.
func configKeys(text string) (keys, files []string) {
	f := strings.Split(text, "\x00")
	for i := 0; i+1 < len(f); i += 2 {
		keys = append(keys, f[i+1])
		if file, ok := strings.CutPrefix(f[i], "file:"); ok && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	return keys, files
}

// inTree refuses a repository whose configuration or whose files lie outside of the
// tree, on the host: by a .git that leads there, or by core.worktree. A run may read
// there what all may, but the tools are about the tree.
func (r *repo) inTree(ctx context.Context, keys, files []string) error {
	refused := control.Errorf(control.KindDenied, "%s: the repository is not in the tree, or what it includes or its files are not", r.dir)
	for _, f := range files {
		at, ok := below(path.Clean(f), viewDir)
		if !ok && path.IsAbs(f) {
			return refused
		}
		if !ok {
			at = path.Join(r.dir, f)
		}
		if _, err := r.s.o.Client.Stat(ctx, r.agent.Key, path.Join("/", at), true); control.KindOf(err) == control.KindNotFound {
			return refused
		} else if err != nil {
			return err
		}
	}
	if !slices.Contains(keys, "core.worktree") {
		return nil
	}
	top, err := r.must(ctx, "rev-parse", "--show-toplevel")
	if _, ok := below(strings.TrimSuffix(top, "\n"), viewDir); err == nil && !ok {
		return refused
	}
	return err
}

// gitIn prepares git in a directory, of which nothing has been asked yet.
func (s *Server) gitIn(ctx context.Context, dir string) (*repo, error) {
	if s.o.Git == nil {
		return nil, errNoGit
	}
	key := s.o.Agent
	if key == "" {
		key = s.who
	}
	if key == "" {
		c, err := s.o.Client.Context(ctx, "")
		if err != nil {
			return nil, err
		}
		key = c.Agent
	}
	agent, err := s.o.Client.Agent(ctx, key)
	if err != nil {
		return nil, err
	}
	protocols, remotes, err := s.gitSettings(ctx)
	if err != nil {
		return nil, err
	}
	name := agent.Name
	if name == "" {
		name = agent.Key
	}
	env := append(gitEnv(protocols), "GIT_AUTHOR_NAME="+name, "GIT_AUTHOR_EMAIL="+agent.Email, "GIT_COMMITTER_NAME="+name, "GIT_COMMITTER_EMAIL="+agent.Email)
	return &repo{s: s, agent: &agent, dir: dir, env: env, protocols: protocols, remotes: remotes, set: gitSafe}, nil
}

// prepared returns c with the settings of every run of git in this repository. It fails
// with KindInvalid if an argument contains a NUL.
func (r *repo) prepared(c GitCall) (GitCall, error) {
	if slices.ContainsFunc(c.Args, func(a string) bool { return strings.ContainsRune(a, 0) }) {
		return c, control.Errorf(control.KindInvalid, "git: an argument contains a NUL")
	}
	c.Agent, c.Dir = r.agent.Key, r.dir
	c.Args = append([]string{"--no-pager"}, c.Args...)
	c.Env = append(append(slices.Clone(r.env), c.Env...), fmt.Sprint("GIT_CONFIG_COUNT=", len(r.set)))
	for i, x := range r.set {
		c.Env = append(c.Env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, x.key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, x.value))
	}
	if !c.Write {
		c.Env = append(c.Env, "GIT_OPTIONAL_LOCKS=0")
	}
	return c, nil
}

// call runs git.
func (r *repo) call(ctx context.Context, c GitCall) (GitAnswer, error) {
	c.Args = append([]string{"--literal-pathspecs"}, c.Args...)
	c, err := r.prepared(c)
	if err != nil {
		return GitAnswer{}, err
	}
	ctx, ended := r.watched(ctx)
	got, err := r.s.o.Git(ctx, c)
	if ended() {
		return GitAnswer{}, control.Errorf(control.KindDenied, "git was ended: the token has expired or was revoked")
	}
	return got, err
}

// showsDiffs lists the git commands that take the options for diffs.
var showsDiffs = []string{"diff", "log", "show", "whatchanged", "reflog", "blame", "annotate", "diff-tree", "diff-index", "diff-files"}

// Review returns the call for a git command that reads a project's repository and runs
// nothing that the repository names. args starts with the command. KindInvalid: there
// is no repository, or no command; KindUnavailable: o.Git is nil.
func Review(ctx context.Context, o Options, project string, args []string) (GitCall, error) {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return GitCall{}, control.Errorf(control.KindInvalid, "name the git command first, such as status, log or diff")
	}
	r, err := (&Server{o: o}).repoOf(ctx, project)
	if err != nil {
		return GitCall{}, err
	}
	command := args[:1:1]
	if slices.Contains(showsDiffs, args[0]) {
		command = append(command, "--no-ext-diff", "--no-textconv")
	}
	return r.prepared(GitCall{Args: append(command, args[1:]...)})
}

// watchEvery is how often a token is asked about while git runs for it.
const watchEvery = time.Second

// watched gives a context that ends with the token that git runs for, and what
// tells, when it is not needed any more, whether the token has ended.
func (r *repo) watched(ctx context.Context) (_ context.Context, ended func() bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	refused := errors.New("the token has ended")
	if r.s.o.Agent == "" {
		go func() {
			tick := time.NewTicker(watchEvery)
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				if _, err := r.s.o.Client.Version(ctx); control.KindOf(err) == control.KindDenied {
					cancel(refused)
				}
			}
		}()
	}
	return ctx, func() bool {
		cancel(nil)
		return context.Cause(ctx) == refused
	}
}

// run runs a git command that only reads.
func (r *repo) run(ctx context.Context, command ...string) (GitAnswer, error) {
	return r.call(ctx, GitCall{Args: command})
}

// change runs a git command that writes into the project.
func (r *repo) change(ctx context.Context, command ...string) (GitAnswer, error) {
	return r.call(ctx, GitCall{Args: command, Write: true})
}

// must runs a command that has to succeed. It fails with KindInvalid and git's message
// if git fails, or if git prints more than is kept: a part would be a wrong answer.
func (r *repo) must(ctx context.Context, command ...string) (string, error) {
	got, err := r.run(ctx, command...)
	return got.text(command[0], err)
}

// text returns the output of a command that has to succeed, as must does.
func (a GitAnswer) text(command string, err error) (string, error) {
	switch {
	case err != nil:
	case a.Status != 0:
		err = control.Errorf(control.KindInvalid, "git %s: %s", command, shortened(a.Err))
	case a.Cut:
		err = control.Errorf(control.KindInvalid, "git %s: the answer has more than %d bytes; ask for less", command, MaxGitOutput)
	}
	return string(a.Out), err
}

// maxGitSaid bounds what is told of git's own words, in bytes.
const maxGitSaid = 1500

// shortened gives what git said, without what surrounds it.
func shortened(b []byte) string {
	s := strings.TrimSpace(strings.ToValidUTF8(string(b), "�"))
	if len(s) > maxGitSaid {
		s = "…" + strings.ToValidUTF8(s[len(s)-maxGitSaid:], "")
	}
	if s == "" {
		s = "it failed, and does not say why"
	}
	return s
}

// slug is what the directory of a clone may be called: a new one of the agent's
// workspace, or of /projects.
var slug = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// viewDir is where a run finds the agent's view.
const viewDir = "/warren"

// clone makes the directory name of the agent's workspace, or a shared project, a
// clone of a remote.
func (s *Server) clone(ctx context.Context, url, name, local string) error {
	shared, isShared := strings.CutPrefix(local, "/projects/")
	if !slug.MatchString(name) || local != "" && !(isShared && slug.MatchString(shared)) {
		return control.Errorf(control.KindInvalid, "a clone goes into a new directory of your workspace, or with local_path /projects/NAME into a new shared project; names are of a-z, 0-9, _ and -")
	}
	r, err := s.gitIn(ctx, "")
	if err != nil {
		return err
	}
	if local == "" {
		local = path.Join(r.agent.Work, name)
	}
	r.dir = local
	if err := r.route(&GitCall{}, []string{url}, false, true); err != nil {
		return err
	}
	if _, err := s.o.Client.MakeDir(ctx, control.MakeDir{Agent: s.o.Agent, Path: local}); err != nil {
		return err
	}
	got, err := r.reach(ctx, "upload-pack", []string{url}, true, "clone", "--quiet", "--no-recurse-submodules", "--template=", "--", url, ".")
	if err != nil || got.Status != 0 {
		// git removes what it made but not the directory; one with a checkout that failed stays.
		_ = s.o.Client.Remove(context.WithoutCancel(ctx), s.o.Agent, local, false)
	}
	if err != nil {
		return err
	}
	if got.Status != 0 {
		left := ""
		if strings.Contains(string(got.Err), "checkout failed") {
			left = "\nwhat could be checked out is there; names that policy denies could not (warren policy explain)"
		}
		return control.Errorf(control.KindInvalid, "git clone: %s%s", shortened(got.Err), left)
	}
	return nil
}

// shortHash is how a commit is named in a text.
func shortHash(h string) string { return fmt.Sprintf("%.12s", h) }
