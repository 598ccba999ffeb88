package writeback

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
	"github.com/warrenfs/warren/backend/internal/mark"
)

// The header of a log file (format rule 2).
const (
	fileMagic   = "warrenWL"
	fileVersion = 1
	fileHeader  = 4096 // records start here
	headerUsed  = 56   // bytes of it that an older warren wrote
	headerParts = 100  // bytes of it that a warren without runs wrote
	headerRun   = 120  // bytes of it that mean something

	logSuffix     = ".log"
	tmpSuffix     = ".tmp"
	damagedSuffix = ".damaged"
)

// header is what a log file says of itself.
type header struct {
	store storeID
	seq   uint64      // its place among the files
	first backend.LSN // not 0: its records replace those of earlier files from here on
	salt  uint64

	driver          backend.LSN  // that the driver had when the file was made
	session, parent mark.Session // of the store then, and of the driver's last commit before; zero: of an older warren

	run dirfs.Run // that the file was made in; zero: not known
}

func (h header) encode() []byte {
	b := make([]byte, fileHeader)
	copy(b, fileMagic)
	le := binary.LittleEndian
	le.PutUint32(b[8:], fileVersion)
	copy(b[12:], h.store[:])
	le.PutUint64(b[28:], h.seq)
	le.PutUint64(b[36:], uint64(h.first))
	le.PutUint64(b[44:], h.salt)
	le.PutUint32(b[52:], crc32.Checksum(b[:52], castagnoli))
	le.PutUint64(b[headerUsed:], uint64(h.driver))
	copy(b[64:], h.session[:])
	copy(b[80:], h.parent[:])
	le.PutUint32(b[96:], crc32.Checksum(b[52:96], castagnoli))
	copy(b[headerParts:], h.run[:])
	le.PutUint32(b[116:], crc32.Checksum(b[96:116], castagnoli))
	return b
}

// decodeHeader reads the header at the start of b. Errors: Unsupported for
// another format version, IO for anything else that is not a header.
func decodeHeader(b []byte) (header, error) {
	le := binary.LittleEndian
	if len(b) < fileHeader || string(b[:8]) != fileMagic {
		return header{}, &backend.Error{Kind: backend.IO, Err: errors.New("its header is damaged, or it is no log file")}
	}
	if v := le.Uint32(b[8:]); v != fileVersion {
		return header{}, &backend.Error{Kind: backend.Unsupported,
			Err: fmt.Errorf("log format version %d; this program reads version %d", v, fileVersion)}
	}
	if le.Uint32(b[52:]) != crc32.Checksum(b[:52], castagnoli) {
		return header{}, &backend.Error{Kind: backend.IO, Err: errors.New("its header is damaged")}
	}
	h := header{seq: le.Uint64(b[28:]), first: backend.LSN(le.Uint64(b[36:])), salt: le.Uint64(b[44:])}
	copy(h.store[:], b[12:])
	if bytes.Equal(b[headerUsed:headerParts], make([]byte, headerParts-headerUsed)) { // of an older warren
		return h, nil
	}
	if le.Uint32(b[96:]) != crc32.Checksum(b[52:96], castagnoli) {
		return header{}, &backend.Error{Kind: backend.IO, Err: errors.New("its header is damaged")}
	}
	h.driver = backend.LSN(le.Uint64(b[headerUsed:]))
	copy(h.session[:], b[64:])
	copy(h.parent[:], b[80:])
	if bytes.Equal(b[headerParts:headerRun], make([]byte, headerRun-headerParts)) {
		return h, nil
	}
	if le.Uint32(b[116:]) != crc32.Checksum(b[96:116], castagnoli) {
		return header{}, &backend.Error{Kind: backend.IO, Err: errors.New("its header is damaged")}
	}
	copy(h.run[:], b[headerParts:])
	return h, nil
}

// seed mixes the file's salt into its records' checksums, so that bytes of
// another file are never taken for records of this one.
func (h header) seed() uint32 {
	return crc32.Checksum(binary.LittleEndian.AppendUint64(nil, h.salt), castagnoli)
}

// logFile is an open log file. tail and last change under the writer's lock and
// Store.mu; either is enough to read them.
type logFile struct {
	name string
	seq  uint64
	seed uint32
	f    dirfs.File
	tail int64       // where the next record goes
	last backend.LSN // of its newest record; 0: none

	zeroed    int64  // zeros were written ahead up to here; 0: never
	zeroSyncs uint64 // how many syncs there were then
}

