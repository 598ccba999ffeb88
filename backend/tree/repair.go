package tree

import (
	"context"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/warrenfs/warren/backend"
)

// famAside keeps what Repair could not make sense of: z<key>: the value that
// stood under key.
const famAside = 'z'

// maxPasses is how often Repair looks again: what one pass mends can show what
// was hidden behind it.
const maxPasses = 4

// Repair mends what Check finds in a store that nothing else has open, and tells
// did what it does. No bytes of a file are thrown away: what has no name any more
// gets one in the directory lost+found of its volume's root, and a record that
// cannot be read is set aside under another key. What it cannot mend stays as it
// is and Check still tells of it: damaged content (a read stays an error, never
// zeros), a damaged volume record. Each pass holds
// all inodes and names in memory, some 500 bytes an inode. It may be interrupted
// and run again.
func Repair(ctx context.Context, s backend.Store, c backend.Content, o CheckOptions, did func(Problem)) error {
	for range maxPasses {
		f := &fixer{ctx: ctx, store: s, content: c, opt: o, report: did, now: backend.TimeOf(time.Now()),
			vols: map[backend.VolumeID]*volfix{}, named: map[uint64]int{}}
		if err := s.View(ctx, func(kv backend.Tx) error { return f.look(kv) }); err != nil {
			return err
		}
		if len(f.ops) == 0 {
			break
		}
		if err := f.write(); err != nil {
			return err
		}
	}
	return recount(ctx, s, c, did)
}

// recounter is a Content that keeps counts of its own, and tells which keys must
// change for them to be right.
type recounter interface {
	Recount(kv backend.Tx, each func(fn func(backend.Ref) error) error, set func(key, value []byte), did func(text string)) error
}

// recount sets a content driver's counts right, when all extents are what they
// will be.
func recount(ctx context.Context, s backend.Store, c backend.Content, did func(Problem)) error {
	r, ok := c.(recounter)
	if !ok {
		return nil
	}
	f := &fixer{ctx: ctx, store: s, report: did}
	err := s.View(ctx, func(kv backend.Tx) error {
		return r.Recount(kv, func(fn func(backend.Ref) error) error { return eachRef(ctx, kv, fn) }, func(key, value []byte) {
			if value == nil {
				f.delete(key)
			} else {
				f.set(key, value)
			}
		}, func(text string) { f.did(0, 0, "%s", text) })
	})
	if err != nil || len(f.ops) == 0 {
		return err
	}
	return f.write()
}

// fixer is one pass.
type fixer struct {
	ctx     context.Context
	store   backend.Store
	content backend.Content
	opt     CheckOptions
	report  func(Problem)
	now     backend.Time
	kv      backend.Tx

	vols map[backend.VolumeID]*volfix
	gone map[backend.VolumeID]bool // removed ones, whose keys are being reclaimed
	// unread are volumes whose record is damaged: Check tells of it, and nothing
	// of theirs is touched.
	unread map[backend.VolumeID]bool
	root   backend.VolumeID
	named  map[uint64]int // content id -> extents that name it
	ops    []fixOp
	done   uint64
}

// fixOp is one key to be set, or with a nil value deleted.
type fixOp struct{ key, value []byte }

func (f *fixer) set(key, value []byte) {
	f.ops = append(f.ops, fixOp{append([]byte(nil), key...), append([]byte{}, value...)})
}

func (f *fixer) delete(key []byte) { f.ops = append(f.ops, fixOp{append([]byte(nil), key...), nil}) }

// aside moves a record to where nothing reads it.
func (f *fixer) aside(key, value []byte) {
	if len(key) < backend.MaxKey {
		f.set(append([]byte{famAside}, key...), value)
	}
	f.delete(key)
}

func (f *fixer) did(v backend.VolumeID, i backend.Ino, format string, args ...any) {
	f.report(Problem{Volume: v, Ino: i, Text: fmt.Sprintf(format, args...)})
}

