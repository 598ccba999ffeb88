package segment

import (
	"fmt"
	"slices"

	"github.com/warrenfs/warren/backend"
)

// auditor compares what the store counts of segments with what is named.
type auditor struct {
	c      *Content
	report func(text string)
	set    func(key, value []byte) // of a repair
	counts map[uint64]counts
	named  map[uint64][]place // by segment
	odd    map[uint64][]span  // what is no place
	freed  map[uint64]map[int64]bool
}

// place is where a record is: its offset in the upper bits, its size in the lower, both in
// units of align. Places are in the order of their offsets.
type place uint64

const placeSize = 29 // bits

// placeOf tells whether a record can be told of by a place: what the store names may
// be damaged.
func placeOf(sp span) (p place, ok bool) {
	from, size := uint64(sp.from)/align, uint64(sp.to-sp.from)/align
	p = place(from<<placeSize | size)
	return p, p.span() == sp
}

func (p place) span() span {
	from, size := int64(p>>placeSize)*align, int64(p&(1<<placeSize-1))*align
	return span{from, from + size}
}

func newAuditor(c *Content, report func(text string)) *auditor {
	return &auditor{c: c, report: report, counts: map[uint64]counts{}, named: map[uint64][]place{},
		odd: map[uint64][]span{}, freed: map[uint64]map[int64]bool{}}
}

// Audit is the part of fsck that is about segments: it compares the counts in
// tx, a View of the bound store, with the refs that each gives, and looks for
// records that nothing names. each may give a ref more than once. What is wrong
// goes to report. Its memory grows with the refs, about 10 bytes each. Errors:
// those of tx and of each.
func (c *Content) Audit(tx backend.Tx, each func(fn func(backend.Ref) error) error, report func(text string)) error {
	a := newAuditor(c, report)
	if err := a.load(tx); err != nil {
		return err
	}
	if err := a.collect(each); err != nil {
		return err
	}
	for _, number := range a.segments() {
		a.segment(number)
	}
	return nil
}

// Recount is the part of a repair that is about segments: what Audit says of
// counts and of marks of freed records, it has set right. set is told each key
// that is to change, with its new value or nil to delete it, and did what that
// mends. Memory and errors as Audit.
func (c *Content) Recount(tx backend.Tx, each func(fn func(backend.Ref) error) error, set func(key, value []byte), did func(text string)) error {
	a := newAuditor(c, did)
	a.set = set
	if err := a.load(tx); err != nil {
		return err
	}
	if err := a.collect(each); err != nil {
		return err
	}
	for _, number := range a.segments() {
		a.recount(number)
	}
	return nil
}

// recount sets right what is kept of a segment.
func (a *auditor) recount(number uint64) {
	spans, live, end := a.sum(number)
	for _, sp := range spans {
		if a.freed[number][sp.from] {
			a.set(freedKey(number, uint64(sp.from)), nil)
			a.bad(number, "the mark of the record at %d as freed is removed: it is named", sp.from)
		}
	}
	n := a.counts[number]
	if n.is(spans, live, end) {
		return
	}
	next := counts{live: live, refs: uint64(len(spans)), end: max(n.end, end)}
	a.set(countsKey(number), next.encode())
	a.bad(number, "counts of %d records of %d bytes up to %d are now %d of %d bytes up to %d",
		n.refs, n.live, n.end, next.refs, next.live, next.end)
}

// is tells whether the counts are those of what is named.
func (n counts) is(spans []span, live, end int64) bool {
	return n.live == live && n.refs == uint64(len(spans)) && n.end >= end
}

// wrong tells of a key that makes no sense, which a repair removes.
func (a *auditor) wrong(key []byte, what string) {
	text := fmt.Sprintf("%s under the key %x", what, key)
	if a.set == nil {
		a.report(text + " is damaged")
		return
	}
	a.set(key, nil)
	a.report(text + ", damaged, is removed")
}

