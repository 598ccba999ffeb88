package badger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/warrenfs/warren/backend/internal/dirfs"
)

// bindings is the file of the same name: one line for each table and each
// write-ahead log, with what identifies its bytes. Badger finds both by their
// number alone, and would accept a file that holds the bytes of another.
//
// Open compares all of them before Badger reads any. Then it writes the file again,
// with a line for each file that exists: numbers are used again after a restart, but
// never while a store is open. A file without a line is bound to its present bytes:
// an older warren wrote it, or a power cut took the line.
type bindings struct {
	dir string
	log *slog.Logger

	mu    sync.Mutex // a leaf
	known map[string]string
	file  *os.File // nil: lines cannot be written
	size  int64
}

const (
	bindingsFile = "bindings"
	// maxBindings bounds the file, in bytes; past rewriteBindings it is rewritten
	// once most of its lines name removed files.
	maxBindings     = 64 << 20
	rewriteBindings = 1 << 20
)

// openBindings compares the files that m names, and the write-ahead logs in dir,
// with their lines. It fails if a file has other bytes.
func openBindings(dir string, m manifest, log *slog.Logger) (*bindings, error) {
	b := &bindings{dir: dir, log: log, known: map[string]string{}}
	was, data, err := readBindings(filepath.Join(dir, bindingsFile))
	if err != nil {
		return nil, err
	}
	logs, err := names(dir, ".mem")
	if err != nil {
		return nil, err
	}
	for _, t := range m.tables {
		logs = append(logs, t.name)
	}
	for _, path := range logs {
		name := filepath.Base(path)
		is, err := identify(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if old, ok := was[name]; ok && is != "" && old != is {
			return nil, fmt.Errorf("%s holds the bytes of another file: it is %q and was %q when it was written; "+
				"put the right file in its place (if an older warren wrote to the store in between, remove %s)",
				path, is, old, filepath.Join(dir, bindingsFile))
		}
		if is != "" {
			b.known[name] = is
		}
	}
	if was == nil || !bytes.Equal(data, b.lines()) {
		err = b.rewrite()
	} else {
		b.file, err = os.OpenFile(filepath.Join(dir, bindingsFile), os.O_WRONLY|os.O_APPEND, 0)
		b.size = int64(len(data))
	}
	if err != nil { // old lines would be wrong of files that Badger makes with the same numbers
		log.Warn("badger: files are not bound to their numbers", "dir", dir, "err", err)
		if err := os.Remove(filepath.Join(dir, bindingsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return b, nil
}

// readBindings returns the whole lines of the file, and its bytes.
func readBindings(path string) (known map[string]string, data []byte, err error) {
	data, err = readSmall(path, maxBindings)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	known = map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, is, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if at := strings.LastIndexByte(is, ' '); ok && at >= 0 && bindingLine(name, is[:at]) == line {
			known[name] = is[:at] // others are torn
		}
	}
	return known, data, nil
}

// readSmall reads a file of at most limit bytes.
func readSmall(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", path, limit)
	}
	return data, err
}

func bindingLine(name, is string) string {
	line := name + " " + is
	return fmt.Sprintf("%s %08x\n", line, crc32.Checksum([]byte(line), castagnoli))
}

// lines returns the content of the file; mu is held.
func (b *bindings) lines() []byte {
	var out []byte
	for _, name := range slices.Sorted(maps.Keys(b.known)) {
		out = append(out, bindingLine(name, b.known[name])...)
	}
	return out
}

// rewrite replaces the file, whole or not at all, and on disk; mu is held.
func (b *bindings) rewrite() error {
	path := filepath.Join(b.dir, bindingsFile)
	f, err := os.OpenFile(path+".tmp", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	data := b.lines()
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync())
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	if err == nil {
		err = syncDir(b.dir)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if b.file != nil {
		_ = b.file.Close()
	}
	b.file, b.size = f, int64(len(data))
	return nil
}

func syncDir(dir string) error {
	fs, err := dirfs.Open(dir)
	if err != nil {
		return err
	}
	return fs.SyncDir()
}

// bind stores what identifies the new files. Tables are bound before the manifest
// names them. If that fails, the next Open binds them.
func (b *bindings) bind(names ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lines []byte
	for _, name := range names {
		if _, ok := b.known[name]; ok || b.file == nil { // a table that was moved to another level
			continue
		}
		is, err := identify(filepath.Join(b.dir, name))
		if err != nil {
			b.log.Warn("badger: a file is not bound to its number", "dir", b.dir, "file", name, "err", err)
			continue
		}
		if is != "" {
			b.known[name] = is
			lines = append(lines, bindingLine(name, is)...)
		}
	}
	if len(lines) == 0 {
		return
	}
	_, err := b.file.Write(lines)
	if err == nil {
		err = b.file.Sync()
	}
	b.size += int64(len(lines))
	if err == nil && b.size > rewriteBindings && b.size > 4*int64(len(b.lines())) {
		err = b.rewrite()
	}
	if err != nil {
		b.log.Warn("badger: files are not bound to their numbers", "dir", b.dir, "files", names, "err", err)
	}
}

// forget drops the lines of removed files.
func (b *bindings) forget(names ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range names {
		delete(b.known, name)
	}
}

func (b *bindings) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.file != nil {
		_ = b.file.Close()
		b.file = nil
	}
}

// identify returns what distinguishes a file from all others of the store: for a table
// its size and the checksum of its index, for a write-ahead log the random bytes in its
// header. It is empty for a log that has no header yet.
func identify(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if strings.HasSuffix(path, ".mem") {
		head := make([]byte, walHead)
		if n, err := f.ReadAt(head, 0); n < len(head) && err == io.EOF {
			return "", nil
		} else if n < len(head) {
			return "", err
		}
		if salt := head[8:]; !bytes.Equal(salt, make([]byte, len(salt))) {
			return fmt.Sprintf("salt=%x", salt), nil
		}
		return "", nil
	}
	foot, err := readFooter(f)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("size=%d,index=%08x", foot.size, foot.sum), nil
}

// footer is the end of a table: its index, the length of that (4 bytes), its
// checksum, and the length of that (4 bytes).
type footer struct {
	size  int64  // of the table
	index int64  // where the index begins
	end   int64  // where it ends
	sum   uint32 // CRC-32C of the index
}

// maxChecksum bounds a protobuf Checksum, in bytes: two numbers.
const maxChecksum = 32

// readFooter reads the end of a table, and rejects lengths that do not fit.
func readFooter(f *os.File) (footer, error) {
	info, err := f.Stat()
	if err != nil {
		return footer{}, err
	}
	foot := footer{size: info.Size()}
	if foot.size < 8 || foot.size > maxTable {
		return footer{}, fmt.Errorf("a table of %d bytes", foot.size)
	}
	tail := make([]byte, min(maxChecksum+8, foot.size))
	if _, err := f.ReadAt(tail, foot.size-int64(len(tail))); err != nil {
		return footer{}, err
	}
	n := int64(binary.BigEndian.Uint32(tail[len(tail)-4:]))
	if n > int64(len(tail))-8 {
		return footer{}, fmt.Errorf("the end of the table is damaged: a checksum of %d bytes", n)
	}
	sum := tail[int64(len(tail))-4-n : len(tail)-4]
	length := int64(binary.BigEndian.Uint32(tail[int64(len(tail))-8-n:]))
	foot.end = foot.size - 8 - n
	foot.index = foot.end - length
	if foot.index < 0 {
		return footer{}, fmt.Errorf("the end of the table is damaged: an index of %d bytes", length)
	}
	eachField(sum, func(field, number uint64, _ []byte) {
		if field == 2 { // Checksum.sum
			foot.sum = uint32(number)
		}
	})
	return foot, nil
}
