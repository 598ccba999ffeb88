package backup

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
)

// Target is an empty store to be filled.
type Target struct {
	Store   backend.Store
	Content backend.Content
}

// Plan is what a chain of backups was found to hold.
type Plan struct {
	Header Header // of the newest
	Keys   uint64 // of the restored store
	shared map[uint64]bool
	needed map[uint64]bool // contents that a live extent wants from an earlier record
}

// Examine reads whole backups, contents included, and refuses what is damaged,
// cut or does not belong together (Invalid). Nothing is written.
func Examine(ctx context.Context, files []io.Reader) (*Plan, error) {
	c, err := NewChain(files, false)
	if err != nil {
		return nil, err
	}
	p := &Plan{Header: c.Last(), shared: map[uint64]bool{}, needed: map[uint64]bool{}}
	have := make([]map[uint64]bool, len(files)) // shared contents that were met, by file
	for n := range have {
		have[n] = map[uint64]bool{}
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := c.Next()
		if err == io.EOF {
			return p, nil
		}
		if err != nil {
			return nil, err
		}
		if r.Again && !have[c.at][r.Ref.ID] {
			return nil, bad("content %016x is missing", r.Ref.ID)
		}
		if r.Content != nil {
			have[c.at][r.Ref.ID] = true
		}
		if !r.Live {
			continue
		}
		p.Keys++
		if id, ok := tree.SharedID(r.Key); ok {
			p.shared[id] = true
		}
		if r.Again {
			p.needed[r.Ref.ID] = true
		}
	}
}

// Restore fills an empty store from the backups that p was made of, read anew
// from their beginning. progress, if set, is told how many keys are done. After
// an error the store is to be thrown away.
func Restore(ctx context.Context, files []io.Reader, p *Plan, t Target, progress func(keys uint64)) error {
	c, err := NewChain(files, false)
	if err != nil {
		return err
	}
	l := &load{ctx: ctx, t: t, p: p, refs: map[uint64]backend.Ref{}, progress: progress}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := c.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if err := l.add(r); err != nil {
			return err
		}
	}
	if err := l.flush(); err != nil {
		return err
	}
	return t.Store.WaitDurable(ctx, l.lsn)
}

// What one Update of a restore holds at most: well below what the seam allows.
const (
	batchKeys    = backend.MaxTxKeys / 2
	batchBytes   = backend.MaxTxBytes / 4
	batchContent = backend.MaxPutBytes
)

// load is one Restore under way.
type load struct {
	ctx      context.Context
	t        Target
	p        *Plan
	refs     map[uint64]backend.Ref // of contents that several extents name
	batch    []pending
	bytes    int
	content  int
	keys     uint64
	lsn      backend.LSN
	progress func(uint64)
}

// pending is a record of the next Update.
type pending struct {
	key, value []byte // no key: only the content is wanted
	ref        *backend.Ref
	content    []byte
}

func (l *load) add(r *Record) error {
	many := r.Ref != nil && (l.p.shared[r.Ref.ID] || l.p.needed[r.Ref.ID])
	wanted := r.Live || r.Content != nil && l.p.needed[r.Ref.ID]
	if !wanted {
		return nil
	}
	var p pending
	if r.Live {
		p.key, p.value = r.Key, r.Value
		l.keys++
	}
	if p.ref = r.Ref; r.Content != nil {
		if _, known := l.refs[r.Ref.ID]; !many || !known {
			p.content = bytes.Clone(r.Content)
		}
	}
	size := len(p.key) + len(p.value)
	if len(l.batch) >= batchKeys || l.bytes+size > batchBytes || l.content > 0 && l.content+len(p.content) > batchContent {
		if err := l.flush(); err != nil {
			return err
		}
	}
	l.batch = append(l.batch, p)
	l.bytes += size
	l.content += len(p.content)
	return nil
}

func (l *load) flush() error {
	if len(l.batch) == 0 {
		return nil
	}
	var made map[uint64]backend.Ref
	lsn, err := l.t.Store.Update(l.ctx, func(kv backend.Tx) error {
		made = map[uint64]backend.Ref{}
		for n := range l.batch {
			if err := l.set(kv, &l.batch[n], made); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for id, ref := range made {
		if l.p.shared[id] || l.p.needed[id] {
			l.refs[id] = ref
		}
	}
	l.lsn, l.batch, l.bytes, l.content = lsn, l.batch[:0], 0, 0
	if l.progress != nil {
		l.progress(l.keys)
	}
	return nil
}

// set stores one record, and its content first.
func (l *load) set(kv backend.Tx, p *pending, made map[uint64]backend.Ref) error {
	if p.ref == nil {
		return kv.Set(p.key, p.value)
	}
	id := p.ref.ID
	ref, ok := made[id]
	if !ok {
		ref, ok = l.refs[id]
	}
	if !ok {
		if p.content == nil {
			return &backend.Error{Op: "restore", Kind: backend.Invalid, Err: errors.New("a content is missing")}
		}
		var err error
		if ref, err = l.t.Content.Put(kv, id, p.content); err != nil {
			return err
		}
		made[id] = ref
	}
	if p.key == nil {
		return nil
	}
	value, err := tree.WithRef(p.key, p.value, ref)
	if err != nil {
		return err
	}
	return kv.Set(p.key, value)
}
