package tree

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/warrenfs/warren/backend"
)

// Problem is one broken invariant that Check found.
type Problem struct {
	Volume backend.VolumeID
	Ino    backend.Ino // 0: the volume itself
	Path   string      // in the store's tree, where it is known (Locate)
	Text   string
}

// String gives "volume:inode: text".
func (p Problem) String() string {
	if p.Volume == 0 {
		return p.Text
	}
	return fmt.Sprintf("%s: %s", backend.Node(p.Volume, p.Ino), p.Text)
}

// CheckOptions say how deep Check looks.
type CheckOptions struct {
	// Content also reads and verifies all content bytes.
	Content bool
	// Progress, if set, is told how many inodes were looked at, and how many there are
	// (0: not known).
	Progress func(done, total uint64)
}

// Check verifies every invariant of a store's tree on one consistent snapshot
// and reports what is broken. It changes nothing and may run beside anything.
// Its memory grows with the largest volume's inodes, some 25 bytes each, and the
// contents that extents name, about 15 bytes each; what is broken takes more. The
// error is that of a store that could not be read at all.
func Check(ctx context.Context, s backend.Store, c backend.Content, o CheckOptions, report func(Problem)) error {
	return s.View(ctx, func(kv backend.Tx) error {
		k := &checker{ctx: ctx, kv: kv, content: c, opt: o, report: report, named: newIDCounts(), seed: maphash.MakeSeed()}
		return k.run()
	})
}

// Check is Check of the tree's own store.
func (t *Tree) Check(ctx context.Context, o CheckOptions, report func(Problem)) error {
	return Check(ctx, t.store, t.content, o, report)
}

type checker struct {
	ctx     context.Context
	kv      backend.Tx
	content backend.Content
	opt     CheckOptions
	report  func(Problem)

	vols  []volrec
	named idCounts // content ids that extents name
	seed  maphash.Seed

	done, total uint64 // inodes
}

func (k *checker) bad(v backend.VolumeID, i backend.Ino, format string, args ...any) {
	p := Problem{Volume: v, Ino: i, Text: fmt.Sprintf(format, args...)}
	if v != 0 && i != 0 {
		p.Path = Locate(k.kv, v, i)
	}
	k.report(p)
}

func (k *checker) run() error {
	if err := k.volumes(); err != nil {
		return err
	}
	if err := k.count(); err != nil {
		return err
	}
	for i := range k.vols {
		if err := k.shown(&k.vols[i]); err != nil {
			return err
		}
		if k.vols[i].removed {
			if err := k.countOnly(k.vols[i].ID); err != nil {
				return err
			}
			continue
		}
		v := &volcheck{checker: k, rec: k.vols[i]}
		if err := v.run(); err != nil {
			return err
		}
	}
	if err := k.shares(); err != nil {
		return err
	}
	if err := k.contents(); err != nil {
		return err
	}
	if a, ok := k.content.(auditor); ok {
		return a.Audit(k.kv, k.eachRef, func(text string) { k.bad(0, 0, "%s", text) })
	}
	return nil
}

// auditor is a Content that keeps counts of its own: it compares them with the
// refs that each gives, and reports what is wrong.
type auditor interface {
	Audit(kv backend.Tx, each func(fn func(backend.Ref) error) error, report func(text string)) error
}

// eachRef calls fn with the ref of each extent that has one.
func (k *checker) eachRef(fn func(backend.Ref) error) error { return eachRef(k.ctx, k.kv, fn) }

func eachRef(ctx context.Context, kv backend.Tx, fn func(backend.Ref) error) error {
	return kv.Scan([]byte{famExtent}, []byte{famExtent + 1}, func(key, b []byte) error {
		e, err := decodeExtentKey(key, b)
		if err != nil || e.inline != nil {
			return ctx.Err() // what is damaged is told of elsewhere
		}
		if err := fn(e.ref); err != nil {
			return err
		}
		return ctx.Err()
	})
}

func (k *checker) volumes() error {
	return k.kv.Scan([]byte{famVolume}, []byte{famVolume + 1}, func(key, b []byte) error {
		rec, err := decodeVolume(volumeOf(key), b)
		if err != nil {
			k.bad(volumeOf(key), 0, "%v", err)
			return nil
		}
		k.vols = append(k.vols, rec)
		return k.ctx.Err()
	})
}

// count sums what the counters say, for Progress.
func (k *checker) count() error {
	return k.kv.Scan([]byte{famUsage}, []byte{famUsage + 1}, func(key, b []byte) error {
		if len(key) == 5 {
			if u, err := decodeUsage(volumeOf(key), b); err == nil {
				k.total += u.inodes
			}
		}
		return nil
	})
}

// shown looks for the name that a volume says it stands under.
func (k *checker) shown(rec *volrec) error {
	if rec.removed || rec.Parent == 0 {
		return nil
	}
	v, dir := rec.Parent.Volume(), rec.Parent.Ino()
	b, err := k.kv.Get(direntKey(v, dir, rec.Name))
	if err != nil && !errors.Is(err, backend.NotFound) {
		return err
	}
	e, derr := decodeDent(v, dir, b)
	if err != nil || derr != nil || e.vol != rec.ID {
		k.bad(rec.ID, 0, "the volume is not shown as %q in directory %d of volume %x", rec.Name, dir, v)
	}
	return nil
}

// countOnly counts the content a removed volume still names.
func (k *checker) countOnly(id backend.VolumeID) error {
	p := appendVol(nil, famExtent, id)
	return k.kv.Scan(p, backend.PrefixEnd(p), func(key, b []byte) error {
		e, err := decodeExtent(id, inoOf(key), endOf(key), b)
		if err != nil {
			k.bad(id, inoOf(key), "%v", err)
		} else if e.inline == nil {
			k.named.add(e.ref.ID)
		}
		return k.ctx.Err()
	})
}

// shares compares the stored counts of shared content with what was found.
func (k *checker) shares() error {
	seen := map[uint64]bool{}
	err := k.kv.Scan([]byte{famShared}, []byte{famShared + 1}, func(key, b []byte) error {
		if len(key) != 9 {
			k.bad(0, 0, "malformed count key %x", key)
			return nil
		}
		d := decoder{b: b}
		n := int(d.u())
		id := idOf(key)
		seen[id] = true
		if found := k.named.of(id); d.bad || n != found || n < 2 {
			k.bad(0, 0, "content %x: count says %d, %d extents name it", id, n, found)
		}
		return k.ctx.Err()
	})
	for id, n := range k.named.more {
		if !seen[id] {
			k.bad(0, 0, "content %x: %d extents name it and it has no count", id, n)
		}
	}
	return err
}

func idOf(key []byte) (id uint64) {
	for _, b := range key[1:9] {
		id = id<<8 | uint64(b)
	}
	return id
}

// contents looks for content that travels in transactions and that no extent
// names.
func (k *checker) contents() error {
	return k.kv.ScanKeys([]byte{famContent}, []byte{famContent + 1}, func(key []byte) error {
		if len(key) == 9 && k.named.of(idOf(key)) == 0 {
			k.bad(0, 0, "content %x: no extent names it", idOf(key))
		}
		return k.ctx.Err()
	})
}
