package main

import (
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/warrenfs/warren/control"
	"golang.org/x/sys/unix"
)

// A command that is confined with --only sees the named directories of the view, a
// minimal host and an empty /tmp, which is its home too. Nothing that another agent
// wrote elsewhere is in reach, wherever a link or a configuration points.

// minimalHost lists the top-level directories of the host that hold programs and
// libraries. The rest of the host is absent.
var minimalHost = []string{"bin", "sbin", "usr", "lib", "lib32", "lib64", "libx32"}

// minimalEtc lists the entries of /etc that programs need to be linked, to resolve
// names and to check certificates. Host keys and other secrets are not among them.
var minimalEtc = []string{
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "passwd", "group", "nsswitch.conf",
	"hosts", "host.conf", "gai.conf", "resolv.conf", "services", "protocols", "localtime",
	"ssl", "pki", "ca-certificates", "ca-certificates.conf", "crypto-policies", "gnutls", "ssh/ssh_known_hosts",
}

// parseParts reads values of the form PATH:ro or PATH:rw of the option name.
func parseParts(name string, values []string) (parts []control.RunPart, err error) {
	for _, m := range values {
		i := strings.LastIndexByte(m, ':')
		if i < 0 || m[i:] != ":ro" && m[i:] != ":rw" || m[0] != '/' {
			return nil, usagef("--%s %s: expected a tree path, and :ro or :rw", name, m)
		}
		parts = append(parts, control.RunPart{Path: m[:i], Write: m[i:] == ":rw"})
	}
	return parts, nil
}

// confine narrows s to the parts that only names, in the form of parseParts, and to
// the minimal host. It fails for a part that the agent's mode does not show.
func (s *sandboxSpec) confine(only []string) error {
	parts, err := parseParts("only", only)
	if err != nil {
		return err
	}
	for i := range parts {
		p := &parts[i]
		p.Path = path.Clean(p.Path)
		if s.Parts != nil && !slices.ContainsFunc(s.Parts, func(m control.RunPart) bool { return covers(m, *p) }) {
			return control.Errorf(control.KindDenied, "--only %s: the agent's mode does not show it (`warren agent set KEY --mode` changes the mode)", p.Path)
		}
	}
	slices.SortFunc(parts, func(a, b control.RunPart) int { return strings.Compare(a.Path, b.Path) }) // parents first
	s.Parts, s.Minimal = parts, true
	return nil
}

// covers reports whether part a shows all of part b, as writable as b asks for.
func covers(a, b control.RunPart) bool {
	below := a.Path == "/" || b.Path == a.Path || strings.HasPrefix(b.Path, a.Path+"/")
	return below && (a.Write || !b.Write)
}

// minimalEnv returns the environment of a confined command: the caller's proxy
// variables, and the variables that --env names.
func minimalEnv(env map[string]string, net bool) map[string]string {
	out := map[string]string{"HOME": "/tmp", "TMPDIR": "/tmp", "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "SHELL": "/bin/sh"}
	keep := []string{"USER", "LOGNAME", "WARREN_AGENT", "TZ"}
	if net {
		keep = append(keep, "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
	}
	for _, k := range keep {
		if v, ok := env[k]; ok {
			out[k] = v
		}
	}
	return out
}

// minimal shows the minimal host in place of the host's whole root.
func (b *rootBuilder) minimal() error {
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if slices.Contains(minimalHost, e.Name()) {
			if err := b.hostEntry(e); err != nil {
				return err
			}
		}
	}
	for _, name := range minimalEtc {
		if err := showEtc("/etc/" + name); err != nil {
			return err
		}
	}
	return nil
}

// showEtc shows one file or directory of /etc. A missing one is left out.
func showEtc(p string) error {
	fi, err := os.Lstat(p)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(path.Dir(at(p)), 0o755); err != nil {
		return err
	}
	switch {
	case fi.Mode()&os.ModeSymlink != 0:
		target, err := os.Readlink(p)
		if err != nil {
			return err
		}
		return os.Symlink(target, at(p))
	case fi.IsDir():
		err = os.Mkdir(at(p), 0o755)
	case fi.Mode().IsRegular():
		err = os.WriteFile(at(p), nil, 0o444)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	return unix.Mount(p, at(p), "", unix.MS_BIND|unix.MS_REC, "")
}
