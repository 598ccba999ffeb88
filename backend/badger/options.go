package badger

import (
	"log/slog"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

// Options say where a store is and how it is held. Only Dir is needed.
type Options struct {
	// Dir is the store's own directory. It is made, mode 0700, if it is not there.
	Dir string
	// Log gets what Badger has to say; nil discards it.
	Log *slog.Logger
	// Ballast is how many bytes of the disk to keep in a file, for tables and
	// deletions when the disk is full; a closed store keeps 40 MiB more, for the
	// logs of the next Open. Less than 24 MiB is of little use. 0: none, when
	// closed neither.
	Ballast int64
	// VerifyBytes is how many bytes of tables Open checks before it returns; the
	// rest is checked in the background. 0: 64 MiB; negative: nothing before.
	VerifyBytes int64
}

const defaultVerifyBytes = 64 << 20

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.VerifyBytes == 0 {
		o.VerifyBytes = defaultVerifyBytes
	}
	return o
}

// memTableSize bounds an Update as well: Badger takes 15 % of it in one
// transaction, 2.4 MiB, and 26,214 keys.
const memTableSize = 16 << 20

// smallDisk is the size, in bytes, below which tables are merged sooner.
const smallDisk = 4 << 30

// magic marks the directory as ours in Badger's manifest.
const magic = 0x7761

// badgerOptions are the small ones of the measurements: a store of a million
// inodes in about 100 MiB of memory, and one sync a commit.
func badgerOptions(dir string, log badger.Logger) badger.Options {
	young, most := 4, 12 // tables that are not merged yet, and how many before Updates wait
	if disk, err := diskSpace(dir); err == nil && disk.total < smallDisk {
		young, most = 2, 4 // they are what a compaction needs room for
	}
	return badger.DefaultOptions(dir).
		WithLogger(log).
		WithExternalMagic(magic).
		WithSyncWrites(true).
		WithDetectConflicts(false). // one Update at a time: there are none
		WithMetricsEnabled(false).
		WithMemTableSize(memTableSize).
		WithNumMemtables(2).
		WithNumLevelZeroTables(young).
		WithNumLevelZeroTablesStall(most).
		WithNumCompactors(2).
		WithBlockCacheSize(16 << 20).
		WithIndexCacheSize(16 << 20).
		WithCompression(options.Snappy).
		WithValueThreshold(1 << 20). // above any value of the seam
		WithValueLogFileSize(16 << 20).
		WithBypassLockGuard(true) // the lock is taken before any file is read
}
