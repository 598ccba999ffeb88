package badger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/warrenfs/warren/backend"
	"golang.org/x/sys/unix"
)

// tableFile is one table that the manifest names.
type tableFile struct {
	name        string
	id          uint64
	compression options.CompressionType
}

// manifestTables gives the tables that the directory's manifest names, newest
// first; none when the directory has no manifest and no data either.
func manifestTables(dir string, opt badger.Options) ([]tableFile, error) {
	name := filepath.Join(dir, badger.ManifestFilename)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		data, err := names(dir, ".sst", ".mem")
		if err != nil {
			return nil, err
		}
		if len(data) > 0 {
			return nil, fmt.Errorf("%s is missing", name)
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := checkMagic(f); err != nil {
		return nil, err
	}
	manifest, _, err := replay(f, opt)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var tables []tableFile
	for _, id := range slices.Backward(slices.Sorted(maps.Keys(manifest.Tables))) {
		tables = append(tables, tableFile{
			name: table.NewFilename(id, dir), id: id, compression: manifest.Tables[id].Compression,
		})
	}
	return tables, nil
}

// checkMagic refuses the manifest of a Badger store that is not of this driver.
func checkMagic(f *os.File) error {
	head := make([]byte, 8)
	n, _ := f.ReadAt(head, 0)
	ours := binary.BigEndian.AppendUint16([]byte("Bdgr"), magic)
	if n == len(head) && bytes.HasPrefix(head, ours[:4]) && !bytes.HasPrefix(head, ours) {
		return &backend.Error{Kind: backend.Invalid, Err: errors.New("the directory holds another kind of Badger store")}
	}
	return nil
}

func replay(f *os.File, opt badger.Options) (m badger.Manifest, end int64, err error) {
	defer recoverInto(&err)
	return badger.ReplayManifestFile(f, magic, opt)
}

// checkTables opens each table and reads whole ones until budget bytes are
// read. It gives the tables that were not read.
func checkTables(ctx context.Context, tables []tableFile, budget int64) (rest []tableFile, err error) {
	for _, t := range tables {
		if ctx.Err() != nil {
			return nil, interrupted(ctx, "open store")
		}
		info, err := os.Stat(t.name)
		if err != nil {
			return nil, err
		}
		budget -= info.Size()
		if err := t.check(budget >= 0); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		if budget < 0 {
			rest = append(rest, t)
		}
	}
	return rest, nil
}

// check verifies the table's index and its last block, or all blocks, with the
// checksums that Badger stored with them.
func (f tableFile) check(whole bool) (err error) {
	defer recoverInto(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	t, unmap, err := f.open()
	if err != nil {
		return err
	}
	defer unmap()
	if !whole {
		return nil
	}
	it := t.NewIterator(table.NOCACHE)
	defer it.Close()
	keys := uint32(0)
	for it.Rewind(); it.Valid(); it.Next() {
		keys++
	}
	if keys != t.KeyCount() { // the walk ends where a block fails its checksum
		return fmt.Errorf("only %d of %d keys can be read", keys, t.KeyCount())
	}
	return nil
}

// open maps the table and checks its index and its last block; unmap ends that.
// It panics on some kinds of damage.
func (f tableFile) open() (t *table.Table, unmap func(), err error) {
	file, err := os.Open(f.name)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.Size() == 0 {
		return nil, nil, errors.New("the file is empty")
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map it: %w", err)
	}
	unmap = func() { _ = unix.Munmap(data) }
	defer func() {
		if t == nil {
			unmap()
		}
	}()
	t, err = table.OpenInMemoryTable(data, f.id, &table.Options{
		ChkMode: options.OnBlockRead, Compression: f.compression, BlockSize: 4 << 10,
	})
	return t, unmap, err
}

// checkBehind reads the tables that Open did not, while the store is used.
func (s *Store) checkBehind(ctx context.Context, tables []tableFile) {
	for _, t := range tables {
		if ctx.Err() != nil {
			return
		}
		if err := t.check(true); err != nil && !errors.Is(err, fs.ErrNotExist) { // compacted away: fine
			_ = s.doubt(fmt.Errorf("%s: %w", t.name, err))
			return
		}
	}
}
