package badger

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
)

// lostSuffix ends the second names of orphans.
const lostSuffix = ".lost"

// orphan is a table file that the manifest does not name. Badger will delete the
// file; aside is a second name for it.
type orphan struct {
	table *table.Table
	unmap func()
	aside string
}

// openOrphans opens the table files in dir that the manifest never named, and
// those that an earlier Open put aside. Files that are not whole are left out:
// Badger syncs a table before it names it.
func openOrphans(dir string, m manifest) ([]orphan, error) {
	files, err := names(dir, ".sst", lostSuffix)
	if err != nil {
		return nil, err
	}
	var orphans []orphan
	for _, name := range files {
		if id, ok := table.ParseFileID(filepath.Base(name)); ok && m.dropped[id] {
			continue // its end is on record, its removal had not got to the disk
		}
		if slices.ContainsFunc(m.tables, func(t tableFile) bool { return t.name == name }) {
			continue
		}
		f := tableFile{name: name, compression: badgerOptions(dir, nil).Compression}
		if f.check(true) != nil {
			continue
		}
		t, unmap, err := f.open(true)
		if err != nil {
			continue
		}
		o := orphan{table: t, unmap: unmap, aside: strings.TrimSuffix(name, lostSuffix) + lostSuffix}
		orphans = append(orphans, o)
		if o.aside != name {
			err = os.Link(name, o.aside)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			closeOrphans(orphans)
			return nil, err
		}
	}
	return orphans, nil
}

// closeOrphans lets go of them; their files stay.
func closeOrphans(orphans []orphan) {
	for _, o := range orphans {
		o.unmap()
	}
}

// checkOrphans fails when an orphan has what the store has not, and removes the
// second names of those that have nothing.
func (s *Store) checkOrphans(orphans []orphan) error {
	for _, o := range orphans {
		if err := s.hasAll(o.table); err != nil {
			return damaged("open store", s.dir, fmt.Errorf(
				"its manifest lost a table: %w (to go on without it, remove %s)", err, o.aside))
		}
		if err := os.Remove(o.aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail("open store", s.dir, err)
		}
	}
	return nil
}

// deletion is the bit of an entry's meta that Badger marks deletions with.
const deletion = 1

// hasAll tells whether nothing is lost without t: the store has each of its keys
// in the same version or a newer one. A deletion may be gone for good once it
// hid nothing any more.
func (s *Store) hasAll(t *table.Table) (err error) {
	defer recoverInto(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	txn := s.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	stored := txn.NewIterator(badger.IteratorOptions{AllVersions: true})
	defer stored.Close()
	it := t.NewIterator(table.NOCACHE)
	defer it.Close()
	var key []byte
	for it.Rewind(); it.Valid(); it.Next() {
		if bytes.Equal(y.ParseKey(it.Key()), key) {
			continue // the newest version came first
		}
		key = bytes.Clone(y.ParseKey(it.Key()))
		version, deleted := y.ParseTs(it.Key()), it.Value().Meta&deletion != 0
		stored.Seek(key)
		there := stored.Valid() && bytes.Equal(stored.Item().Key(), key)
		switch {
		case there && stored.Item().Version() >= version:
		case deleted && (!there || stored.Item().IsDeletedOrExpired()):
		default:
			return fmt.Errorf("an entry of Update %d is in no other table", int64(version)-1)
		}
	}
	return nil
}
