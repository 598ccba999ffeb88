package badger

import (
	"bytes"

	"github.com/dgraph-io/badger/v4"
)

// cursor walks the stored keys of a range. After an error it is not valid.
type cursor struct {
	t   *tx
	it  *badger.Iterator
	to  []byte
	key []byte // the stored key it is at, until next; nil at the end
	err error
}

// openCursor opens a cursor at the first stored key of [from, to). close must
// be called.
func openCursor(t *tx, from, to []byte) *cursor {
	c := &cursor{t: t, to: to}
	c.open(from)
	return c
}

func (c *cursor) open(from []byte) {
	defer c.t.s.rescue(&c.err)
	opt := badger.IteratorOptions{Prefix: commonPrefix(from, c.to)}
	c.it = c.t.txn.NewIterator(opt)
	c.it.Seek(from)
	c.look()
}

// commonPrefix is what all keys of [from, to) start with.
func commonPrefix(from, to []byte) []byte {
	n := 0
	for n < min(len(from), len(to)) && from[n] == to[n] {
		n++
	}
	return from[:n]
}

func (c *cursor) valid() bool { return c.key != nil && c.err == nil }

// next moves on, unless an error ended the walk.
func (c *cursor) next() {
	if c.err != nil {
		return
	}
	defer c.t.s.rescue(&c.err)
	c.it.Next()
	c.look()
}

func (c *cursor) look() {
	c.key = nil
	if c.it.Valid() {
		if key := c.it.Item().Key(); bytes.Compare(key, c.to) < 0 {
			c.key = key
		}
	}
}

// give calls fn with the key that the cursor is at, and its value if asked to.
func (c *cursor) give(values bool, fn func(key, value []byte) error) error {
	var value []byte
	if values {
		if value = c.value(); c.err != nil {
			return c.err
		}
	}
	return fn(c.key[1:], value)
}

// value is the value the cursor is at, checked; valid until next.
func (c *cursor) value() (value []byte) {
	defer c.t.s.rescue(&c.err)
	var bad error
	err := c.it.Item().Value(func(rec []byte) error {
		value, bad = decode(c.key, rec)
		return bad
	})
	switch {
	case bad != nil:
		c.err = c.t.s.badValue("scan", c.key, bad)
	case err != nil:
		c.err = fail("scan", c.t.s.dir, err)
	}
	return value
}

// end is what a scan that saw everything returns.
func (c *cursor) end() error {
	if c.err != nil {
		return c.err
	}
	if err := c.t.s.suspect.Load(); err != nil {
		return *err
	}
	return nil
}

func (c *cursor) close() {
	if c.it == nil {
		return
	}
	var err error
	defer recoverInto(&err) // it was reported where it happened
	c.it.Close()
}
