package control

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// LogEntry is one change, or a number of equal denials. The client puts the bytes
// of a path that is not UTF-8 into Path and To.
type LogEntry struct {
	Cursor    string    `json:"cursor"` // to go on after it
	Time      time.Time `json:"time"`
	Op        string    `json:"op"`              // create, write, rename, ...; of a denial what was tried
	Agent     string    `json:"agent,omitempty"` // "": the administrator
	Mount     string    `json:"mount,omitempty"` // mountpoint that it came by; "": the API
	Path      string    `json:"path,omitempty"`
	PathBytes []byte    `json:"path_base64,omitempty"` // in place of path where that is not UTF-8
	To        string    `json:"to,omitempty"`          // of rename, exchange and link: the other path
	ToBytes   []byte    `json:"to_base64,omitempty"`
	Denied    bool      `json:"denied,omitempty"`
	Rule      string    `json:"rule,omitempty"` // of a denial
	Count     uint64    `json:"count"`
}

// Log is a part of the feed.
type Log struct {
	Entries []LogEntry `json:"entries"`
	Next    string     `json:"next"` // cursor to go on after, whether or not there were entries
	More    bool       `json:"more"` // there is more already
}

// LogQuery asks for a part of the feed. The zero value is its beginning.
type LogQuery struct {
	After  string        // a cursor
	Since  time.Time     // without After: not older than this
	Agent  string        // only of this agent
	Path   string        // only at this tree path and below it
	Op     string        // only of this kind
	Denied bool          // only denials
	Limit  int           // entries at most; 0: 1,000
	Wait   time.Duration // for an entry, if there is none; a minute at most
}

// Log gives a part of the feed that the asker may know of, oldest first.
func (c *Client) Log(ctx context.Context, q LogQuery) (Log, error) {
	v := query("after", q.After, "agent", q.Agent, "path", q.Path, "kind", q.Op)
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	if q.Denied {
		v.Set("denied", "true")
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.Wait > 0 {
		v.Set("wait", q.Wait.String())
	}
	var l Log
	err := c.call(ctx, http.MethodGet, "/v1/log", v, nil, &l)
	for i := range l.Entries {
		e := &l.Entries[i]
		if e.PathBytes != nil {
			e.Path = string(e.PathBytes)
		}
		if e.ToBytes != nil {
			e.To = string(e.ToBytes)
		}
	}
	return l, err
}

// LogVerdict reports whether events were removed from the feed other than by the
// retention rules.
type LogVerdict struct {
	OK        bool   `json:"ok"`
	Entries   uint64 `json:"entries"`          // in the chain
	Unchained uint64 `json:"unchained"`        // from before there was a chain
	Aged      uint64 `json:"aged"`             // removed by the rules of retention
	Gaps      uint64 `json:"gaps"`             // runs of these
	Broken    uint64 `json:"broken,omitempty"` // number of the first entry that does not follow from those before
	Head      uint64 `json:"head"`             // number of the last entry
	Chain     string `json:"chain"`            // the hash of all up to it
}

// VerifyLog follows the hash chain of the whole feed. It fails with KindDenied if the
// caller is not allowed to know of all of it.
func (c *Client) VerifyLog(ctx context.Context) (LogVerdict, error) {
	var v LogVerdict
	return v, c.call(ctx, http.MethodGet, "/v1/log/verify", nil, nil, &v)
}
