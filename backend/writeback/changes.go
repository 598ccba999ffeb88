package writeback

import (
	"fmt"
	"slices"
	"strings"

	"github.com/warrenfs/warren/backend"
)

// smallSet is the number of changes up to which they are searched one by one.
const smallSet = 8

// keepBuffer is the largest buffer, in bytes, that is kept for the next Update.
const keepBuffer = 64 << 10

// change is one key changed by the running Update: where it is in the buffer.
type change struct {
	key     string // a part of some buffer of changeSet, never overwritten before reset
	value   []byte
	at, end int // of its encoded form
	op      byte
	dead    bool // the key was changed again
}

// changeSet collects what one Update changes, as the record it will become. It
// is used again for the next Update.
type changeSet struct {
	buf   []byte // header, then changes as they came
	list  []change
	index map[string]int // into list; only when there are more than smallSet
	live  int            // changes that are not dead
	bytes int            // of their keys and values
}

func (c *changeSet) reset() {
	if cap(c.buf) > keepBuffer {
		c.buf = nil
	}
	c.buf = append(c.buf[:0], make([]byte, recordHeader)...)
	clear(c.list)
	c.list = c.list[:0]
	clear(c.index)
	c.live, c.bytes = 0, 0
}

// find gives the newest change of key, or nil.
func (c *changeSet) find(key []byte) *change {
	if len(c.list) > smallSet {
		if i, ok := c.index[string(key)]; ok {
			return &c.list[i]
		}
		return nil
	}
	for i := len(c.list) - 1; i >= 0; i-- {
		if c.list[i].key == string(key) {
			return &c.list[i]
		}
	}
	return nil
}

// put adds a change, or refuses with TooBig and adds nothing.
func (c *changeSet) put(op byte, key, value []byte) error {
	old := c.find(key)
	live, bytes := c.live+1, c.bytes+len(key)+len(value)
	if old != nil {
		live, bytes = c.live, bytes-len(old.key)-len(old.value)
	}
	if live > backend.MaxTxKeys {
		return tooBig("keys", live, backend.MaxTxKeys)
	}
	if bytes > backend.MaxTxBytes {
		return tooBig("bytes", bytes, backend.MaxTxBytes)
	}
	if old != nil {
		old.dead = true
	}
	if len(c.buf) > 2*maxRecord || len(c.list) > 4*backend.MaxTxKeys {
		c.compact() // the same keys, again and again
	}
	c.live, c.bytes = live, bytes
	at := len(c.buf)
	c.buf = appendChange(c.buf, op, key, value)
	c.add(at, len(key), op)
	return nil
}

// add lists the change that was just encoded at the end of the buffer.
func (c *changeSet) add(at, klen int, op byte) {
	k := at + changeHeader
	key, value := c.buf[k:k+klen:k+klen], c.buf[k+klen:len(c.buf):len(c.buf)]
	c.list = append(c.list, change{key: asString(key), value: value, at: at, end: len(c.buf), op: op})
	switch n := len(c.list); {
	case n == smallSet+1:
		if c.index == nil {
			c.index = make(map[string]int)
		}
		for i := range c.list {
			c.index[c.list[i].key] = i // a later change of a key replaces the earlier
		}
	case n > smallSet+1:
		c.index[c.list[n-1].key] = n - 1
	}
}

// compact leaves the dead changes behind, in a new buffer: slices given out
// before stay as they are.
func (c *changeSet) compact() {
	old := slices.DeleteFunc(slices.Clone(c.list), func(ch change) bool { return ch.dead })
	buf := make([]byte, recordHeader, recordHeader+c.bytes+len(old)*changeHeader+recordAlign)
	from := c.buf
	c.buf = buf
	clear(c.list)
	c.list = c.list[:0]
	clear(c.index)
	for _, ch := range old {
		at := len(c.buf)
		c.buf = append(c.buf, from[ch.at:ch.end]...)
		c.add(at, len(ch.key), ch.op)
	}
}

// sorted gives the changes of keys in [start, end), ascending, each key once.
// What rides is none.
func (c *changeSet) sorted(start, end []byte) []change {
	var in []change
	for _, ch := range c.list {
		if !ch.dead && ch.op != opRide && ch.key >= string(start) && (end == nil || ch.key < string(end)) {
			in = append(in, ch)
		}
	}
	slices.SortFunc(in, func(a, b change) int { return strings.Compare(a.key, b.key) })
	return in
}

// record gives the finished Update: its record, all but sealed, and its
// entries, whose bytes are the record's. Small records are copied so that the
// buffer serves again; the buffer of a big one goes with it.
func (c *changeSet) record(o backend.Origin, lsn backend.LSN) *op {
	if c.live < len(c.list) {
		c.compact()
	}
	c.buf = appendPadding(c.buf)
	rec := c.buf
	if len(rec) <= keepBuffer || cap(rec) > len(rec)+len(rec)/4 {
		rec = make([]byte, len(c.buf))
		copy(rec, c.buf)
	} else {
		c.buf = nil
	}
	finish(rec, c.live, o)
	p := &op{lsn: lsn, rec: rec, entries: make([]entry, 0, len(c.list))}
	for i := range c.list {
		ch := &c.list[i]
		if ch.op == opRide {
			continue
		}
		k := ch.at + changeHeader
		v := k + len(ch.key)
		p.entries = append(p.entries, entry{key: asString(rec[k:v:v]), value: rec[v:ch.end:ch.end], lsn: lsn, deleted: ch.op == opDelete})
	}
	return p
}

func tooBig(unit string, have, limit int) error {
	return &backend.Error{Op: "update", Kind: backend.TooBig,
		Err: fmt.Errorf("%d %s changed, limit %d", have, unit, limit)}
}
