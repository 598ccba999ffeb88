package main

import (
	"context"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warrenfs/warren/control"
)

// The names that mount(8) starts this program by, for `mount -t warren` and
// `mount -t fuse.warren`.
var helperNames = [...]string{"mount.warren", "mount.fuse.warren"}

// The exit statuses of a helper that mount(8) knows.
const (
	helperUsage  = 1
	helperFailed = 32
)

// daemonWait is how long a helper waits for a daemon: at boot it may still be
// replaying its log.
const daemonWait = 30 * time.Second

// helperMount is what mount(8) asks of its helper.
type helperMount struct {
	mount  mountOptions
	dir    string
	socket string
	token  string // name of the file that has it
	wait   time.Duration
	fake   bool // mount --fake: everything but the mounting
	sloppy bool // ignore options that are not known
}

// ignoredOptions mean nothing to a mount of warren's, or are for others that
// read fstab. nosuid and nodev hold in any case.
var ignoredOptions = [...]string{"rw", "defaults", "nosuid", "nodev", "exec", "async", "auto", "noauto", "nofail", "_netdev",
	"user", "users", "nouser", "owner", "group", "default_permissions", "relatime", "norelatime", "noatime", "atime", "nodiratime",
	"diratime", "strictatime", "nostrictatime", "lazytime", "nolazytime", "loud", "silent", "iversion", "noiversion"}

// isMountHelper tells whether this program was started by one of helperNames.
func isMountHelper(argv0 string) bool { return slices.Contains(helperNames[:], filepath.Base(argv0)) }

// mountHelper mounts as mount(8) asks for it, and gives the exit status.
func (a *app) mountHelper(args []string) int {
	ctx, stop := interruptible(context.Background())
	defer stop()
	h, err := parseHelper(args)
	if err == nil {
		err = a.runHelper(ctx, h)
	}
	if err == nil {
		return 0
	}
	a.report(err)
	if control.KindOf(err) == control.KindInvalid {
		return helperUsage
	}
	return helperFailed
}

// parseHelper reads SOURCE DIR [-fnrsvw] [-t TYPE] [-N NS] [-o OPTION,…].
func parseHelper(args []string) (*helperMount, error) {
	h := &helperMount{mount: mountOptions{UID: -1, GID: -1}, wait: daemonWait}
	var names []string
	var options []string
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if len(arg) < 2 || arg[0] != '-' {
			names = append(names, arg)
			continue
		}
		for _, c := range arg[1:] {
			switch c {
			case 'f':
				h.fake = true
			case 's':
				h.sloppy = true
			case 'r':
				h.mount.Access = "ro"
			case 'n', 'v', 'w':
			case 'o', 't', 'N':
				if i++; i == len(args) {
					return nil, usagef("mount: -%c needs a value", c)
				}
				if c == 'o' {
					options = append(options, strings.Split(args[i], ",")...)
				}
			default:
				return nil, usagef("mount: unknown option -%c; usage: mount -t warren [-o OPTION,…] warren:AGENT DIR", c)
			}
		}
	}
	if len(names) != 2 {
		return nil, usagef("usage: mount -t warren [-o OPTION,…] warren:AGENT DIR")
	}
	if agent, ok := strings.CutPrefix(names[0], "warren:"); ok {
		h.mount.Agent = agent
	}
	h.dir = names[1]
	for _, o := range options {
		if err := h.option(o); err != nil {
			return nil, err
		}
	}
	if h.mount.Agent == "" {
		return nil, usagef("mount: which agent? the source is warren:AGENT, or give -o agent=AGENT")
	}
	return h, nil
}

// option takes one option of -o.
func (h *helperMount) option(o string) (err error) {
	name, value, given := strings.Cut(o, "=")
	switch name {
	case "agent":
		h.mount.Agent = value
	case "root":
		h.mount.Root = value
	case "socket":
		h.socket = value
	case "token-file":
		h.token = value
	case "uid":
		h.mount.UID, err = accountID(o, value, func() (string, error) {
			u, err := user.Lookup(value)
			if err != nil {
				return "", err
			}
			return u.Uid, nil
		})
	case "gid":
		h.mount.GID, err = accountID(o, value, func() (string, error) {
			g, err := user.LookupGroup(value)
			if err != nil {
				return "", err
			}
			return g.Gid, nil
		})
	case "wait":
		if h.wait, err = time.ParseDuration(value); err != nil {
			err = usagef("mount: %s: expected a time such as 30s", o)
		}
	case "ro":
		h.mount.Access = "ro"
	case "allow_other":
		h.mount.AllowOther = true
	case "acl":
		h.mount.ACL = true
	case "":
	default:
		if h.sloppy || strings.HasPrefix(name, "x-") || strings.HasPrefix(name, "X-") || name == "comment" ||
			!given && slices.Contains(ignoredOptions[:], name) {
			return nil
		}
		return usagef("mount: a mount of warren has no option %q (see mount.warren(8))", o)
	}
	return err
}

// accountID reads an id, or finds that of a name.
func accountID(option, value string, find func() (string, error)) (int64, error) {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil && n >= 0 {
		return n, nil
	}
	text, err := find()
	if err != nil {
		return -1, usagef("mount: %s: %v", option, err)
	}
	return strconv.ParseInt(text, 10, 64)
}

// runHelper mounts, unless that very mount is there: at boot the daemon brings
// back what fstab names as well.
func (a *app) runHelper(ctx context.Context, h *helperMount) error {
	if h.socket != "" {
		a.socket = h.socket
	}
	if h.token != "" {
		b, err := os.ReadFile(h.token)
		if err != nil {
			return localError(err)
		}
		a.token = strings.TrimSpace(string(b))
	}
	if h.fake {
		return nil
	}
	a.quiet = true
	err := runMount(ctx, a, &h.mount, h.dir)
	for start := time.Now(); control.KindOf(err) == control.KindUnavailable && time.Since(start) < h.wait && ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
		err = runMount(ctx, a, &h.mount, h.dir)
	}
	if control.KindOf(err) == control.KindConflict && a.isMounted(ctx, h) {
		return nil
	}
	return err
}

// isMounted tells whether what h asks for is mounted already.
func (a *app) isMounted(ctx context.Context, h *helperMount) bool {
	dir, err := filepath.Abs(h.dir)
	if err != nil {
		return false
	}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(dir)); err == nil {
		dir = filepath.Join(parent, filepath.Base(dir))
	}
	ms, err := a.client().Mounts(ctx)
	if err != nil {
		return false
	}
	same := func(flag int64, id uint32, own int) bool { return flag == int64(id) || flag == -1 && id == uint32(own) }
	return slices.ContainsFunc(ms, func(m control.Mount) bool {
		return m.Dir == dir && m.State == "up" && m.Agent == h.mount.Agent && m.AllowOther == h.mount.AllowOther && m.ACL == h.mount.ACL &&
			m.Root == filepath.Join("/", h.mount.Root) && (m.Access == "ro") == (h.mount.Access == "ro") &&
			same(h.mount.UID, m.UID, os.Geteuid()) && same(h.mount.GID, m.GID, os.Getegid())
	})
}
