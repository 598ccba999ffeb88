package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The guard of a daemon (`serve --guard`) is this program again. It waits for the
// daemon's end, and where the daemon was killed and cannot end (stuck.go) it ends the
// daemon's FUSE connections, so that it can: a supervisor that waits for that end sees
// it and starts the next. It goes with the daemon.

// stageGuard is what the guard has as argv[0]; the daemon's pid follows.
const stageGuard = "warren-guard"

// fdGuarded is the guard's descriptor that ends when the daemon has ended.
const fdGuarded = 3

// guardEvery is how often the guard looks whether the daemon was killed.
const guardEvery = 2 * time.Second

// startGuard starts the guard of this process.
func startGuard(log *slog.Logger) error {
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the guard: %w", err)
	}
	cmd := exec.Command(selfExe())
	cmd.Args = []string{stageGuard, strconv.Itoa(os.Getpid())}
	cmd.Dir, cmd.Env, cmd.Stderr = "/", []string{"GOMAXPROCS=1", "GOGC=20"}, os.Stderr
	cmd.ExtraFiles = []*os.File{r}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a terminal's signals are the daemon's
	err = cmd.Start()
	_ = r.Close()
	if err != nil {
		_ = w.Close()
		return fmt.Errorf("start the guard: %w", err)
	}
	go func() {
		err := cmd.Wait()
		log.Warn("the guard has ended: if this process is killed, it may not be able to end", "err", err)
		runtime.KeepAlive(w) // open until this process ends
	}()
	return nil
}

// runGuard is the guard; its exit status.
func runGuard() int {
	signal.Ignore(unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT)
	if len(os.Args) != 2 {
		return exitUsage
	}
	pid, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return exitUsage
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.NewFile(fdGuarded, "guarded"))
	}()
	after := func(d time.Duration) bool {
		select {
		case <-ended:
			return false
		case <-time.After(d):
			return true
		}
	}
	for after(guardEvery) {
		if !dying(pid) || !after(endingTime) {
			continue
		}
		fmt.Fprintf(os.Stderr, "warren: process %d was killed and cannot end: its FUSE connections are ended now\n", pid)
		for _, conn := range connectionsOf(pid) {
			endConnection(conn)
		}
	}
	return 0
}
