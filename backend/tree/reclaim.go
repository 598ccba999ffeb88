package tree

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenfs/warren/backend"
)

// reclaimer does in small steps what no operation may do at once: it removes
// the extents of orphans, void extents, and the keys of removed volumes. What
// it has to do is in the store (famTodo, removed volumes), so that a restart
// goes on where it was.
type reclaimer struct {
	t     *Tree
	rest  time.Duration // Options.RestAfter
	quit  context.CancelFunc
	done  chan struct{}
	wake  chan struct{}
	looks atomic.Uint64 // at what writes left of contents: the sum of their chances
	own   atomic.Uint64 // LSN of the last change that nobody asked for
	frays frayed
	thins thinning // the goroutine's own

	mu   sync.Mutex
	jobs map[backend.NodeID]*sweepPos // guarded by mu; inode 0: a whole volume
	now  backend.NodeID               // guarded by mu: the job under way
	runs []nodeRun                    // guarded by mu
}

// retryAfter is how long a job waits after the store refused a step.
const retryAfter = time.Second

func startReclaimer(t *Tree, rest time.Duration) *reclaimer {
	ctx, quit := context.WithCancel(context.Background())
	r := &reclaimer{t: t, rest: rest, quit: quit, done: make(chan struct{}), wake: make(chan struct{}, 1),
		jobs: map[backend.NodeID]*sweepPos{}}
	r.frays.turn.Store(1)
	go r.run(ctx)
	return r
}

func (r *reclaimer) stop() {
	r.quit()
	<-r.done
}

