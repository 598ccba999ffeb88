package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// initCaps are what run-init needs to build a root: mounting, reaching what
// other users' directories hold, and the user namespace's maps. The first is all that
// Docker does not give to a container's root.
var initCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_DAC_OVERRIDE, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP}

// runInTerminal runs startSandbox with this process's standard files. The command gets
// none of them directly that is a terminal or a regular file.
func runInTerminal(ctx context.Context, spec *sandboxSpec) (code int, err error) {
	files, relays, err := stdFiles(spec.UID, spec.GID)
	if err != nil {
		return 0, err
	}
	t, err := openTerminal(&files, spec.UID, spec.GID)
	if err != nil {
		return 0, errors.Join(err, relays.release())
	}
	spec.Terminal = t.descriptor()
	started := false
	code, err = startSandbox(ctx, spec, files, func() error {
		started = true
		relays.start()
		return t.start()
	})
	return code, errors.Join(err, t.close(started), relays.wait())
}

// startSandbox runs the command that spec describes and returns its exit
// status: its own, or 128 and the signal that ended it. An error means that
// the command did not start. When ctx ends, everything in the sandbox is
// killed. started is called when the sandbox has the files.
func startSandbox(ctx context.Context, spec *sandboxSpec, files [3]*os.File, started func() error) (int, error) {
	specR, specW, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return 0, errors.Join(err, specR.Close(), specW.Close())
	}
	lifeR, lifeW, err := os.Pipe()
	if err != nil {
		return 0, errors.Join(err, specR.Close(), specW.Close(), errR.Close(), errW.Close())
	}
	defer lifeW.Close()
	defer errR.Close()

	cmd := exec.CommandContext(ctx, selfExe())
	cmd.Args = []string{stageInit}
	cmd.Env = []string{}
	if files[0] != nil { // else os/exec takes /dev/null
		cmd.Stdin = files[0]
	}
	if files[1] != nil {
		cmd.Stdout = files[1]
	}
	if files[2] != nil {
		cmd.Stderr = files[2]
	}
	cmd.ExtraFiles = []*os.File{specR, errW, lifeR}
	cmd.SysProcAttr = namespaces(spec)
	// From here on no signal ends this process before it has put the terminal back.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedSignals...)
	defer signal.Stop(signals)
	err = cmd.Start()
	_ = specR.Close()
	_ = errW.Close()
	_ = lifeR.Close()
	if err != nil {
		_ = specW.Close()
		return 0, fmt.Errorf("%w; isolation could not be set up, so the command was not run", noNamespaces(err, spec.NewUser))
	}
	go func() {
		_ = json.NewEncoder(specW).Encode(spec)
		_ = specW.Close()
	}()
	startErr := started()
	text, _ := io.ReadAll(io.LimitReader(errR, 64<<10)) // ends when the command has started
	stop := passSignals(signals, cmd.Process)
	err = cmd.Wait()
	stop()
	code, err := sandboxStatus(err, strings.TrimSpace(string(text)))
	return code, errors.Join(err, startErr)
}

// namespaces describes run-init's process: the command's ids, and the
// capabilities to mount in namespaces of its own.
func namespaces(spec *sandboxSpec) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC,
		AmbientCaps: initCaps,
		Setsid:      true, // apart from the caller's terminal
	}
	if spec.Terminal != nil {
		a.Setctty, a.Ctty = true, *spec.Terminal
	}
	if spec.NoNet {
		a.Cloneflags |= unix.CLONE_NEWNET
		a.AmbientCaps = append([]uintptr{unix.CAP_NET_ADMIN}, initCaps...) // for the loopback device
	}
	if spec.NewUser {
		a.Cloneflags |= unix.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: int(spec.UID), HostID: int(spec.UID), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: int(spec.GID), HostID: int(spec.GID), Size: 1}}
		return a
	}
	a.Credential = &syscall.Credential{Uid: spec.UID, Gid: spec.GID}
	return a
}

// sandboxStatus reads how run-init and the command ended.
func sandboxStatus(err error, text string) (int, error) {
	var x *exec.ExitError
	switch {
	case err == nil && text == "":
		return 0, nil
	case err != nil && !errors.As(err, &x):
		return 0, err
	}
	code := exitRunFailed
	if x != nil {
		code = x.ExitCode()
		if ws, ok := x.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			code = 128 + int(ws.Signal())
		}
	}
	if text != "" {
		if code != exitNoCommand && code != exitNotRunnable {
			code = exitRunFailed
			text += "; isolation could not be set up, so the command was not run"
		}
		return code, errors.New(text)
	}
	return code, nil
}

// passSignals hands signals to p until stop is called. It begins when the
// command runs, since its stages would not know what to do with them.
func passSignals(signals <-chan os.Signal, p *os.Process) (stop func()) {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				_ = p.Signal(s)
			}
		}
	}()
	return func() { close(done) }
}
