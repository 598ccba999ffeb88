package control

import (
	"context"
	"net/http"
)

// Edit asks for replacements in one file, all of them or none. They are made one
// after the other. Where every line of the file ends with CRLF, a plain newline in
// an edit means one too.
type Edit struct {
	Agent string        `json:"agent,omitempty"`
	Path  string        `json:"path"`
	Edits []Replacement `json:"edits"`
	// IfMatch: KindConflict unless the file has this etag.
	IfMatch string `json:"if_match,omitempty"`
	DryRun  bool   `json:"dry_run,omitempty"` // tell what would change, and change nothing
	// Instead of Path: its bytes, where they are not UTF-8.
	PathBytes []byte `json:"path_base64,omitempty"`
}

// Replacement is one piece of text and what comes in its place.
type Replacement struct {
	Old string `json:"old"` // must be there exactly once, unless All is set
	New string `json:"new"`
	All bool   `json:"all,omitempty"` // every place where Old is; at least one
}

// Edited tells what an Edit did, or would do.
type Edited struct {
	Path     string `json:"path"`          // tree path
	Etag     string `json:"etag"`          // of the file as it is now
	Size     uint64 `json:"size"`          // bytes, with the edit
	Mode     string `json:"mode"`          // four octal digits
	Replaced int    `json:"replaced"`      // places
	Diff     string `json:"diff"`          // unified
	Cut      bool   `json:"cut,omitempty"` // Diff is too long to be told whole
	DryRun   bool   `json:"dry_run"`       // nothing was changed
}

// Plain puts a path that came as bytes where the others are. KindInvalid: there
// are both.
func (e *Edit) Plain() (err error) {
	e.Path, err = oneOf("path", e.Path, e.PathBytes)
	return err
}

// Edit replaces text in a file of at most MaxPiece bytes, as one step: what
// others write meanwhile is not lost. KindConflict: IfMatch does not hold (with
// the detail "etag": what the file has), or Old is not there or more than once
// (with the details "edit": its index, "matches": how often it is there).
func (c *Client) Edit(ctx context.Context, e Edit) (Edited, error) {
	var out Edited
	if e.PathBytes = notText(e.Path); e.PathBytes != nil {
		e.Path = ""
	}
	return out, c.call(ctx, http.MethodPost, "/v1/fs/edit", nil, e, &out)
}
