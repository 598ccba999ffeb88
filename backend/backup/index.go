package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"

	"github.com/warrenfs/warren/backend"
)

// index is the state of earlier backups as a Write reads it: keys, ascending,
// and what their values were. A nil index is of no backup.
type index struct {
	id    ID
	in    *bufio.Reader
	sum   hash.Hash
	key   []byte // nil: there is none left
	value [16]byte
}

// openIndex begins to read; nil for a nil reader.
func openIndex(r io.Reader) (*index, error) {
	if r == nil {
		return nil, nil
	}
	i := &index{in: bufio.NewReaderSize(r, 256<<10), sum: sha256.New()}
	head := make([]byte, len(indexMagic)+len(i.id))
	if err := i.read(head); err != nil {
		return nil, err
	}
	if string(head[:len(indexMagic)]) != indexMagic {
		return nil, bad("the index of the earlier backup is none")
	}
	copy(i.id[:], head[len(indexMagic):])
	return i, i.next()
}

func (i *index) read(b []byte) error {
	if _, err := io.ReadFull(i.in, b); short(err) {
		return bad("the index of the earlier backup is cut short")
	} else if err != nil {
		return err
	}
	i.sum.Write(b)
	return nil
}

// next reads the next key.
func (i *index) next() error {
	var n [2]byte
	if err := i.read(n[:]); err != nil {
		return err
	}
	size := binary.LittleEndian.Uint16(n[:])
	if size == 0 {
		want, got := i.sum.Sum(nil), make([]byte, sha256.Size)
		if _, err := io.ReadFull(i.in, got); err != nil && !short(err) {
			return err
		}
		if !bytes.Equal(got, want) {
			return bad("the index of the earlier backup is damaged")
		}
		i.key = nil
		return nil
	}
	if size > backend.MaxKey {
		return bad("the index of the earlier backup is damaged")
	}
	key := make([]byte, size)
	if err := i.read(key); err != nil {
		return err
	}
	if i.key != nil && bytes.Compare(key, i.key) <= 0 {
		return bad("the index of the earlier backup is in disorder")
	}
	i.key = key
	return i.read(i.value[:])
}

// before gives a key that the earlier backup has before key (nil: at all), and
// that the store has not, or nil.
func (i *index) before(key []byte) ([]byte, error) {
	if i == nil || i.key == nil || key != nil && bytes.Compare(i.key, key) >= 0 {
		return nil, nil
	}
	gone := i.key
	return gone, i.next()
}

// same tells whether the earlier backup has key with this value.
func (i *index) same(key, value []byte) (bool, error) {
	if i == nil || !bytes.Equal(i.key, key) {
		return false, nil
	}
	same := i.value == digest(value)
	return same, i.next()
}

func digest(value []byte) [16]byte {
	sum := sha256.Sum256(value)
	return [16]byte(sum[:16])
}

// Index writes the index of a chain, with which Write makes the backup that
// follows it.
func Index(w io.Writer, c *Chain) error {
	out, sum := bufio.NewWriterSize(w, 256<<10), sha256.New()
	both := io.MultiWriter(out, sum)
	id := c.Last().ID
	if _, err := both.Write(append([]byte(indexMagic), id[:]...)); err != nil {
		return err
	}
	for {
		r, err := c.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if !r.Live {
			continue
		}
		d := digest(r.Value)
		b := binary.LittleEndian.AppendUint16(nil, uint16(len(r.Key)))
		if _, err := both.Write(append(append(b, r.Key...), d[:]...)); err != nil {
			return err
		}
	}
	if _, err := both.Write([]byte{0, 0}); err != nil {
		return err
	}
	if _, err := out.Write(sum.Sum(nil)); err != nil {
		return err
	}
	return out.Flush()
}
