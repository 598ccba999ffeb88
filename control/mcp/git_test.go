package mcp_test

import (
	"fmt"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warrenfs/warren/scripts/stack"
)

// git runs the system's git on the host.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=host", "-c", "user.email=host@example.com", "-c", "safe.directory=*", "-c", "init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return string(out)
}

// remote serves a bare repository with one commit over HTTP and gives its URL and
// its directory.
func remote(t *testing.T) (url, dir string) {
	t.Helper()
	top := t.TempDir()
	git(t, top, "init", "-q", "--bare", "site.git")
	git(t, top, "-C", "site.git", "config", "http.receivepack", "true")
	git(t, top, "clone", "-q", "site.git", "work")
	work := filepath.Join(top, "work")
	if err := os.WriteFile(filepath.Join(work, "page.txt"), []byte("one\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, work, "add", ".")
	git(t, work, "commit", "-qm", "first")
	git(t, work, "push", "-q", "origin", "HEAD:main")
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(&cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + top, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=test", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}})
	t.Cleanup(s.Close)
	return s.URL + "/site.git", work
}

// allow lets an agent's git use protocols, a list in TOML.
func allow(t *testing.T, s *stack.Stack, list string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, []byte("[git]\nprotocols = "+list+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Warren(t, "fs", "put", "--agent", "gaia", file, "/agents/"+soul+"/config.toml")
}

// list gives a list of strings of an answer.
func list(o object, key string) (out []string) {
	all, _ := o[key].([]any)
	for _, x := range all {
		out = append(out, x.(string))
	}
	return out
}

// TestGit: a day with a remote: clone, change, commit, push, pull, and what
// others pushed in between.
func TestGit(t *testing.T) {
	s := running(t)
	url, theirs := remote(t)
	allow(t, s, `["http"]`)
	h := connect(t, s, "--agent", soul)
	h.call("workspace_init", object{"name": "gitsite", "remote_url": url})
	if got := h.call("read", object{"path": "gitsite/page.txt"}); got["text"] != "one\n" && got["content"] != "one\n" {
		t.Errorf("cloned: %v", got)
	}
	h.call("write", object{"path": "gitsite/page.txt", "content": "one\ntwo\n"})
	h.call("write", object{"path": "gitsite/new file.txt", "content": "new\n"})
	st := h.call("git_status", object{"project": "gitsite"})
	if got := list(st, "modified"); len(got) != 1 || got[0] != "page.txt" || !strings.Contains(strings.Join(list(st, "untracked"), "\n"), "new file.txt") {
		t.Errorf("status: %v", st)
	}
	if got := h.call("git_diff", object{"project": "gitsite", "paths": []string{"page.txt"}})["diff"].(string); !strings.Contains(got, "\n+two\n") {
		t.Errorf("diff: %q", got)
	}
	h.fails("git_commit", object{"project": "gitsite", "message": "nothing yet"}, "conflict")
	h.call("git_add", object{"project": "gitsite", "paths": []string{"page.txt", "new file.txt"}})
	sha := h.call("git_commit", object{"project": "gitsite", "message": "second page"})["sha"].(string)
	log := h.call("git_log", object{"project": "gitsite", "n": 1})["commits"].([]any)[0].(object)
	if log["sha"] != sha || log["message"] != "["+soul+"] second page" || log["email"] != soul+"@warren.local" {
		t.Errorf("log: %v, want %s", log, sha)
	}
	h.call("git_push", object{"project": "gitsite"})
	git(t, theirs, "pull", "-q", "origin", "main")
	if got := strings.TrimSpace(git(t, theirs, "rev-parse", "HEAD")); got != sha {
		t.Errorf("the remote is at %s, want %s", got, sha)
	}
	// Others go on.
	git(t, theirs, "commit", "-q", "--allow-empty", "-m", "theirs")
	git(t, theirs, "push", "-q", "origin", "HEAD:main")
	if got := h.call("git_fetch", object{"project": "gitsite"}); got["updated"] != true {
		t.Errorf("fetch: %v", got)
	}
	if got := h.call("git_status", object{"project": "gitsite"}); got["behind"] != 1.0 {
		t.Errorf("status: %v", got)
	}
	if got := h.call("git_pull", object{"project": "gitsite"}); got["updated"] != true || got["new_head"] != strings.TrimSpace(git(t, theirs, "rev-parse", "HEAD")) {
		t.Errorf("pull: %v", got)
	}
	// Both go on: no merge, no force.
	if err := os.WriteFile(filepath.Join(theirs, "page.txt"), []byte("theirs\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	git(t, theirs, "commit", "-qam", "theirs again")
	git(t, theirs, "push", "-q", "origin", "HEAD:main")
	h.call("write", object{"path": "gitsite/page.txt", "content": "mine\n"})
	e := h.fails("git_pull", object{"project": "gitsite"}, "conflict")
	if got := list(e["details"].(object), "files"); len(got) != 1 || got[0] != "page.txt" {
		t.Errorf("pull over a change: %v", e)
	}
	h.call("git_add", object{"project": "gitsite", "paths": []string{"."}})
	h.call("git_commit", object{"project": "gitsite", "message": "mine"})
	h.fails("git_pull", object{"project": "gitsite"}, "conflict")
	h.fails("git_push", object{"project": "gitsite"}, "conflict")
}

// TestGitDeniedNames: a repository with names that the policy denies is not checked
// out, and the error names them; links and submodules of it lead nowhere.
func TestGitDeniedNames(t *testing.T) {
	s := running(t)
	url, theirs := remote(t)
	if err := os.WriteFile(filepath.Join(theirs, ".env"), []byte("KEY=1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../../../etc/passwd", filepath.Join(theirs, "out")); err != nil {
		t.Fatal(err)
	}
	git(t, theirs, "add", ".")
	git(t, theirs, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", theirs, "sub")
	git(t, theirs, "commit", "-qm", "denied")
	git(t, theirs, "push", "-q", "origin", "HEAD:main")
	allow(t, s, `["http", "file"]`)
	h := connect(t, s, "--agent", soul)
	e := h.fails("workspace_init", object{"name": "denied", "remote_url": url}, "invalid", "denied")
	if text := fmt.Sprint(e["error"]); !strings.Contains(text, ".env") {
		t.Errorf("the error does not name the file: %s", text)
	}
	h.call("read", object{"path": "denied/page.txt"}) // as git leaves it
	h.fails("read", object{"path": "denied/.env"}, "not_found", "denied")
	git(t, theirs, "rm", "-q", ".env")
	git(t, theirs, "commit", "-qm", "allowed")
	git(t, theirs, "push", "-q", "origin", "HEAD:main")
	h.call("workspace_init", object{"name": "allowed", "remote_url": url})
	if got := h.call("list", object{"dir": "allowed/sub"}); len(got["entries"].([]any)) != 0 {
		t.Errorf("the submodule was entered: %v", got)
	}
	h.fails("read", object{"path": "allowed/out"}, "not_found", "denied", "invalid")
}

// TestGitRemotes: what is no URL, goes by another protocol, or would run something
// is refused before git sees it.
func TestGitRemotes(t *testing.T) {
	s := running(t)
	allow(t, s, `["https", "ssh"]`)
	h := connect(t, s, "--agent", soul)
	for _, url := range []string{"ext::sh -c 'id >/tmp/x'", "file:///etc", "/etc", "http://127.0.0.1:1/x", "git://127.0.0.1/x", "--upload-pack=id", "-u", "fd::3", "https::https://x", "a\nb", "x"} {
		h.fails("workspace_init", object{"name": "refused", "remote_url": url}, "denied", "invalid")
	}
	h.fails("workspace_init", object{"name": "../x", "remote_url": "https://127.0.0.1:1/x"}, "invalid")
	h.fails("read", object{"path": "refused"}, "not_found")
	h.fails("git_status", object{"project": "/agents/stranger/workspace"}, "not_found", "invalid", "denied")
}

// hostileConfig is a configuration of git that names a program wherever one can be
// named. What is run makes a file whose name starts with ran.
func hostileConfig(url, ran string) string {
	cmd := func(name string) string { return "touch " + ran + name + "; cat" }
	var b strings.Builder
	section := func(head string, lines ...string) {
		b.WriteString("[" + head + "]\n\t" + strings.Join(lines, "\n\t") + "\n")
	}
	quoted := func(name string) string { return `"` + cmd(name) + `"` }
	section("core", "hooksPath = evil", "fsmonitor = "+quoted("fsmonitor"), "sshCommand = "+quoted("ssh"), "pager = "+quoted("pager"), "editor = "+quoted("editor"),
		"askPass = "+quoted("askpass"), "alternateRefsCommand = "+quoted("alternates"), "gitProxy = "+quoted("proxy"))
	section(`filter "a=b"`, "clean = "+quoted("clean"), "smudge = "+quoted("smudge"), "required = true")
	section(`filter "x.y"`, "process = "+quoted("process"), "required = true")
	section("credential", "helper = !"+quoted("credential"))
	section(`credential "`+url+`"`, "helper = !"+quoted("credential2"))
	section("diff", "external = "+quoted("diff"))
	section(`diff "d"`, "textconv = "+quoted("textconv"), "command = "+quoted("diffcommand"))
	section("gpg", "program = "+quoted("gpg"))
	section("commit", "gpgSign = true")
	section("log", "showSignature = true")
	section(`merge "m"`, "driver = "+quoted("merge"))
	section(`remote "origin"`, "uploadpack = "+quoted("uploadpack"), "receivepack = "+quoted("receivepack"))
	section("alias", "status = !"+quoted("alias"))
	section("submodule", "recurse = true")
	section("gc", "auto = 1")
	return b.String()
}

// TestHostileRepository: nothing that a repository says is run by the tools, under
// whatever name it says it.
func TestHostileRepository(t *testing.T) {
	s := running(t)
	url, _ := remote(t)
	allow(t, s, `["http", "file"]`)
	h := connect(t, s, "--agent", soul)
	h.call("workspace_init", object{"name": "hostile", "remote_url": url})
	mnt := s.Mount(t, "--agent", soul)
	dir := filepath.Join(mnt, "agents", soul, "workspace", "hostile")
	ran := "/warren/agents/" + soul + "/workspace/ran-"
	config, err := os.OpenFile(filepath.Join(dir, ".git", "config"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.WriteString(hostileConfig(url, ran)); err != nil {
		t.Fatal(err)
	}
	if err := config.Close(); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, hook := range []string{"pre-commit", "commit-msg", "post-commit", "pre-push", "post-merge", "post-checkout", "reference-transaction", "post-index-change", "prepare-commit-msg"} {
		for _, at := range []string{"evil/", ".git/hooks/"} {
			write(at+hook, "#!/bin/sh\ntouch "+ran+hook+"\n", 0o755)
		}
	}
	write(".gitattributes", "*.txt filter=a=b diff=d merge=m\n*.bin filter=x.y\n", 0o644)
	write("page.txt", "changed\n", 0o644)
	write("a.bin", "x", 0o644)
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	st := h.call("git_status", object{"project": "hostile"})
	if got := strings.Join(list(st, "filters_ignored"), " "); got != "a=b x.y" {
		t.Errorf("filters: %q", got)
	}
	for _, c := range []struct {
		tool string
		args object
	}{
		{"workspace_info", object{}}, {"git_diff", object{}}, {"git_add", object{"paths": []string{"."}}}, {"git_commit", object{"message": "m"}}, {"git_log", object{}},
		{"git_fetch", object{}}, {"git_pull", object{}}, {"git_push", object{}}, {"git_status", object{}}, {"git_diff", object{"since": "HEAD~1"}},
	} {
		c.args["project"] = "hostile"
		if got := textOf(h.raw(c.tool, c.args)); strings.Contains(got, "root:") {
			t.Errorf("%s tells of /etc/passwd: %s", c.tool, got)
		}
	}
	if got, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "ran-*")); err != nil || len(got) > 0 {
		t.Errorf("run: %v %v", got, err)
	}
	// The repository is as hostile as it is meant to be.
	_, _ = s.Try("run", "--agent", soul, "--workdir", "hostile", "--", "sh", "-c", "echo more >> page.txt; git add .; git commit -m x")
	if got, err := filepath.Glob(filepath.Join(filepath.Dir(dir), "ran-*")); err != nil || len(got) < 2 {
		t.Errorf("plain git runs %v %v: the test shows nothing", got, err)
	}
}
