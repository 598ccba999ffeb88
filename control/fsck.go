package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
)

// Problem is one broken invariant of a store.
type Problem struct {
	Volume string `json:"volume,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
	Path   string `json:"path,omitempty"`
	Text   string `json:"text"`
}

// Check is the outcome of fsck.
type Check struct {
	Clean    bool      `json:"clean"`
	Problems []Problem `json:"problems"` // at most 10,000
	Count    int       `json:"count"`    // of all problems
	Millis   int64     `json:"millis"`
	Repaired []Problem `json:"repaired,omitempty"` // what was done, in order
}

// Progress is how far long work has come.
type Progress struct {
	Done  uint64 `json:"done"`
	Total uint64 `json:"total"` // 0: not known
}

// CheckEvent is one line of an fsck's answer where progress is asked for: one field is set.
type CheckEvent struct {
	Progress *Progress `json:"progress,omitempty"`
	Check    *Check    `json:"check,omitempty"` // the last line of a whole answer
	Error    *Error    `json:"error,omitempty"`
}

// Fsck checks every invariant of the daemon's store; nothing is changed.
func (c *Client) Fsck(ctx context.Context) (Check, error) {
	var r Check
	return r, c.call(ctx, http.MethodPost, "/v1/fsck", nil, nil, &r)
}

// FsckProgress is Fsck, and tells progress meanwhile how many inodes were looked at.
func (c *Client) FsckProgress(ctx context.Context, progress func(Progress)) (Check, error) {
	resp, err := c.send(ctx, http.MethodPost, "/v1/fsck", url.Values{"progress": {"true"}}, nil)
	if err != nil {
		return Check{}, err
	}
	defer resp.Body.Close()
	for d := json.NewDecoder(resp.Body); ; {
		var e CheckEvent
		if err := d.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return Check{}, c.broken(ctx, err)
		}
		switch {
		case e.Error != nil:
			return Check{}, e.Error
		case e.Check != nil:
			return *e.Check, nil
		case e.Progress != nil:
			progress(*e.Progress)
		}
	}
}
