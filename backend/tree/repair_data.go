package tree

import (
	"fmt"

	"github.com/warrenfs/warren/backend"
)

func (v *volfix) xattrs() error {
	return v.scan(famXattr, 13, func(key, b []byte) {
		ino, name := inoOf(key), nameOf(key)
		n := v.nodes[ino]
		_, err := decodeXattr(v.rec.ID, ino, b)
		switch {
		case n == nil:
			v.aside(key, b)
			v.tell(ino, "xattr %q of what does not exist is set aside", name)
		case err != nil:
			v.aside(key, b)
			v.tell(ino, "xattr %q is damaged and set aside", name)
		default:
			n.xattrs += xattrRoom(name)
		}
	})
}

// extents counts what files hold. An extent of what has no record makes it a
// file; one that overlaps another, or stands in what is no file, becomes a file
// of its own.
func (v *volfix) extents() error {
	var last backend.Ino
	var end uint64
	return v.scan(famExtent, 13, func(key, b []byte) {
		ino := inoOf(key)
		e, err := decodeExtentKey(key, b)
		if err != nil {
			v.aside(key, b)
			v.tell(ino, "an extent is damaged and set aside; its bytes are a hole now")
			return
		}
		if e.inline == nil {
			v.named[e.ref.ID]++
			if backend.VolumeID(e.ref.ID>>40) == v.rec.ID {
				v.use.nextContent = max(v.use.nextContent, e.ref.ID&(1<<40-1)+1)
			}
		}
		if ino != last {
			last, end = ino, 0
		}
		n := v.nodes[ino]
		if n == nil {
			n = v.make(ino, backend.TypeRegular)
			v.tell(ino, "its record is missing: made anew as a file")
		}
		if n.rec.typ != backend.TypeRegular || e.start < end {
			v.split(key, n, &e)
			return
		}
		end = e.end
		v.count(n, &e)
	})
}

// count adds an extent to what its file has.
func (v *volfix) count(n *fixnode, e *extent) {
	st := &n.rec.extents
	if !st.void(e) || st.uncounted(e) {
		n.bytes += e.length()
	}
	n.end, n.gen = max(n.end, e.end), max(n.gen, e.gen)
	if !st.void(e) && e.end > n.rec.size {
		if !n.made {
			v.tell(n.ino, "its size %d is now %d: an extent ends there", n.rec.size, e.end)
		}
		n.rec.size, n.dirty = e.end, true
	}
}

// split makes a file of its own of an extent.
func (v *volfix) split(key []byte, from *fixnode, e *extent) {
	v.delete(key)
	n := v.lostFile(fmt.Sprintf("#%d.%d-%d", from.ino, e.start, e.end))
	x := *e
	x.gen = 0
	v.attach(n, x)
	v.tell(from.ino, "extent [%d, %d) overlaps another or stands in what is no file: it is now %s", e.start, e.end, n.where())
}

// lostFile makes an empty file in lost+found.
func (v *volfix) lostFile(name string) *fixnode {
	v.lostFound() // it may take the next number itself
	n := v.make(backend.Ino(v.use.nextIno), backend.TypeRegular)
	v.put(n, name)
	return n
}

// attach gives a file of lost+found its bytes.
func (v *volfix) attach(n *fixnode, e extent) {
	e.epoch = v.rec.Epoch
	v.set(extentKey(v.rec.ID, n.ino, e.end), e.encode(nil))
	v.count(n, &e)
}
