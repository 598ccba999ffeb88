package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warrenfs/warren/control"
)

// warrenDir is where a command run by `warren run` finds its view.
const warrenDir = "/warren"

// sandboxSpec says what the namespaces of one command are to look like. It
// travels as JSON from `warren run` to the stages it starts.
type sandboxSpec struct {
	View     string   `json:"view"` // host directory where the daemon mounted the agent's view
	UID      uint32   `json:"uid"`
	GID      uint32   `json:"gid"`
	NewUser  bool     `json:"new_user"` // the caller is not root: mounts need a user namespace too
	Tmp      string   `json:"tmp"`      // tree path of the directory shown as /tmp
	Dir      string   `json:"dir"`      // working directory inside
	Hide     []string `json:"hide"`     // host paths, free of symlinks, that must not be seen
	Show     []bind   `json:"show"`     // host directories shown read-only, over what Hide hides
	Files    []file   `json:"files"`    // files whose content is replaced
	Env      []string `json:"env"`
	Args     []string `json:"args"`
	Terminal *int     `json:"terminal"` // the standard descriptor that is a terminal, its own; nil: none

	Parts  []control.RunPart `json:"parts"`  // all of the view that is shown, parents first; nil: the whole
	NoNet  bool              `json:"no_net"` // a network of its own, with nothing in it
	Limits []limit           `json:"limits"`

	Minimal bool `json:"minimal"` // of the host only programs, libraries and certificates; /tmp is empty and HOME
}

// bind is a host directory and where it is shown.
type bind struct{ Src, Dst string }

// file is a path inside and its content.
type file struct{ Path, Content string }

// inside gives the path in the sandbox of a tree path.
func inside(p string) string { return filepath.Join(warrenDir, p) }

// newSandboxSpec puts together what the command will see.
func newSandboxSpec(o *runOptions, r control.Run, args []string) (*sandboxSpec, error) {
	home := r.Home
	s := &sandboxSpec{
		View: r.Dir, UID: r.UID, GID: r.GID, NewUser: os.Geteuid() != 0, Parts: r.Parts, NoNet: o.Net == "none",
		Tmp: r.Agent.Scratch + "/tmp", Args: args,
	}
	asked := o.Workdir
	if len(o.Only) > 0 {
		if err := s.confine(o.Only); err != nil {
			return nil, err
		}
		if asked == "" {
			asked = s.Parts[0].Path
		}
	}
	work, err := workdir(r, asked)
	if err != nil {
		return nil, err
	}
	s.Dir = inside(work)
	if s.Limits, err = parseLimits(o.Limits); err != nil {
		return nil, err
	}
	hide := append([]string{"/root", "/home", os.Getenv("HOME")}, r.Hide...)
	for _, p := range hide {
		real, err := filepath.EvalSymlinks(p)
		if err == nil && real != "/" && filepath.IsAbs(real) && !slices.Contains(s.Hide, real) {
			s.Hide = append(s.Hide, real)
		}
	}
	slices.Sort(s.Hide) // parents first
	for _, arg := range o.Show {
		b, err := parseShow(arg)
		if err != nil {
			return nil, err
		}
		s.Show = append(s.Show, b)
	}
	modcache := ""
	if !s.Minimal {
		modcache = goModCache()
	}
	if modcache != "" {
		s.Show = append(s.Show, bind{modcache, modcache})
	}
	home = inside(home)
	if s.Minimal {
		home = "/tmp"
	}
	s.Files = append(accountFiles(r, home), resolvConf()...)
	s.Env, err = sandboxEnv(o, r, home, modcache)
	return s, err
}

// workdir is the tree path where the command starts. Only an orchestrator may
// be set to work in another agent's tree.
func workdir(r control.Run, asked string) (string, error) {
	work := r.Work
	if asked != "" {
		work = filepath.Join(work, asked)
		if filepath.IsAbs(asked) {
			work = filepath.Clean(asked)
		}
	}
	if whose, ok := strings.CutPrefix(work, "/agents/"); ok && r.Agent.Role != "orchestrator" && asked != "" {
		whose, _, _ = strings.Cut(whose, "/")
		if whose != r.Agent.Key && !strings.HasPrefix(work+"/", r.Work+"/") {
			return "", control.Errorf(control.KindDenied, "--workdir %s: only an orchestrator works in another agent's tree", asked)
		}
	}
	return work, nil
}

