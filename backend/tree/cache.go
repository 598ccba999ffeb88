package tree

import (
	"errors"

	"github.com/warrenfs/warren/backend"
)

// inode is a decoded inode in the cache, guarded by its volume's lock.
type inode struct {
	ino    backend.Ino
	used   bool // since the clock's hand last passed
	weight int64
	rec    record
	names  *names // of a directory; nil: none known
	ends   ends   // of a file
	memo   uint64 // Txn.Memo
	run    run
	frayed uint32 // the turn of frayed in which it was noted there

	rewritten backend.LSN // Txn.Rewritten
}

// names is what is known of a directory's entries.
type names struct {
	byName map[string]dent
	whole  bool // a name that is not here does not exist
}

const (
	// maxNames a directory keeps cached; a larger one is asked of the store.
	maxNames = 200_000
	// prefetchNames: a directory of up to so many is read whole at the first
	// name that is not cached.
	prefetchNames = 512
)

func (v *volume) cachePut(n *inode) {
	v.inodes[n.ino] = n
	v.ring = append(v.ring, n)
	n.used = true
	v.reweigh(n)
	v.loaded++
}

// reweigh accounts n after its names or ends changed.
func (v *volume) reweigh(n *inode) {
	w := 1 + int64(len(n.ends.list)/32)
	if n.names != nil {
		w += int64(len(n.names.byName) / 4)
	}
	v.t.cached.Add(w - n.weight)
	n.weight = w
}

// settle evicts about as many inodes as were loaded since it last ran, if the
// cache is over its bound. It runs when a Txn ends, never inside one: what a
// Txn loaded stays loaded, so that one inode is one object to it.
func (v *volume) settle() {
	if v.loaded > 0 && v.t.cached.Load() > v.t.limit {
		v.evict(2 * v.loaded)
	}
	v.loaded = 0
}

// evict lets go of up to n inodes that were not used for one turn of the clock.
func (v *volume) evict(n int) {
	for steps := 2 * n; steps > 0 && n > 0 && len(v.ring) > 1; steps-- {
		if v.hand >= len(v.ring) {
			v.hand = 0
		}
		i := v.ring[v.hand]
		if i.used {
			i.used = false
			v.hand++
			continue
		}
		v.dropAt(v.hand)
		n--
	}
}

func (v *volume) dropAt(at int) {
	i := v.ring[at]
	last := len(v.ring) - 1
	v.ring[at] = v.ring[last]
	v.ring[last] = nil
	v.ring = v.ring[:last]
	delete(v.inodes, i.ino)
	v.t.cached.Add(-i.weight)
	i.weight = 0
}

// forget removes the inode ino from the cache.
func (v *volume) forget(ino backend.Ino) {
	n := v.inodes[ino]
	if n == nil {
		return
	}
	n.used = false
	delete(v.inodes, ino)
	v.t.cached.Add(-n.weight)
	n.weight = 0
	for at := range v.ring { // orphans are young: they stand near the end
		at = len(v.ring) - 1 - at
		if v.ring[at] == n {
			last := len(v.ring) - 1
			v.ring[at] = v.ring[last]
			v.ring[last] = nil
			v.ring = v.ring[:last]
			return
		}
	}
}

func (v *volume) dropCache() {
	for _, n := range v.ring {
		v.t.cached.Add(-n.weight)
	}
	v.inodes, v.ring, v.hand = map[backend.Ino]*inode{}, nil, 0
}

// trim evicts from every volume that is not busy until the cache is within its
// bound: a volume at rest would otherwise keep what it has for ever.
func (t *Tree) trim() {
	for _, info := range t.Volumes() {
		v := t.vol(info.ID)
		for t.cached.Load() > t.limit && v != nil && v.mu.TryLock() {
			before := len(v.ring)
			v.evict(256)
			after := len(v.ring)
			v.mu.Unlock()
			if after == before || after <= 1 {
				break
			}
		}
	}
}

