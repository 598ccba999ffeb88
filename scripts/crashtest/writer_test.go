package crashtest

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"
)

// op is one operation: one change of the filesystem, or none.
type op struct {
	what  string
	do    func(root string) error
	apply func(s state) // nil: changes nothing
	syncs bool          // once it has returned, all before it is durable
	// The kernel passes a write through the page cache on in parts that end at
	// pages. parts are the changes that such a write may have made of file p.
	p     string
	parts []func(s state)
}

// writer does operations in its directory until one fails.
type writer struct {
	root string
	rand *rand.Rand
	base state            // before ops
	now  state            // after the acknowledged of ops
	ops  []op             // the last one may not be acknowledged
	done int              // how many are
	next int              // of names
	err  error            // what the last one said
	sure func(error) bool // errors that may end it; nil: gone
}

func newWriter(root string, seed uint64) *writer {
	return &writer{root: root, rand: rand.New(rand.NewPCG(seed, 1)), base: state{}, now: state{}}
}

// run does operations until one fails or stop is closed.
func (w *writer) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		o := w.choose()
		w.ops = append(w.ops, o)
		if w.err = o.do(w.root); w.err != nil {
			return
		}
		if o.apply != nil {
			o.apply(w.now)
		}
		w.done++
	}
}

// durable is how many operations at least a power cut must leave.
func (w *writer) durable() int {
	for i := w.done; i > 0; i-- {
		if w.ops[i-1].syncs {
			return i
		}
	}
	return 0
}

// check finds the prefix of the operations, of at least that many, that made
// what is in the directory now, and goes on from there.
func (w *writer) check(t *testing.T, least int) {
	t.Helper()
	found, err := walk(w.root)
	if err != nil {
		t.Fatal(err)
	}
	s := w.base.clone()
	for i := 0; ; i++ {
		if i >= least && s.is(found) {
			t.Logf("%s: %d operations acknowledged, %d there", path.Base(w.root), w.done, i)
			w.base, w.now, w.ops, w.done, w.err = s, s.clone(), nil, 0, nil
			return
		}
		if i == len(w.ops) {
			break
		}
		if i >= least && w.ops[i].isPart(s, found) {
			t.Logf("%s: %d operations acknowledged, %d and part of a write there", path.Base(w.root), w.done, i)
			w.base, w.now, w.ops, w.done, w.err = s, s.clone(), nil, 0, nil
			return
		}
		if w.ops[i].apply != nil {
			w.ops[i].apply(s)
		}
	}
	last := w.ops[max(0, w.done-3):]
	names := ""
	for _, o := range last {
		names += "\n" + o.what
	}
	t.Fatalf("%s is not what any prefix of its operations made, from %d to %d of them (%d acknowledged); against all acknowledged:%s\nthe last were:%s",
		w.root, least, len(w.ops), w.done, difference(w.now, found), names)
}

// isPart tells whether the walk has found what a part of this write made, and
// makes s that.
func (o op) isPart(s state, found map[string]string) bool {
	if len(o.parts) == 0 || len(s) != len(found) {
		return false
	}
	file := s[o.p]
	for p, n := range s {
		if n != file && n.describe() != found[p] {
			return false
		}
	}
	whole := *file
	for _, part := range o.parts {
		file.data = append([]byte(nil), whole.data...)
		part(s)
		if s.is(found) {
			return true
		}
	}
	*file = whole
	return false
}

// names gives the paths of a kind, in order.
func (w *writer) names(is func(*inode) bool) []string {
	var out []string
	for p, n := range w.now {
		if is(n) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

func isFile(n *inode) bool { return n.mode.IsRegular() }
func isDir(n *inode) bool  { return n.mode.IsDir() }
func isAny(*inode) bool    { return true }

// pick gives one of them, or "".
func (w *writer) pick(is func(*inode) bool) string {
	if all := w.names(is); len(all) > 0 {
		return all[w.rand.IntN(len(all))]
	}
	return ""
}

// fresh gives a path that is not there.
func (w *writer) fresh() string {
	w.next++
	return path.Join(w.pick(isDir), fmt.Sprint("n", w.next))
}

func (w *writer) bytes(most int) []byte {
	b := bytes.Repeat([]byte{byte('a' + w.rand.IntN(26))}, 1+w.rand.IntN(most))
	for i := 0; i < len(b); i += 512 {
		b[i] = byte(w.rand.IntN(256))
	}
	return b
}

// choose gives the next operation. Few names stay, so that all kinds are used.
func (w *writer) choose() op {
	file, any := w.pick(isFile), w.pick(isAny)
	many := len(w.now) > 60
	switch k := w.rand.IntN(20); {
	case file == "" || k < 3 && !many:
		return create(w.fresh(), fs.FileMode(0o600+w.rand.IntN(0o100)))
	case k < 4 && !many:
		return mkdir(w.fresh())
	case k < 5 && !many:
		return symlink(w.fresh(), fmt.Sprint("to", w.next))
	case k < 6 && !many:
		return link(file, w.fresh())
	case k < 10:
		most := 5000
		if w.rand.IntN(8) == 0 {
			most = 200_000
		}
		return write(file, int64(w.rand.IntN(100_000)), w.bytes(most))
	case k < 12:
		return appendTo(file, w.bytes(3000))
	case k < 13:
		return truncate(file, int64(w.rand.IntN(120_000)))
	case k < 14:
		return chmod(file, fs.FileMode(0o600+w.rand.IntN(0o100)))
	case k < 15:
		return rename(any, w.fresh())
	case k < 16:
		return rename(file, w.pick(isFile))
	case k < 17:
		return fsync(file)
	case many || k < 19:
		return remove(any)
	default:
		return create(w.fresh(), 0o644)
	}
}

// inside opens a file below root for one call.
func inside(root, p string, flags int, call func(*os.File) error) error {
	f, err := os.OpenFile(filepath.Join(root, p), flags, 0)
	if err != nil {
		return err
	}
	err = call(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
