package tree_test

import (
	"errors"
	"math/rand/v2"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/scripts/waits"
)

func (w *whole) create(p string, typ backend.FileType) {
	if !w.room(p) {
		return
	}
	w.op("create "+p, func(l listing) { l[p] = &entry{typ: typ, mode: 0o640} }, func(tx *tree.Txn) error {
		_, dir, name, err := find(tx, p)
		if !errors.Is(err, backend.NotFound) {
			return errors.Join(err, errors.New("it is there"))
		}
		return second(tx.Create(dir, name, tree.CreateSpec{Type: typ, Mode: 0o640}))
	})
}

// grow makes the data at least size bytes long.
func (e *entry) grow(size int) {
	if more := size - len(e.data); more > 0 {
		e.data = append(e.data, make([]byte, more)...)
	}
}

func (w *whole) write(p string, off, n int, seed uint64) {
	if !w.has(p) {
		return
	}
	data := noise(rand.New(rand.NewPCG(seed, 1)), n)
	w.op("write "+p, func(l listing) {
		l[p].grow(off + n)
		copy(l[p].data[off:], data)
	}, at(p, func(tx *tree.Txn, ino, _ backend.Ino, _ string) error {
		return second(tx.Write(ino, data, uint64(off)))
	}))
}

// file creates one and writes to it.
func (w *whole) file(p string, n int, seed uint64) {
	w.create(p, backend.TypeRegular)
	w.write(p, 0, n, seed)
}

// has tells whether there is such a file: an earlier operation may have failed.
func (w *whole) has(paths ...string) bool {
	for _, p := range paths {
		if w.states[w.done][p] == nil {
			return false
		}
	}
	return true
}

// room tells whether a path is free in a directory that is there.
func (w *whole) room(p string) bool {
	dir := path.Dir(p)
	return !w.has(p) && (dir == "." || w.has(dir))
}

func (w *whole) truncate(p string, size int) {
	if !w.has(p) {
		return
	}
	n := uint64(size)
	w.op("truncate "+p, func(l listing) {
		l[p].grow(size)
		l[p].data = l[p].data[:size:size]
	}, at(p, func(tx *tree.Txn, ino, _ backend.Ino, _ string) error {
		return second(tx.Setattr(ino, backend.SetAttr{Size: &n}))
	}))
}

func (w *whole) punch(p string, off, n int) {
	if !w.has(p) || len(w.states[w.done][p].data) < off+n {
		return
	}
	w.op("punch "+p, func(l listing) { clear(l[p].data[off : off+n]) }, at(p, func(tx *tree.Txn, ino, _ backend.Ino, _ string) error {
		return tx.Fallocate(ino, uint64(off), uint64(n), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE)
	}))
}

func (w *whole) xattr(p, value string) {
	if !w.has(p) {
		return
	}
	w.op("setxattr "+p, func(l listing) { l[p].xattr = value }, at(p, func(tx *tree.Txn, ino, _ backend.Ino, _ string) error {
		return tx.SetXattr(ino, "user.x", []byte(value), false, false)
	}))
}

func (w *whole) link(p, to string) {
	if !w.has(p) || !w.room(to) {
		return
	}
	w.op("link "+p, func(l listing) { l[to] = l[p] }, func(tx *tree.Txn) error {
		ino, _, _, err := find(tx, p)
		_, dir, name, gone := find(tx, to)
		if err != nil || !errors.Is(gone, backend.NotFound) {
			return errors.Join(err, gone)
		}
		return second(tx.Link(ino, dir, name))
	})
}

func (w *whole) unlink(p string) {
	if !w.has(p) {
		return
	}
	w.op("unlink "+p, func(l listing) { delete(l, p) }, at(p, func(tx *tree.Txn, _, dir backend.Ino, name string) error {
		return tx.Unlink(dir, name)
	}))
}

// rename moves a file, over another if there is one.
func (w *whole) rename(p, to string) {
	if !w.has(p) {
		return
	}
	w.op("rename "+p, func(l listing) { l[to] = l[p]; delete(l, p) }, at(p, func(tx *tree.Txn, _, dir backend.Ino, name string) error {
		_, toDir, toName, err := find(tx, to)
		if err != nil && !errors.Is(err, backend.NotFound) {
			return err
		}
		return tx.Rename(dir, name, toDir, toName, 0)
	}))
}

