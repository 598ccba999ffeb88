// Package txlimit holds the limits of the seam for drivers of [backend.Store]:
// [CheckKey] and [CheckValue] for one key and value, [Counter] for one Update.
//
// What counts towards an Update's limits is each changed key once, with its
// last value: setting a key again replaces what it counted for, and a deletion
// counts the key's bytes alone. Keys under backend.ReservedPrefix count nothing.
//
// Nothing here locks: a Counter belongs to one transaction.
package txlimit

import (
	"fmt"
	"strings"

	"github.com/warrenfs/warren/backend"
)

// CheckKey refuses keys outside [1, backend.MaxKey] bytes: Invalid when empty,
// TooBig when too long.
func CheckKey(op string, key []byte) error {
	switch {
	case len(key) == 0:
		return &backend.Error{Op: op, Kind: backend.Invalid, Err: errEmptyKey}
	case len(key) > backend.MaxKey:
		return tooBig(op, "key", len(key), backend.MaxKey, "bytes")
	}
	return nil
}

// CheckValue refuses values over backend.MaxValue bytes with TooBig.
func CheckValue(op string, value []byte) error {
	if len(value) > backend.MaxValue {
		return tooBig(op, "value", len(value), backend.MaxValue, "bytes")
	}
	return nil
}

// Counter adds up what one Update changes. The zero Counter is ready for use.
type Counter struct {
	sizes map[string]int // bytes that each changed key counts for
	bytes int
}

// Set counts key with a value of n bytes, or refuses with TooBig and counts
// nothing.
func (c *Counter) Set(key []byte, n int) error { return c.count("set", key, len(key)+n) }

// Delete counts the deletion of key, or refuses with TooBig and counts nothing.
func (c *Counter) Delete(key []byte) error { return c.count("delete", key, len(key)) }

// Len is the number of keys counted.
func (c *Counter) Len() int { return len(c.sizes) }

func (c *Counter) count(op string, key []byte, n int) error {
	if strings.HasPrefix(string(key), backend.ReservedPrefix) {
		return nil // drivers have room for these
	}
	old, again := c.sizes[string(key)]
	if !again && len(c.sizes) == backend.MaxTxKeys {
		return tooBig(op, "update", len(c.sizes)+1, backend.MaxTxKeys, "keys")
	}
	if c.bytes-old+n > backend.MaxTxBytes {
		return tooBig(op, "update", c.bytes-old+n, backend.MaxTxBytes, "bytes")
	}
	if c.sizes == nil {
		c.sizes = make(map[string]int)
	}
	c.sizes[string(key)] = n
	c.bytes += n - old
	return nil
}

type plain string

func (p plain) Error() string { return string(p) }

const errEmptyKey = plain("a key has at least one byte")

func tooBig(op, what string, have, limit int, unit string) error {
	return &backend.Error{Op: op, Kind: backend.TooBig,
		Err: fmt.Errorf("%s of %d %s, limit %d", what, have, unit, limit)}
}
