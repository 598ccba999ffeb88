package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// runKernel is the oldest Linux that `warren run` works on (mount_setattr).
const runKernelMajor, runKernelMinor = 5, 12

// missing tells what this host lacks for mounts and for `warren run`, a sentence
// each, with what to do about it. The rest works without.
func missing() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	root := os.Geteuid() == 0
	switch err := unix.Access("/dev/fuse", unix.R_OK|unix.W_OK); err {
	case nil:
	case unix.ENOENT:
		add("there is no /dev/fuse, so nothing can be mounted: load the module (modprobe fuse), or give the container the device (--device /dev/fuse)")
	default:
		add("/dev/fuse cannot be opened (%v), so nothing can be mounted: run the daemon as root, or let this user read and write the device (usually its mode is 0666)", err)
	}
	if _, err := exec.LookPath("fusermount3"); err != nil && !root {
		add("there is no fusermount3, so only root can mount: install the package fuse3")
	}
	if why := noUserNamespaces(!root); why != "" {
		add("`warren run` does not work: %s", why)
	}
	var u unix.Utsname
	var major, minor int
	if unix.Uname(&u) == nil {
		release := unix.ByteSliceToString(u.Release[:])
		if n, _ := fmt.Sscanf(release, "%d.%d", &major, &minor); n == 2 &&
			(major < runKernelMajor || major == runKernelMajor && minor < runKernelMinor) {
			add("`warren run` does not work: it needs Linux %d.%d, and this is %s", runKernelMajor, runKernelMinor, release)
		}
	}
	return out
}

// noUserNamespaces tells which setting forbids user namespaces, to all or to
// whoever is not root, and what to do; "" if none does.
func noUserNamespaces(forOthers bool) string {
	setting := func(name string) string {
		b, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(b))
	}
	switch {
	case setting("user/max_user_namespaces") == "0":
		return "user namespaces are switched off: sysctl user.max_user_namespaces=10000"
	case forOthers && setting("kernel/unprivileged_userns_clone") == "0":
		return "this host lets only root make user namespaces: sysctl kernel.unprivileged_userns_clone=1, or run it as root"
	case forOthers && setting("kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "AppArmor lets only root make user namespaces: sysctl kernel.apparmor_restrict_unprivileged_userns=0, or run it as root"
	}
	return ""
}
