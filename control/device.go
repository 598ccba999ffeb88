package control

import (
	"context"
	"net/http"
	"time"
)

// Binding says which workspace a device has.
type Binding struct {
	Device    string    `json:"device_id"` // printable text of at most 256 bytes; never a path
	Workspace string    `json:"workspace"` // UUID of a device workspace
	BoundAt   time.Time `json:"bound_at"`
}

// BindingSpec asks for a binding, or names one.
type BindingSpec struct {
	Device    string `json:"device_id"`
	Workspace string `json:"workspace,omitempty"`
}

// Devices lists the bindings by device.
func (c *Client) Devices(ctx context.Context) ([]Binding, error) {
	var out []Binding
	return out, c.call(ctx, http.MethodGet, "/v1/devices", nil, nil, &out)
}

// BindDevice binds a device to a device workspace, in place of another it had.
// KindNotFound: no such workspace.
func (c *Client) BindDevice(ctx context.Context, b BindingSpec) (Binding, error) {
	var out Binding
	return out, c.call(ctx, http.MethodPut, "/v1/devices", nil, b, &out)
}

// UnbindDevice takes a binding away. KindNotFound: there is none.
func (c *Client) UnbindDevice(ctx context.Context, device string) error {
	return c.call(ctx, http.MethodDelete, "/v1/devices", query("device_id", device), nil, nil)
}

// ResolveDevice gives a device's workspace. A device without one gets a new
// workspace, bound once, however many ask at the same time.
func (c *Client) ResolveDevice(ctx context.Context, device string) (Workspace, error) {
	var out Workspace
	return out, c.call(ctx, http.MethodPost, "/v1/devices/resolve", nil, BindingSpec{Device: device}, &out)
}
