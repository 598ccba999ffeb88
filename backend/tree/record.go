package tree

import (
	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/quota"
)

// recordVersion is the first byte of every record of the tree.
const recordVersion = 1

// Flags of an inode.
const (
	flagDenied   = 1 << iota // a name of it was made under the deny-list (sticky)
	flagLinkable             // O_TMPFILE: may be given its first name
)

// record is the persistent state of one inode (docs/format.md, rule 7).
type record struct {
	epoch uint32 // in which it was written
	typ   backend.FileType
	flags uint8
	mode  uint32
	uid   uint32 // backend.OwnerID: the owner
	gid   uint32
	nlink uint32 // names that lead here; 0: an orphan. A directory's is 1 or 0
	rdev  uint32
	size  uint64
	bytes uint64 // content bytes that extents hold

	atime, mtime, ctime, btime backend.Time

	createdBy, modifiedBy string
	modifiedAt            backend.Time

	link    Link     // the first name; the others have keys of their own
	xattrs  uint32   // bytes of the names of its extended attributes, each with a NUL
	entries uint64   // names in a directory
	target  string   // of a symlink
	extents extstate // of a regular file
}

// extstate is what a regular file's record knows of its extents.
type extstate struct {
	high     uint64 // no extent record ends after it
	gen      uint32 // new extents carry it
	barriers []barrier
}

// barrier makes void every extent of generation <= gen that starts in
// [from, to): a truncate or punch too large for one operation.
type barrier struct {
	gen      uint32
	from, to uint64
	counted  bool // bytes already given back
}

// void tells whether a barrier has removed e.
func (s *extstate) void(e *extent) bool {
	for i := range s.barriers {
		b := &s.barriers[i]
		if e.gen <= b.gen && e.start >= b.from && e.start < b.to {
			return true
		}
	}
	return false
}

// uncounted tells whether e is void and its bytes are still in the counters.
func (s *extstate) uncounted(e *extent) bool {
	for i := range s.barriers {
		b := &s.barriers[i]
		if e.gen <= b.gen && e.start >= b.from && e.start < b.to && b.counted {
			return false
		}
	}
	return true
}

func (r *record) encode(b []byte) []byte {
	e := encoder{b}
	e.byte(recordVersion)
	e.u(uint64(r.epoch))
	e.byte(byte(r.typ))
	e.byte(r.flags)
	e.u(uint64(r.mode))
	e.u(uint64(r.uid + 1)) // OwnerID, by far the most frequent, becomes 0
	e.u(uint64(r.gid + 1))
	e.u(uint64(r.nlink))
	e.i(int64(r.btime))
	e.i(int64(r.atime - r.btime))
	e.i(int64(r.mtime - r.btime))
	e.i(int64(r.ctime - r.btime))
	e.i(int64(r.modifiedAt - r.btime))
	e.str(r.createdBy)
	e.str(r.modifiedBy)
	e.u(uint64(r.link.Parent))
	e.str(r.link.Name)
	e.u(uint64(r.xattrs))
	switch r.typ {
	case backend.TypeDir:
		e.u(r.entries)
	case backend.TypeSymlink:
		e.str(r.target)
	case backend.TypeRegular:
		e.u(r.size)
		e.u(r.bytes)
		r.extents.encode(&e)
	default:
		e.u(uint64(r.rdev))
	}
	return e.b
}

func (s *extstate) encode(e *encoder) {
	e.u(s.high)
	e.u(uint64(s.gen))
	e.u(uint64(len(s.barriers)))
	for _, b := range s.barriers {
		e.u(uint64(b.gen))
		e.u(b.from)
		e.u(b.to)
		if b.counted {
			e.byte(1)
		} else {
			e.byte(0)
		}
	}
}

func decodeRecord(v backend.VolumeID, i backend.Ino, b []byte) (record, error) {
	d := decoder{b: b}
	var r record
	if d.byte() != recordVersion {
		d.bad = true
	}
	r.epoch = uint32(d.u())
	r.typ = backend.FileType(d.byte())
	r.flags = d.byte()
	r.mode = uint32(d.u())
	r.uid = uint32(d.u()) - 1
	r.gid = uint32(d.u()) - 1
	r.nlink = uint32(d.u())
	r.btime = backend.Time(d.i())
	r.atime = r.btime + backend.Time(d.i())
	r.mtime = r.btime + backend.Time(d.i())
	r.ctime = r.btime + backend.Time(d.i())
	r.modifiedAt = r.btime + backend.Time(d.i())
	r.createdBy = d.str()
	if m := d.bytes(); string(m) == r.createdBy {
		r.modifiedBy = r.createdBy
	} else {
		r.modifiedBy = string(m)
	}
	r.link.Parent = backend.Ino(d.u())
	r.link.Name = d.str()
	r.xattrs = uint32(d.u())
	switch r.typ {
	case backend.TypeDir:
		r.entries = d.u()
	case backend.TypeSymlink:
		r.target = d.str()
		r.size = uint64(len(r.target))
	case backend.TypeRegular:
		r.size = d.u()
		r.bytes = d.u()
		r.extents.decode(&d)
	case backend.TypeFIFO, backend.TypeChar, backend.TypeBlock, backend.TypeSocket:
		r.rdev = uint32(d.u())
	default:
		d.bad = true
	}
	return r, d.done("inode", v, i)
}

