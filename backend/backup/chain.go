package backup

import (
	"bytes"
	"io"
)

// Chain is a full backup and the incremental ones after it, read as one: all
// records by key, those of one key from the oldest file on.
type Chain struct {
	files []*Reader
	heads []*Record // nil: read to the end
	at    int       // whose head was given last; -1: none
}

// NewChain opens backups in their order. Kind Invalid: one is none, or they do
// not follow each other.
func NewChain(files []io.Reader, skip bool) (*Chain, error) {
	c := &Chain{at: -1}
	for n, f := range files {
		r, err := NewReader(f, skip)
		if err != nil {
			return nil, err
		}
		h := r.Header()
		switch {
		case n == 0 && h.Since != nil:
			return nil, bad("the first is an incremental one; the full backup goes first")
		case n > 0 && h.Since == nil:
			return nil, bad("number %d is a full one; only the first is", n+1)
		case n > 0 && *h.Since != c.files[n-1].Header().ID:
			return nil, bad("number %d does not go on from the one before it", n+1)
		case n > 0 && (h.Format != c.Last().Format || h.Content != c.Last().Content):
			return nil, bad("number %d is of another store", n+1)
		}
		c.files = append(c.files, r)
		c.heads = append(c.heads, nil)
	}
	if len(files) == 0 {
		return nil, bad("there is none")
	}
	for n := range c.files {
		if err := c.advance(n); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Last is the header of the newest backup.
func (c *Chain) Last() Header { return c.files[len(c.files)-1].Header() }

func (c *Chain) advance(n int) error {
	r, err := c.files[n].Next()
	if err != nil && err != io.EOF {
		return err
	}
	c.heads[n] = r
	return nil
}

// Next gives the next record, io.EOF after the last of whole backups. It is valid
// until the call after.
func (c *Chain) Next() (*Record, error) {
	if c.at >= 0 {
		if err := c.advance(c.at); err != nil {
			return nil, err
		}
		c.at = -1
	}
	for n, r := range c.heads {
		if r != nil && (c.at < 0 || bytes.Compare(r.Key, c.heads[c.at].Key) < 0) {
			c.at = n
		}
	}
	if c.at < 0 {
		return nil, io.EOF
	}
	r := c.heads[c.at]
	r.Live = !r.Deleted
	for _, o := range c.heads[c.at+1:] {
		if o != nil && bytes.Equal(o.Key, r.Key) {
			r.Live = false
		}
	}
	return r, nil
}
