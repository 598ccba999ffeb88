package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// Limits of a search.
const (
	MaxMatches    = 10000   // most matching lines in one answer
	MaxContext    = 20      // most lines of context on either side
	MaxSearched   = 8 << 20 // bytes; bigger files are skipped
	MaxMatchBytes = 1000    // longer lines are cut
)

// Search asks for lines that match a pattern, in the files that an agent may
// read.
type Search struct {
	Agent   string `json:"agent,omitempty"`
	Pattern string `json:"pattern"` // RE2 regular expression, matched line by line
	Literal bool   `json:"literal,omitempty"`
	// IgnoreCase matches letters of either case.
	IgnoreCase bool `json:"ignore_case,omitempty"`
	// Paths are files, and directories with all below them; none: the agent's
	// workspace.
	Paths []string `json:"paths,omitempty"`
	// Globs narrow the files: one without a slash is about names, one with a slash about
	// paths below the directory that is searched; ** is any number of directories,
	// and with a ! in front it leaves out what matches.
	Globs   []string `json:"globs,omitempty"`
	Hidden  bool     `json:"hidden,omitempty"`  // also files and directories whose name starts with a dot
	Context int      `json:"context,omitempty"` // lines before and after a match
	Limit   int      `json:"limit,omitempty"`   // matching lines; 0: 1000
	PerFile int      `json:"per_file,omitempty"`
}

// Match is one line that matches.
type Match struct {
	Path      string   `json:"path"` // tree path
	PathBytes []byte   `json:"path_base64,omitempty"`
	Line      int      `json:"line"`   // its number, from 1
	Column    int      `json:"column"` // of the match in it: bytes, from 1
	Text      string   `json:"text"`
	Before    []string `json:"before,omitempty"`
	After     []string `json:"after,omitempty"`
	Cut       bool     `json:"cut,omitempty"` // Text is longer
}

// Searched sums a search up.
type Searched struct {
	Files     int  `json:"files"`         // that were looked into
	Matched   int  `json:"files_matched"` // of these, with a match
	Matches   int  `json:"matches"`
	Truncated bool `json:"truncated"` // there may be more: the limit was reached, or a path has more than 4,096 bytes
	Partial   bool `json:"partial"`   // it took 10 s of processor time, and was stopped
	Binary    int  `json:"skipped_binary"`
	Big       int  `json:"skipped_big"` // more than MaxSearched bytes
	Denied    int  `json:"skipped_denied"`
}

// Stopped returns why a partial search ended early, and what to do about it.
func (s *Searched) Stopped() string {
	return fmt.Sprintf("stopped after 10 s of processor time; %d files searched; narrow the path or the expression", s.Files)
}

// SearchEvent is one line of a search's answer: one field is set.
type SearchEvent struct {
	Match *Match    `json:"match,omitempty"`
	Done  *Searched `json:"done,omitempty"` // the last line of a whole answer
	Error *Error    `json:"error,omitempty"`
}

// Search calls each with every match, in the order of paths and lines, until
// that fails. Ending ctx ends the search in the daemon too.
func (c *Client) Search(ctx context.Context, s Search, each func(Match) error) (Searched, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return Searched{}, Errorf(KindInvalid, "request: %v", err)
	}
	resp, err := c.send(ctx, http.MethodPost, "/v1/fs/search", nil, bytes.NewReader(b))
	if err != nil {
		return Searched{}, err
	}
	defer resp.Body.Close()
	d := json.NewDecoder(resp.Body)
	for {
		var e SearchEvent
		if err := d.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return Searched{}, c.broken(ctx, err)
		}
		switch {
		case e.Error != nil:
			return Searched{}, e.Error
		case e.Done != nil:
			return *e.Done, nil
		case e.Match != nil:
			if e.Match.PathBytes != nil {
				e.Match.Path = string(e.Match.PathBytes)
			}
			if err := each(*e.Match); err != nil {
				return Searched{}, err
			}
		}
	}
}

// SetBytes fills the field for a path that is not UTF-8.
func (m *Match) SetBytes() { m.PathBytes = notText(m.Path) }
