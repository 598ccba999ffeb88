package badger

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/tidwall/btree"
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/txcontent"
	"github.com/warrenfs/warren/backend/internal/txlimit"
)

// Content is the content driver: bytes travel in the transaction, as values
// under backend.ContentKey(id), at most 64 KiB a Put, checked by length and
// CRC-32C on every read. Errors are those of backend.Content. The zero Content
// is ready.
type Content struct{ txcontent.Content }

var _ backend.Content = Content{}

// change is one changed key of an Update, as it will be stored. A nil record
// deletes it.
type change struct{ key, record []byte }

// tx is one transaction: a Badger transaction that only reads, and an Update's
// own changes over it. Badger's own kind of pending writes knows one iterator at
// a time.
type tx struct {
	s       *Store
	txn     *badger.Txn
	own     *btree.BTreeG[change] // nil in a View
	counter txlimit.Counter
	done    bool
}

var _ backend.Tx = (*tx)(nil)

func newTx(s *Store, lsn backend.LSN, update bool) *tx {
	t := &tx{s: s, txn: s.db.NewTransactionAt(timestamp(lsn), false)}
	if update {
		less := func(a, b change) bool { return bytes.Compare(a.key, b.key) < 0 }
		t.own = btree.NewBTreeGOptions(less, btree.Options{NoLocks: true})
	}
	return t
}

func (t *tx) end() {
	t.done = true
	var err error
	defer recoverInto(&err) // after a panic inside Badger it may complain
	t.txn.Discard()
}

// changes are those of an Update, in order.
func (t *tx) changes() []change { return t.own.Items() }

// usable refuses calls after the transaction's end, and changes in a View.
func (t *tx) usable(op string, change bool) error {
	if t.done {
		return failf(op, "", backend.Invalid, "the transaction has ended")
	}
	if change && t.own == nil {
		return failf(op, "", backend.ReadOnly, "a View changes nothing")
	}
	return nil
}

func (t *tx) Get(key []byte) ([]byte, error) {
	if err := t.usable("get", false); err != nil {
		return nil, err
	}
	if err := txlimit.CheckKey("get", key); err != nil {
		return nil, err
	}
	stored := storedKey(key)
	if t.own != nil {
		if c, ok := t.own.Get(change{key: stored}); ok {
			if c.record == nil {
				return nil, backend.NotFound
			}
			return c.record[headerSize:], nil
		}
	}
	return t.s.read(t.txn, stored)
}

func (t *tx) Set(key, value []byte) error {
	if err := t.usable("set", true); err != nil {
		return err
	}
	if err := txlimit.CheckKey("set", key); err != nil {
		return err
	}
	if err := txlimit.CheckValue("set", value); err != nil {
		return err
	}
	if err := t.counter.Set(key, len(value)); err != nil {
		return err
	}
	stored := storedKey(key)
	t.own.Set(change{key: stored, record: encode(stored, value)})
	return nil
}

func (t *tx) Delete(key []byte) error {
	if err := t.usable("delete", true); err != nil {
		return err
	}
	if err := txlimit.CheckKey("delete", key); err != nil {
		return err
	}
	if err := t.counter.Delete(key); err != nil {
		return err
	}
	t.own.Set(change{key: storedKey(key)})
	return nil
}

func (t *tx) Scan(start, end []byte, fn func(key, value []byte) error) error {
	return t.scan(start, end, true, fn)
}

func (t *tx) ScanKeys(start, end []byte, fn func(key []byte) error) error {
	return t.scan(start, end, false, func(key, _ []byte) error { return fn(key) })
}

// scan merges the stored keys of [start, end) with the Update's own changes, as
// they are when it starts.
func (t *tx) scan(start, end []byte, values bool, fn func(key, value []byte) error) error {
	if err := t.usable("scan", false); err != nil {
		return err
	}
	if end != nil && bytes.Compare(start, end) >= 0 {
		return nil
	}
	from, to := storedKey(start), []byte{userPrefix + 1}
	if end != nil {
		to = storedKey(end)
	}
	own := t.ownIn(from, to)
	c := openCursor(t, from, to)
	defer c.close()
	for c.err == nil && (c.valid() || len(own) > 0) {
		var err error
		if len(own) == 0 || c.valid() && bytes.Compare(c.key, own[0].key) < 0 {
			err = c.give(values, fn)
			c.next()
		} else {
			mine := own[0]
			own = own[1:]
			if c.valid() && bytes.Equal(c.key, mine.key) {
				c.next()
			}
			if c.err == nil && mine.record != nil {
				err = fn(mine.key[1:], mine.record[headerSize:])
			}
		}
		if err == backend.ErrStop {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return c.end()
}

// ownIn gives the Update's own changes in [from, to), in order.
func (t *tx) ownIn(from, to []byte) []change {
	if t.own == nil {
		return nil
	}
	var own []change
	t.own.Ascend(change{key: from}, func(c change) bool {
		if bytes.Compare(c.key, to) >= 0 {
			return false
		}
		own = append(own, c)
		return true
	})
	return own
}

// read gives the value under a stored key, checked.
func (s *Store) read(txn *badger.Txn, stored []byte) (value []byte, err error) {
	defer s.rescue(&err)
	item, err := txn.Get(stored)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, s.absent()
	}
	if err != nil {
		return nil, fail("get", s.dir, err)
	}
	err = item.Value(func(rec []byte) error {
		value, err = decode(stored, rec)
		return err
	})
	if err != nil {
		return nil, s.badValue("get", stored, err)
	}
	return value, nil
}

// badValue reports a value that fails its checks. Keys hold names that not every
// reader may know, so that only the log has them.
func (s *Store) badValue(op string, stored []byte, err error) error {
	s.log.Error("badger: damaged value", "dir", s.dir, "key", fmt.Sprintf("%x", stored[1:]), "err", err)
	return damaged(op, s.dir, err)
}

// rescue turns a panic of Badger's, over bytes it cannot make sense of or over a
// page the disk cannot give, into an error. It is deferred.
func (s *Store) rescue(err *error) {
	r := recover()
	if r == nil {
		return
	}
	s.mu.Lock()
	*err = s.failed // after a failed commit Badger may have lost its memory
	s.mu.Unlock()
	if *err == nil {
		*err = s.doubt(fmt.Errorf("reading failed: %v", r))
	}
}

// recoverInto is rescue where there is no store.
func recoverInto(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("Badger gave up: %s", strings.Join(strings.Fields(fmt.Sprint(r)), " "))
	}
}
