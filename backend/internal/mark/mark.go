// Package mark keeps, in one small file beside the files of each part of a store,
// what that part knows of the others: a [Mark].
//
//   - [Read] returns the Mark of a directory.
//   - [File], made by [Open], writes it.
//
// A File has no lock: Note and Sync write different sectors, but each is for one
// goroutine at a time.
//
// The file has three slots, at 0, 512 and 1024, so that a power cut tears at most
// one. Open writes them all, Sync the first or the second in turn, Note the third. A slot is, in
// little-endian integers: 0 the magic "warrenMK"; 8 u32 version, 1; 12 session, 16
// bytes; 28 parent, 16 bytes; 44 u64 tick; 52 u64 synced; 60 u64 driver; 68 u32
// CRC-32C of bytes 0 to 67.
package mark

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os"
	"slices"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
)

// Session names one opening of a store. It is random.
type Session [16]byte

// Mark is what a part of a store knows about the other parts.
type Mark struct {
	Session Session     // that wrote it
	Parent  Session     // that the driver's last commit was of, when Session began
	Tick    uint64      // counts up; the driver commits each tick after the marks have it
	Synced  backend.LSN // on disk in the log when the mark was written
	Driver  backend.LSN // on disk in the driver then
}

const (
	magic    = "warrenMK"
	version  = 1
	slotSize = 72
	sector   = 512
	noteSlot = 2
	slots    = 3
	fileSize = 4096
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (m Mark) encode() []byte {
	le := binary.LittleEndian
	b := le.AppendUint32([]byte(magic), version)
	b = append(append(b, m.Session[:]...), m.Parent[:]...)
	for _, n := range []uint64{m.Tick, uint64(m.Synced), uint64(m.Driver)} {
		b = le.AppendUint64(b, n)
	}
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decode(b []byte) (m Mark, ok bool) {
	le := binary.LittleEndian
	if len(b) < slotSize || string(b[:8]) != magic || le.Uint32(b[8:]) != version ||
		le.Uint32(b[slotSize-4:]) != crc32.Checksum(b[:slotSize-4], castagnoli) {
		return Mark{}, false
	}
	copy(m.Session[:], b[12:])
	copy(m.Parent[:], b[28:])
	m.Tick = le.Uint64(b[44:])
	m.Synced, m.Driver = backend.LSN(le.Uint64(b[52:])), backend.LSN(le.Uint64(b[60:]))
	return m, true
}

// Read returns the mark in the file name. ok is false if there is no file, or if none
// of its slots is whole. It fails if the file cannot be read.
func Read(fs dirfs.FS, name string) (m Mark, ok bool, err error) {
	f, err := fs.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return Mark{}, false, nil
	}
	if err != nil {
		return Mark{}, false, err
	}
	b := make([]byte, slots*sector)
	n, err := f.ReadAt(b, 0)
	if err == io.EOF {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return Mark{}, false, err
	}
	var found []Mark
	for i := range slots {
		if s, ok := decode(b[min(i*sector, n):min((i+1)*sector, n)]); ok {
			found = append(found, s)
			if s.Tick >= m.Tick {
				m = s
			}
		}
	}
	for _, s := range found {
		if s.Session == m.Session {
			m.Synced, m.Driver = max(m.Synced, s.Synced), max(m.Driver, s.Driver)
		}
	}
	return m, len(found) > 0, nil
}

// File is an open mark.
type File struct{ f dirfs.File }

// Open opens or creates the file, and writes m to it and to the disk.
func Open(fs dirfs.FS, name string, m Mark) (*File, error) {
	f, err := fs.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return create(fs, name, m)
	}
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteAt(m.everywhere(), 0); err == nil { // what earlier sessions wrote ends
		err = f.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{f}, nil
}

// everywhere returns the bytes of a file that has m in all slots.
func (m Mark) everywhere() []byte {
	b := make([]byte, fileSize)
	for i := range slots {
		copy(b[i*sector:], m.encode())
	}
	return b
}

func create(fs dirfs.FS, name string, m Mark) (*File, error) {
	names, err := fs.List()
	if err != nil {
		return nil, err
	}
	tmp := name + ".tmp"
	if slices.Contains(names, tmp) {
		if err := fs.Remove(tmp); err != nil {
			return nil, err
		}
	}
	f, err := fs.Create(tmp)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteAt(m.everywhere(), 0)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = fs.Rename(tmp, name)
	}
	if err == nil {
		err = fs.SyncDir()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &File{f}, nil
}

func (m Mark) slot() int { return int(m.Tick % noteSlot) }

// Sync writes m, and to the disk.
func (f *File) Sync(m Mark) error {
	if _, err := f.f.WriteAt(m.encode(), int64(m.slot()*sector)); err != nil {
		return err
	}
	return f.f.Sync()
}

// Note writes m. A power cut may undo it.
func (f *File) Note(m Mark) error {
	_, err := f.f.WriteAt(m.encode(), noteSlot*sector)
	return err
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }
