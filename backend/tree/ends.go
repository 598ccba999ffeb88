package tree

import (
	"errors"
	"slices"

	"github.com/warrenfs/warren/backend"
)

const (
	// maxEnds is how many extents a file has at most whose ends are kept: 32 KiB.
	maxEnds = 4096
	// learnAfter is how many ranges of a file are asked of the store before its
	// ends are read.
	learnAfter = 4
	// maxLookups is how many extents of a range are looked up one by one; where
	// there are more a scan costs less.
	maxLookups = 16
	// maxFollowed is how many extents of one Update are followed one by one.
	maxFollowed = 32
)

// ends are where the extents of a file end, void ones included, ascending: all of
// them, if they are known. It is keys, not what stands under them, since
// Tree.Relocate changes that without the volume's lock. A scan of a file that is
// written in small pieces walks thousands of deleted keys and old versions, where
// a few lookups do.
type ends struct {
	list  []uint64
	known bool
	asks  int32 // ranges asked of the store while they were not known
}

// in gives the ends of those extents that may have bytes in [from, to), if they
// are known and few. The slice is valid until the file changes.
func (e *ends) in(from, to uint64) ([]uint64, bool) {
	if !e.known {
		return nil, false
	}
	i, n := e.after(from), 0
	for i+n < len(e.list) && (n == 0 || e.list[i+n-1] < to) {
		if n++; n > maxLookups {
			return nil, false
		}
	}
	return e.list[i : i+n], true
}

// after is the place of the first end behind off.
func (e *ends) after(off uint64) int {
	i, _ := slices.BinarySearch(e.list, off+1)
	return i
}

// put notes an extent, drop that there is none any more.
func (e *ends) put(end uint64) {
	if i, there := slices.BinarySearch(e.list, end); !there {
		e.list = slices.Insert(e.list, i, end)
	}
	if len(e.list) > maxEnds {
		e.forget(-maxEnds)
	}
}

func (e *ends) drop(end uint64) {
	if i, there := slices.BinarySearch(e.list, end); there {
		e.list = slices.Delete(e.list, i, i+1)
	}
}

func (e *ends) forget(asks int32) { *e = ends{asks: asks} }

// endsIn is ends.in of n's file, whose extents kv shows as they are. It reads the
// ends when it was called often enough for what is not the end of the file, where one
// lookup mostly does.
func (v *volume) endsIn(kv backend.Tx, n *inode, from, to uint64) ([]uint64, bool) {
	if !n.ends.known {
		if to >= n.rec.extents.high {
			return nil, false
		}
		if n.ends.asks++; n.ends.asks < learnAfter {
			return nil, false
		}
		v.learnEnds(kv, n)
	}
	return n.ends.in(from, to)
}

// learnEnds reads the ends of n's file, unless they are too many.
func (v *volume) learnEnds(kv backend.Tx, n *inode) {
	var few [64]uint64
	list := few[:0]
	start := appendIno(nil, famExtent, v.id, n.ino)
	err := kv.ScanKeys(start, backend.PrefixEnd(start), func(k []byte) error {
		if len(k) != 21 || len(list) == maxEnds {
			list = nil
			return backend.ErrStop
		}
		list = append(list, endOf(k))
		return nil
	})
	if err != nil || list == nil {
		n.ends.forget(-maxEnds)
		return
	}
	n.ends = ends{list: slices.Clone(list), known: true} // no longer than it is
	v.reweigh(n)
}

// moved is an extent that an Update put, or took away.
type moved struct {
	ino  backend.Ino
	end  uint64
	gone bool
}

// follow brings the ends that are known up to date after an Update.
func (v *volume) follow(all []moved) {
	for _, m := range all {
		n := v.inodes[m.ino]
		switch {
		case n == nil || !n.ends.known:
			continue
		case len(all) > maxFollowed:
			n.ends.forget(0)
		case m.gone:
			n.ends.drop(m.end)
		default:
			n.ends.put(m.end)
		}
		v.reweigh(n)
	}
}

// unsure forgets the ends of files whose Update may have taken effect or not.
func (v *volume) unsure(all []moved) {
	for _, m := range all {
		if n := v.inodes[m.ino]; n != nil {
			n.ends.forget(0)
		}
	}
}

// extentsIn is extentsIn of a file of any volume; where that is w's own, by the ends
// that are known.
func (w *writer) extentsIn(v *volume, ino backend.Ino, high, from, to uint64, fn func(*extent) error) error {
	if v == w.v && from < high && !slices.ContainsFunc(w.moved, func(m moved) bool { return m.ino == ino }) {
		if n := v.inodes[ino]; n != nil {
			if at, ok := v.endsIn(w.kv, n, from, to); ok {
				return lookUpExtents(w.kv, v.id, ino, at, from, to, fn)
			}
		}
	}
	return extentsIn(w.kv, v.id, ino, high, from, to, fn)
}

// eachExtent is extentsIn of n's file from an offset to its end, for one who stops
// at what it looks for.
func (v *volume) eachExtent(kv backend.Tx, n *inode, from uint64, fn func(*extent) error) error {
	size := n.rec.size
	if !n.ends.known {
		return extentsIn(kv, v.id, n.ino, n.rec.extents.high, from, size, fn)
	}
	at := n.ends.list[n.ends.after(from):]
	more := len(at) > maxLookups
	at = at[:min(len(at), maxLookups)]
	stopped := false
	err := lookUpExtents(kv, v.id, n.ino, at, from, size, func(e *extent) error {
		err := fn(e)
		stopped = err != nil
		return err
	})
	if err != nil || stopped || !more {
		return err
	}
	return scanExtents(kv, v.id, n.ino, at[len(at)-1], size, fn)
}

// lookUpExtents is scanExtents of a file of which the extents that may have bytes
// in [from, to) end at the given offsets.
func lookUpExtents(kv backend.Tx, v backend.VolumeID, ino backend.Ino, at []uint64, from, to uint64, fn func(*extent) error) error {
	for _, end := range at {
		b, err := kv.Get(extentKey(v, ino, end))
		if errors.Is(err, backend.NotFound) { // it must be there: what is, is told
			return scanExtents(kv, v, ino, from, to, fn)
		}
		if err != nil {
			return err
		}
		e, err := decodeExtent(v, ino, end, b)
		if err != nil {
			return err
		}
		if e.start >= to {
			return nil
		}
		if err := fn(&e); err == backend.ErrStop {
			return nil
		} else if err != nil {
			return err
		}
		from = end
	}
	return nil
}