// collect notes what is named.
func (a *auditor) collect(each func(fn func(backend.Ref) error) error) error {
	return each(func(ref backend.Ref) error {
		at := int64(ref.Offset)
		sp := span{at, at + recordSize(ref.Length)}
		if p, ok := placeOf(sp); ok {
			a.named[ref.Segment] = append(a.named[ref.Segment], p)
		} else {
			a.odd[ref.Segment] = append(a.odd[ref.Segment], sp)
		}
		return nil
	})
}

// sum gives the named records of a segment, ascending, their bytes, and where
// the last ends. It is called once for each.
func (a *auditor) sum(number uint64) (spans []span, live, end int64) {
	spans = a.odd[number]
	for _, p := range a.named[number] {
		spans = append(spans, p.span())
	}
	delete(a.named, number)
	slices.SortFunc(spans, func(x, y span) int { return int(min(max(x.from-y.from, -1), 1)) })
	spans = slices.Compact(spans)
	for _, sp := range spans {
		live, end = live+sp.to-sp.from, max(end, sp.to)
	}
	return spans, live, end
}

func (a *auditor) bad(segment uint64, format string, args ...any) {
	a.report(fmt.Sprintf("segment %016x: ", segment) + fmt.Sprintf(format, args...))
}

// load reads the keys of the family.
func (a *auditor) load(tx backend.Tx) error {
	err := tx.Scan([]byte{family, subCounts}, []byte{family, subCounts + 1}, func(k, v []byte) error {
		number, ok := countsSegment(k)
		n, err := decodeCounts(number, v)
		if !ok || err != nil {
			a.wrong(k, "the count")
			return nil
		}
		a.counts[number] = n
		return nil
	})
	if err != nil {
		return err
	}
	return tx.Scan([]byte{family, subFreed}, []byte{family, subFreed + 1}, func(k, v []byte) error {
		number, sp, err := freedRecord(k, v)
		if err != nil {
			a.wrong(k, "the mark of a freed record")
			return nil
		}
		if a.freed[number] == nil {
			a.freed[number] = map[int64]bool{}
		}
		a.freed[number][sp.from] = true
		return nil
	})
}

// segments gives all that are counted or named, ascending.
func (a *auditor) segments() []uint64 {
	var out []uint64
	for n := range a.counts {
		out = append(out, n)
	}
	for n := range a.named {
		out = append(out, n)
	}
	for n := range a.odd {
		out = append(out, n)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (a *auditor) segment(number uint64) {
	spans, live, end := a.sum(number)
	last := int64(0)
	for _, sp := range spans {
		if sp.from < last {
			a.bad(number, "records at %d overlap", sp.from)
		}
		last = max(last, sp.to)
		if a.freed[number][sp.from] {
			a.bad(number, "the record at %d is named and marked as freed", sp.from)
		}
	}
	n := a.counts[number]
	if !n.is(spans, live, end) {
		a.bad(number, "counts say %d records of %d bytes up to %d; %d of %d bytes up to %d are named",
			n.refs, n.live, n.end, len(spans), live, end)
	}
	a.walk(number, spans, n.end)
}

// walk looks for records before end that nothing names.
func (a *auditor) walk(number uint64, named []span, end int64) {
	count, size, first := 0, int64(0), int64(0)
	err := a.c.Walk(number, func(e Entry) error {
		at := int64(e.Ref.Offset)
		if at >= end {
			return backend.ErrStop
		}
		_, isNamed := slices.BinarySearchFunc(named, at, func(s span, at int64) int { return int(min(max(s.from-at, -1), 1)) })
		if e.Void || e.Unknown || isNamed || a.freed[number][at] {
			return nil
		}
		if count == 0 {
			first = at
		}
		count++
		size += e.Size
		return nil
	})
	if err != nil && len(named) > 0 {
		a.bad(number, "%d records are lost: %v", len(named), err)
	}
	if count > 0 {
		a.bad(number, "%d records of %d bytes that nothing names, the first at %d", count, size, first)
	}
}
