package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: nullfs MOUNTPOINT (until it is unmounted or interrupted)")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "nullfs:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	s, err := fuse.NewServer(newFS(), dir, &fuse.MountOptions{
		FsName: "nullfs", Name: "nullfs", DirectMount: true, AllowOther: os.Getuid() == 0,
		MaxWrite: 1 << 20, MaxBackground: 64, EnableSymlinkCaching: true, ExplicitDataCacheControl: true,
		ExtraCapabilities: fuse.CAP_HANDLE_KILLPRIV_V2 | fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_READDIRPLUS_AUTO,
		Options:           []string{"default_permissions"},
	})
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-stop
		if err := s.Unmount(); err != nil {
			fmt.Fprintln(os.Stderr, "nullfs:", err)
		}
	}()
	s.Serve()
	return nil
}
