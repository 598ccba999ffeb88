package feed

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"

	"github.com/warrenfs/warren/backend"
)

// Every event carries the chain up to it: the hash of the chain before, its number and
// its record. The chain's end is a record of its own, changed in the transaction that
// adds an event. Events that are removed leave a gap record at the number of the last
// of them, with the chain up to there, so that it goes on behind.

const (
	chainSize   = 16
	chainedHead = 2 + chainSize // bytes of a record before its time
)

// headKey is the key of the chain's end: the number of the last event, and the chain up to it.
var headKey = []byte{Family, 'h'}

// errGap is the error of decode for a gap record.
var errGap = errors.New("a gap of the feed")

// link returns the chain up to the event of number seq, whose record is b. It ignores
// the bytes of b that hold the chain.
func link(before [chainSize]byte, seq uint64, b []byte) [chainSize]byte {
	h := sha256.New()
	h.Write(before[:])
	h.Write(binary.BigEndian.AppendUint64(nil, seq))
	h.Write(b[:2])
	h.Write(b[chainedHead:])
	return [chainSize]byte(h.Sum(nil))
}

// head reads the chain's end, which is zero if no event has a chain yet.
func head(kv backend.Tx) (seq uint64, chain [chainSize]byte, err error) {
	b, err := kv.Get(headKey)
	switch {
	case errors.Is(err, backend.NotFound):
		return 0, chain, nil
	case err != nil:
		return 0, chain, err
	case len(b) != 8+chainSize:
		return 0, chain, &backend.Error{Op: "read feed", Kind: backend.IO, Err: errDamaged}
	}
	return binary.BigEndian.Uint64(b), [chainSize]byte(b[8:]), nil
}

// chainOn stores e, whose record without a chain is b, at the chain's end.
func chainOn(kv backend.Tx, e *Event, b []byte) error {
	_, before, err := head(kv)
	if err != nil {
		return err
	}
	chain := link(before, e.Seq, b)
	copy(b[2:], chain[:])
	if err := kv.Set(headKey, append(binary.BigEndian.AppendUint64(nil, e.Seq), chain[:]...)); err != nil {
		return err
	}
	return kv.Set(key(e.Seq), b)
}

// gap is a run of removed events.
type gap struct {
	chain [chainSize]byte
	count uint64
}

func (g gap) encode() []byte {
	return binary.AppendUvarint(append([]byte{versionGap}, g.chain[:]...), g.count)
}

func decodeGap(b []byte) (g gap, ok bool) {
	if len(b) <= 1+chainSize || b[0] != versionGap {
		return g, false
	}
	count, n := binary.Uvarint(b[1+chainSize:])
	return gap{[chainSize]byte(b[1:]), count}, n > 0
}

// Verdict is the result of Verify.
type Verdict struct {
	Events    uint64 // in the chain
	Unchained uint64 // from before there was a chain
	Aged      uint64 // removed by the rules of retention
	Gaps      uint64 // runs of those
	Broken    uint64 // number of the first event that does not follow from those before; 0: none
	Head      uint64 // number of the last event
	Chain     [chainSize]byte
}

// Verify follows the chain through the whole feed.
func (f *Feed) Verify(ctx context.Context) (v Verdict, err error) {
	err = f.store.View(ctx, func(kv backend.Tx) error {
		v = Verdict{}
		end, chain, err := head(kv)
		if err != nil {
			return err
		}
		v.Head, v.Chain = end, chain
		var at [chainSize]byte
		last := uint64(0)
		err = f.each(ctx, kv, key(0), func(seq uint64, b []byte) error {
			if g, ok := decodeGap(b); ok {
				v.Gaps, v.Aged, at = v.Gaps+1, v.Aged+g.count, g.chain
				if at != ([chainSize]byte{}) { // not only events of before the chain
					last = seq
				}
				return nil
			}
			e, err := decode(b)
			switch {
			case err == nil && !e.chained && v.Events == 0:
				v.Unchained++
				return nil
			case err != nil || !e.chained || link(at, seq, b) != e.chain:
				v.Broken = seq
				return backend.ErrStop
			}
			v.Events, at, last = v.Events+1, e.chain, seq
			return nil
		})
		if err == nil && v.Broken == 0 && (last != end || at != chain) {
			v.Broken = max(last, end) // what is behind the last is gone
		}
		return err
	})
	return v, err
}

// each calls fn with the records from a key on.
func (f *Feed) each(ctx context.Context, kv backend.Tx, from []byte, fn func(seq uint64, b []byte) error) error {
	return kv.Scan(from, end, func(k, b []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		seq, ok := seqOf(k)
		if !ok {
			return nil
		}
		return fn(seq, b)
	})
}