// load gets an inode from the cache or the store. Stale: no such inode.
func (tx *Txn) load(ino backend.Ino) (*inode, error) {
	if n := tx.v.inodes[ino]; n != nil {
		n.used = true
		tx.looks.inodeHits++
		return n, nil
	}
	tx.looks.inodeMisses++
	if ino == 0 || ino > backend.MaxIno {
		return nil, backend.Stale
	}
	n := &inode{ino: ino}
	err := tx.t.store.View(bg, func(kv backend.Tx) error {
		var err error
		n.rec, err = readInode(kv, tx.v.id, ino)
		return err
	})
	if err != nil {
		return nil, err
	}
	tx.v.cachePut(n)
	return n, nil
}

func readInode(kv backend.Tx, v backend.VolumeID, ino backend.Ino) (record, error) {
	b, err := kv.Get(inodeKey(v, ino))
	if errors.Is(err, backend.NotFound) {
		return record{}, backend.Stale
	}
	if err != nil {
		return record{}, err
	}
	return decodeRecord(v, ino, b)
}

// dir loads a directory. NotDir for anything else.
func (tx *Txn) dir(ino backend.Ino) (*inode, error) {
	n, err := tx.load(ino)
	if err != nil {
		return nil, err
	}
	if n.rec.typ != backend.TypeDir {
		return nil, backend.NotDir
	}
	return n, nil
}

// liveDir loads a directory in which names may be made: not a removed one.
func (tx *Txn) liveDir(ino backend.Ino) (*inode, error) {
	n, err := tx.dir(ino)
	if err == nil && n.rec.nlink == 0 {
		return nil, backend.NotFound
	}
	return n, err
}

// find looks name up in d.
func (tx *Txn) find(d *inode, name string) (dent, error) {
	if d.names != nil {
		if e, ok := d.names.byName[name]; ok {
			tx.looks.nameHits++
			return e, nil
		}
		if d.names.whole {
			tx.looks.nameHits++
			return dent{}, backend.NotFound
		}
	}
	if d.rec.entries == 0 {
		tx.looks.nameHits++
		d.names = &names{whole: true}
		return dent{}, backend.NotFound
	}
	tx.looks.nameMisses++
	if d.rec.entries <= prefetchNames {
		if err := tx.loadNames(d); err != nil {
			return dent{}, err
		}
		if e, ok := d.names.byName[name]; ok {
			return e, nil
		}
		return dent{}, backend.NotFound
	}
	var e dent
	err := tx.t.store.View(bg, func(kv backend.Tx) error {
		b, err := kv.Get(direntKey(tx.v.id, d.ino, name))
		if err != nil {
			return err
		}
		e, err = decodeDent(tx.v.id, d.ino, b)
		return err
	})
	if err != nil {
		if errors.Is(err, backend.NotFound) {
			err = backend.NotFound // the bare kind, which costs no allocation upstream
		}
		return dent{}, err
	}
	tx.cacheName(d, name, e)
	return e, nil
}

// loadNames reads all names of d into the cache, if they are not too many.
func (tx *Txn) loadNames(d *inode) error {
	m := make(map[string]dent, d.rec.entries)
	if err := tx.scanNames(d, func(name string, e dent) { m[name] = e }); err != nil {
		return err
	}
	d.names = &names{byName: m, whole: true}
	tx.v.reweigh(d)
	return nil
}

func (tx *Txn) scanNames(d *inode, fn func(string, dent)) error {
	return tx.t.store.View(bg, func(kv backend.Tx) error {
		start := appendIno(nil, famDirent, tx.v.id, d.ino)
		return kv.Scan(start, backend.PrefixEnd(start), func(k, b []byte) error {
			e, err := decodeDent(tx.v.id, d.ino, b)
			if err != nil {
				return err
			}
			fn(nameOf(k), e)
			return nil
		})
	})
}

// cacheName notes that name in d leads to e.
func (tx *Txn) cacheName(d *inode, name string, e dent) {
	if d.names == nil {
		d.names = &names{}
	}
	if d.names.byName == nil {
		d.names.byName = map[string]dent{}
	}
	if len(d.names.byName) >= maxNames {
		d.names = &names{byName: map[string]dent{}}
	}
	d.names.byName[name] = e
	tx.v.reweigh(d)
}

// uncacheName notes that name in d leads nowhere.
func (tx *Txn) uncacheName(d *inode, name string) {
	if d.names != nil {
		delete(d.names.byName, name)
		tx.v.reweigh(d)
	}
}