// parseShow reads SRC[:DST].
func parseShow(arg string) (bind, error) {
	src, dst, _ := strings.Cut(arg, ":")
	abs, err := filepath.Abs(src)
	if err != nil {
		return bind{}, usagef("--show %s: %v", arg, err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return bind{}, usagef("--show %s: %v", arg, err)
	}
	if dst == "" {
		dst = abs
	}
	dst = filepath.Clean(dst)
	for _, own := range []string{warrenDir, "/tmp", "/var/tmp", "/proc", "/dev"} {
		if dst == own || strings.HasPrefix(dst, own+"/") {
			return bind{}, usagef("--show %s: inside, %s is the agent's own; name another place: --show %s:/run/src", arg, own, src)
		}
	}
	if !filepath.IsAbs(dst) || dst == "/" {
		return bind{}, usagef("--show %s: %q is no place to show it at", arg, dst)
	}
	return bind{real, dst}, nil
}

// goModCache finds the caller's Go module cache, or "".
func goModCache() string {
	dir := os.Getenv("GOMODCACHE")
	if dir == "" {
		gopath := filepath.SplitList(os.Getenv("GOPATH"))
		if len(gopath) == 0 || gopath[0] == "" {
			gopath = []string{filepath.Join(os.Getenv("HOME"), "go")}
		}
		dir = filepath.Join(gopath[0], "pkg", "mod")
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(real) || strings.HasPrefix(real, "/tmp/") {
		return ""
	}
	return real
}

// sandboxEnv is the command's whole environment. Of the caller's only what has
// to do with finding programs and showing text goes in, and what --env names.
func sandboxEnv(o *runOptions, r control.Run, home, modcache string) ([]string, error) {
	env := map[string]string{
		"HOME": home, "TMPDIR": "/tmp", "USER": r.Agent.Key, "LOGNAME": r.Agent.Key,
		"SHELL": "/bin/sh", "PWD": "", "WARREN_AGENT": r.Agent.Key, "EMAIL": r.Agent.Email,
		"PATH": os.Getenv("PATH"), "WARREN_WORK": inside(r.Work),
	}
	for _, dir := range []string{"/usr/local/bin", "/usr/bin", "/bin"} {
		if !strings.Contains(":"+env["PATH"]+":", ":"+dir+":") {
			env["PATH"] = strings.TrimPrefix(env["PATH"]+":"+dir, ":")
		}
	}
	for _, name := range []string{"TERM", "COLORTERM", "NO_COLOR", "LANG", "LANGUAGE", "TZ",
		"LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES", "GOPROXY", "GONOSUMDB", "GOFLAGS", "GOTOOLCHAIN",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"} {
		if v, ok := os.LookupEnv(name); ok {
			env[name] = v
		}
	}
	if modcache != "" {
		env["GOMODCACHE"] = modcache
	}
	if len(o.Only) > 0 {
		env = minimalEnv(env, o.Net != "none")
	}
	for _, e := range o.Env {
		name, value, set := strings.Cut(e, "=")
		if name == "" {
			return nil, usagef("--env %s: expected NAME or NAME=VALUE", e)
		}
		if !set {
			if value, set = os.LookupEnv(name); !set {
				return nil, usagef("--env %s: it is not set", name)
			}
		}
		env[name] = value
	}
	delete(env, "PWD")
	out := make([]string, 0, len(env))
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	return out, nil
}

// accountFiles adds the command's uid and gid to what passwd(5) and group(5)
// say, so that programs which ask who they are get the agent's key.
func accountFiles(r control.Run, home string) []file {
	name := r.Agent.Name
	if name == "" {
		name = r.Agent.Key
	}
	name = strings.Map(func(c rune) rune {
		if c == ':' || c == ',' || c < ' ' {
			return ' '
		}
		return c
	}, name)
	var out []file
	add := func(path, line string, id uint32) {
		old, err := os.ReadFile(path)
		if err != nil {
			return // a host without the file: names stay numbers
		}
		var b bytes.Buffer
		b.WriteString(line)
		for l := range strings.Lines(string(old)) {
			if f := strings.Split(l, ":"); len(f) > 2 && f[2] == fmt.Sprint(id) {
				continue
			}
			b.WriteString(l)
		}
		out = append(out, file{path, b.String()})
	}
	add("/etc/passwd", fmt.Sprintf("%s:x:%d:%d:%s:%s:/bin/sh\n", r.Agent.Key, r.UID, r.GID, name, home), r.UID)
	add("/etc/group", fmt.Sprintf("%s:x:%d:\n", r.Agent.Key, r.GID), r.GID)
	return out
}

// resolvConf keeps name resolution alive where /etc/resolv.conf is a link into
// /run, which is hidden.
func resolvConf() []file {
	real, err := filepath.EvalSymlinks("/etc/resolv.conf")
	if err != nil || !strings.HasPrefix(real, "/run/") {
		return nil
	}
	b, err := os.ReadFile(real)
	if err != nil {
		return nil
	}
	return []file{{real, string(b)}}
}

// selfExe is this program, for starting its own stages.
func selfExe() string { return "/proc/self/exe" }
