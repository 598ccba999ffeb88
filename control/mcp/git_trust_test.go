package mcp_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/warrenfs/warren/scripts/stack"
	"golang.org/x/crypto/ssh"
)

// TestGitSeesTheProjectOnly: whatever a member writes into a shared repository, the git
// tools of another member neither read nor change that one's other files. Each case
// leaves the tool no way out, so it fails or does nothing there.
func TestGitSeesTheProjectOnly(t *testing.T) {
	s := running(t)
	const victim, project, secret = "stranger", "/projects/trap", "victims-private-words"
	if _, err := s.Try("project", "show", "trap"); err != nil {
		s.Warren(t, "project", "create", "trap", "--member", soul, "--member", victim)
	}
	allow(t, s, `["file"]`)
	at := "/warren/agents/" + victim + "/workspace/"
	s.Warren(t, "run", "--agent", victim, "--", "sh", "-ec", "rm -rf own; git init -q -b main own; cd own; git config user.name v; git config user.email v@example.com; "+
		"echo "+secret+" > private; git add .; git commit -qm "+secret+"; cp private ../private")
	head := strings.TrimSpace(s.Warren(t, "run", "--agent", victim, "--", "git", "-C", "own", "rev-parse", "HEAD"))
	h := connect(t, s, "--agent", victim, "--tools", "git")
	add := object{"paths": []string{"."}}
	commit := object{"message": "mine"}
	cases := []struct {
		name, script, tool string
		args               object
		long               bool // not in the short form
	}{
		{"core.worktree", "git config core.worktree " + at, "git_add", add, false},
		{"linked COMMIT_EDITMSG", "ln -sf " + at + "private .git/COMMIT_EDITMSG", "git_commit", commit, false},
		{"pushurl", "git remote add origin https://example.invalid/x; git config remote.origin.pushurl file://" + at + "own", "git_push", nil, false},
		{"linked index", "rm -f .git/index; ln -s " + at + "private .git/index", "git_add", add, true},
		{"linked reflog", "mkdir -p .git/logs; ln -sf " + at + "private .git/logs/HEAD", "git_commit", commit, true},
		{"linked objects", "rm -rf .git/objects; ln -s " + at + "own/.git/objects .git/objects; echo " + head + " > .git/refs/heads/main", "git_log", nil, true},
		{"linked packed-refs", "rm -f .git/packed-refs; ln -s " + at + "private .git/packed-refs", "git_log", nil, true},
		{"grafts", "mkdir -p .git/info; ln -s " + at + "private .git/info/grafts", "git_log", nil, true},
		{"alternates", "echo " + at + "own/.git/objects > .git/objects/info/alternates; echo " + head + " > .git/refs/heads/main", "git_log", nil, true},
		{"gitfile", "rm -rf .git; echo gitdir: " + at + "own/.git > .git", "git_log", nil, true},
		{"include", "git config include.path " + at + "private", "git_log", nil, true},
		{"commit.template", "git config commit.template " + at + "private", "git_commit", commit, true},
		{"linked FETCH_HEAD", "git remote add origin file:///warren" + project + "/far; cp -r .git far; git --git-dir=far config core.bare true; ln -s " + at + "private .git/FETCH_HEAD", "git_fetch", nil, true},
		{"fetch from private", "git remote add origin file://" + at + "own", "git_fetch", nil, true},
		{"insteadOf", "git remote add origin https://example.invalid/own; git config url.file://" + at + ".insteadOf https://example.invalid/", "git_fetch", nil, true},
		{"pushInsteadOf", "git remote add origin https://example.invalid/own; git config url.file://" + at + ".pushInsteadOf https://example.invalid/", "git_push", nil, true},
		{"branch remote", "git config branch.main.remote file://" + at + "own; git config branch.main.merge refs/heads/main", "git_fetch", nil, true},
		{"bundle URI", "git remote add origin file:///warren" + project + "/far; git config fetch.bundleURI " + at + "private", "git_fetch", nil, true},
		{"excludes", "git config core.excludesFile " + at + "private; git config core.attributesFile " + at + "private", "git_status", nil, true},
		{"submodule", "git -c protocol.file.allow=always submodule --quiet add -f ./ sub || true; git config submodule.sub.url file://" + at + "own; git config fetch.recurseSubmodules yes", "git_pull", nil, true},
	}
	for _, c := range cases {
		if c.long && stack.Short() {
			continue
		}
		s.Warren(t, "run", "--agent", soul, "--project", project, "--env", anyOwner[0], "--env", anyOwner[1], "--env", anyOwner[2],
			"--", "sh", "-ec", "chmod -R u+w . ; find . -mindepth 1 -delete; git init -q -b main .; git config user.name x; "+
				"git config user.email x@example.com; echo one > page; git add .; git commit -qm first; echo two > page; git add .; "+c.script)
		args := object{"project": project}
		for k, v := range c.args {
			args[k] = v
		}
		if got := textOf(h.raw(c.tool, args)); strings.Contains(got, secret) {
			t.Errorf("%s: %s says %q", c.name, c.tool, got)
		}
		if got := s.Warren(t, "run", "--agent", victim, "--", "sh", "-c", "cat private; git -C own status --porcelain; git -C own for-each-ref"); got != secret+"\n"+head+" commit\trefs/heads/main\n" {
			t.Errorf("%s: after %s the victim has %q", c.name, c.tool, got)
		}
		if got, err := s.Try("run", "--agent", soul, "--project", project, "--", "sh", "-c", "grep -rl "+secret+" . ; git cat-file -p "+head+" 2>/dev/null"); err == nil && got != "" {
			t.Errorf("%s: after %s the attacker finds %q", c.name, c.tool, got)
		}
	}
}

