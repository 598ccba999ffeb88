package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// loopbackUp makes 127.0.0.1 work in a network namespace that is new.
func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(s, unix.SIOCGIFFLAGS, req); err != nil {
		return err
	}
	req.SetUint16(req.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, req)
}

// noNamespaces says why namespaces could not be made, and what to do about it.
func noNamespaces(err error, newUser bool) error {
	why := noUserNamespaces(newUser)
	switch {
	case why != "":
	case errors.Is(err, unix.EPERM):
		why = "a chroot, a container or a filter of system calls forbids them: docs/containers.md says what to allow"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		why = "there are too many namespaces, or they are nested too deep: see /proc/sys/user/"
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		why = "this kernel was built without some of them (CONFIG_USER_NS, CONFIG_PID_NS, CONFIG_IPC_NS, CONFIG_NET_NS)"
	}
	if why != "" {
		why = " (" + why + ")"
	}
	return fmt.Errorf("make namespaces: %w%s", err, why)
}
