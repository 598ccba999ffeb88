package control

import (
	"context"
	"net/http"
	"time"
)

// Mount is one view at one mountpoint.
type Mount struct {
	ID         string `json:"id"`
	Dir        string `json:"dir"`
	Agent      string `json:"agent"`
	Root       string `json:"root"`   // tree path, as it is now
	Access     string `json:"access"` // rw, ro
	UID        uint32 `json:"uid"`
	GID        uint32 `json:"gid"`
	AllowOther bool   `json:"allow_other,omitempty"`
	ACL        bool   `json:"acl,omitempty"` // POSIX ACLs are kept and enforced
	Owner      string `json:"owner"`         // agent, mount: as in MountSpec
	Run        bool   `json:"run,omitempty"` // placed by `warren run`; ends with it
	// Inside: its client made it, in namespaces of its own, and Dir is what it is
	// called there. It does not come back with another daemon.
	Inside bool      `json:"inside,omitempty"`
	Since  time.Time `json:"since"`
	// State is "up", or what keeps a recorded mount from being up.
	State string `json:"state"`
}

// MountSpec asks for a mount. Dir is an absolute path of an empty directory on
// the daemon's host. UID and GID are the mount's user; nil is the caller's own,
// by peer credentials.
type MountSpec struct {
	Agent      string  `json:"agent"`
	Dir        string  `json:"dir"`
	Root       string  `json:"root,omitempty"`   // "" is /
	Access     string  `json:"access,omitempty"` // rw (default), ro
	UID        *uint32 `json:"uid,omitempty"`
	GID        *uint32 `json:"gid,omitempty"`
	AllowOther bool    `json:"allow_other,omitempty"`
	ACL        bool    `json:"acl,omitempty"` // keep and enforce POSIX ACLs
	// Owner selects the owner that other agents' files are shown with: agent (the
	// default) is the agent that made the file, mount is the mount's user. A client that
	// mounts by itself has mount by default.
	Owner string `json:"owner,omitempty"`
}

// Mount mounts an agent's view. The mount is recorded: it comes back when the
// daemon is started again. KindNotFound: no such agent, root or directory;
// KindConflict: the directory is not empty or is a mountpoint already.
func (c *Client) Mount(ctx context.Context, spec MountSpec) (Mount, error) {
	var m Mount
	return m, c.call(ctx, http.MethodPost, "/v1/mounts", nil, spec, &m)
}

// Mounts lists the mounts by directory.
func (c *Client) Mounts(ctx context.Context) ([]Mount, error) {
	var ms []Mount
	return ms, c.call(ctx, http.MethodGet, "/v1/mounts", nil, nil, &ms)
}

// Unmounted is the answer to an unmount. Note, if any, tells what keeps what
// was mounted alive elsewhere, though it is out of the tree.
type Unmounted struct {
	Note string `json:"note,omitempty"`
}

// Unmount unmounts what is at dir and forgets it. KindConflict: a process uses
// it, and force was not asked for; with force the processes get errors.
func (c *Client) Unmount(ctx context.Context, dir string, force bool) (Unmounted, error) {
	q := query("dir", dir)
	if force {
		q.Set("force", "true")
	}
	var out Unmounted
	err := c.call(ctx, http.MethodDelete, "/v1/mounts", q, nil, &out)
	return out, err
}
