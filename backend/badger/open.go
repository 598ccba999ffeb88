package badger

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"

	"github.com/dgraph-io/badger/v4"
	"github.com/warrenfs/warren/backend"
)

// Open opens the store in o.Dir, or makes it in a directory that is empty or not
// there. Errors: Busy when another process has it open; NoSpace when the disk
// has not even some blocks, nor the ballast; IO when it is damaged; Invalid when
// the directory holds something else; Denied; Interrupted.
func Open(ctx context.Context, o Options) (*Store, error) {
	o = o.withDefaults()
	if o.Dir == "" {
		return nil, failf("open store", "", backend.Invalid, "no directory is given")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fail("open store", o.Dir, err)
	}
	o.Dir = dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fail("open store", dir, err)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, o, lock)
	if err != nil {
		return nil, errors.Join(err, unlockDir(lock))
	}
	return s, nil
}

// open opens a locked directory.
func open(ctx context.Context, o Options, lock *os.File) (*Store, error) {
	if err := sweep(o.Dir); err != nil {
		return nil, fail("open store", o.Dir, err)
	}
	if err := checkFiles(o.Dir); err != nil {
		return nil, openFailed(o.Dir, err)
	}
	opt := badgerOptions(o.Dir, logger{log: o.Log})
	m, err := readManifest(o.Dir, opt)
	if err != nil {
		return nil, openFailed(o.Dir, err)
	}
	bound, err := openBindings(o.Dir, m, o.Log)
	if err != nil {
		return nil, openFailed(o.Dir, err)
	}
	s, err := openChecked(ctx, o, lock, opt, m, bound)
	if err != nil {
		bound.close()
	}
	return s, err
}

// openChecked opens a directory whose files have plausible sizes, and the bytes that
// they are bound to.
func openChecked(ctx context.Context, o Options, lock *os.File, opt badger.Options, m manifest, bound *bindings) (*Store, error) {
	rest, err := checkTables(ctx, m.tables, o.VerifyBytes)
	if err != nil {
		return nil, openFailed(o.Dir, err)
	}
	orphans, err := openOrphans(o.Dir, m)
	if err != nil {
		return nil, openFailed(o.Dir, err)
	}
	defer closeOrphans(orphans)
	w, durable, err := openWitness(o.Dir)
	if err != nil {
		return nil, fail("open store", o.Dir, err)
	}
	room, err := newRoom(o.Dir, o.Ballast, o.Log)
	if err != nil {
		return nil, errors.Join(fail("open store", o.Dir, err), w.file.Close())
	}
	s := &Store{
		dir: o.Dir, log: o.Log, room: room, lock: lock,
		writer: make(chan struct{}, 1), witness: w, wal: walFiles{dir: o.Dir, log: o.Log, room: room},
		readers: make(map[backend.LSN]int),
	}
	room.broken, room.bound = s.mergeFailed, bound
	opt.Logger = logger{log: o.Log, room: room}
	if err := s.start(opt, durable, orphans); err != nil {
		return nil, errors.Join(err, room.close(), w.file.Close())
	}
	s.behind(rest)
	return s, nil
}

// behind starts what runs while the store is open.
func (s *Store) behind(unchecked []tableFile) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	s.stopBehind = func() { cancel(); running.Wait() }
	running.Go(func() { s.checkBehind(ctx, unchecked) })
	running.Go(func() { s.watchRoom(ctx) })
	running.Go(func() { s.tidy(ctx) })
}

// start opens Badger and finds out which Update was the last. That of durable
// and what is in orphans must be there.
func (s *Store) start(opt badger.Options, durable backend.LSN, orphans []orphan) error {
	err := s.room.makeDiscard()
	if err == nil {
		s.db, err = openBadger(opt)
	}
	if err != nil {
		return openFailed(s.dir, err)
	}
	s.keepManifest()
	err = s.load()
	if err == nil && s.last < durable {
		err = damaged("open store", s.dir, fmt.Errorf(
			"Updates %d to %d were acknowledged and are missing (to go on without them, remove %s)",
			s.last+1, durable, witnessFile(s.dir)))
	}
	if err == nil {
		err = s.checkOrphans(orphans)
	}
	if err != nil {
		return errors.Join(err, fail("open store", s.dir, s.shutDown()))
	}
	s.db.SetDiscardTs(timestamp(s.last))
	s.room.setOpened(true)
	s.wal.prepare()
	s.room.regrow(0)
	s.measure()
	return nil
}

func openBadger(opt badger.Options) (db *badger.DB, err error) {
	defer recoverInto(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return badger.OpenManaged(opt)
}

// load reads the driver's own records, or writes them in a new store.
func (s *Store) load() (err error) {
	defer recoverInto(&err)
	newest := s.db.MaxVersion()
	if newest == 0 {
		return s.initialize()
	}
	txn := s.db.NewTransactionAt(newest, false)
	defer txn.Discard()
	format, err := s.read(txn, formatKey())
	if err != nil {
		return damaged("open store", s.dir, fmt.Errorf("its format record: %w", err))
	}
	if string(format) != formatVersion {
		return failf("open store", s.dir, backend.Unsupported, "its format is version %q, this program knows %q", format, formatVersion)
	}
	lsn, err := s.read(txn, lsnKey())
	if err != nil || len(lsn) != 8 {
		return damaged("open store", s.dir, fmt.Errorf("the number of the last Update: %w", orNone(err)))
	}
	s.last = backend.LSN(binary.BigEndian.Uint64(lsn))
	if newest != timestamp(s.last) {
		return damaged("open store", s.dir, fmt.Errorf("the last Update is %d and there are entries of %d", s.last, int64(newest)-1))
	}
	return nil
}

// orNone makes a nil err one of no kind.
func orNone(err error) error {
	if err == nil {
		return errors.New("not as it should be")
	}
	return err
}

// initialize writes the format record and LSN 0.
func (s *Store) initialize() error {
	txn := s.db.NewTransactionAt(0, true)
	defer txn.Discard()
	for _, c := range []change{
		{formatKey(), encode(formatKey(), []byte(formatVersion))},
		{lsnKey(), encode(lsnKey(), lsnBytes(0))},
	} {
		if err := txn.Set(c.key, c.record); err != nil {
			return fail("make store", s.dir, err)
		}
	}
	return fail("make store", s.dir, txn.CommitAt(timestamp(0), nil))
}
