package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/warrenfs/warren/control"
)

// remotesKey is the setting that lists the remotes approved for the deploy key and,
// with the protocol file, the repositories of the tree that git may reach beside the
// project. An entry is a URL, or a prefix of URLs that ends with an asterisk.
const remotesKey = "git.remotes"

// GitHost is the server that ssh may connect to in one run, whatever URL git passes on.
type GitHost struct{ User, Name, Port string }

// remoteURL is a URL of a remote, as git uses it.
type remoteURL struct {
	text   string
	scheme string // file, http, https or ssh
	host   GitHost
	local  string // tree path; file only
}

// Names of hosts, users and ports that reach ssh's command line.
var (
	hostName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.:_-]*$`)
	userName = regexp.MustCompile(`^[A-Za-z0-9._][A-Za-z0-9._-]*$`)
	scpForm  = regexp.MustCompile(`^(?:([A-Za-z0-9._-]+)@)?([A-Za-z0-9.-]+):([^:].*)$`)
)

// parseRemote reads a URL in one of git's forms. It fails with KindInvalid for any other text.
func parseRemote(text string) (u remoteURL, err error) {
	invalid := control.Errorf(control.KindInvalid, "%q is not a URL for git: want https://…, ssh://… or user@host:path", text)
	u.text = text
	if strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }) || strings.HasPrefix(text, "-") {
		return u, invalid
	}
	scheme, _, hasScheme := strings.Cut(text, "://")
	if m := scpForm.FindStringSubmatch(text); m != nil && !hasScheme {
		u.scheme, u.host = "ssh", GitHost{User: m[1], Name: m[2], Port: "22"}
		return u, nil
	}
	if path.IsAbs(text) {
		scheme, text, hasScheme = "file", "file://"+text, true
	}
	if !hasScheme || !slices.Contains([]string{"file", "http", "https", "ssh"}, scheme) {
		if hasScheme && !strings.Contains(scheme, "::") {
			return u, control.Errorf(control.KindDenied, "%s is not a protocol that git may use here (setting %s)", scheme, protocolsKey)
		}
		return u, invalid
	}
	p, perr := url.Parse(text)
	if perr != nil {
		return u, invalid
	}
	u.scheme = scheme
	switch scheme {
	case "file":
		at, ok := below(path.Clean(p.Path), viewDir)
		if !ok || p.Host != "" {
			return u, control.Errorf(control.KindDenied, "remote %q is outside the tree: git reaches only repositories below %s", u.text, viewDir)
		}
		u.local = path.Join("/", at)
	case "ssh":
		u.host = GitHost{User: p.User.Username(), Name: p.Hostname(), Port: p.Port()}
		if u.host.Port == "" {
			u.host.Port = "22"
		}
		if !hostName.MatchString(u.host.Name) || u.host.User != "" && !userName.MatchString(u.host.User) {
			return u, invalid
		}
	}
	return u, nil
}

// approvedBy reports whether the list of remotesKey includes u.
func (u remoteURL) approvedBy(list []string) bool {
	plain := func(s string) string { return strings.TrimSuffix(strings.TrimSuffix(s, "/"), ".git") }
	return slices.ContainsFunc(list, func(entry string) bool {
		if prefix, ok := strings.CutSuffix(entry, "*"); ok {
			return strings.HasPrefix(u.text, prefix) && !strings.Contains(u.text, "/../")
		}
		return plain(entry) == plain(u.text)
	})
}

// route fills in what a run of git needs to reach urls: which protocol, which ssh
// server with which key, which repositories of the tree. named is true if the caller of
// the tool named the URL itself, and no file did. The urls are the ones that git uses
// after all rewriting. If the configuration changes between this and the run, git still
// reaches nothing else: the rest of the tree is absent, and ssh connects to that host.
func (r *repo) route(c *GitCall, urls []string, push, named bool) error {
	c.Spawn, c.Write = true, true
	for _, text := range urls {
		u, err := parseRemote(text)
		if err != nil {
			return err
		}
		if !slices.Contains(r.protocols, u.scheme) {
			return control.Errorf(control.KindDenied, "remote %q: %s is not among the protocols that are allowed: %s (setting %s)",
				u.text, u.scheme, strings.Join(r.protocols, ", "), protocolsKey)
		}
		approved := named || u.approvedBy(r.remotes)
		if u.scheme != "file" {
			c.Net = true
		}
		switch {
		case u.scheme == "ssh" && c.Host.Name != "" && c.Host != u.host:
			return control.Errorf(control.KindDenied, "the remote has several ssh servers: %s and %s; one push goes to one", c.Host.Name, u.host.Name)
		case u.scheme == "ssh":
			c.Host, c.Key = u.host, approved
		case u.scheme == "file" && u.local != r.dir && !strings.HasPrefix(u.local, r.dir+"/"):
			if !approved {
				return control.Errorf(control.KindDenied, "remote %q is outside the project: add it to the setting %s to allow it", u.text, remotesKey)
			}
			c.Repos = append(c.Repos, control.RunPart{Path: u.local, Write: push})
		}
	}
	return nil
}

// urls returns the URLs that git would fetch from, or push to, for a remote. remote
// "": the one of the branch, for a fetch only.
func (r *repo) urls(ctx context.Context, push bool, remote string) ([]string, error) {
	ask := []string{"ls-remote", "--get-url"}
	if push {
		ask = []string{"remote", "get-url", "--push", "--all", "--", remote}
	}
	text, err := r.must(ctx, ask...)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n"), nil
}

// remote runs a git command that reaches a remote. side is the program at the other
// end, upload-pack or receive-pack; the command gets the option that names it.
func (r *repo) remote(ctx context.Context, side, remote string, command ...string) (GitAnswer, error) {
	if slices.Contains(r.keys, "fetch.bundleuri") {
		return GitAnswer{}, control.Errorf(control.KindDenied, "%s: the configuration has fetch.bundleURI, from which the tools do not fetch; remove it", r.dir)
	}
	push := side == "receive-pack"
	urls, err := r.urls(ctx, push, remote)
	if err != nil {
		return GitAnswer{}, err
	}
	return r.reach(ctx, side, urls, false, command...)
}

// reach does the same as remote for known URLs. named is as for route.
func (r *repo) reach(ctx context.Context, side string, urls []string, named bool, command ...string) (GitAnswer, error) {
	var c GitCall
	if err := r.route(&c, urls, side == "receive-pack", named); err != nil {
		return GitAnswer{}, err
	}
	c.Args = slices.Concat(command[:1], []string{"--" + side + "=" + otherSide(c, side)}, command[1:])
	if c.Host.Name != "" {
		c.KnownHosts = r.agent.Home + "/caches/home/.ssh/known_hosts"
		c.Env = append(c.Env, "GIT_SSH_COMMAND="+sshCommand(c.Host, c.KnownHosts))
	}
	got, err := r.call(ctx, c)
	if err == nil && got.Status != 0 && c.Host.Name != "" && !c.Key {
		got.Err = append(got.Err, fmt.Sprintf("\nno deploy key was offered: %s does not list %s", remotesKey, urls[0])...)
	}
	return got, err
}

// otherSide returns the command that runs at the other end. For a repository in the
// tree, the command runs nothing that the repository configures: no hooks, and no
// checkout, which has filters.
func otherSide(c GitCall, side string) string {
	if c.Net {
		return "git-" + side
	}
	return "git -c safe.directory='*' -c core.hooksPath=/dev/null -c core.fsmonitor=false -c core.alternateRefsCommand=true" +
		" -c receive.denyCurrentBranch=refuse -c receive.autogc=false -c gc.auto=0 -c maintenance.auto=false " + side
}

// sshCommand returns the ssh that git runs. It goes to host and nowhere else: the
// first value of an option holds, and those on git's command line come later. It reads
// no configuration, and takes a key from the agent's socket only.
func sshCommand(host GitHost, knownHosts string) string {
	s := "ssh -F /dev/null -o BatchMode=yes -o IdentityFile=none -o StrictHostKeyChecking=accept-new -o ForwardAgent=no -o PermitLocalCommand=no" +
		" -o UserKnownHostsFile=" + viewDir + knownHosts + " -o HostName=" + host.Name + " -o Port=" + host.Port
	if host.User != "" {
		s += " -o User=" + host.User
	}
	return s
}

// gitSettings reads the lists of protocols and of approved remotes.
func (s *Server) gitSettings(ctx context.Context) (protocols, remotes []string, err error) {
	c, err := s.o.Client.Config(ctx, s.o.Agent, "", nil)
	if err != nil {
		return nil, nil, err
	}
	protocols = defaultProtocols
	for _, x := range c.Settings {
		switch x.Key {
		case protocolsKey:
			var list []string
			known := []string{"file", "http", "https", "ssh"}
			if json.Unmarshal(x.Value, &list) != nil || slices.ContainsFunc(list, func(p string) bool { return !slices.Contains(known, p) }) {
				return nil, nil, control.Errorf(control.KindInvalid, "setting %s in %s: want a list of %s", protocolsKey, x.Source, strings.Join(known, ", "))
			}
			protocols = list
		case remotesKey:
			if json.Unmarshal(x.Value, &remotes) != nil {
				return nil, nil, control.Errorf(control.KindInvalid, "setting %s in %s: want a list of URLs", remotesKey, x.Source)
			}
		}
	}
	return protocols, remotes, nil
}
