package backup

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
)

// Source is a store to be backed up. A View of it must be able to begin while an
// Update runs; those of writeback and mem can.
type Source struct {
	Store   backend.Store
	Content backend.Content
	Format  int    // of the store
	Driver  string // of the content
}

// Write writes a backup of s to w; with an index of earlier backups (nil: none)
// what changed since. Errors: Invalid for a damaged index, IO where content is
// damaged (Path names the file), those of the store and of w.
func Write(ctx context.Context, w io.Writer, s Source, index io.Reader) (Summary, error) {
	var sum Summary
	base, err := openIndex(index)
	if err != nil {
		return sum, err
	}
	err = snapshot(ctx, s.Store, func(kv backend.Tx, lsn backend.LSN) error {
		h := Header{LSN: uint64(lsn), Created: time.Now().UTC(), Format: s.Format, Content: s.Driver}
		if base != nil {
			h.Since = &base.id
		}
		_, _ = rand.Read(h.ID[:]) // never fails
		d := &dump{ctx: ctx, kv: kv, content: s.Content, base: base, w: newWriter(w), shared: map[uint64]bool{}}
		if err := d.run(&h); err != nil {
			return err
		}
		sum, err = d.w.finish(&h)
		return err
	})
	return sum, err
}

// snapshot runs fn in a View that has exactly the Updates up to lsn: it begins
// while no Update can end.
func snapshot(ctx context.Context, s backend.Store, fn func(kv backend.Tx, lsn backend.LSN) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	entered, number := make(chan struct{}), make(chan backend.LSN, 1)
	done := make(chan error, 1)
	started := false
	lsn, err := s.Update(ctx, func(backend.Tx) error {
		if started {
			return &backend.Error{Op: "backup", Kind: backend.Unavailable, Err: errors.New("the store was busy; try again")}
		}
		started = true
		go func() {
			done <- s.View(ctx, func(kv backend.Tx) error {
				close(entered)
				select {
				case n := <-number:
					return fn(kv, n)
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		}()
		select {
		case <-entered:
			return nil
		case err := <-done:
			done <- err
			return err
		}
	})
	if err != nil {
		cancel()
		if started {
			<-done
		}
		return err
	}
	number <- lsn
	return <-done
}

// writer frames records.
type writer struct {
	out *bufio.Writer
	sum hash.Hash
	buf []byte
	s   Summary
}

func newWriter(w io.Writer) *writer {
	return &writer{out: bufio.NewWriterSize(w, 256<<10), sum: sha256.New()}
}

func (w *writer) write(b []byte) error {
	w.sum.Write(b)
	_, err := w.out.Write(b)
	return err
}

func (w *writer) header(h *Header) error {
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	b := binary.LittleEndian.AppendUint32([]byte(fileMagic), version)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	b = append(b, text...)
	return w.write(binary.LittleEndian.AppendUint32(b, crc(b)))
}

func (w *writer) record(kind byte, key, value, content []byte) error {
	b := append(w.buf[:0], kind)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(key)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(value)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(content)))
	b = append(append(b, key...), value...)
	w.buf = binary.LittleEndian.AppendUint32(b, crc(b))
	if err := w.write(w.buf); err != nil {
		return err
	}
	w.s.Records++
	if len(content) > 0 {
		w.s.Contents++
		w.s.Bytes += uint64(len(content))
	}
	_, err := w.out.Write(content)
	return err
}

func (w *writer) finish(h *Header) (Summary, error) {
	s := w.s
	s.ID, s.LSN, s.SHA256 = h.ID, h.LSN, hex.EncodeToString(w.sum.Sum(nil))
	text, err := json.Marshal(s)
	if err != nil {
		return s, err
	}
	if err := w.record(kindSummary, nil, text, nil); err != nil {
		return s, err
	}
	return s, w.out.Flush()
}

// dump is one Write under way.
type dump struct {
	ctx     context.Context
	kv      backend.Tx
	content backend.Content
	base    *index
	w       *writer
	shared  map[uint64]bool // content that several extents name: whether it was written
	buf     []byte
}

func (d *dump) run(h *Header) error {
	if err := d.w.header(h); err != nil {
		return err
	}
	if err := tree.SharedContent(d.kv, func(id uint64) { d.shared[id] = false }); err != nil {
		return err
	}
	for _, r := range tree.PortableRanges() {
		if err := d.kv.Scan(r.Start, r.End, d.key); err != nil {
			return err
		}
	}
	for { // keys after the store's last
		gone, err := d.base.before(nil)
		if err != nil || gone == nil {
			return err
		}
		if err := d.w.record(kindDeleted, gone, nil, nil); err != nil {
			return err
		}
	}
}

// key writes what stands under one key if it changed, and before it the keys
// that are gone.
func (d *dump) key(key, value []byte) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	ref, named, err := tree.ExtentRef(key, value)
	if err != nil {
		return err
	}
	if named {
		plain := ref
		plain.Segment, plain.Offset = 0, 0
		if value, err = tree.WithRef(key, value, plain); err != nil {
			return err
		}
	}
	for {
		gone, err := d.base.before(key)
		if err != nil {
			return err
		}
		if gone == nil {
			break
		}
		if err := d.w.record(kindDeleted, gone, nil, nil); err != nil {
			return err
		}
	}
	if same, err := d.base.same(key, value); same || err != nil {
		return err
	}
	if !named {
		return d.w.record(kindSet, key, value, nil)
	}
	return d.extent(key, value, ref)
}

func (d *dump) extent(key, value []byte, ref backend.Ref) error {
	written, shared := d.shared[ref.ID]
	if written {
		return d.w.record(kindAgain, key, value, nil)
	}
	if ref.Length > maxContent {
		return fmt.Errorf("backup: content %016x has %d bytes", ref.ID, ref.Length)
	}
	if uint32(cap(d.buf)) < ref.Length {
		d.buf = make([]byte, ref.Length)
	}
	b := d.buf[:ref.Length]
	if err := d.content.Get(d.kv, ref, 0, b); err != nil {
		return d.damaged(key, backend.KindOf(err), err)
	}
	if crc(b) != ref.CRC {
		return d.damaged(key, backend.IO, errors.New("content fails its checksum"))
	}
	if shared {
		d.shared[ref.ID] = true
	}
	return d.w.record(kindContent, key, value, b)
}

// damaged is the error of an extent whose content cannot be read. It names the
// file.
func (d *dump) damaged(key []byte, kind backend.Kind, err error) error {
	path := tree.LocateExtent(d.kv, key)
	if path == "" {
		path = fmt.Sprintf("a file without a name (key %x)", key)
	}
	return &backend.Error{Op: "backup", Path: path, Kind: kind, Err: err}
}
