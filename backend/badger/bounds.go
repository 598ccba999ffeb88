package badger

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"
)

// Badger trusts the lengths that it reads: a damaged one makes it allocate up to
// 8 GiB before it notices that the bytes are missing. So warren checks each file
// before Badger opens it, and accepts no length beyond these.
const (
	// walHead is the size of a write-ahead log's header: a key's number, and a salt.
	walHead = 20
	// maxWAL is the size that Badger maps a write-ahead log with, and its free space.
	maxWAL = 2*memTableSize + 4<<20
	// maxEntry is larger than any value that Badger accepts, see badgerOptions.
	maxEntry = 2 << 20
	// maxEntryKey is the length of the longest key that Badger accepts.
	maxEntryKey = 1 << 16
	// maxBlock is larger than any block of a table: 4 KiB, or one larger entry.
	maxBlock = maxEntry + maxEntryKey + 64<<10
	// maxTable bounds a table: Badger counts in 32 bits.
	maxTable = 1<<31 - 1
	// maxManifest bounds the manifest, which Badger rewrites before it names
	// 10,000 removed tables.
	maxManifest = 64 << 20
	// The file KEYREGISTRY of a store without encryption has random bytes and a word.
	registrySalt, registryWord = 16, "Hello Badger"
)

// checkFiles checks the files in dir whose lengths Badger would trust, except
// tables, see [tableFile.open].
func checkFiles(dir string) error {
	if err := checkRegistry(filepath.Join(dir, badger.KeyRegistryFileName)); err != nil {
		return err
	}
	name := filepath.Join(dir, badger.ManifestFilename)
	if info, err := os.Stat(name); err == nil && info.Size() > maxManifest {
		return fmt.Errorf("%s has %d bytes, more than any manifest", name, info.Size())
	}
	logs, err := names(dir, ".mem")
	if err != nil {
		return err
	}
	for _, name := range logs {
		if err := checkWAL(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func checkRegistry(name string) error {
	data, err := readSmall(name, registrySalt+int64(len(registryWord)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && (len(data) < registrySalt || string(data[registrySalt:]) != registryWord) {
		err = fmt.Errorf("%s is damaged", name)
	}
	return err
}

// checkWAL walks the entries of a write-ahead log as Badger does: to the first
// that is torn or zero.
func checkWAL(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() > maxWAL {
		return fmt.Errorf("a write-ahead log of %d bytes", info.Size())
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f, walHead, info.Size()), 256<<10)
	var entry []byte
	for at := int64(walHead); ; at += int64(len(entry)) + crc32.Size {
		head, keys, values := walEntry(in)
		switch {
		case head == 0 || keys == 0 || keys > maxEntryKey: // the end
			return nil
		case values > maxEntry:
			return fmt.Errorf("an entry at offset %d claims a value of %d bytes", at, values)
		}
		n := head + int(keys) + int(values)
		if cap(entry) < n {
			entry = make([]byte, n)
		}
		entry = entry[:n]
		var sum [crc32.Size]byte
		if _, err := io.ReadFull(in, entry); err != nil {
			return ended(err)
		}
		if _, err := io.ReadFull(in, sum[:]); err != nil {
			return ended(err)
		}
		if crc32.Checksum(entry, castagnoli) != binary.BigEndian.Uint32(sum[:]) {
			return nil
		}
	}
}

// ended returns err, or nil if err is the end of a file.
func ended(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}

// walEntry reads the header of the next entry: two bytes, the lengths of the key and
// of the value, and a time. It returns head 0 if there is no complete header.
func walEntry(in *bufio.Reader) (head int, keys, values uint64) {
	b, _ := in.Peek(2 + 3*binary.MaxVarintLen64)
	if len(b) < 2 {
		return 0, 0, 0
	}
	head = 2
	var fields [3]uint64
	for i := range fields {
		v, n := binary.Uvarint(b[head:])
		if n <= 0 {
			return 0, 0, 0
		}
		fields[i], head = v, head+n
	}
	return head, uint64(uint32(fields[0])), uint64(uint32(fields[1]))
}

// checkLengths checks the lengths that a table's index names for its blocks: the first
// and the last, or with whole all. It panics if the index is invalid.
func checkLengths(data []byte, foot footer, c options.CompressionType, whole bool) error {
	index := data[foot.index:foot.end]
	if crc32.Checksum(index, castagnoli) != foot.sum {
		return errors.New("the index of the table fails its checksum")
	}
	blocks := fb.GetRootAsTableIndex(index, 0)
	n := blocks.OffsetsLength()
	if n == 0 {
		return errors.New("a table without blocks")
	}
	for i := 0; i < n; i++ {
		if !whole && i > 0 && i < n-1 {
			continue
		}
		var b fb.BlockOffset
		blocks.Offsets(&b, i)
		from, to := int64(b.Offset()), int64(b.Offset())+int64(b.Len())
		if to > foot.index || from == to {
			return fmt.Errorf("block %d of the table is at %d to %d", i, from, to)
		}
		size := uint64(to - from)
		if c == options.Snappy {
			size, _ = binary.Uvarint(data[from:to]) // 0: Badger finds out
		}
		if size > maxBlock {
			return fmt.Errorf("block %d of the table claims %d bytes", i, size)
		}
	}
	return nil
}
