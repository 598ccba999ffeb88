package tree

import (
	"errors"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/quota"
)

// limitsOf reads a volume's quota; none is stored where none was ever set.
func limitsOf(kv backend.Tx, id backend.VolumeID) (quota.Limits, error) {
	b, err := kv.Get(appendVol(nil, famQuota, id))
	if errors.Is(err, backend.NotFound) {
		return quota.Limits{}, nil
	}
	if err != nil {
		return quota.Limits{}, err
	}
	return quota.Decode(b)
}

// SetLimits sets the volume's quota; what it holds already stays. Invalid where
// quota.Limits.Check refuses it.
func (tx *Txn) SetLimits(l Limits) error {
	if err := l.Check(); err != nil {
		return err
	}
	key := appendVol(nil, famQuota, tx.v.id)
	err := tx.commit(func(w *writer) error {
		if l == (Limits{}) {
			w.delete(key)
		} else {
			w.set(key, l.Append(nil, tx.v.info.Epoch))
		}
		return w.err
	})
	if err == nil {
		tx.v.limits = l
	}
	return err
}

// left is how many bytes the quota leaves to the volume; without one, no bound.
func (tx *Txn) left() uint64 {
	return tx.v.limits.Room(tx.v.use.counted(), quota.Use{Bytes: ^uint64(0)}).Bytes
}

// maxValues bounds the values of one inode's extended attributes in a volume with
// limits: they count no bytes, so the limit of inodes must bound them.
const maxValues = 64 << 10

// valuesFit refuses a value of n bytes that takes those of ino over maxValues,
// unless it is no longer than the one it replaces.
func (w *writer) valuesFit(ino backend.Ino, name string, n int) error {
	if l := w.v.limits; l.Bytes == 0 && l.Inodes == 0 {
		return nil
	}
	total, old := n, -1
	start := appendIno(nil, famXattr, w.v.id, ino)
	err := w.kv.Scan(start, backend.PrefixEnd(start), func(k, b []byte) error {
		v, err := decodeXattr(w.v.id, ino, b)
		if nameOf(k) == name {
			old = len(v)
		} else {
			total += len(v)
		}
		return err
	})
	if err == nil && total > maxValues && n > old {
		return backend.Quota
	}
	return err
}

// roomSteps bounds how much makeRoom does for one operation.
const roomSteps = 64

// makeRoom does at once what the reclaimer has yet to do in this volume, and what
// it was not told of yet (Dropped): what was deleted must not keep its owner from
// writing. It tells whether that gave anything back.
func (tx *Txn) makeRoom() bool {
	before, steps := tx.v.use.counted(), 0
	todo := tx.t.todo.of(tx.v.id)
	for ino, nameless := range tx.v.orphans {
		if len(todo) >= roomSteps {
			break
		}
		if !nameless && !tx.t.held(tx.node(ino)) {
			todo = append(todo, ino)
		}
	}
	for _, ino := range todo {
		var at sweepPos
		for more := true; more && steps < roomSteps; steps++ {
			var err error
			if more, err = tx.reclaim(ino, &at); err != nil {
				break // the reclaimer will meet it too
			}
		}
	}
	now := tx.v.use.counted()
	return now.Bytes < before.Bytes || now.Inodes < before.Inodes
}
