package tree_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/scripts/waits"
)

var (
	seedFlag  = flag.Uint64("tree.seed", 0, "seed of the random operations; 0: by time")
	stepsFlag = flag.Int("tree.steps", 1500, "random operations per driver")
)

// TestRandomOperations runs random sequences against the model on every
// driver, with caches from none to ample and reopens in between.
func TestRandomOperations(t *testing.T) {
	for _, d := range drivers() {
		for _, cache := range []int{1, 40, 100_000} {
			t.Run(fmt.Sprintf("%s/cache=%d", d.name, cache), func(t *testing.T) {
				seed := *seedFlag
				if seed == 0 {
					seed = uint64(time.Now().UnixNano())
				}
				t.Logf("-tree.seed=%d", seed)
				r := &runner{t: t, d: d.open(t), cache: cache, m: newModel(), rnd: rand.New(rand.NewPCG(seed, 1)), held: map[backend.NodeID]*mnode{}}
				r.openTree()
				defer func() { r.tree.Close() }()
				r.makeVolume()
				steps := *stepsFlag
				if testing.Short() {
					steps /= 3
				}
				for i := range steps {
					r.step(i)
					if t.Failed() {
						return
					}
				}
				r.compare()
				r.finish()
			})
		}
	}
}

type runner struct {
	t     *testing.T
	d     *driver
	cache int
	tree  *tree.Tree
	vol   backend.VolumeID
	m     *model
	rnd   *rand.Rand

	mu   sync.Mutex                // the reclaimer asks what is held
	held map[backend.NodeID]*mnode // guarded by mu; held as if open
}

func (r *runner) inUse(n backend.NodeID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held[n] != nil
}

func (r *runner) dropAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = map[backend.NodeID]*mnode{}
}

func (r *runner) openTree() {
	var err error
	r.tree, err = tree.Open(context.Background(), tree.Options{Store: r.d.store, Content: r.d.content, CacheInodes: r.cache})
	if err != nil {
		r.t.Fatal(err)
	}
	r.tree.SetInUse(r.inUse)
}

func (r *runner) makeVolume() {
	info, _, err := r.tree.CreateVolume(context.Background(), tree.VolumeSpec{
		Label: tree.Label{Kind: tree.KindWorkspace, Owner: "a"}, Parent: r.tree.Root(), Name: "v", Mode: 0o755})
	if err != nil {
		r.t.Fatal(err)
	}
	r.vol = info.ID
}

func (r *runner) with(fn func(*tree.Txn) error) error {
	return r.tree.With(r.vol, func(tx *tree.Txn) error {
		tx.Op = tree.Op{Agent: "tester", UID: backend.OwnerID, GID: backend.OwnerID}
		return fn(tx)
	})
}

// same fails the test unless got and want are the same kind of outcome.
func (r *runner) same(what string, got, want error) bool {
	r.t.Helper()
	if (got == nil) != (want == nil) || (want != nil && !errors.Is(got, want)) {
		r.t.Errorf("%s: tree says %v, model %v", what, got, want)
		return false
	}
	return got == nil
}

func (r *runner) dir() *mnode {
	var all []*mnode
	r.m.walk(func(_ string, d *mnode) { all = append(all, d) })
	return all[r.rnd.IntN(len(all))]
}

func (r *runner) name() string { return string(rune('a' + r.rnd.IntN(6))) }