// logDir makes and removes log files.
type logDir struct {
	fs   dirfs.FS
	path string // for messages
	id   storeID
	run  dirfs.Run

	parts parts // what the log knows of the rest of the store
}

func (d *logDir) in(name string) string { return filepath.Join(d.path, name) }

func fileName(seq uint64) string { return fmt.Sprintf("%016x", seq) }

// create makes a log file with the records of ops. The file takes effect all at
// once: until everything in it is on disk it has a name that recovery ignores.
//
// After an error with a nil file, nothing happened. An error with a file means
// that the file took effect, but a power cut may still undo that.
func (d *logDir) create(h header, size int64, ops []*op, durable backend.LSN) (*logFile, error) {
	h.store = d.id
	var salt [8]byte
	_, _ = rand.Read(salt[:]) // never fails
	h.salt = binary.LittleEndian.Uint64(salt[:])
	lf := &logFile{name: fileName(h.seq) + logSuffix, seq: h.seq, seed: h.seed(), tail: fileHeader}
	tmp := fileName(h.seq) + tmpSuffix
	f, err := d.fs.Create(tmp)
	if err != nil {
		return nil, dirfs.Error("create log file", d.in(tmp), err)
	}
	lf.f = f
	if err = lf.fill(h, size, ops, durable); err == nil {
		err = d.fs.Rename(tmp, lf.name)
	}
	if err != nil {
		_ = f.Close()
		_ = d.fs.Remove(tmp) // recovery ignores and removes it, too
		return nil, dirfs.Error("write log file", d.in(tmp), err)
	}
	if err := d.fs.SyncDir(); err != nil {
		return lf, dirfs.Error("sync log directory", d.in(lf.name), err)
	}
	return lf, nil
}

// fill writes and syncs the whole of a new file.
func (lf *logFile) fill(h header, size int64, ops []*op, durable backend.LSN) error {
	if size > 0 {
		_ = lf.f.Allocate(size) // only makes syncs cheaper
	}
	buf := h.encode()
	at := int64(0)
	flush := func() error {
		if err := writeAt(lf.f, buf, at); err != nil {
			return err
		}
		at += int64(len(buf))
		buf = buf[:0]
		return nil
	}
	for _, p := range ops {
		seal(p.rec, lf.seed, p.lsn, durable)
		buf = append(buf, p.rec...)
		lf.tail += int64(len(p.rec))
		lf.last = p.lsn
		if len(buf) >= 1<<20 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return lf.f.Sync()
}

// writeAt writes all of b or gives an error.
func writeAt(f dirfs.File, b []byte, at int64) error {
	n, err := f.WriteAt(b, at)
	if err == nil && n < len(b) {
		err = fmt.Errorf("short write: %d of %d bytes", n, len(b))
	}
	return err
}

// zeroAhead writes zeros from end on where there have only been allocated
// blocks; writer held. The filesystem has to note each such block when it is
// first written, and that doubles what a sync of a record in it costs: where
// syncs are frequent the next few records should find blocks that were written.
// Recovery sees no difference. That it fails does no harm.
func (lf *logFile) zeroAhead(end int64) {
	size, _, err := lf.f.Size()
	from := max(end, lf.zeroed)
	n := min(256<<10, size-from) // never beyond the end: there may be no room
	if err == nil && n > 0 && writeAt(lf.f, make([]byte, n), from) == nil {
		lf.zeroed = from + n
	}
}

// remove closes and unlinks files, oldest first, and makes that durable.
func (d *logDir) remove(files ...*logFile) error {
	if len(files) == 0 {
		return nil
	}
	var errs []error
	for _, lf := range files {
		errs = append(errs, lf.f.Close(), d.fs.Remove(lf.name))
	}
	errs = append(errs, d.fs.SyncDir())
	if err := errors.Join(errs...); err != nil {
		return dirfs.Error("remove log files", d.in(files[0].name), err)
	}
	return nil
}

// nameSeq is the sequence number in the name of a log file of any kind.
func nameSeq(name string) (seq uint64, ok bool) {
	base, _, _ := strings.Cut(name, ".")
	if len(base) != 16 {
		return 0, false
	}
	seq, err := strconv.ParseUint(base, 16, 64)
	return seq, err == nil
}

// isLog and isTmp tell files of the log from others that may lie there.
func isLog(name string) bool { return isLogName(name, logSuffix) }
func isTmp(name string) bool { return isLogName(name, tmpSuffix) }

func isLogName(name, suffix string) bool {
	base, ok := strings.CutSuffix(name, suffix)
	return ok && len(base) == 16 && strings.Trim(base, "0123456789abcdef") == ""
}
