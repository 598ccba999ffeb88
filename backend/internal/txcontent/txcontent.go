// Package txcontent is [backend.Content] for drivers whose bytes travel in the
// transaction: each Ref is one value under backend.ContentKey(Ref.ID), exactly
// the bytes given to Put. The Ref itself carries their length and CRC-32C, so
// bytes that were cut, changed or exchanged are found on every read.
//
// A Ref's Segment and Offset are always 0. Nothing here locks or keeps state:
// the zero [Content] is ready and may be shared.
package txcontent

import (
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/warrenfs/warren/backend"
)

// Limit is the number of bytes that one Put takes.
const Limit = 64 << 10

// Content keeps bytes as values of the transaction's store.
type Content struct{}

var _ backend.Content = Content{}

// Put stores data under id as part of tx. Errors: Invalid without data, TooBig
// over Limit bytes or over a limit of tx, ReadOnly in a View.
func (Content) Put(tx backend.Tx, id uint64, data []byte) (backend.Ref, error) {
	if len(data) == 0 {
		return backend.Ref{}, fail("put", backend.Ref{ID: id}, backend.Invalid, "no bytes")
	}
	if len(data) > Limit {
		return backend.Ref{}, fail("put", backend.Ref{ID: id}, backend.TooBig,
			fmt.Sprintf("%d bytes, limit %d", len(data), Limit))
	}
	if err := tx.Set(backend.ContentKey(id), data); err != nil {
		return backend.Ref{}, err
	}
	return backend.Ref{ID: id, Length: uint32(len(data)), CRC: checksum(data)}, nil
}

// Get copies bytes [off, off+len(p)) of ref into p, after the whole of ref
// passed its checksum. Errors: Range outside the ref; IO when the bytes are
// missing or damaged. p is untouched after an error.
func (Content) Get(tx backend.Tx, ref backend.Ref, off uint32, p []byte) error {
	if uint64(off)+uint64(len(p)) > uint64(ref.Length) {
		return fail("get", ref, backend.Range, fmt.Sprintf("bytes [%d, %d)", off, uint64(off)+uint64(len(p))))
	}
	data, err := load(tx, "get", ref)
	if err != nil {
		return err
	}
	copy(p, data[off:])
	return nil
}

// Free deletes ref's bytes as part of tx; bytes that are not there are no error.
func (Content) Free(tx backend.Tx, ref backend.Ref) error {
	return tx.Delete(backend.ContentKey(ref.ID))
}

// Check reads and verifies the whole of ref. Errors: IO.
func (Content) Check(tx backend.Tx, ref backend.Ref) error {
	_, err := load(tx, "check", ref)
	return err
}

// Limit is 64 KiB.
func (Content) Limit() int { return Limit }

// load gives the verified bytes of ref.
func load(tx backend.Tx, op string, ref backend.Ref) ([]byte, error) {
	data, err := tx.Get(backend.ContentKey(ref.ID))
	switch {
	case err != nil && backend.KindOf(err) == backend.NotFound:
		return nil, fail(op, ref, backend.IO, "its bytes are missing")
	case err != nil:
		return nil, &backend.Error{Op: op, Path: name(ref), Kind: backend.KindOf(err), Err: err}
	case len(data) != int(ref.Length):
		return nil, fail(op, ref, backend.IO, fmt.Sprintf("%d bytes where %d belong", len(data), ref.Length))
	case checksum(data) != ref.CRC:
		return nil, fail(op, ref, backend.IO, "its bytes fail their checksum")
	}
	return data, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(data []byte) uint32 { return crc32.Checksum(data, castagnoli) }

func name(ref backend.Ref) string { return fmt.Sprintf("content %016x", ref.ID) }

func fail(op string, ref backend.Ref, kind backend.Kind, text string) error {
	return &backend.Error{Op: op, Path: name(ref), Kind: kind, Err: errors.New(text)}
}
