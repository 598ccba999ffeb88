package tree

import (
	"hash/maphash"
	"math/bits"

	"github.com/warrenfs/warren/backend"
)

// brief is what a check keeps of each inode of a volume from its first look to its
// last: what the names of others say of it.
type brief struct {
	// links is the sum of the hashes of the names that lead here less that of the
	// back-links: 0 when each has its other.
	links  uint64
	parent backend.Ino // of a directory: where its name stands
	names  int32       // its link count less the names that lead here
	typ    backend.FileType
	mark   reach
}

// reach tells whether a directory's parents lead to the root.
type reach uint8

const (
	reachUnknown reach = iota
	reachRoot
	reachAsked // being looked at
)

// briefs are the inodes of one volume, added in ascending order. One takes 24
// bytes, and a little for each 64 numbers among which there is any.
type briefs struct {
	blocks map[backend.Ino]block // by number/64
	slots  [][]brief
	n      int
}

// block tells where the inodes of 64 numbers are.
type block struct {
	has   uint64
	first uint32 // place of the first of them
}

const briefSlots = 4096

func (s *briefs) add(ino backend.Ino, b brief) {
	at := s.blocks[ino/64]
	if at.has == 0 {
		at.first = uint32(s.n)
	}
	at.has |= 1 << (ino % 64)
	s.blocks[ino/64] = at
	if s.n%briefSlots == 0 {
		s.slots = append(s.slots, make([]brief, 0, briefSlots))
	}
	last := &s.slots[len(s.slots)-1]
	*last = append(*last, b)
	s.n++
}

// get gives an inode, or nil.
func (s *briefs) get(ino backend.Ino) *brief {
	at, bit := s.blocks[ino/64], uint64(1)<<(ino%64)
	if at.has&bit == 0 {
		return nil
	}
	i := int(at.first) + bits.OnesCount64(at.has&(bit-1))
	return &s.slots[i/briefSlots][i%briefSlots]
}

// each calls fn for all inodes, in no order.
func (s *briefs) each(fn func(backend.Ino, *brief)) {
	for at, b := range s.blocks {
		for left := b.has; left != 0; left &= left - 1 {
			ino := at*64 + backend.Ino(bits.TrailingZeros64(left))
			fn(ino, s.get(ino))
		}
	}
}

// reaches tells whether a directory's parents lead to the root.
func (s *briefs) reaches(ino backend.Ino) bool {
	var path []*brief
	ok := false
	for {
		n := s.get(ino)
		if n == nil || n.mark == reachAsked {
			break
		}
		if ino == backend.RootIno || n.mark == reachRoot {
			ok = true
			break
		}
		n.mark = reachAsked
		path = append(path, n)
		ino = n.parent
	}
	for _, n := range path {
		n.mark = reachUnknown
		if ok {
			n.mark = reachRoot
		}
	}
	return ok
}

// hash is that of a name for brief.links: of the directory's number and the name, as
// they stand at the end of the keys of entries and of back-links.
func (k *checker) hash(name []byte) uint64 { return maphash.Bytes(k.seed, name) }

// idCounts counts how often content ids were seen: a bit for most, and a little for each
// 64 numbers among which there is any.
type idCounts struct {
	once map[uint64]uint64 // bits, by id/64
	more map[uint64]int    // of those seen more than once, how often
}

func newIDCounts() idCounts {
	return idCounts{once: map[uint64]uint64{}, more: map[uint64]int{}}
}

// add counts id once more and tells how often it was seen with that.
func (c *idCounts) add(id uint64) int {
	bit := uint64(1) << (id % 64)
	if have := c.once[id/64]; have&bit == 0 {
		c.once[id/64] = have | bit
		return 1
	}
	n := max(c.more[id], 1) + 1
	c.more[id] = n
	return n
}

func (c *idCounts) of(id uint64) int {
	if n := c.more[id]; n > 0 {
		return n
	}
	return int(c.once[id/64] >> (id % 64) & 1)
}