// write makes the changes, in as many Updates as they need.
func (f *fixer) write() error {
	var lsn backend.LSN
	for at := 0; at < len(f.ops); {
		end, size := at, 0
		for end < len(f.ops) && end-at < backend.MaxTxKeys/2 && size < backend.MaxTxBytes/2 {
			size += len(f.ops[end].key) + len(f.ops[end].value)
			end++
		}
		var err error
		lsn, err = f.store.Update(f.ctx, func(kv backend.Tx) error {
			for _, o := range f.ops[at:end] {
				err := error(nil)
				if o.value == nil {
					err = kv.Delete(o.key)
				} else {
					err = kv.Set(o.key, o.value)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		at = end
	}
	return f.store.WaitDurable(f.ctx, lsn)
}

// look reads everything and decides what is to change.
func (f *fixer) look(kv backend.Tx) error {
	f.kv, f.gone, f.unread = kv, map[backend.VolumeID]bool{}, map[backend.VolumeID]bool{}
	err := kv.Scan([]byte{famVolume}, []byte{famVolume + 1}, func(key, b []byte) error {
		rec, err := decodeVolume(volumeOf(key), b)
		switch {
		case err != nil:
			f.unread[volumeOf(key)] = true
		case rec.removed:
			f.gone[rec.ID] = true
		default:
			f.vols[rec.ID] = newVolfix(f, rec)
			if rec.Label.Kind == KindRoot {
				f.root = rec.ID
			}
		}
		return f.ctx.Err()
	})
	if err != nil {
		return err
	}
	for _, others := range []map[backend.VolumeID]bool{f.gone, f.unread} {
		for id := range others {
			if err := f.countOnly(id); err != nil {
				return err
			}
		}
	}
	for _, v := range f.vols {
		if err := v.look(); err != nil {
			return err
		}
	}
	if err := f.strays(); err != nil {
		return err
	}
	if err := f.shares(); err != nil {
		return err
	}
	for _, v := range f.vols {
		if err := v.emit(); err != nil {
			return err
		}
	}
	return nil
}

// countOnly counts the content that a volume names which is not mended.
func (f *fixer) countOnly(id backend.VolumeID) error {
	p := appendVol(nil, famExtent, id)
	return f.kv.Scan(p, backend.PrefixEnd(p), func(key, b []byte) error {
		if ref, named, err := ExtentRef(key, b); err == nil && named {
			f.named[ref.ID]++
		}
		return f.ctx.Err()
	})
}

// strayer is a Content that knows of bytes which no extent names.
type strayer interface {
	Strays(kv backend.Tx, each func(fn func(backend.Ref) error) error, found func(backend.Ref)) error
}

// strays gives a file to each content that nothing names.
func (f *fixer) strays() error {
	err := f.kv.Scan([]byte{famContent}, []byte{famContent + 1}, func(key, b []byte) error {
		if len(key) == 9 && len(b) > 0 {
			f.stray(backend.Ref{ID: idOf(key), Length: uint32(len(b)), CRC: crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))})
		}
		return f.ctx.Err()
	})
	c, ok := f.content.(strayer)
	if err != nil || !ok {
		return err
	}
	return c.Strays(f.kv, func(fn func(backend.Ref) error) error { return eachRef(f.ctx, f.kv, fn) }, f.stray)
}

func (f *fixer) stray(ref backend.Ref) {
	if f.named[ref.ID] > 0 {
		return
	}
	v := f.vols[backend.VolumeID(ref.ID>>40)]
	if v == nil {
		v = f.vols[f.root]
	}
	if v == nil {
		return
	}
	n := v.lostFile(fmt.Sprintf("#content-%x", ref.ID))
	v.attach(n, extent{end: uint64(ref.Length), ref: ref})
	f.named[ref.ID]++
	f.did(v.rec.ID, n.ino, "content %x, which no extent names, is now %s", ref.ID, n.where())
}

// shares puts the counts of shared content right.
func (f *fixer) shares() error {
	seen := map[uint64]bool{}
	err := f.kv.Scan([]byte{famShared}, []byte{famShared + 1}, func(key, b []byte) error {
		if len(key) != 9 {
			f.aside(key, b)
			f.did(0, 0, "malformed count key %x is set aside", key)
			return nil
		}
		d, id := decoder{b: b}, idOf(key)
		n := int(d.u())
		seen[id] = true
		switch want := f.named[id]; {
		case want < 2:
			f.delete(key)
			f.did(0, 0, "content %x: count of %d removed, %d extents name it", id, n, want)
		case d.done("count", 0, 0) != nil || n != want:
			f.putCount(id, want)
		}
		return f.ctx.Err()
	})
	for id, n := range f.named {
		if n > 1 && !seen[id] {
			f.putCount(id, n)
		}
	}
	return err
}

func (f *fixer) putCount(id uint64, n int) {
	e := encoder{}
	e.u(uint64(n))
	f.set(sharedKey(id), e.b)
	f.did(0, 0, "content %x: count set to %d", id, n)
}
