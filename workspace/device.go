package workspace

import (
	"context"

	"github.com/warrenfs/warren/backend"
)

// maxDevice is how long a device's id may be, in bytes.
const maxDevice = 256

// checkDevice refuses what can be no device's id. An id is data: it never
// becomes a path.
func checkDevice(id string) error {
	if id == "" {
		return fail(backend.Invalid, "a device's id cannot be empty")
	}
	return checkText("device id", id, maxDevice)
}

// Devices lists the bindings by device.
func (r *Registry) Devices() []Binding {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return sorted(r.devices, nil)
}

// BindDevice binds a device to a device workspace, in place of another that it
// had. NotFound: there is no such workspace; Invalid: it is of another kind.
func (r *Registry) BindDevice(ctx context.Context, device, uuid string) (Binding, error) {
	if err := checkDevice(device); err != nil {
		return Binding{}, err
	}
	r.change.Lock()
	w, err := r.Workspace(uuid)
	if err == nil && w.Kind != KindDevice {
		err = fail(backend.Invalid, "workspace %s is of kind %s; a device has a device workspace", uuid, w.Kind)
	}
	b := Binding{Device: device, Workspace: uuid, Bound: r.now().UTC()}
	if err == nil {
		err = r.put(ctx, map[string]any{string(recordKey(recDevice, device)): &b})
	}
	if err == nil {
		r.locked(func() { r.devices[device] = &b })
	}
	r.change.Unlock()
	if err != nil {
		return Binding{}, err
	}
	return b, r.Accessed(ctx, uuid)
}

// UnbindDevice takes a binding away. NotFound: there is none.
func (r *Registry) UnbindDevice(ctx context.Context, device string) error {
	if err := checkDevice(device); err != nil {
		return err
	}
	r.change.Lock()
	defer r.change.Unlock()
	if _, bound := r.binding(device); !bound {
		return fail(backend.NotFound, "device %q has no workspace", device)
	}
	if err := r.put(ctx, map[string]any{string(recordKey(recDevice, device)): nil}); err != nil {
		return err
	}
	r.locked(func() { delete(r.devices, device) })
	return nil
}

func (r *Registry) binding(device string) (Binding, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	b := r.devices[device]
	if b == nil {
		return Binding{}, false
	}
	return *b, true
}

// ResolveDevice gives a device's workspace. A device that has none gets a new
// one and is bound to it: once, however many ask at the same time. created tells
// whether this call did.
func (r *Registry) ResolveDevice(ctx context.Context, device string) (w Workspace, created bool, err error) {
	if err := checkDevice(device); err != nil {
		return w, false, err
	}
	if b, bound := r.binding(device); bound {
		if w, err = r.Workspace(b.Workspace); err == nil {
			return w, false, r.Accessed(ctx, w.UUID)
		}
	}
	r.change.Lock()
	defer r.change.Unlock()
	if b, bound := r.binding(device); bound {
		w, err = r.Workspace(b.Workspace)
		return w, false, err
	}
	w, err = r.makeRoom(ctx, "", "", device)
	return w, err == nil, err
}
