package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"github.com/warrenfs/warren/fusefs/visitor"
	"golang.org/x/sys/unix"
)

// `warren run` starts itself again in stages, told apart by argv[0]:
//
//	run-init  first process of the new pid and mount namespaces, with the
//	          command's uid and the capabilities to mount; builds the root
//	run-exec  in a user namespace of its own; gives up what is left and
//	          becomes the command
//	run-wait  what run-init becomes: no capabilities, waits for the command
const (
	stageInit = "warren-run-init"
	stageExec = "warren-run-exec"
	stageWait = "warren-run-wait"
)

// Descriptors of the stages, besides 0 to 2.
const (
	fdSpec     = 3 // init, exec: the sandboxSpec as JSON
	fdError    = 4 // init, exec: why it failed; closed without a byte when all went well
	fdLifeline = 5 // init, wait: ends when `warren run` does
	fdReady    = 5 // exec: ends when run-wait has given up all that it must
)

// Exit statuses of `warren run`'s own.
const (
	exitRunFailed   = 125
	exitNotRunnable = 126
	exitNoCommand   = 127
)

// runStage runs the stage that this process was started as; false: none.
func runStage() bool {
	var err error
	switch os.Args[0] {
	case stageInit:
		err = runInit()
	case stageExec:
		err = runExec()
	case stageWait:
		os.Exit(runWait())
	case stageGuard:
		os.Exit(runGuard())
	case visitor.Stage:
		os.Exit(visitor.Run(os.Stdin, os.Stdout))
	default:
		return false
	}
	code := exitRunFailed
	var x *exec.Error
	if errors.As(err, &x) {
		code = exitNotRunnable
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			code = exitNoCommand
		}
	}
	_, _ = os.NewFile(fdError, "error").WriteString(err.Error())
	os.Exit(code)
	return true
}

func readSpec() (*sandboxSpec, error) {
	f := os.NewFile(fdSpec, "spec")
	defer f.Close()
	s := new(sandboxSpec)
	if err := json.NewDecoder(f).Decode(s); err != nil {
		return nil, fmt.Errorf("read the sandbox's description: %w", err)
	}
	return s, nil
}

// runInit builds the root, starts run-exec and becomes run-wait.
func runInit() error {
	runtime.LockOSThread() // what prctl sets below holds for one thread
	for _, fd := range []int{fdSpec, fdError, fdLifeline} {
		unix.CloseOnExec(fd)
	}
	if err := closeAbove(fdLifeline); err != nil { // what the caller left open
		return err
	}
	spec, err := readSpec()
	if err != nil {
		return err
	}
	if err := newKeyring(); err != nil {
		return err
	}
	unix.Umask(0o022)
	if spec.NoNet {
		if err := loopbackUp(); err != nil {
			return fmt.Errorf("make a network of its own: %w", err)
		}
	}
	b := &rootBuilder{spec: spec}
	if err := b.build(); err != nil {
		return err
	}
	if err := enter(); err != nil {
		return err
	}
	pid, ready, err := startExec(spec)
	if err != nil {
		return err
	}
	// The capabilities go here: an exec by a plain uid keeps the ambient ones only.
	if err := dropAmbient(); err != nil {
		return err
	}
	for _, fd := range []int{fdLifeline, ready} {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
			return fmt.Errorf("keep descriptor %d: %w", fd, err)
		}
	}
	err = syscall.Exec(selfExe(), []string{stageWait, strconv.Itoa(pid), strconv.Itoa(ready)}, nil)
	return fmt.Errorf("become %s: %w", stageWait, err)
}

// newKeyring parts from the caller's session keyring and the keys in it. Where
// there are no keyrings there is nothing to part from.
func newKeyring() error {
	_, _, errno := unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	switch errno {
	case 0, unix.ENOSYS, unix.EPERM:
		return nil
	}
	return fmt.Errorf("join a new session keyring: %w", errno)
}

