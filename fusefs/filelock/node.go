package filelock

import "slices"

// against tells whether a lock stands against l, and whether only lazy ones do.
func (nd *node) against(l *Lock) (blocked, lazy bool) {
	lazy = true
	for i := range nd.locks {
		if o := &nd.locks[i]; o.conflicts(l) {
			blocked = true
			lazy = lazy && o.Lazy
		}
	}
	return blocked, lazy
}

// concerns tells whether a mount holds a lock here or waits for one.
func (nd *node) concerns(mount uint64) bool {
	for w := range nd.waiting {
		if w.mount == mount {
			return true
		}
	}
	return slices.ContainsFunc(nd.locks, func(l Lock) bool { return l.Owner.Mount == mount })
}

// wake lets all that wait for nd look again.
func (nd *node) wake() {
	if nd.changed != nil {
		close(nd.changed)
		nd.changed = nil
	}
}

// remove takes out the locks that match.
func (nd *node) remove(which func(*Lock) bool) bool {
	kept := nd.locks[:0]
	for i := range nd.locks {
		if !which(&nd.locks[i]) {
			kept = append(kept, nd.locks[i])
		}
	}
	removed := len(kept) < len(nd.locks)
	nd.locks = kept
	return removed
}

// cut takes [start, end] out of o's locks; what stands before and after stays.
func (nd *node) cut(o Owner, start, end uint64) {
	out := make([]Lock, 0, len(nd.locks)+1)
	for _, l := range nd.locks {
		if l.Owner != o || l.End < start || l.Start > end {
			out = append(out, l)
			continue
		}
		if l.Start < start {
			left := l
			left.End = start - 1
			out = append(out, left)
		}
		if l.End > end {
			right := l
			right.Start = end + 1
			out = append(out, right)
		}
	}
	nd.locks = out
}

// put adds l, which nothing stands against, in place of what its owner held of
// the range, and joins it with equal neighbours. One owner's locks stand together
// in the order of their bytes, the owners in the order in which they came, as in
// Linux: F_GETLK tells the first that is in the way.
func (nd *node) put(l Lock) {
	at := slices.IndexFunc(nd.locks, func(o Lock) bool { return o.Owner == l.Owner })
	nd.cut(l.Owner, l.Start, l.End)
	kept := nd.locks[:0]
	for _, o := range nd.locks {
		if o.Owner == l.Owner && o.Write == l.Write && o.Handle == l.Handle && o.Lazy == l.Lazy && touches(&o, &l) {
			l.Start, l.End = min(l.Start, o.Start), max(l.End, o.End)
			continue
		}
		kept = append(kept, o)
	}
	if at < 0 {
		at = len(kept)
	}
	for at < len(kept) && kept[at].Owner == l.Owner && kept[at].Start < l.Start {
		at++
	}
	nd.locks = slices.Insert(kept, at, l)
}

func touches(a, b *Lock) bool {
	return (a.End != MaxEnd && a.End+1 == b.Start) || (b.End != MaxEnd && b.End+1 == a.Start)
}
