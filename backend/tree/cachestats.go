package tree

import "sync/atomic"

// CacheStats tell how the cache of inodes and names does. Counts are since Open
// and never get smaller.
type CacheStats struct {
	InodeHits, InodeMisses uint64 // inodes asked for: had, and read from the store
	NameHits, NameMisses   uint64 // names asked for in a directory, also such as are not there
	// Weight is what is cached now, in inodes (four names count as one), and
	// Limit what it is kept to.
	Weight, Limit int64
}

// looks counts what was asked of the cache.
type looks struct{ inodeHits, inodeMisses, nameHits, nameMisses uint64 }

// tally is the looks of all Txns of one volume that have ended.
type tally struct{ inodeHits, inodeMisses, nameHits, nameMisses atomic.Uint64 }

func (t *tally) add(l *looks) {
	for _, c := range []struct {
		to *atomic.Uint64
		n  uint64
	}{{&t.inodeHits, l.inodeHits}, {&t.inodeMisses, l.inodeMisses}, {&t.nameHits, l.nameHits}, {&t.nameMisses, l.nameMisses}} {
		if c.n > 0 {
			c.to.Add(c.n)
		}
	}
	*l = looks{}
}

func (t *tally) load() looks {
	return looks{t.inodeHits.Load(), t.inodeMisses.Load(), t.nameHits.Load(), t.nameMisses.Load()}
}

// CacheStats gives the present ones. It takes no volume's lock.
func (t *Tree) CacheStats() CacheStats {
	t.mu.RLock()
	defer t.mu.RUnlock()
	sum := t.gone.load()
	for _, v := range t.vols {
		l := v.asked.load()
		sum.inodeHits += l.inodeHits
		sum.inodeMisses += l.inodeMisses
		sum.nameHits += l.nameHits
		sum.nameMisses += l.nameMisses
	}
	return CacheStats{sum.inodeHits, sum.inodeMisses, sum.nameHits, sum.nameMisses, t.cached.Load(), t.limit}
}