// share copies all of a file over the beginning of another: they name the same content.
func (w *whole) share(p, to string) {
	if !w.has(p, to) {
		return
	}
	n := len(w.states[w.done][p].data)
	w.op("copy "+p, func(l listing) {
		l[to].grow(n)
		copy(l[to].data, l[p].data)
	}, at(p, func(tx *tree.Txn, ino, _ backend.Ino, _ string) error {
		dst, _, _, err := find(tx, to)
		if err != nil {
			return err
		}
		got, err := tx.CopyRange(ino, 0, dst, 0, uint64(n))
		if err == nil && got != uint64(n) {
			w.t.Errorf("%d of %d bytes were copied", got, n)
		}
		return err
	}))
}

func (w *whole) sync() {
	w.t.Helper()
	done, _ := w.bounds()
	if w.ok("WaitDurable", w.s.WaitDurable(w.t.Context(), w.wb.LastLSN())) {
		w.mu.Lock()
		w.acked = done
		w.mu.Unlock()
	}
}

// settle waits until the tree has freed what was unlinked, if it does soon: after
// a fault it tries again later.
func (w *whole) settle() {
	for end := waits.In(w.patience); !end.Passed(); time.Sleep(time.Millisecond) {
		var used, want uint64
		if err := w.tr.With(w.vol(), func(tx *tree.Txn) error { used = tx.Stat().UsedBytes; return nil }); err != nil {
			return
		}
		seen := map[*entry]bool{}
		for _, e := range w.states[w.done] {
			if !seen[e] {
				seen[e] = true
				want += uint64(len(e.data))
			}
		}
		if used <= want {
			return
		}
	}
}

func (w *whole) flush() { w.ok("Flush", w.wb.Flush(w.t.Context())) }

func (w *whole) reclaim() {
	_, err := w.s.Reclaim(w.t.Context())
	w.ok("Reclaim", err)
}

// thin writes anew what is left of contents; where the disk fails they stay.
func (w *whole) thin() { w.tr.ThinNow(w.t.Context()) }

func (w *whole) compact() {
	gone, err := w.s.Compact(w.t.Context(), w.tr)
	if w.ok("Compact", err) {
		w.moved += len(gone)
	}
}

// read looks at everything: what it finds is right, or an error.
func (w *whole) read() {
	w.t.Helper()
	got, err := w.found()
	if w.ok("read", err) && got != w.states[w.done].String() {
		w.t.Errorf("a reader found:\n%s\nwant:\n%s", got, w.states[w.done])
	}
}

// live is a small life: content inline, riding and big, shared, overwritten, cut,
// punched; names, links, attributes; over three segments.
func (w *whole) live() {
	w.create("d", backend.TypeDir)
	w.file("d/small", 700, 1)
	w.file("page", 4096, 2)
	w.write("page", 4096, 4096, 3)
	w.file("big", 300_000, 4)
	w.sync()
	w.write("big", 100_000, 8192, 5)
	w.xattr("big", "value")
	w.link("big", "d/other")
	w.create("copy", backend.TypeRegular)
	w.share("big", "copy")
	w.flush()
	w.read()
	w.write("page", 4096, 4096, 6)
	w.sync()
	w.write("copy", 50_000, 100_000, 7)
	w.thin()
	w.rename("d/small", "moved")
	w.truncate("big", 120_000)
	w.punch("copy", 200_000, 64_000)
	w.unlink("d/other")
	w.reclaim()
	w.file("more", 700_000, 8) // the next segment
	w.sync()
	w.rename("more", "big")
	w.unlink("page")
	w.unlink("copy")
	w.settle()
	w.flush()
	w.reclaim() // all of the first
	w.file("d/stays", 100_000, 11)
	w.file("d/whole", 50_000, 14)
	w.file("goes", 100_000, 12)
	w.file("last", 600_000, 9) // the next
	w.unlink("big")
	w.unlink("goes")
	w.settle()
	w.write("d/stays", 10_000, 20_000, 13) // a fifth
	w.truncate("last", 3)
	w.thin()
	w.reclaim()
	w.compact()
	w.sync()
	w.reclaim()
	w.read()
	w.file("tail", 5000, 10)
}
