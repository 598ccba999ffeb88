package tree_test

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
)

// TestEndsOfExtents: what is kept of a file's extents follows every change, and
// what is read by it is what was written, while segments are emptied and runs
// coalesced behind it.
func TestEndsOfExtents(t *testing.T) {
	for _, d := range drivers() {
		t.Run(d.name, func(t *testing.T) {
			d := d.open(t)
			tr, err := tree.Open(context.Background(), tree.Options{Store: d.store, Content: d.content, CacheInodes: 100})
			must(t, err)
			defer func() { checkTree(t, tr); tr.Close() }()
			info, _, err := tr.CreateVolume(context.Background(), tree.VolumeSpec{
				Label: tree.Label{Kind: tree.KindWorkspace, Owner: "a"}, Parent: tr.Root(), Name: "v", Mode: 0o755})
			must(t, err)
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			e := &endsRunner{t: t, tr: tr, vol: info.ID, r: rand.New(rand.NewPCG(seed, 1))}
			e.ino = e.make("f")
			e.other = e.make("g")
			steps := 1500
			if testing.Short() {
				steps = 400
			}
			known := 0
			for i := range steps {
				e.step()
				if i%50 == 49 {
					n, err := tr.CheckEnds()
					must(t, err)
					known += n
				}
			}
			if known < steps/200 {
				t.Errorf("the ends of %d files were known at %d looks", known, steps/50)
			}
			e.read(0, len(e.want))
		})
	}
}

// endsRunner changes two files at random; want is what the first has.
type endsRunner struct {
	t          *testing.T
	tr         *tree.Tree
	vol        backend.VolumeID
	r          *rand.Rand
	ino, other backend.Ino
	want       []byte
}

const endsSize = 256 << 10

func (e *endsRunner) with(fn func(*tree.Txn) error) {
	e.t.Helper()
	must(e.t, e.tr.With(e.vol, fn))
}

func (e *endsRunner) make(name string) (ino backend.Ino) {
	e.with(func(tx *tree.Txn) error {
		a, err := tx.Create(backend.RootIno, name, tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o600})
		ino = a.Node.Ino()
		return err
	})
	return ino
}

func (e *endsRunner) step() {
	off := e.r.IntN(endsSize)
	n := 1 + e.r.IntN(min(endsSize-off, 1<<(2+e.r.IntN(15))))
	switch k := e.r.IntN(20); {
	case k < 8:
		e.write(off, n)
	case k < 13:
		e.read(off, n)
	case k < 14:
		size := uint64(off)
		e.with(func(tx *tree.Txn) error { return second(tx.Setattr(e.ino, backend.SetAttr{Size: &size})) })
		e.grow(off)
		e.want = e.want[:off]
	case k < 17:
		e.with(func(tx *tree.Txn) error {
			return tx.Fallocate(e.ino, uint64(off), uint64(n), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE)
		})
		if off < len(e.want) {
			clear(e.want[off:min(off+n, len(e.want))])
		}
	case k < 18:
		e.seek(off)
	default:
		e.copy(off, n)
	}
}

func (e *endsRunner) grow(size int) {
	if size > len(e.want) {
		e.want = append(e.want, make([]byte, size-len(e.want))...)
	}
}

func (e *endsRunner) write(off, n int) {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(1 + e.r.IntN(255))
	}
	e.with(func(tx *tree.Txn) error {
		_, err := tx.Write(e.ino, p, uint64(off))
		return err
	})
	e.grow(off + n)
	copy(e.want[off:], p)
}

func (e *endsRunner) read(off, n int) {
	e.t.Helper()
	p := make([]byte, n)
	var got int
	e.with(func(tx *tree.Txn) (err error) {
		got, err = tx.Read(e.ino, p, uint64(off))
		return err
	})
	want := e.want[min(off, len(e.want)):min(off+n, len(e.want))]
	if !bytes.Equal(p[:got], want) {
		e.t.Fatalf("[%d, +%d) is not what was written", off, n)
	}
}

// seek: before the next data is nothing but zeros.
func (e *endsRunner) seek(off int) {
	if off >= len(e.want) {
		return
	}
	var at uint64
	err := e.tr.With(e.vol, func(tx *tree.Txn) (err error) {
		at, err = tx.Seek(e.ino, uint64(off), false)
		return err
	})
	if err != nil {
		at = uint64(len(e.want))
	}
	if len(bytes.Trim(e.want[off:at], "\x00")) > 0 {
		e.t.Fatalf("from %d on data is found at %d only", off, at)
	}
}

// copy copies a range there and back to another place.
func (e *endsRunner) copy(off, n int) {
	if off+n > len(e.want) {
		return
	}
	to := e.r.IntN(endsSize - n)
	e.with(func(tx *tree.Txn) error {
		for done := 0; done < n; {
			d, err := tx.CopyRange(e.ino, uint64(off+done), e.other, uint64(done), uint64(n-done))
			if err != nil {
				return err
			}
			done += int(d)
		}
		for done := 0; done < n; {
			d, err := tx.CopyRange(e.other, uint64(done), e.ino, uint64(to+done), uint64(n-done))
			if err != nil {
				return err
			}
			done += int(d)
		}
		return nil
	})
	e.grow(to + n)
	copy(e.want[to:to+n], bytes.Clone(e.want[off:off+n]))
}
