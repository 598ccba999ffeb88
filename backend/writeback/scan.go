package writeback

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/internal/dirfs"
)

// record is a valid record found in a log file.
type record struct {
	recordInfo
	file *scannedFile
	at   int64  // offset in the file
	rec  []byte // its bytes; nil when the driver has it anyway
}

// span is a part of a log file that holds no valid records, though it is not
// just the rest of the file in zeros.
type span struct{ from, to int64 }

// scannedFile is a log file as recovery found it.
type scannedFile struct {
	name string // in the log's directory
	path string // for messages
	header
	records []record // as they lie in the file; their LSNs ascend
	bad     []span
	aside   bool // not a readable file of this store: to be kept as *.damaged
}

// scanFile finds the records in data, the bytes of a whole log file. Records up
// to committed are listed without their bytes.
func scanFile(data []byte, committed backend.LSN) (*scannedFile, error) {
	h, err := decodeHeader(data)
	if err != nil {
		return nil, err
	}
	f := &scannedFile{header: h}
	end := int64(len(bytes.TrimRight(data, "\x00")))
	seed := h.seed()
	for at := int64(fileHeader); at < end; {
		info, rec, ok := readRecord(data[at:], seed)
		if !ok || !f.follows(info.lsn) {
			next := nextRecord(data[:end], at+recordAlign, seed, f)
			f.bad = append(f.bad, span{at, next})
			at = next
			continue
		}
		r := record{recordInfo: info, file: f, at: at}
		if info.lsn > committed {
			r.rec = bytes.Clone(rec)
		}
		f.records = append(f.records, r)
		at += int64(info.length)
	}
	return f, nil
}

// follows tells whether lsn can be the next record's.
func (f *scannedFile) follows(lsn backend.LSN) bool {
	return len(f.records) == 0 || lsn > f.records[len(f.records)-1].lsn
}

// nextRecord gives the offset of the next valid record at or after at, or the
// end of data.
func nextRecord(data []byte, at int64, seed uint32, f *scannedFile) int64 {
	for ; at+recordHeader < int64(len(data)); at += recordAlign {
		if info, _, ok := readRecord(data[at:], seed); ok && f.follows(info.lsn) {
			return at
		}
	}
	return int64(len(data))
}

// readWhole reads a file without the zeros at its end, which a log file has many of:
// they would take memory, and no record ends in a zero. With skip, parts that cannot be read are
// given as zeros, and the error tells of the first of them beside the data.
func readWhole(f dirfs.File, skip bool) (data []byte, err error) {
	size, _, err := f.Size()
	if err != nil {
		return nil, err
	}
	size = max(usedSize(f, size), min(size, fileHeader))
	data = make([]byte, size)
	for at := int64(0); at < size; {
		part := data[at:min(at+readStep, size)]
		n, rerr := f.ReadAt(part, at)
		if n < len(part) {
			if rerr == nil || rerr == io.EOF {
				rerr = io.ErrUnexpectedEOF
			}
			if rerr = fmt.Errorf("read at offset %d: %w", at+int64(n), rerr); !skip {
				return nil, rerr
			}
			if err == nil {
				err = rerr
			}
			clear(part[n:])
		}
		at += int64(len(part))
	}
	return data, err
}

// usedSize returns where the zeros at the end of a file begin, or an offset after that.
func usedSize(f dirfs.File, size int64) int64 {
	part := make([]byte, 256<<10)
	for size > 0 {
		n := min(size, int64(len(part)))
		if got, _ := f.ReadAt(part[:n], size-n); int64(got) < n {
			return size // readWhole meets the error, too
		}
		if used := len(bytes.TrimRight(part[:n], "\x00")); used > 0 {
			return size - n + int64(used)
		}
		size -= n
	}
	return 0
}

// readStep is how much is read at once, and lost where a part cannot be read.
const readStep = 4096

// recovered is what the log holds beyond the driver.
type recovered struct {
	ops       []*op
	rides     [][]entry   // of each of ops
	proven    backend.LSN // up to here all was durable, by what records say
	dropped   int64       // bytes after the last record taken, of Updates that were never durable
	unsynced  int         // valid records among them
	damage    error       // records that had been durable are missing
	damagedIn []*scannedFile
	behind    []*scannedFile // with valid records behind one that no power cut took
}

