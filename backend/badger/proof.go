package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	_ "unsafe" // for go:linkname

	"github.com/dgraph-io/badger/v4/table"
	"golang.org/x/sys/unix"
)

// Badger takes a compaction for done when one of its tables could not be written
// (an error of msync(2) goes nowhere), and deletes the tables that it was made from.
// So each table that is being made is also opened here, before anything is written
// to it: the kernel tells every open file of a failed write-back. They are asked when
// Badger syncs the change of its manifest that gives the old tables up, through a
// variable of its own: manifestSync. Where a table is in doubt, or the manifest cannot be synced,
// that change is taken back, and Badger waits there for the end of the process. It is
// a global for the reason that mappings is one.
//
//go:linkname manifestSync github.com/dgraph-io/badger/v4.syncFunc
var manifestSync func(*os.File) error

// proofs are the tables of a store that are being made. Its lock is a leaf.
type proofs struct {
	mu    sync.Mutex
	files map[uint64]*os.File
}

// watch opens a new table once more.
func (p *proofs) watch(fd int, name string) error {
	id, ok := table.ParseFileID(name)
	if !ok {
		return nil
	}
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.files == nil {
		p.files = make(map[uint64]*os.File)
	}
	p.files[id] = f
	return nil
}

// check tells of tables that are being made, or should have been, and are not among
// those made, whether any write to them has failed.
func (p *proofs) check(made []uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, f := range p.files {
		if slices.Contains(made, id) {
			continue
		}
		var st unix.Stat_t
		if unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink == 0 { // given up
			p.drop(id)
			continue
		}
		if err := f.Sync(); err != nil {
			return fmt.Errorf("table %d: %w", id, err)
		}
	}
	return nil
}

// sweep lets go of tables that Badger has deleted: as long as they are open here, the
// disk does not have their blocks back. The merge that was to make one of them may
// be waiting for just that room, and no manifest is synced before.
func (p *proofs) sweep() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, f := range p.files {
		var st unix.Stat_t
		if unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink == 0 {
			p.drop(id)
		}
	}
}

// forget lets go of tables that are whole.
func (p *proofs) forget(made []uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range made {
		p.drop(id)
	}
}

func (p *proofs) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.files {
		p.drop(id)
	}
}

// drop closes a file, which was only read. mu held.
func (p *proofs) drop(id uint64) {
	if f := p.files[id]; f != nil {
		_ = f.Close()
	}
	delete(p.files, id)
}

// syncManifest is manifestSync.
func (h *mapHook) syncManifest(f *os.File) error {
	id, err := idOf(filepath.Dir(f.Name()))
	if err != nil {
		return err
	}
	h.mu.Lock()
	r := h.rooms[id]
	h.mu.Unlock()
	if r == nil {
		return h.sync(f)
	}
	return r.syncManifest(f, h.sync)
}

// syncManifest syncs a manifest whose last record was just written.
func (r *room) syncManifest(f *os.File, sync func(*os.File) error) error {
	at, last, err := lastRecord(f)
	made, dropped := changesOf(last)
	anew := at == manifestHead // the manifest was written anew: the record has all tables
	if r.bound != nil {
		r.bound.bind(tableNames(made)...)
	}
	if err == nil && len(dropped) == 0 && !anew {
		err := sync(f) // a memtable: Badger tries again, and its log stays until then
		if err == nil {
			r.proofs.forget(made)
		}
		return err
	}
	if err == nil {
		err = r.proofs.check(made)
	}
	if err == nil {
		err = r.merged(made, dropped)
	}
	if err == nil {
		err = sync(f)
	}
	if err == nil {
		r.proofs.forget(made)
		r.unbind(made, dropped)
		return nil
	}
	if anew || last == nil {
		err = errors.Join(err, errors.New("the manifest has no room for the tables before: restore a backup"))
	} else {
		_, seek := f.Seek(at, 0)
		err = errors.Join(err, seek, f.Truncate(at), f.Sync())
	}
	if r.broken != nil {
		r.broken(fmt.Errorf("tables could not be merged: %w", err))
	}
	select {} // returning an error has Badger delete the new tables, success the old ones
}

// unbind forgets tables that the manifest no longer names.
func (r *room) unbind(made, dropped []uint64) {
	if r.bound == nil {
		return
	}
	gone := slices.DeleteFunc(slices.Clone(dropped), func(id uint64) bool { return slices.Contains(made, id) })
	r.bound.forget(tableNames(gone)...)
}

// tableNames returns the file names of tables.
func tableNames(ids []uint64) []string {
	var names []string
	for _, id := range ids {
		names = append(names, table.IDToFilename(id))
	}
	return names
}

// merged tells whether the tables that are given up are whole. Badger merges a damaged
// block as it is, with a new checksum, or takes it for the end of its table, and then what follows
// would be in no table any more.
func (r *room) merged(made, dropped []uint64) error {
	for _, id := range dropped {
		if slices.Contains(made, id) { // moved to another level
			continue
		}
		f := tableFile{name: table.NewFilename(id, r.dir), id: id, compression: badgerOptions(r.dir, nil).Compression}
		if err := f.checkBlocks(); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return nil
}

// manifestHead is where the records of a manifest begin.
const manifestHead = 8

// lastRecord gives where the last record of a manifest begins, and what it says.
func lastRecord(f *os.File) (at int64, record []byte, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, nil, err
	}
	log := make([]byte, info.Size())
	if _, err := f.ReadAt(log, 0); err != nil {
		return 0, nil, err
	}
	for next := int64(manifestHead); next+8 <= int64(len(log)); {
		at = next
		next += 8 + int64(binary.BigEndian.Uint32(log[at:]))
		if next > int64(len(log)) {
			return 0, nil, errors.New("the manifest ends in the middle of a record")
		}
		record = log[at+8 : next]
	}
	return at, record, nil
}
