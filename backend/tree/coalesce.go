package tree

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/warrenfs/warren/backend"
)

const (
	// coalesceSpan is how many bytes that were written one after the other are
	// made one extent, where Content takes so many at once.
	coalesceSpan = 512 << 10
	// coalesceParts is how many writes it took at least.
	coalesceParts = 8
	// maxStrays is how many writes elsewhere do not end a run.
	maxStrays = 4
	// maxRuns bounds the runs that wait to be coalesced; more are left as they are.
	maxRuns = 4096
)

// span is the bytes [from, to) of a file.
type span struct{ from, to uint64 }

// run is what was written to a file one after the other of late.
type run struct {
	span
	writes int
	strays int // writes elsewhere since the last
}

// wrote notes a write of [from, to), and gives the run that is complete with it.
func (r *run) wrote(from, to uint64) (span, bool) {
	if from != r.to || r.writes == 0 {
		if r.strays++; r.writes > 0 && r.strays <= maxStrays {
			return span{}, false
		}
		*r = run{span: span{from, from}}
	}
	r.to, r.strays = to, 0
	r.writes++
	if r.to-r.from < coalesceSpan {
		return span{}, false
	}
	done, many := r.span, r.writes >= coalesceParts
	*r = run{}
	return done, many && done.to-done.from <= 2*coalesceSpan
}

// noteWrite leaves to the reclaimer what was written to n in small steps.
func (tx *Txn) noteWrite(n *inode, off, end uint64) {
	if tx.t.content.Limit() < 2*coalesceSpan {
		return
	}
	if s, ok := n.run.wrote(off, end); ok {
		tx.t.todo.addRun(nodeRun{tx.node(n.ino), remains{span: s}})
	}
}

// addRun queues a run, or what is left of a content.
func (r *reclaimer) addRun(n nodeRun) {
	r.mu.Lock()
	if len(r.runs) < maxRuns {
		r.runs = append(r.runs, n)
	}
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// nodeRun is a run of one file, or if it has a content's number what is left of that.
type nodeRun struct {
	node backend.NodeID
	remains
}

func (r *reclaimer) takeRun() (nodeRun, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.runs) == 0 {
		r.runs = nil
		return nodeRun{}, false
	}
	n := r.runs[0]
	r.runs = r.runs[1:]
	return n, true
}

// coalesceNext makes one extent of the next run, or thins the next content, and
// rests as long as that took. It is false when there is none.
func (r *reclaimer) coalesceNext(ctx context.Context) bool {
	n, ok := r.takeRun()
	if !ok {
		return false
	}
	r.rewrite(ctx, n.node, func(tx *Txn) error {
		if n.id != 0 {
			return tx.thin(n.node.Ino(), n.remains, thinSoon)
		}
		return tx.coalesce(n.node.Ino(), n.span)
	})
	return true
}

// rewrite runs fn, which writes something of a file anew, and rests as long as
// that took. What cannot be done is left.
func (r *reclaimer) rewrite(ctx context.Context, n backend.NodeID, fn func(tx *Txn) error) {
	began := time.Now()
	err := r.t.With(n.Volume(), fn)
	if err != nil && !errors.Is(err, backend.Stale) && !errors.Is(err, errLeave) && !errors.Is(err, backend.Unavailable) && !errors.Is(err, backend.NoSpace) {
		r.t.log.Warn("what was written in small steps stays so", slog.String("node", n.String()), slog.Any("err", err))
	}
	_ = rest(ctx, time.Since(began)) // the caller looks at ctx
}

// errLeave gives an Update up that is not worth it.
var errLeave = errors.New("not worth it")

// rewrite runs fn, which replaces extents of the file ino by others with the same
// bytes, as one Update. A file that has no name is left alone.
func (tx *Txn) rewrite(ino backend.Ino, fn func(w *writer, r *record) error) error {
	n, err := tx.load(ino)
	if err != nil || n.rec.typ != backend.TypeRegular || n.rec.nlink == 0 {
		return err
	}
	var r record
	err = tx.commit(func(w *writer) error {
		r = n.rec
		if err := fn(w, &r); err != nil {
			return err
		}
		w.putInode(ino, &r)
		return w.err
	})
	if err != nil {
		return err
	}
	tx.setRecord(n, &r)
	tx.noteCut(n)
	tx.t.todo.own.Store(uint64(tx.lsn))
	return nil
}

// coalesce writes the bytes of s anew as one extent, if they are still in many,
// all of them, and nothing else names them.
func (tx *Txn) coalesce(ino backend.Ino, s span) error {
	return tx.rewrite(ino, func(w *writer, r *record) error {
		over, err := w.overlap(ino, r.extents.high, s.from, s.to)
		if err != nil {
			return err
		}
		data, err := w.readRun(r, over, s)
		if err != nil {
			return err
		}
		for i := range over {
			if err := w.replace(ino, r, &over[i], s.from, s.to); err != nil {
				return err
			}
		}
		return w.put(ino, r, s.from, data)
	})
}

// readRun gives the bytes of s, which the extents over cover. Error: errLeave.
func (w *writer) readRun(r *record, over []extent, s span) ([]byte, error) {
	at := s.from
	for i := range over {
		e := &over[i]
		if e.start > at || r.extents.void(e) {
			return nil, errLeave
		}
		if e.inline == nil {
			if n, err := sharers(w.kv, e.ref.ID); err != nil || n > 1 {
				return nil, errors.Join(err, errLeave)
			}
		}
		at = e.end
	}
	if at < s.to || len(over) < coalesceParts || len(over) > sweepMax {
		return nil, errLeave
	}
	data := make([]byte, s.to-s.from)
	for i := range over {
		if err := copyExtent(w.v.t.content, w.kv, &over[i], s.from, data); err != nil {
			return nil, err
		}
	}
	return data, nil
}