// startExec starts run-exec in a user namespace of its own, with the same ids
// inside as outside. It goes on when ready, a descriptor, is closed.
func startExec(spec *sandboxSpec) (pid, ready int, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, 0, err
	}
	defer r.Close()
	var wait [2]int
	if err := unix.Pipe2(wait[:], unix.O_CLOEXEC); err != nil {
		return 0, 0, err
	}
	defer unix.Close(wait[0])
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = json.NewEncoder(w).Encode(spec)
		_ = w.Close()
	}()
	pid, err = syscall.ForkExec(selfExe(), []string{stageExec}, &syscall.ProcAttr{
		Files: []uintptr{0, 1, 2, r.Fd(), fdError, uintptr(wait[0])},
		Sys: &syscall.SysProcAttr{
			Cloneflags:  unix.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: int(spec.UID), HostID: int(spec.UID), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: int(spec.GID), HostID: int(spec.GID), Size: 1}},
			AmbientCaps: []uintptr{unix.CAP_SETPCAP}, // to empty the bounding set
			Setpgid:     true,                        // for signals to it and its children
		},
	})
	if err != nil {
		return 0, 0, noNamespaces(err, spec.NewUser)
	}
	<-written // the coming exec would cut it short
	return pid, wait[1], nil
}

// awaitReady returns when run-init has become run-wait and has nothing left
// that the command could be after.
func awaitReady() error {
	f := os.NewFile(fdReady, "ready")
	defer f.Close()
	if n, err := f.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("wait for %s: %w", stageWait, err)
	}
	return nil
}

// runExec becomes the command.
func runExec() error {
	runtime.LockOSThread()
	spec, err := readSpec()
	if err != nil {
		return err
	}
	unix.CloseOnExec(fdError)
	if spec.Terminal != nil {
		if err := takeForeground(*spec.Terminal); err != nil {
			return fmt.Errorf("take the terminal: %w", err)
		}
	}
	if err := dropAll(); err != nil {
		return err
	}
	if err := awaitReady(); err != nil {
		return err
	}
	if err := os.Chdir(spec.Dir); err != nil {
		return fmt.Errorf("enter the working directory: %w", err)
	}
	if err := setLimits(spec.Limits); err != nil {
		return err
	}
	if spec.NoNet {
		if err := refuseVsock(); err != nil {
			return err
		}
	}
	os.Clearenv()
	for _, kv := range spec.Env {
		for i := range kv {
			if kv[i] == '=' {
				_ = os.Setenv(kv[:i], kv[i+1:])
				break
			}
		}
	}
	path, err := exec.LookPath(spec.Args[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return err
	}
	if err := closeAbove(fdError); err != nil {
		return err
	}
	err = syscall.Exec(path, spec.Args, spec.Env)
	return &exec.Error{Name: spec.Args[0], Err: err}
}

// closeAbove closes every descriptor above fd at the coming exec.
func closeAbove(fd int) error {
	err := unix.CloseRange(uint(fd+1), ^uint(0)>>32, unix.CLOSE_RANGE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("close descriptors (needs Linux 5.11): %w", err)
	}
	return nil
}

// dropAmbient clears this thread's ambient and inheritable capabilities.
func dropAmbient() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// dropAll gives up every capability of this thread, for good.
func dropAll() error {
	for c := uintptr(0); c < 64; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) {
			break // past the kernel's last
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	if err := dropAmbient(); err != nil {
		return err
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&hdr, &none[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// runWait waits for the command, passes signals on, and ends with its status.
// It is the first process of its pid namespace: whatever is left dies with it.
func runWait() int {
	pid, perr := strconv.Atoi(os.Args[1])
	ready, rerr := strconv.Atoi(os.Args[2])
	if perr != nil || rerr != nil {
		return exitRunFailed
	}
	unix.CloseOnExec(fdLifeline)
	_ = os.WriteFile("/proc/self/comm", []byte("warren-run"), 0)
	// Same uid, but none of the command's business: /proc/1 is not its to read.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return exitRunFailed
	}
	_ = unix.Close(ready)
	go func() {
		var b [1]byte
		_, _ = os.NewFile(fdLifeline, "lifeline").Read(b[:])
		os.Exit(128 + int(unix.SIGKILL))
	}()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedSignals...)
	group := -pid // the command and what it started in its process group
	go func() {
		for s := range signals {
			_ = unix.Kill(group, s.(syscall.Signal))
		}
	}()
	for {
		var ws unix.WaitStatus
		got, err := unix.Wait4(-1, &ws, unix.WUNTRACED, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case got == pid && ws.Stopped():
			_ = unix.Kill(group, unix.SIGCONT) // there is no shell that could
		case ws.Stopped():
		case err != nil:
			return exitRunFailed
		case got == pid && ws.Signaled():
			return 128 + int(ws.Signal())
		case got == pid:
			return ws.ExitStatus()
		}
	}
}

// passedSignals reach the command when they are sent to `warren run`.
var passedSignals = []os.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGINT, unix.SIGQUIT,
	unix.SIGCONT}
