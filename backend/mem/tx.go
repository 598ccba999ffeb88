package mem

import (
	"bytes"
	"errors"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/txcontent"
	"github.com/warrenfs/warren/backend/internal/txlimit"
)

// Content is the content driver: bytes travel in the transaction, under
// backend.ContentKey(id), at most 64 KiB a Put, checked by length and CRC-32C
// on every read. Errors are those of backend.Content. The zero Content is ready.
type Content struct{ txcontent.Content }

var _ backend.Content = Content{}

// tx is a transaction. A View's tree is the published one and never changed; an
// Update's is its own copy.
type tx struct {
	tree     *itemTree
	readonly bool
	done     bool
	counter  txlimit.Counter
}

var _ backend.Tx = (*tx)(nil)

func (t *tx) end() { t.done = true }

// usable refuses calls after the transaction's end, and changes in a View.
func (t *tx) usable(op string, change bool) error {
	if t.done {
		return &backend.Error{Op: op, Kind: backend.Invalid, Err: errors.New("the transaction has ended")}
	}
	if change && t.readonly {
		return &backend.Error{Op: op, Kind: backend.ReadOnly, Err: errors.New("a View changes nothing")}
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
	it, ok := t.tree.Get(item{key: key})
	if !ok {
		return nil, backend.NotFound
	}
	return it.value, nil
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
	t.tree.Set(item{key: bytes.Clone(key), value: append(make([]byte, 0, len(value)), value...)})
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
	t.tree.Delete(item{key: key})
	return nil
}

func (t *tx) Scan(start, end []byte, fn func(key, value []byte) error) error {
	if err := t.usable("scan", false); err != nil {
		return err
	}
	tree := t.tree
	if !t.readonly {
		tree = tree.Copy() // fn may change t.tree under the walk
	}
	var err error
	tree.Ascend(item{key: start}, func(it item) bool {
		if end != nil && bytes.Compare(it.key, end) >= 0 {
			return false
		}
		err = fn(it.key, it.value)
		return err == nil
	})
	if err == backend.ErrStop {
		return nil
	}
	return err
}

func (t *tx) ScanKeys(start, end []byte, fn func(key []byte) error) error {
	return t.Scan(start, end, func(key, _ []byte) error { return fn(key) })
}
