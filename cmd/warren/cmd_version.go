package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker (Makefile).
var version = ""

// versionText is the program's version: the linker's, or what the Go tool
// wrote into the program.
func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

func newVersionCommand(a *app) *cobra.Command {
	return command("version", "Print the version", cobra.NoArgs,
		func(_ context.Context, _ []string) error { return runVersion(a) })
}

func runVersion(a *app) error {
	v := struct {
		Version string `json:"version"`
		Go      string `json:"go"`
		OS      string `json:"os"`
		Arch    string `json:"arch"`
	}{versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH}
	return a.answer(v, func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "warren %s (%s, %s/%s)\n", v.Version, v.Go, v.OS, v.Arch)
	})
}