func (r *reclaimer) add(n backend.NodeID) {
	r.mu.Lock()
	if r.jobs[n] == nil {
		r.jobs[n] = &sweepPos{}
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// take gives one job and its position.
func (r *reclaimer) take() (backend.NodeID, *sweepPos, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, at := range r.jobs {
		delete(r.jobs, n)
		r.now = n
		return n, at, true
	}
	r.now = 0
	return 0, nil, false
}

// of lists the inodes of volume v that are to be reclaimed, or just are.
func (r *reclaimer) of(v backend.VolumeID) (out []backend.Ino) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := range r.jobs {
		if n.Volume() == v && n.Ino() != 0 {
			out = append(out, n.Ino())
		}
	}
	if r.now.Volume() == v && r.now.Ino() != 0 {
		out = append(out, r.now.Ino())
	}
	return out
}

func (r *reclaimer) run(ctx context.Context) {
	defer close(r.done)
	if err := r.recover(); err != nil {
		r.t.log.Error("reading what is left to reclaim; it will be tried at the next start", slog.Any("err", err))
	}
	for {
		n, at, ok := r.take()
		if !ok && (r.coalesceNext(ctx) || r.thinNext(ctx)) {
			if ctx.Err() != nil {
				return
			}
			continue
		}
		if !ok {
			r.t.trim()
			select {
			case <-ctx.Done():
				return
			case <-r.wake:
			case <-r.thins.wait():
			}
			continue
		}
		r.work(ctx, n, at)
		if ctx.Err() != nil {
			return
		}
	}
}

// work carries one job out, step by step, giving the lock back in between.
func (r *reclaimer) work(ctx context.Context, n backend.NodeID, at *sweepPos) {
	for ctx.Err() == nil {
		more, err := r.step(n, at)
		switch {
		case errors.Is(err, backend.Stale), errors.Is(err, backend.Unavailable):
			return
		case err != nil:
			r.t.log.Warn("reclaiming space failed, trying again", slog.String("node", n.String()), slog.Any("err", err))
			select {
			case <-ctx.Done():
			case <-time.After(retryAfter):
			}
		case !more:
			return
		}
	}
}

func (r *reclaimer) step(n backend.NodeID, at *sweepPos) (more bool, err error) {
	if n.Ino() == 0 {
		return r.t.reclaimVolume(n.Volume())
	}
	err = r.t.With(n.Volume(), func(tx *Txn) error {
		more, err = tx.reclaim(n.Ino(), at)
		return err
	})
	return more, err
}

// reclaim does the next step of what is to do for ino, from at on.
func (tx *Txn) reclaim(ino backend.Ino, at *sweepPos) (more bool, err error) {
	i, err := tx.load(ino)
	if err != nil {
		return false, err
	}
	switch {
	case i.rec.nlink == 0 && tx.v.orphans[i.ino]: // its maker holds it, until Dropped
	case i.rec.nlink == 0 && tx.t.held(tx.node(ino)):
		tx.v.orphans[i.ino] = false // until Dropped
	case i.rec.nlink == 0:
		return tx.reap(i)
	case len(i.rec.extents.barriers) > 0:
		return tx.sweep(i, at)
	}
	return false, nil
}

// recover queues what an earlier life left.
func (r *reclaimer) recover() error {
	return r.t.store.View(bg, func(kv backend.Tx) error {
		for id, v := range r.t.snapshotVolumes() {
			if v.removed.Load() {
				r.add(backend.Node(id, 0))
			}
		}
		return kv.ScanKeys([]byte{famTodo}, []byte{famTodo + 1}, func(k []byte) error {
			r.add(backend.Node(volumeOf(k), inoOf(k)))
			return nil
		})
	})
}

func (t *Tree) snapshotVolumes() map[backend.VolumeID]*volume {
	t.mu.RLock()
	defer t.mu.RUnlock()
	out := make(map[backend.VolumeID]*volume, len(t.vols))
	for id, v := range t.vols {
		out[id] = v
	}
	return out
}

// Dropped tells that nobody holds node any more: if it is an orphan it is
// reclaimed soon.
func (t *Tree) Dropped(node backend.NodeID) {
	t.DroppedIf(node, func() bool { return true })
}

// DroppedIf is Dropped for whoever cannot be sure: whether nobody holds an orphan,
// free tells, with the volume's lock held. Nobody comes to hold one by its name.
func (t *Tree) DroppedIf(node backend.NodeID, free func() bool) {
	v := t.vol(node.Volume())
	if v == nil {
		return
	}
	v.mu.Lock()
	_, orphan := v.orphans[node.Ino()]
	if orphan = orphan && free(); orphan {
		v.orphans[node.Ino()] = false
	}
	v.mu.Unlock()
	if orphan {
		t.todo.add(node)
	}
}

// reap removes up to sweepMax extents of the orphan n, and when none is left
// the inode itself.
func (tx *Txn) reap(n *inode) (more bool, err error) {
	var r record
	err = tx.commit(func(w *writer) error {
		r, more = n.rec, false
		gone, left, err := w.firstExtents(n.ino)
		if err != nil {
			return err
		}
		for i := range gone {
			if err := w.dropExtent(&r, n.ino, &gone[i]); err != nil {
				return err
			}
		}
		if more = left; more {
			w.putInode(n.ino, &r)
			return w.err
		}
		if r.xattrs > 0 {
			if more, err = w.dropKeys(appendIno(nil, famXattr, w.v.id, n.ino), 64); err != nil || more {
				return err
			}
		}
		w.delete(inodeKey(w.v.id, n.ino))
		w.delete(todoKey(w.v.id, n.ino))
		w.use.inodes -= min(1, w.use.inodes)
		return w.err
	})
	if err != nil {
		return false, err
	}
	tx.t.room.drop()
	if more {
		tx.setRecord(n, &r)
	} else {
		delete(tx.v.orphans, n.ino)
		tx.v.forget(n.ino)
	}
	return more, nil
}

func (w *writer) firstExtents(ino backend.Ino) (out []extent, more bool, err error) {
	err = scanExtents(w.kv, w.v.id, ino, 0, 1<<63, func(e *extent) error {
		if len(out) == sweepMax {
			more = true
			return backend.ErrStop
		}
		out = append(out, e.bare())
		return nil
	})
	return out, more, err
}

// dropExtent removes e whole.
func (w *writer) dropExtent(r *record, ino backend.Ino, e *extent) error {
	w.deleteExtent(ino, e.end)
	if !r.extents.void(e) || r.extents.uncounted(e) {
		w.count(r, e.length(), 0)
	}
	return w.release(e, 0)
}

// dropKeys deletes up to limit keys that start with prefix.
func (w *writer) dropKeys(prefix []byte, limit int) (more bool, err error) {
	var keys [][]byte
	err = w.kv.ScanKeys(prefix, backend.PrefixEnd(prefix), func(k []byte) error {
		if len(keys) == limit {
			more = true
			return backend.ErrStop
		}
		keys = append(keys, append([]byte(nil), k...))
		return nil
	})
	for _, k := range keys {
		w.delete(k)
	}
	if err == nil {
		err = w.err
	}
	return more, err
}

// reclaimVolume removes some keys of a removed volume, and at last its record.
func (t *Tree) reclaimVolume(id backend.VolumeID) (more bool, err error) {
	v := t.vol(id)
	if v == nil {
		return false, nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	tx := &Txn{t: t, v: v}
	err = tx.commit(func(w *writer) error {
		more, err = w.dropVolume()
		return err
	})
	if err == nil && !more {
		t.mu.Lock()
		delete(t.vols, id)
		last := v.asked.load()
		t.gone.add(&last)
		t.mu.Unlock()
	}
	return more, err
}

func (w *writer) dropVolume() (more bool, err error) {
	if more, err = w.dropVolumeExtents(); err != nil || more {
		return more, err
	}
	for _, family := range []byte{famDirent, famLink, famXattr, famTodo, famInode} {
		limit := 1000
		if family == famXattr {
			limit = 20
		}
		if more, err = w.dropKeys(appendVol(nil, family, w.v.id), limit); err != nil || more {
			return more, err
		}
	}
	w.delete(appendVol(nil, famUsage, w.v.id))
	w.delete(appendVol(nil, famQuota, w.v.id))
	w.delete(volumeKey(w.v.id))
	w.use = w.v.use
	return false, w.err
}

func (w *writer) dropVolumeExtents() (more bool, err error) {
	type found struct {
		key []byte
		ext extent
	}
	var gone []found
	prefix := appendVol(nil, famExtent, w.v.id)
	err = w.kv.Scan(prefix, backend.PrefixEnd(prefix), func(k, b []byte) error {
		if len(gone) == sweepMax {
			more = true
			return backend.ErrStop
		}
		e, err := decodeExtent(w.v.id, inoOf(k), endOf(k), b)
		gone = append(gone, found{append([]byte(nil), k...), e.bare()})
		return err
	})
	if err != nil {
		return false, err
	}
	for i := range gone {
		w.delete(gone[i].key)
		if err := w.release(&gone[i].ext, 0); err != nil {
			return false, err
		}
	}
	return more, w.err
}
