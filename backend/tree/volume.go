package tree

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/quota"
)

// volume is one inode space in memory.
type volume struct {
	t    *Tree
	id   backend.VolumeID
	info VolumeInfo // but for Epoch, fixed when made

	removed atomic.Bool // set with mu held
	asked   tally       // of the cache

	mu     sync.Mutex
	use    usage // guarded by mu, as are all below
	limits quota.Limits
	inodes map[backend.Ino]*inode // cache
	ring   []*inode               // the same, for the clock
	hand   int
	loaded int    // since settle last ran
	dirGen uint64 // bumped when a directory moves
	// orphans that a mount held when they lost their last name, and, true,
	// those without a name from the start that their maker holds
	orphans map[backend.Ino]bool
}

func newVolume(t *Tree, rec volrec) *volume {
	v := &volume{t: t, id: rec.ID, info: rec.VolumeInfo, inodes: map[backend.Ino]*inode{},
		orphans: map[backend.Ino]bool{}}
	v.removed.Store(rec.removed)
	return v
}

// CreateVolume makes a volume and attaches it as s.Name in directory s.Parent.
// Errors: Exist when the name is taken, NotDir, NotFound, Invalid.
func (t *Tree) CreateVolume(ctx context.Context, s VolumeSpec) (VolumeInfo, []Change, error) {
	if err := checkName(s.Name); err != nil {
		return VolumeInfo{}, nil, err
	}
	id, err := t.newVolumeID()
	if err != nil {
		return VolumeInfo{}, nil, err
	}
	now := t.clock()
	rec := volrec{VolumeInfo: VolumeInfo{ID: id, Label: s.Label, Parent: s.Parent, Name: s.Name, Created: now, Epoch: 1}}
	v := newVolume(t, rec)
	content, err := firstContent()
	if err != nil {
		return VolumeInfo{}, nil, err
	}
	var changes []Change
	err = t.With(s.Parent.Volume(), func(tx *Txn) error {
		tx.Op = Op{Agent: s.Agent, UID: backend.OwnerID, GID: backend.OwnerID}
		p, err := tx.vacant(s.Parent.Ino(), s.Name)
		if err != nil {
			return err
		}
		e := dent{ino: backend.RootIno, vol: id, typ: backend.TypeDir}
		prec := p.rec
		prec.entries++
		tx.touchDir(&prec, now)
		root := writer{v: v}
		err = tx.commit(func(w *writer) error {
			root = writer{v: v, kv: w.kv, use: usage{nextIno: 1, nextContent: content}}
			r := root.newRecord(backend.TypeDir, s.Mode, tx.Op, now)
			root.putInode(root.nextIno(), &r)
			root.putUsage()
			w.err = root.err
			w.set(volumeKey(id), rec.encode())
			w.putDirent(p.ino, s.Name, e)
			w.putInode(p.ino, &prec)
			return w.err
		})
		if err != nil {
			return err
		}
		v.use = root.use
		t.mu.Lock()
		t.vols[id] = v
		t.mu.Unlock()
		tx.setRecord(p, &prec)
		tx.cacheName(p, s.Name, e)
		tx.changed(Change{Kind: EntryAdded, Node: s.Parent, Name: s.Name, Child: backend.Node(id, backend.RootIno), Dir: true})
		changes = append(changes, tx.Changes()...)
		return nil
	})
	return v.info, changes, err
}

// RemoveVolume detaches a volume: at once none of its nodes exists any more.
// Its keys are reclaimed in the background. Errors: NotFound; Busy for the
// root volume and for one that shows other volumes.
func (t *Tree) RemoveVolume(ctx context.Context, id backend.VolumeID) ([]Change, error) {
	info, ok := t.Volume(id)
	if !ok {
		return nil, backend.NotFound
	}
	if info.Parent == 0 {
		return nil, backend.Busy
	}
	for _, o := range t.Volumes() {
		if o.Parent.Volume() == id {
			return nil, backend.Busy
		}
	}
	v := t.vol(id)
	var changes []Change
	err := t.With(info.Parent.Volume(), func(tx *Txn) error {
		p, err := tx.dir(info.Parent.Ino())
		if err != nil {
			return err
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		now := t.clock()
		prec := p.rec
		prec.entries--
		tx.touchDir(&prec, now)
		rec := volrec{VolumeInfo: info, removed: true}
		err = tx.commit(func(w *writer) error {
			w.set(volumeKey(id), rec.encode())
			w.delete(direntKey(tx.v.id, p.ino, info.Name))
			w.putInode(p.ino, &prec)
			return w.err
		})
		if err != nil {
			return err
		}
		v.removed.Store(true)
		v.dropCache()
		tx.setRecord(p, &prec)
		tx.uncacheName(p, info.Name)
		tx.changed(Change{Kind: EntryRemoved, Node: info.Parent, Name: info.Name, Child: backend.Node(id, backend.RootIno), Dir: true})
		changes = append(changes, tx.Changes()...)
		return nil
	})
	if err == nil {
		t.todo.add(backend.Node(id, 0))
	}
	return changes, err
}
