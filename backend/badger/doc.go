// Package badger keeps a store in a directory, by Badger v4. It is a driver of
// [backend.Store]:
//
//   - [Store], made by [Open] with [Options]: one directory, held by one process.
//   - [Content]: the content driver whose bytes travel in the transaction.
//
// Every Update is one Badger transaction, on disk (SyncWrites) before Update
// returns; so WaitDurable never waits. Updates run one at a time and each costs
// a disk sync: callers batch (backend/writeback has one committer). Views never
// wait for an Update.
//
// # Format (of the directory, version 1)
//
//   - A key of the seam is stored with 0x01 before it; keys with 0x00 before
//     them are the driver's own and never shown: "\x00format" and "\x00lsn",
//     and "\x00pad0" to 3, zeros that filled a memtable up.
//
//   - A value is stored as length (4 bytes), CRC-32C of the stored key and the
//     value (4 bytes), both little endian, and the value. Badger can lose an
//     error on the way and give an empty, short or foreign value; so every read
//     checks all three and answers IO rather than something wrong.
//
//   - Update n is written at Badger's timestamp n+1 (timestamp 1 is the format
//     record), and puts n under "\x00lsn" in the same transaction: that is how
//     LSNs go on after a restart without a gap.
//
//   - The file "durable" names the last Update that was acknowledged. It is
//     written after the commit and not synced, so it never runs ahead. When
//     Badger comes back with fewer Updates than it names, acknowledged Updates
//     are missing, which Badger itself does not notice: Open fails.
//
//   - Badger's value log is never written to (every value is far below
//     ValueThreshold), so its files are removed and made anew by each Open.
//
//   - A table file that the manifest never named is of a flush or compaction that
//     was interrupted, and what is in it is elsewhere or was overwritten;
//     or the manifest lost its end, and Badger would delete the only copy. Open
//     finds out which, and fails in the second case, after the file was put aside
//     as *.lost.
//
//   - The file "bindings" binds each table and each write-ahead log to its
//     bytes, since Badger knows them by their numbers alone. Open refuses a file
//     that holds the bytes of another one, before Badger reads or removes any.
//
// # Damage
//
// Badger trusts the lengths that it reads. Open checks them first (bounds.go): no
// damaged length makes it allocate more than a few MiB.
//
// Badger takes a table block that it cannot decode for the end of that table:
// keys in it would "not exist". So Open checks every block of every table that
// the manifest names, up to [Options.VerifyBytes] before it returns and the rest
// behind it. Damage found while the store is open makes Updates fail and answers
// IO where a key was not found or a scan ended; what is found and passes its
// checksum is still given. A disk that fails under a mapped page is IO too,
// where the read is ours.
//
// # A failed commit
//
// When Badger fails in the middle of a commit nobody knows what of it is on
// disk, and its memory may hold a part of it. Then Updates fail with IO for
// good, Views go on with the state before, and Close leaves Badger as it is
// instead of writing that part out: the next process reads the log, which has
// whole transactions only.
//
// # Full disk
//
// Badger writes its files through mappings, in goroutines of its own, and dies
// by SIGBUS where the disk has no block for a page. So a file has all its blocks
// before Badger gets the mapping (mapping.go), and the log, the next log and the
// room behind the manifest are allocated in advance (wal.go, room.go). What the
// disk has not comes from [Options.Ballast], which is made whole again when
// there is room. Where that is used up as well,
//
//   - an Update is refused with NoSpace, and nothing done, once it might make
//     Badger start another memtable (14 MiB after it started the last one);
//   - a table waits for room, for as long as it takes; what it is made from
//     stays, and Views go on;
//   - Open needs a few blocks, which the store's own unused files give; without
//     them it fails with NoSpace;
//   - Close fails with NoSpace and leaves Badger as it is.
//
// This holds on filesystems that can allocate (ext4, XFS, tmpfs), and, slower,
// on others that overwrite in place. On one that copies on write (Btrfs, ZFS) a
// page may need a new block whenever it is written, and a full disk may still
// end the process.
//
// Badger does not notice that a compaction could not make the file of a table:
// the keys in it would be lost. So a compaction waits while no file can be made.
//
// # A failed compaction
//
// Nor does it notice that a table of a compaction could not be written (msync), or undo
// what it did when its manifest could not be synced; and it merges a damaged
// block as it is, or takes it for the end of its table. All three are found before it gives up
// the tables that were merged (proof.go): these stay, Updates fail with IO until the
// store is opened again, Views go on, and Close leaves Badger as it is.
//
// # Lock order
//
// Store.writer (one Update at a time), then Store.mu. room.mu, and the table of
// mappings', are leaves that Badger's goroutines take too. Functions given to View
// run without either, those given to Update with writer.
package badger
