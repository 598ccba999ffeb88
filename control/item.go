package control

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// MaxItem is the most bytes of an item that travel as a value, 8 MiB. A file
// among the items may be bigger: it is listed, and read as a file.
const MaxItem = 8 << 20

// Items are the files at the top of one workspace: for an agent of a user that
// user's place, for any other its own workspace. A key is a file's name.

// ItemInfo is one item of a listing.
type ItemInfo struct {
	// Key is the name; of a directory with a slash at the end. Names are bytes:
	// where they are not UTF-8, KeyBytes has them.
	Key       string    `json:"key"`
	KeyBytes  []byte    `json:"key_base64,omitempty"`
	Preview   *string   `json:"preview,omitempty"` // of text: its first 100 characters, and "..." if there are more
	Type      string    `json:"type"`              // text, binary, dir, or another type of file
	Size      uint64    `json:"size"`              // bytes
	CreatedBy string    `json:"created_by"`        // agent key; "unknown" if the asker may not know it; "" the administrator
	UpdatedAt time.Time `json:"updated_at"`
}

// Item is one item with its value.
type Item struct {
	Key       string    `json:"key"`
	Value     string    `json:"value"`
	CreatedBy string    `json:"created_by"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// ItemWritten answers a write.
type ItemWritten struct {
	Status      string `json:"status"`       // "written"
	WorkspaceID string `json:"workspace_id"` // user-<user> or agent-<key>
	Key         string `json:"key"`
}

// ItemDeleted answers a removal.
type ItemDeleted struct {
	Status string `json:"status"` // "deleted"
	Key    string `json:"key"`
}

// Publication asks for a copy of one item, or file, in a shared agent's
// workspace.
type Publication struct {
	Agent     string `json:"agent"`                // who publishes
	Key       string `json:"key,omitempty"`        // of an item of the publisher's
	Path      string `json:"path,omitempty"`       // instead of Key: a file that the publisher may read
	Target    string `json:"target_agent_id"`      // key of a shared agent
	TargetKey string `json:"target_key,omitempty"` // "": as Key, or the last part of Path
}

// ItemPublished answers a publication.
type ItemPublished struct {
	Status  string `json:"status"` // "published"
	FromKey string `json:"from_key"`
	ToAgent string `json:"to_agent"`
	ToKey   string `json:"to_key"`
}

// Items lists an agent's items, newest first.
func (c *Client) Items(ctx context.Context, agent string) ([]ItemInfo, error) {
	var out []ItemInfo
	return out, c.call(ctx, http.MethodGet, "/v1/items", query("agent", agent), nil, &out)
}

// ReadItem gives one item. KindNotFound: there is none of that key;
// KindInvalid: it is not UTF-8 text, is a directory or has more than MaxItem bytes.
func (c *Client) ReadItem(ctx context.Context, agent, key string) (Item, error) {
	var out Item
	return out, c.call(ctx, http.MethodGet, "/v1/items/value", query("agent", agent, "key", key), nil, &out)
}

// WriteItem makes an item or replaces its value, whole or not at all. An update
// keeps who made it and when. KindInvalid: not a key, or not UTF-8 text of at
// most MaxItem bytes; KindDenied: the name is on the deny-list, or the agent may
// not write there.
func (c *Client) WriteItem(ctx context.Context, agent, key, value string) (ItemWritten, error) {
	var out ItemWritten
	resp, err := c.send(ctx, http.MethodPut, "/v1/items/value", query("agent", agent, "key", key), io.NopCloser(strings.NewReader(value)))
	if err != nil {
		return out, err
	}
	defer drain(resp.Body)
	return out, c.decode(ctx, resp.Body, &out)
}

// DeleteItem removes an item. KindNotFound: there is none of that key;
// KindInvalid: it is a directory.
func (c *Client) DeleteItem(ctx context.Context, agent, key string) (ItemDeleted, error) {
	var out ItemDeleted
	return out, c.call(ctx, http.MethodDelete, "/v1/items/value", query("agent", agent, "key", key), nil, &out)
}

// Publish copies an item of a private agent into a shared agent's workspace,
// made or replaced whole; the publisher is who made it. KindDenied: the
// publisher is a shared agent, or the name is on the deny-list; KindNotFound: the target is unknown, also
// one that the publisher may not know of, or there is no such item;
// KindInvalid: the target is no shared agent.
func (c *Client) Publish(ctx context.Context, p Publication) (ItemPublished, error) {
	var out ItemPublished
	return out, c.call(ctx, http.MethodPost, "/v1/items/publish", nil, p, &out)
}