func (s *extstate) decode(d *decoder) {
	s.high = d.u()
	s.gen = uint32(d.u())
	n := d.u()
	if n > maxBarriers {
		d.bad = true
		return
	}
	for range n {
		b := barrier{gen: uint32(d.u()), from: d.u(), to: d.u()}
		b.counted = d.byte() == 1
		s.barriers = append(s.barriers, b)
	}
}

// attr is what stat(2) shows of the record, in stored form.
func (r *record) attr(n backend.NodeID) backend.Attr {
	a := backend.Attr{
		Node: n, Type: r.typ, Mode: r.mode, UID: r.uid, GID: r.gid, Nlink: r.nlink,
		Size: r.size, Blocks: (r.bytes + 511) / 512, Rdev: r.rdev,
		Atime: r.atime, Mtime: r.mtime, Ctime: r.ctime, Btime: r.btime,
	}
	if r.typ == backend.TypeDir {
		a.Size, a.Blocks = 4096, 8
	}
	return a
}

// dent is what a name leads to.
type dent struct {
	ino backend.Ino
	vol backend.VolumeID // 0: the same volume; else that volume's root
	typ backend.FileType
}

func (e dent) encode(b []byte, epoch uint32) []byte {
	enc := encoder{b}
	enc.byte(recordVersion)
	enc.u(uint64(epoch))
	enc.byte(byte(e.typ))
	enc.u(uint64(e.ino))
	enc.u(uint64(e.vol))
	return enc.b
}

func decodeDent(v backend.VolumeID, dir backend.Ino, b []byte) (dent, error) {
	d := decoder{b: b}
	if d.byte() != recordVersion {
		d.bad = true
	}
	d.u()
	e := dent{typ: backend.FileType(d.byte())}
	e.ino = backend.Ino(d.u())
	e.vol = backend.VolumeID(d.u())
	return e, d.done("directory entry", v, dir)
}

// node is the id that e stands for in volume v.
func (e dent) node(v backend.VolumeID) backend.NodeID {
	if e.vol != 0 {
		return backend.Node(e.vol, backend.RootIno)
	}
	return backend.Node(v, e.ino)
}

// usage holds a volume's counters (docs/format.md, rule 6).
type usage struct {
	bytes       uint64 // content bytes of all extents, void ones included until reclaimed
	inodes      uint64 // orphans included
	nextIno     uint64 // first inode number never given out
	nextContent uint64 // first content number never given out
}

// counted is what a quota looks at.
func (u *usage) counted() quota.Use { return quota.Use{Bytes: u.bytes, Inodes: u.inodes} }

func (u usage) encode(b []byte, epoch uint32) []byte {
	e := encoder{b}
	e.byte(recordVersion)
	e.u(uint64(epoch))
	e.u(u.bytes)
	e.u(u.inodes)
	e.u(u.nextIno)
	e.u(u.nextContent)
	return e.b
}

func decodeUsage(v backend.VolumeID, b []byte) (usage, error) {
	d := decoder{b: b}
	if d.byte() != recordVersion {
		d.bad = true
	}
	d.u()
	u := usage{bytes: d.u(), inodes: d.u(), nextIno: d.u(), nextContent: d.u()}
	return u, d.done("volume counters", v, 0)
}

// volrec is the stored form of a VolumeInfo (docs/format.md, rule 5).
type volrec struct {
	VolumeInfo
	removed bool // detached; its keys are being reclaimed
}

func (r *volrec) encode() []byte {
	e := encoder{}
	e.byte(recordVersion)
	e.u(uint64(r.Epoch))
	e.byte(byte(r.Label.Kind))
	e.str(r.Label.Owner)
	e.u(uint64(r.Parent))
	e.str(r.Name)
	e.i(int64(r.Created))
	if r.removed {
		e.byte(1)
	} else {
		e.byte(0)
	}
	return e.b
}

func decodeVolume(v backend.VolumeID, b []byte) (volrec, error) {
	d := decoder{b: b}
	var r volrec
	if d.byte() != recordVersion {
		d.bad = true
	}
	r.ID = v
	r.Epoch = uint32(d.u())
	r.Label.Kind = VolumeKind(d.byte())
	r.Label.Owner = d.str()
	r.Parent = backend.NodeID(d.u())
	r.Name = d.str()
	r.Created = backend.Time(d.i())
	r.removed = d.byte() == 1
	return r, d.done("volume", v, 0)
}
