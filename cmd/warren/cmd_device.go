package main

import (
	"bytes"
	"context"
	"io"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"github.com/warrenfs/warren/control"
)

func newDeviceCommand(a *app) *cobra.Command {
	list := command("list", "List devices and their workspaces", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runDeviceList(ctx, a) })
	list.Aliases = []string{"ls"}
	bind := command("bind DEVICE UUID", "Bind a device to a device workspace", cobra.ExactArgs(2),
		func(ctx context.Context, args []string) error { return runDeviceBind(ctx, a, args[0], args[1]) })
	unbind := command("unbind DEVICE", "Take a device's binding away; its workspace stays", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runDeviceUnbind(ctx, a, args[0]) })
	resolve := command("resolve DEVICE", "Print a device's workspace, made and bound if it has none", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return runDeviceResolve(ctx, a, args[0]) })
	export := command("export", "Print the bindings as a bindings.toml", cobra.NoArgs,
		func(ctx context.Context, _ []string) error { return runDeviceExport(ctx, a) })
	return noun("device", "Bind devices to their workspaces", list, bind, unbind, resolve, export)
}

func runDeviceList(ctx context.Context, a *app) error {
	bs, err := a.client().Devices(ctx)
	if err != nil {
		return err
	}
	return a.answer(bs, func(w io.Writer) {
		var rows [][]string
		for _, b := range bs {
			rows = append(rows, []string{shown(w, b.Device), b.Workspace, stamp(b.BoundAt)})
		}
		table(w, []string{"DEVICE", "WORKSPACE", "BOUND"}, rows)
	})
}

func runDeviceBind(ctx context.Context, a *app, device, uuid string) error {
	b, err := a.client().BindDevice(ctx, control.BindingSpec{Device: device, Workspace: uuid})
	if err != nil {
		return err
	}
	return a.done(b, "%s bound to %s", shown(a.stdout, b.Device), b.Workspace)
}

func runDeviceUnbind(ctx context.Context, a *app, device string) error {
	if err := a.client().UnbindDevice(ctx, device); err != nil {
		return err
	}
	return a.done(map[string]string{"unbound": device}, "%s unbound", shown(a.stdout, device))
}

func runDeviceResolve(ctx context.Context, a *app, device string) error {
	w, err := a.client().ResolveDevice(ctx, device)
	if err != nil {
		return err
	}
	return a.answer(w, func(out io.Writer) { _, _ = io.WriteString(out, w.UUID+"\n") })
}

func runDeviceExport(ctx context.Context, a *app) error {
	bs, err := a.client().Devices(ctx)
	if err != nil {
		return err
	}
	all := map[string]string{}
	for _, b := range bs {
		all[b.Device] = b.Workspace
	}
	return a.answer(bs, func(w io.Writer) {
		var b bytes.Buffer
		e := toml.NewEncoder(&b)
		e.Indent = ""
		_ = e.Encode(map[string]any{"bindings": all}) // into memory: it cannot fail
		_, _ = w.Write(b.Bytes())
	})
}