// sshRemotes is an SSH server that takes one key and serves the bare repositories below
// a directory, and remembers the keys that it was offered.
type sshRemotes struct {
	host string // HOST:PORT
	mu   sync.Mutex
	keys []string
}

// offered returns the keys offered since the last call.
func (r *sshRemotes) offered() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := r.keys
	r.keys = nil
	return keys
}

// serveSSH serves the repositories below top until the test ends. It takes the key
// allowed.
func serveSSH(t *testing.T, top string, allowed ssh.PublicKey) *sshRemotes {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	r := &sshRemotes{}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		r.mu.Lock()
		r.keys = append(r.keys, ssh.FingerprintSHA256(key))
		r.mu.Unlock()
		if !bytes.Equal(key.Marshal(), allowed.Marshal()) {
			return nil, fmt.Errorf("another key")
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serveSSHConn(c, config, top) })
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	r.host = l.Addr().String()
	return r
}

// serveSSHConn runs git-upload-pack and git-receive-pack on one connection.
func serveSSHConn(c net.Conn, config *ssh.ServerConfig, top string) {
	defer c.Close()
	_, channels, requests, err := ssh.NewServerConn(c, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for n := range channels {
		ch, reqs, err := n.Accept()
		if err != nil {
			return
		}
		for req := range reqs {
			var command struct{ Text string }
			if req.Type != "exec" || ssh.Unmarshal(req.Payload, &command) != nil {
				_ = req.Reply(req.Type == "env", nil)
				continue
			}
			_ = req.Reply(true, nil)
			side, repo, _ := strings.Cut(command.Text, " ")
			cmd := exec.Command("git", "-c", "safe.directory=*", strings.TrimPrefix(side, "git-"), filepath.Join(top, strings.Trim(repo, "'/")))
			cmd.Stdin, cmd.Stdout, cmd.Stderr = ch, ch, ch.Stderr()
			status := struct{ Code uint32 }{0}
			if err := cmd.Run(); err != nil {
				status.Code = 1
			}
			_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(status))
			_ = ch.Close()
		}
	}
}

// TestDeployKeyIsBound: the deploy key goes to a remote that the caller named or the
// setting git.remotes lists, and to no server that a repository's configuration names.
func TestDeployKeyIsBound(t *testing.T) {
	s := running(t)
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	_, work := remote(t)
	top := filepath.Dir(work)
	good, other := serveSSH(t, top, key), serveSSH(t, top, key)
	url := "ssh://git@" + good.host + "/site.git"
	settings := func(remotes ...string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "config.toml")
		text := "[git]\nprotocols = [\"ssh\"]\n"
		if len(remotes) > 0 {
			text += "remotes = [\"" + strings.Join(remotes, `", "`) + "\"]\n"
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		s.Warren(t, "fs", "put", "--agent", "gaia", file, "/agents/"+soul+"/config.toml")
	}
	settings()
	h := connect(t, s, "--agent", soul, "--deploy-key", file)
	h.call("workspace_init", object{"name": "keyed", "remote_url": url})
	if got := good.offered(); !slices.Contains(got, ssh.FingerprintSHA256(key)) {
		t.Errorf("the clone that the caller named offered %v", got)
	}
	in := object{"project": "keyed"}
	e := h.fails("git_fetch", in, "unavailable")
	if got := good.offered(); len(got) > 0 || !strings.Contains(fmt.Sprint(e["error"]), "git.remotes") {
		t.Errorf("without the setting: offered %v, %v", got, e)
	}
	settings(url)
	h.call("git_fetch", in)
	dir := filepath.Join(s.Soul, "agents", soul, "workspace", "keyed")
	add(t, filepath.Join(dir, "page.txt"), "two\n")
	h.call("git_add", object{"project": "keyed", "paths": []string{"."}})
	h.call("git_commit", object{"project": "keyed", "message": "second"})
	h.call("git_push", in)
	for _, config := range []string{"[remote \"origin\"]\n\tpushurl = ssh://git@" + other.host + "/site.git\n", "[url \"ssh://git@" + other.host + "/\"]\n\tpushInsteadOf = ssh://git@" + good.host + "/\n"} {
		before, err := os.ReadFile(filepath.Join(dir, ".git/config"))
		if err != nil {
			t.Fatal(err)
		}
		add(t, filepath.Join(dir, ".git/config"), config)
		h.raw("git_push", in)
		if got := other.offered(); len(got) > 0 {
			t.Errorf("%q: the key was offered to another server", config)
		}
		if err := os.WriteFile(filepath.Join(dir, ".git/config"), before, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