// assemble puts the records of files, ascending by sequence number, together:
// those after committed, without gaps.
//
// The records end where one is missing. That is what a power cut leaves when
// none of the records after it was written after the missing one had reached
// the disk: the disk may take unsynced pages in any order. Otherwise it is damage.
// In a file of the run now, which no power cut ended, the file is kept in any case.
func assemble(files []*scannedFile, committed, synced backend.LSN, now dirfs.Run) *recovered {
	out := &recovered{proven: synced}
	var chain []record
	for _, f := range files {
		for f.first != 0 && len(chain) > 0 && chain[len(chain)-1].lsn >= f.first {
			chain = chain[:len(chain)-1]
		}
		for _, r := range f.records {
			if len(chain) > 0 && r.lsn <= chain[len(chain)-1].lsn {
				out.damage = damageError(f, r.at, fmt.Sprintf("record %d follows record %d", r.lsn, chain[len(chain)-1].lsn))
				break
			}
			out.proven = max(out.proven, r.durable)
			if r.lsn > committed {
				chain = append(chain, r)
			}
		}
	}
	taken := 0
	for taken < len(chain) && chain[taken].lsn == committed+1+backend.LSN(taken) {
		r := &chain[taken]
		entries, rides, err := decodeChanges(r.rec, r.recordInfo)
		if err != nil { // it passed its checksums: written by something else
			out.damage = damageError(r.file, r.at, fmt.Sprintf("record %d is not of this format (%v)", r.lsn, err))
			break
		}
		out.ops = append(out.ops, &op{lsn: r.lsn, rec: r.rec, entries: entries})
		out.rides = append(out.rides, rides)
		taken++
	}
	out.judge(files, chain, taken, committed, synced, now)
	return out
}

// judge tells what follows the chain's first taken records: nothing, the
// remains of Updates that were never durable, or damage.
func (out *recovered) judge(files []*scannedFile, chain []record, taken int, committed, synced backend.LSN, now dirfs.Run) {
	lost := committed + 1 + backend.LSN(taken)
	for _, r := range chain[taken:] {
		out.unsynced++
		out.dropped += int64(r.length)
		if now != (dirfs.Run{}) && r.file.run == now && !slices.Contains(out.behind, r.file) {
			out.behind = append(out.behind, r.file)
		}
		if r.durable >= lost && out.damage == nil {
			f, at := lostPlace(files, lost, r)
			out.damage = damageError(f, at, fmt.Sprintf(
				"record %d is missing, though it was on disk when record %d was written", lost, r.lsn))
		}
	}
	if out.damage == nil && synced >= lost && len(files) > 0 {
		f, at := lostPlace(files, lost, firstFrom(files, chain[taken:]))
		out.damage = damageError(f, at, fmt.Sprintf("record %d is missing, though records to %d were on disk", lost, synced))
		out.behind = append(out.behind, f)
	}
	for _, f := range files {
		for _, b := range f.bad {
			out.dropped += b.to - b.from
		}
		if out.damage != nil && (len(f.bad) > 0 || len(f.records) > 0 && f.records[len(f.records)-1].lsn >= lost) {
			out.damagedIn = append(out.damagedIn, f)
		}
	}
}

// firstFrom returns the first of the records that follow a missing one, or else the end
// of the newest file.
func firstFrom(files []*scannedFile, rest []record) record {
	if len(rest) > 0 {
		return rest[0]
	}
	newest := files[len(files)-1]
	next := record{file: newest, at: fileHeader}
	if n := len(newest.records); n > 0 {
		next.at = newest.records[n-1].at + int64(newest.records[n-1].length)
	}
	return next
}

// lostPlace is where record lost would be: behind the last one before it, or
// before the first one after it where a whole file is gone.
func lostPlace(files []*scannedFile, lost backend.LSN, next record) (*scannedFile, int64) {
	for _, f := range files {
		for _, r := range f.records {
			if r.lsn == lost-1 && len(f.bad) > 0 {
				return f, r.at + int64(r.length)
			}
		}
	}
	if len(next.file.bad) > 0 {
		return next.file, next.file.bad[0].from
	}
	return next.file, next.at
}

func damageError(f *scannedFile, at int64, what string) error {
	return &backend.Error{Op: "open log", Path: f.path, Kind: backend.IO,
		Err: fmt.Errorf("damaged at offset %d: %s; AcceptLoss opens with what precedes it and keeps the file as *%s", at, what, damagedSuffix)}
}
