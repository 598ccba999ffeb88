package badger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"

	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/table"
	"golang.org/x/sys/unix"
)

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
	t, unmap, err := f.open(whole)
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

// checkBlocks verifies the checksums of the table's index and of all blocks. It costs
// a fraction of check(true), which also walks the keys.
func (f tableFile) checkBlocks() (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("a block cannot be read or fails its checksum: %w", err)
		}
	}()
	defer recoverInto(&err) // Table.VerifyChecksum panics where a block is damaged
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	t, unmap, err := f.open(true)
	if err != nil {
		return err
	}
	defer unmap()
	return t.VerifyChecksum()
}

// open maps the table and checks its index and its last block, and before that the
// lengths that these or, with whole, all blocks have; unmap ends that. It panics on some kinds of damage.
func (f tableFile) open(whole bool) (t *table.Table, unmap func(), err error) {
	file, err := os.Open(f.name)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	foot, err := readFooter(file)
	if err != nil {
		return nil, nil, err
	}
	data, err := unix.Mmap(int(file.Fd()), 0, int(foot.size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, fmt.Errorf("map it: %w", err)
	}
	unmap = func() { _ = unix.Munmap(data) }
	defer func() {
		if t == nil {
			unmap()
		}
	}()
	if err := checkLengths(data, foot, f.compression, whole); err != nil {
		return nil, nil, err
	}
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
