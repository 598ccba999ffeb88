package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
)

// Record is what a backup has of one key.
type Record struct {
	Key, Value []byte
	Deleted    bool
	Ref        *backend.Ref // the content that an extent names
	Content    []byte       // its bytes, if they are here; valid until the next record
	Again      bool         // they came with an earlier record of the file
	Live       bool         // of a Chain: no later file has another
}

// Reader reads one backup from beginning to end.
type Reader struct {
	src     io.Reader
	in      *bufio.Reader
	skip    bool // contents are passed over unread
	sum     hash.Hash
	header  Header
	summary *Summary
	count   Summary
	last    []byte
	content []byte
}

// NewReader reads a backup's header. With skip, contents are not read: where r
// can seek they cost nothing, and are not verified. Kind Invalid: it is no
// backup, is damaged, or of another version. An error of r is returned as it is.
func NewReader(r io.Reader, skip bool) (*Reader, error) {
	b := &Reader{src: r, in: bufio.NewReaderSize(r, 64<<10), skip: skip, sum: sha256.New()}
	head := make([]byte, len(fileMagic)+8)
	_, err := io.ReadFull(b.in, head)
	if err != nil && !short(err) {
		return nil, err
	}
	if err != nil || string(head[:len(fileMagic)]) != fileMagic {
		return nil, bad("it is no backup of a warren store")
	}
	if v := binary.LittleEndian.Uint32(head[8:]); v != version {
		return nil, bad("it is of version %d, and this warren reads version %d", v, version)
	}
	n := binary.LittleEndian.Uint32(head[12:])
	if n > maxHeader {
		return nil, bad("its header is damaged")
	}
	rest := make([]byte, n+4)
	if _, err := io.ReadFull(b.in, rest); err != nil {
		return nil, b.cut(err)
	}
	text := rest[:n]
	if crc(append(head, text...)) != binary.LittleEndian.Uint32(rest[n:]) || strict(text, &b.header) != nil {
		return nil, bad("its header is damaged")
	}
	b.sum.Write(head)
	b.sum.Write(rest)
	return b, nil
}

// strict reads one JSON object without unknown fields.
func strict(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("something follows")
	}
	return nil
}

// Header tells what the backup is of.
func (b *Reader) Header() Header { return b.header }

// Summary is that of a backup that was read to its end.
func (b *Reader) Summary() Summary { return *b.summary }

func (b *Reader) cut(err error) error {
	if short(err) {
		return bad("it is cut short")
	}
	return err
}

// short tells whether err is that of a file which ends too soon; any other is
// one of reading it, and says nothing of what is in it.
func short(err error) bool { return err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) }

// Next gives the next record, and io.EOF after the last of a whole backup.
func (b *Reader) Next() (*Record, error) {
	if b.summary != nil {
		return nil, io.EOF
	}
	head := make([]byte, 11)
	if _, err := io.ReadFull(b.in, head); err != nil {
		return nil, b.cut(err)
	}
	kind := head[0]
	klen, vlen, clen := binary.LittleEndian.Uint16(head[1:]), binary.LittleEndian.Uint32(head[3:]), binary.LittleEndian.Uint32(head[7:])
	if klen > backend.MaxKey || vlen > backend.MaxValue || clen > maxContent {
		return nil, bad("a record is damaged")
	}
	body := make([]byte, int(klen)+int(vlen)+4)
	if _, err := io.ReadFull(b.in, body); err != nil {
		return nil, b.cut(err)
	}
	end := len(body) - 4
	if crc(append(head[:11:11], body[:end]...)) != binary.LittleEndian.Uint32(body[end:]) {
		return nil, bad("a record is damaged")
	}
	r := &Record{Key: body[:klen:klen], Value: body[klen:end:end], Deleted: kind == kindDeleted, Again: kind == kindAgain}
	if kind == kindSummary {
		return nil, b.finish(r)
	}
	b.sum.Write(head)
	b.sum.Write(body)
	if !tree.Portable(r.Key) || bytes.HasPrefix(r.Key, []byte(backend.ReservedPrefix)) || bytes.Compare(r.Key, b.last) <= 0 {
		return nil, bad("a record has a key that cannot be there")
	}
	b.last = r.Key
	b.count.Records++
	return r, b.body(kind, r, clen)
}

// body checks what a record says, and takes its content in.
func (b *Reader) body(kind byte, r *Record, clen uint32) error {
	ref, named, err := tree.ExtentRef(r.Key, r.Value)
	switch {
	case kind == kindDeleted:
		if len(r.Value) > 0 || clen > 0 || b.header.Since == nil {
			return bad("a record is damaged")
		}
		return nil
	case err != nil:
		return bad("an extent is damaged: %v", err)
	case kind == kindSet && !named && clen == 0:
		return nil
	case kind == kindAgain && named && clen == 0:
	case kind == kindContent && named && clen == ref.Length && clen > 0:
		b.count.Contents++
		b.count.Bytes += uint64(clen)
	default:
		return bad("a record is damaged")
	}
	r.Ref = &ref
	if kind == kindAgain {
		return nil
	}
	return b.take(r, clen)
}

func (b *Reader) take(r *Record, n uint32) error {
	if b.skip {
		return b.pass(int(n))
	}
	if uint32(cap(b.content)) < n {
		b.content = make([]byte, n)
	}
	r.Content = b.content[:n]
	if _, err := io.ReadFull(b.in, r.Content); err != nil {
		return b.cut(err)
	}
	if crc(r.Content) != r.Ref.CRC {
		return bad("the bytes of content %016x are damaged", r.Ref.ID)
	}
	return nil
}

// pass goes over n bytes.
func (b *Reader) pass(n int) error {
	s, ok := b.src.(io.Seeker)
	if have := b.in.Buffered(); !ok || n <= have {
		_, err := b.in.Discard(n)
		return b.cut(err)
	} else if _, err := s.Seek(int64(n-have), io.SeekCurrent); err != nil {
		return err
	}
	b.in.Reset(b.src)
	return nil
}

// finish checks the summary; io.EOF if all is well.
func (b *Reader) finish(r *Record) error {
	var s Summary
	if len(r.Key) > 0 || strict(r.Value, &s) != nil {
		return bad("its summary is damaged")
	}
	want := b.count
	want.ID, want.LSN, want.SHA256 = b.header.ID, b.header.LSN, strings.ToLower(s.SHA256)
	if s != want || s.SHA256 != hex.EncodeToString(b.sum.Sum(nil)) {
		return bad("its summary does not fit what it has")
	}
	if _, err := b.in.ReadByte(); err == nil {
		return bad("something follows its end")
	} else if err != io.EOF {
		return err
	}
	b.summary = &s
	return io.EOF
}

// Verify reads a whole backup and every content in it.
func Verify(r io.Reader) (Summary, error) {
	b, err := NewReader(r, false)
	for err == nil {
		_, err = b.Next()
	}
	if err != io.EOF {
		return Summary{}, err
	}
	return b.Summary(), nil
}
