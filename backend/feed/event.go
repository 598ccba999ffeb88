package feed

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/warrenfs/warren/backend"
)

// Event is one change, or a number of equal denials.
type Event struct {
	Seq   uint64
	Time  backend.Time // of a denial: the last
	Op    string       // create, write, rename, ...
	Agent string       // "": the administrator
	Mount string       // mountpoint that it came by; "": the API
	Path  string       // tree path at that time, any bytes
	To    string       // of rename and link: the new path
	Rule  string       // of a denial: the policy that decided
	Node  backend.NodeID
	Count uint64 // how often; 1 for a change
	Flags Flags

	Created bool // it tells of a new node, Node; not kept

	chain   [chainSize]byte
	chained bool // it has one: version 1 had not
}

// Flags tell denials from changes, and renames that replace from others.
type Flags uint8

// The flags.
const (
	Denied   Flags = 1 << iota // it was refused
	Hidden                     // because the agent may not know that it is there
	Replaced                   // of a rename: something stood at To, and is gone
)

// Versions of a record: an event before there was a chain, one in the chain, and what
// is left of removed ones.
const (
	versionPlain   = 1
	versionChained = 2
	versionGap     = 3
)

func (e *Event) encode(b []byte) []byte {
	b = append(b, versionChained, byte(e.Flags))
	b = append(b, e.chain[:]...)
	b = binary.AppendVarint(b, int64(e.Time))
	b = binary.AppendUvarint(b, uint64(e.Node))
	b = binary.AppendUvarint(b, e.Count)
	for _, s := range []string{e.Op, e.Agent, e.Mount, e.Path, e.To, e.Rule} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

var errDamaged = errors.New("a feed record is damaged")

// decode reads what encode wrote; strings are copies.
func decode(b []byte) (e Event, err error) {
	switch {
	case len(b) >= 2 && b[0] == versionPlain:
		e.Flags = Flags(b[1])
		b = b[2:]
	case len(b) >= chainedHead && b[0] == versionChained:
		e.Flags, e.chain, e.chained = Flags(b[1]), [chainSize]byte(b[2:]), true
		b = b[chainedHead:]
	case len(b) > 0 && b[0] == versionGap:
		return e, errGap
	default:
		return e, &backend.Error{Op: "read feed", Kind: backend.IO, Err: errDamaged}
	}
	bad := false
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			bad, b = true, nil
			return 0
		}
		b = b[n:]
		return v
	}
	t, n := binary.Varint(b)
	if n <= 0 {
		return e, &backend.Error{Op: "read feed", Kind: backend.IO, Err: errDamaged}
	}
	b = b[n:]
	e.Time = backend.Time(t)
	e.Node, e.Count = backend.NodeID(number()), number()
	for _, s := range []*string{&e.Op, &e.Agent, &e.Mount, &e.Path, &e.To, &e.Rule} {
		size := number()
		if size > uint64(len(b)) {
			bad = true
			break
		}
		*s, b = string(b[:size]), b[size:]
	}
	if bad || len(b) > 0 {
		return e, &backend.Error{Op: "read feed", Kind: backend.IO, Err: errDamaged}
	}
	return e, nil
}

// Family is the first byte of the feed's keys.
const Family = 'f'

func key(seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{Family}, seq)
}

func seqOf(k []byte) (uint64, bool) {
	if len(k) != 9 || k[0] != Family {
		return 0, false
	}
	return binary.BigEndian.Uint64(k[1:]), true
}

// end is behind the last key.
var end = []byte{Family + 1}

// maxSeq is never reached.
const maxSeq = math.MaxUint64