// file picks a regular file that some name leads to, or one that is held.
func (r *runner) file() *mnode {
	var all []*mnode
	r.m.walk(func(_ string, d *mnode) {
		for _, name := range d.names() {
			if c := d.children[name]; c.typ == backend.TypeRegular {
				all = append(all, c)
			}
		}
	})
	for _, n := range r.held {
		if n.typ == backend.TypeRegular {
			all = append(all, n)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[r.rnd.IntN(len(all))]
}

func (r *runner) step(i int) {
	switch k := r.rnd.IntN(100); {
	case k < 16:
		r.create()
	case k < 20:
		r.linkSome()
	case k < 30:
		r.remove()
	case k < 42:
		r.renameSome()
	case k < 70:
		r.dataOp()
	case k < 76:
		r.readBack()
	case k < 80:
		r.xattr()
	case k < 86:
		r.hold()
	case k < 88:
		r.copySome()
	case k < 97:
		r.lookup()
	default:
		if i%7 == 0 {
			r.reopen()
		}
		r.compare()
	}
}

func (r *runner) create() {
	d, name := r.dir(), r.name()
	spec := tree.CreateSpec{Type: backend.TypeRegular, Mode: 0o644}
	switch r.rnd.IntN(8) {
	case 0, 1, 2:
		spec = tree.CreateSpec{Type: backend.TypeDir, Mode: 0o755}
	case 3:
		spec = tree.CreateSpec{Type: backend.TypeSymlink, Target: "../x"}
	case 4:
		spec = tree.CreateSpec{Type: backend.TypeFIFO, Mode: 0o600}
	}
	want, werr := r.m.create(d, name, spec.Type, spec.Mode, spec.Target)
	err := r.with(func(tx *tree.Txn) error {
		a, err := tx.Create(d.ino, name, spec)
		if err == nil {
			want.ino = a.Node.Ino()
		}
		return err
	})
	r.same("create "+name, err, werr)
}

func (r *runner) linkSome() {
	n, d, name := r.file(), r.dir(), r.name()
	if n == nil {
		return
	}
	if r.rnd.IntN(3) == 0 {
		werr := r.m.replace(n, d, name)
		err := r.with(func(tx *tree.Txn) error { _, err := tx.Replace(n.ino, d.ino, name); return err })
		r.same("replace "+name, err, werr)
		return
	}
	werr := r.m.link(n, d, name)
	err := r.with(func(tx *tree.Txn) error { _, err := tx.Link(n.ino, d.ino, name); return err })
	r.same("link "+name, err, werr)
}

func (r *runner) remove() {
	d, name, rmdir := r.dir(), r.name(), r.rnd.IntN(2) == 0
	werr := r.m.remove(d, name, rmdir)
	err := r.with(func(tx *tree.Txn) error {
		if rmdir {
			return tx.Rmdir(d.ino, name)
		}
		return tx.Unlink(d.ino, name)
	})
	r.same(fmt.Sprintf("remove %s rmdir=%v", name, rmdir), err, werr)
}

func (r *runner) renameSome() {
	from, a, to, b := r.dir(), r.name(), r.dir(), r.name()
	flags := []tree.RenameFlags{0, 0, 0, tree.NoReplace, tree.Exchange, tree.Whiteout, tree.Whiteout | tree.NoReplace}[r.rnd.IntN(7)]
	werr := r.m.rename(from, a, to, b, flags)
	err := r.with(func(tx *tree.Txn) error {
		err := tx.Rename(from.ino, a, to.ino, b, flags)
		if left := from.children[a]; err == nil && left != nil && left.ino == 0 {
			var id backend.NodeID
			id, _, err = tx.Lookup(from.ino, a)
			left.ino = id.Ino()
		}
		return err
	})
	r.same(fmt.Sprintf("rename %s %s flags=%d", a, b, flags), err, werr)
}

// offset draws positions that fall on, near and far from block borders.
func (r *runner) offset() int {
	switch r.rnd.IntN(4) {
	case 0:
		return r.rnd.IntN(300)
	case 1:
		return 4096*r.rnd.IntN(40) + r.rnd.IntN(3)
	case 2:
		return r.rnd.IntN(200_000)
	}
	return 65536*r.rnd.IntN(4) + r.rnd.IntN(5)
}

func (r *runner) bytes() []byte {
	n := []int{1, 100, 3000, 4096, 10_000, 70_000, 300_000}[r.rnd.IntN(7)]
	p := make([]byte, 1+r.rnd.IntN(n))
	x := byte(r.rnd.IntN(256))
	for i := range p {
		p[i] = x + byte(i)
	}
	return p
}

func (r *runner) dataOp() {
	n := r.file()
	if n == nil {
		return
	}
	off := r.offset()
	err := r.with(func(tx *tree.Txn) error {
		switch k := r.rnd.IntN(10); {
		case k < 5:
			p := r.bytes()
			n.write(p, off)
			_, err := tx.Write(n.ino, p, uint64(off))
			return err
		case k < 7:
			p := r.bytes()
			at := len(n.data)
			n.write(p, at)
			res, err := tx.Append(n.ino, p)
			if err == nil && res.Off != uint64(at) {
				r.t.Errorf("append went to %d, not %d", res.Off, at)
			}
			return err
		case k < 9:
			if r.rnd.IntN(3) == 0 {
				off = 0
			}
			n.resize(off)
			if r.rnd.IntN(2) == 0 {
				p := r.bytes()[1:]
				n.write(p, off)
				_, err := tx.Amend(n.ino, p, uint64(off))
				return err
			}
			size := uint64(off)
			_, err := tx.Setattr(n.ino, backend.SetAttr{Size: &size})
			return err
		default:
			end := off + 1 + r.rnd.IntN(100_000)
			n.zero(off, end)
			return tx.Fallocate(n.ino, uint64(off), uint64(end-off), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE)
		}
	})
	if err != nil {
		r.t.Errorf("data operation: %v", err)
	}
	r.checkData(n)
}

func (r *runner) copySome() {
	a, b := r.file(), r.file()
	if a == nil || a == b {
		return
	}
	if r.rnd.IntN(2) == 0 {
		r.takeSome(a, b)
		return
	}
	from, to, n := r.offset(), r.offset(), r.rnd.IntN(200_000)
	var done uint64
	err := r.with(func(tx *tree.Txn) (err error) {
		done, err = tx.CopyRange(a.ino, uint64(from), b.ino, uint64(to), uint64(n))
		return err
	})
	if err != nil {
		r.t.Errorf("copy: %v", err)
	}
	if done > 0 {
		b.write(a.data[from:from+int(done)], to)
	}
	if want := max(0, min(n, len(a.data)-from)); uint64(want) != done {
		r.t.Errorf("copied %d bytes of %d", done, want)
	}
	r.checkData(b)
}

// takeSome moves the content of a from an offset on to b, and gathers what that leaves.
func (r *runner) takeSome(a, b *mnode) {
	off := r.rnd.IntN(2) * r.rnd.IntN(len(a.data)+2)
	err := r.with(func(tx *tree.Txn) (err error) {
		if _, err = tx.TakeContent(b.ino, a.ino, uint64(off)); err != nil || r.rnd.IntN(2) == 0 {
			return err
		}
		for at, more := uint64(0), true; more && err == nil; more = at != 0 {
			at, err = tx.Gather(b.ino, at)
		}
		return err
	})
	var want error
	if off > len(a.data) {
		want = backend.Invalid
	}
	if r.same(fmt.Sprintf("take from %d on", off), err, want) {
		next := make([]byte, len(a.data))
		copy(next, b.data[:min(off, len(b.data))])
		copy(next[off:], a.data[off:])
		a.data, b.data = nil, next
	}
	r.checkData(a)
	r.checkData(b)
}

func (r *runner) readBack() {
	if n := r.file(); n != nil {
		r.checkData(n)
	}
}

// checkData compares a whole file, and a part of it.
func (r *runner) checkData(n *mnode) {
	for _, part := range [][2]int{{0, len(n.data) + 10}, {r.offset(), 5000}} {
		p := make([]byte, part[1])
		var got int
		err := r.with(func(tx *tree.Txn) (err error) { got, err = tx.Read(n.ino, p, uint64(part[0])); return err })
		if err != nil {
			r.t.Fatalf("read: %v", err)
		}
		want := n.data[min(part[0], len(n.data)):min(part[0]+part[1], len(n.data))]
		if !bytes.Equal(p[:got], want) {
			at := 0
			for at < min(got, len(want)) && p[at] == want[at] {
				at++
			}
			r.t.Fatalf("read of [%d, +%d) gives %d bytes, want %d; first difference at %d", part[0], part[1], got, len(want), at)
		}
	}
}

func (r *runner) xattr() {
	n, name := r.file(), "user."+r.name()
	if n == nil {
		return
	}
	err := r.with(func(tx *tree.Txn) error {
		switch r.rnd.IntN(3) {
		case 0:
			v := fmt.Sprint(r.rnd.IntN(1000))
			n.xattrs[name] = v
			return tx.SetXattr(n.ino, name, []byte(v), false, false)
		case 1:
			_, had := n.xattrs[name]
			delete(n.xattrs, name)
			if err := tx.RemoveXattr(n.ino, name); had || !errors.Is(err, backend.NoData) {
				return err
			}
			return nil
		}
		v, err := tx.GetXattr(n.ino, name)
		want, had := n.xattrs[name]
		if !had && errors.Is(err, backend.NoData) {
			return nil
		}
		if err == nil && (!had || string(v) != want) {
			r.t.Errorf("xattr %s is %q, want %q (%v)", name, v, want, had)
		}
		return err
	})
	if err != nil {
		r.t.Errorf("xattr: %v", err)
	}
}

// hold opens a file as it were, or closes one.
func (r *runner) hold() {
	for node := range r.held {
		if len(r.held) > 3 || r.rnd.IntN(4) == 0 {
			r.mu.Lock()
			delete(r.held, node)
			r.mu.Unlock()
			r.tree.Dropped(node)
			return
		}
	}
	if n := r.file(); n != nil {
		r.mu.Lock()
		r.held[backend.Node(r.vol, n.ino)] = n
		r.mu.Unlock()
	}
}

func (r *runner) lookup() {
	d, name := r.dir(), r.name()
	err := r.with(func(tx *tree.Txn) error {
		node, typ, err := tx.Lookup(d.ino, name)
		if want := d.children[name]; err == nil && (want == nil || node.Ino() != want.ino || typ != want.typ) {
			r.t.Errorf("lookup %s finds %v, model has %v", name, node, want)
		}
		return err
	})
	var want error
	if d.children[name] == nil {
		want = backend.NotFound
	}
	r.same("lookup "+name, err, want)
}

// reopen starts the tree anew on the same store; nothing is held any more.
func (r *runner) reopen() {
	if err := r.tree.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.dropAll()
	r.d.reopen(r.t)
	r.openTree()
}

func (r *runner) compare() {
	r.m.walk(func(path string, d *mnode) {
		var list []tree.Dirent
		err := r.with(func(tx *tree.Txn) (err error) { list, err = tx.List(d.ino); return err })
		if err != nil {
			r.t.Errorf("list %s: %v", path, err)
			return
		}
		names := d.names()
		if len(list) != len(names) {
			r.t.Errorf("list %s has %d names, want %d", path, len(list), len(names))
			return
		}
		for i, e := range list {
			want := d.children[names[i]]
			if e.Name != names[i] || e.Node.Ino() != want.ino || e.Type != want.typ {
				r.t.Errorf("list %s: %v, want %s -> %d", path, e, names[i], want.ino)
			}
			r.compareNode(path+"/"+e.Name, want)
		}
	})
	if _, err := r.tree.CheckEnds(); err != nil {
		r.t.Error(err)
	}
	r.check()
}

func (r *runner) compareNode(path string, want *mnode) {
	err := r.with(func(tx *tree.Txn) error {
		a, err := tx.Attr(want.ino)
		if err != nil {
			return err
		}
		size := uint64(len(want.data) + len(want.target))
		if want.typ == backend.TypeDir {
			size = 4096
		}
		if a.Nlink != want.nlink || a.Type != want.typ || a.Mode != want.mode || a.Size != size {
			r.t.Errorf("%s: %+v, want nlink %d mode %o size %d", path, a, want.nlink, want.mode, size)
		}
		links, err := tx.Links(want.ino)
		if err == nil && uint32(len(links)) != want.nlink {
			r.t.Errorf("%s: %d back-links, want %d", path, len(links), want.nlink)
		}
		p, err2 := tx.Path(want.ino)
		if want.nlink == 1 && "/"+p != path {
			r.t.Errorf("path of %s is %s (%v)", path, p, err2)
		}
		return err
	})
	if err != nil {
		r.t.Errorf("%s: %v", path, err)
	}
}

func (r *runner) check() {
	r.t.Helper()
	checkTree(r.t, r.tree)
}

// finish removes everything and waits until nothing but the roots is left.
func (r *runner) finish() {
	r.reopen()
	if _, err := r.tree.RemoveVolume(context.Background(), r.vol); err != nil {
		r.t.Fatal(err)
	}
	deadline := waits.In(time.Minute)
	for {
		left := 0
		err := r.d.store.View(context.Background(), func(kv backend.Tx) error {
			left = 0
			return kv.ScanKeys([]byte{'b'}, []byte{'z'}, func(k []byte) error {
				if k[0] == 'c' || k[0] == 'e' || k[0] == 'r' || k[0] == 'x' || k[0] == 'o' {
					left++
				}
				return nil
			})
		})
		if err != nil {
			r.t.Fatal(err)
		}
		if left == 0 {
			break
		}
		if deadline.Passed() {
			r.t.Fatalf("%d keys of a removed volume were never reclaimed", left)
		}
		time.Sleep(10 * time.Millisecond)
	}
	r.check()
}
