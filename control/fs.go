package control

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
)

// Node is what stat tells of one path of an agent's view. Names are bytes, and
// JSON has only text: one that is not UTF-8 comes besides as the same bytes in
// base64. The client puts those bytes in Path, Name and Target.
type Node struct {
	Path   string    `json:"path"` // tree path
	Name   string    `json:"name"`
	Type   string    `json:"type"` // file, dir, symlink, fifo, socket, char, block
	Mode   string    `json:"mode"` // four octal digits, as shown in this view
	UID    *uint32   `json:"uid,omitempty"`
	GID    *uint32   `json:"gid,omitempty"` // absent: the owner
	Size   uint64    `json:"size"`
	Links  uint32    `json:"links"`
	Inode  uint64    `json:"inode"`
	Mtime  time.Time `json:"mtime"`
	Ctime  time.Time `json:"ctime"`
	Btime  time.Time `json:"btime"`
	Target string    `json:"target,omitempty"` // of a symlink
	// Etag of a regular file: another one after every change of its content.
	Etag string `json:"etag,omitempty"`
	// The bytes of Path, Name and Target that are not UTF-8.
	PathBytes   []byte `json:"path_base64,omitempty"`
	NameBytes   []byte `json:"name_base64,omitempty"`
	TargetBytes []byte `json:"target_base64,omitempty"`
	// Provenance, where it is known.
	CreatedBy  string `json:"created_by,omitempty"`
	CreatedAt  string `json:"created_at,omitempty"`
	ModifiedBy string `json:"modified_by,omitempty"`
	ModifiedAt string `json:"modified_at,omitempty"`
}

// SetBytes fills the fields for bytes that are not UTF-8.
func (n *Node) SetBytes() {
	n.PathBytes, n.NameBytes, n.TargetBytes = notText(n.Path), notText(n.Name), notText(n.Target)
}

// UnmarshalJSON undoes what JSON does to names that are not UTF-8.
func (n *Node) UnmarshalJSON(b []byte) error {
	type plain Node
	if err := json.Unmarshal(b, (*plain)(n)); err != nil {
		return err
	}
	for bytes, text := range map[*[]byte]*string{&n.PathBytes: &n.Path, &n.NameBytes: &n.Name, &n.TargetBytes: &n.Target} {
		if *bytes != nil {
			*text = string(*bytes)
		}
	}
	return nil
}

// notText gives the bytes of s if JSON cannot carry it.
func notText(s string) []byte {
	if utf8.ValidString(s) {
		return nil
	}
	return []byte(s)
}

// oneOf gives the path that a request names as text or as bytes.
func oneOf(what, text string, bytes []byte) (string, error) {
	if bytes == nil {
		return text, nil
	}
	if text != "" {
		return "", Errorf(KindInvalid, "give %s or %s_base64, not both", what, what)
	}
	return string(bytes), nil
}

// Move asks for a rename inside one volume.
type Move struct {
	Agent string `json:"agent"`
	From  string `json:"from"`
	To    string `json:"to"`
	// Instead of From and To: their bytes, where they are not UTF-8.
	FromBytes []byte `json:"from_base64,omitempty"`
	ToBytes   []byte `json:"to_base64,omitempty"`
	Force     bool   `json:"force,omitempty"` // replace what is at To
	// IfMatch: KindConflict unless what is at From is a file with this etag.
	IfMatch string `json:"if_match,omitempty"`
}

// MakeDir asks for a directory.
type MakeDir struct {
	Agent   string `json:"agent,omitempty"`
	Path    string `json:"path"`
	Mode    uint32 `json:"mode,omitempty"`    // 0: 0755
	Parents bool   `json:"parents,omitempty"` // make missing parents; one that exists is no error
	// Instead of Path: its bytes, where they are not UTF-8.
	PathBytes []byte `json:"path_base64,omitempty"`
}

// Plain puts paths that came as bytes where the others are. KindInvalid: there
// is one of both.
func (m *Move) Plain() (err error) {
	if m.From, err = oneOf("from", m.From, m.FromBytes); err == nil {
		m.To, err = oneOf("to", m.To, m.ToBytes)
	}
	return err
}

// Plain puts a path that came as bytes where the others are. KindInvalid: there
// are both.
func (m *MakeDir) Plain() (err error) {
	m.Path, err = oneOf("path", m.Path, m.PathBytes)
	return err
}

// Stat tells about path in the agent's view. A relative path starts in the
// agent's workspace, here and in the methods below. A symlink at the end is
// followed only if follow is set.
func (c *Client) Stat(ctx context.Context, agent, path string, follow bool) (Node, error) {
	var n Node
	q := query("agent", agent, "path", path)
	if follow {
		q.Set("follow", "true")
	}
	return n, c.call(ctx, http.MethodGet, "/v1/fs/stat", q, nil, &n)
}

// List lists a directory by name; a file is listed as itself.
func (c *Client) List(ctx context.Context, agent, path string) ([]Node, error) {
	return c.ListPage(ctx, agent, path, "", 0)
}

// ListPage is List of at most limit names (0: all) that come after the name
// after. Fewer than limit are the last ones.
func (c *Client) ListPage(ctx context.Context, agent, path, after string, limit int) ([]Node, error) {
	var ns []Node
	q := query("agent", agent, "path", path, "after", after)
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return ns, c.call(ctx, http.MethodGet, "/v1/fs/list", q, nil, &ns)
}

// MakeDir makes a directory.
func (c *Client) MakeDir(ctx context.Context, m MakeDir) (Node, error) {
	var n Node
	if m.PathBytes = notText(m.Path); m.PathBytes != nil {
		m.Path = ""
	}
	return n, c.call(ctx, http.MethodPost, "/v1/fs/mkdir", nil, m, &n)
}

// Move renames. KindConflict: To exists and Force is not set, it lies in
// another volume, or IfMatch does not hold (with details, etag).
func (c *Client) Move(ctx context.Context, m Move) (Node, error) {
	var n Node
	if m.FromBytes = notText(m.From); m.FromBytes != nil {
		m.From = ""
	}
	if m.ToBytes = notText(m.To); m.ToBytes != nil {
		m.To = ""
	}
	return n, c.call(ctx, http.MethodPost, "/v1/fs/move", nil, m, &n)
}

// Remove removes a file or an empty directory, or with recursive a whole tree.
func (c *Client) Remove(ctx context.Context, agent, path string, recursive bool) error {
	q := query("agent", agent, "path", path)
	if recursive {
		q.Set("recursive", "true")
	}
	return c.call(ctx, http.MethodDelete, "/v1/fs/node", q, nil, nil)
}

// RemoveIf removes a file that has an etag. KindConflict: it has another one (with
// details, etag), or is no file.
func (c *Client) RemoveIf(ctx context.Context, agent, path, etag string) error {
	return c.call(ctx, http.MethodDelete, "/v1/fs/node", query("agent", agent, "path", path, "if_match", etag), nil, nil)
}
