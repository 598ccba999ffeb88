// Command warren is the daemon, its command line and the offline tools.
//
// One file a command (cmd_X.go): an options struct with AddFlags, a
// newXCommand that binds it to cobra, and runX(ctx, …) that does the work.
// Commands are clients of the daemon and import control alone; serve, and the
// commands that open a store themselves (init, fsck), share stack.go. [app]
// carries what every command needs. Only main turns errors into exit codes
// (exit.go).
//
// `warren run` starts this program again in stages (run_stages.go). mount(8)
// starts it as mount.warren (mount_helper.go).
package main

import (
	"os"
)

func main() {
	if runStage() {
		return
	}
	if isMountHelper(os.Args[0]) {
		os.Exit(newApp().mountHelper(os.Args[1:]))
	}
	os.Exit(newApp().main(os.Args[1:]))
}
