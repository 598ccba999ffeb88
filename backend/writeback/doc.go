// Package writeback acknowledges Updates from memory and a log, and moves them
// to a driver of [backend.Store] later, many in one transaction.
//
//   - [Store], made by [Open], is a [backend.Logged] over any driver.
//   - [Options] say where the log is and when things happen; [Stats] tell how
//     it goes.
//   - The log's directory is a dirfs.FS (backend/internal/dirfs).
//
// An Update runs alone. Its changes become one redo record, which is written
// to the log with one pwrite; then they enter the overlay, a copy-on-write
// ordered map, and the Update returns. Reads look at the overlay, then at the
// driver. The committer takes whole Updates from the oldest on and writes them
// to the driver, each key once, together with the LSN of the last; then the
// overlay forgets them and log files without newer Updates are removed.
//
// # Promises
//
// After kill -9: every Update that returned. After a power cut: exactly the
// state after some Update, and not before the last one that WaitDurable
// acknowledged or that was SyncAge old. A failed Update is never found by
// recovery; only while the log's tail can neither be overwritten nor the log
// replaced after a failed write, its fate is open if the process dies.
//
// Bytes that Updates name and that are kept elsewhere ([Bulk]) are made durable
// before the log that names them, or ride in it.
//
// All that wait for durability share one fdatasync. After a failed fdatasync
// nothing more is taken for durable on the strength of that file: all pending
// Updates are written to a new file, and when that is on disk it takes the old
// one's place. So WaitDurable fails (IO) only where that fails too, and the
// next call tries again. The same is done at Open with what the old log holds.
//
// # Caveats
//
// View's function may call the store. Update's must not. A View opens a driver
// view only when it needs one; the driver's views are used by one goroutine at
// a time, not always the one that runs the driver's function, and are kept open
// between uses. So the driver's View must neither hold up its Updates nor wait
// for them.
//
// Recovery finds all damage of what was synced, by the log's mark (rule 12), unless a
// power cut took the mark's last writes: then a damaged record that nothing was
// written after ends the log. Damage is refused without [Options.AcceptLoss].
//
// The log's file may be longer than LogFileSize when no new file can be made.
// sync(2) does not reach the log: only WaitDurable and SyncAge do.
//
// # Lock order
//
// The writer's lock (Store.writer, held over an Update's function and the write
// of its record), then the turn to sync (redo.syncing), then Store.mu, which is
// held for moments and never over a call into the driver or a file. Callers'
// locks come before all of them: nothing here waits for a caller while it holds
// one, and the committer needs none of theirs.
//
// # Format of the log
//
// Integers are little-endian. "crc" is CRC-32C (Castagnoli).
//
//  1. The log is all files named SEQ.log in its directory, SEQ being 16 lower
//     case hexadecimal digits. SEQ.tmp files are unfinished: ignored and removed.
//     *.damaged files were set aside. A SEQ is never used again. A store that
//     was opened once has at least one .log file. Names mean nothing but that.
//  2. A file begins with a header of 4096 bytes: 0 magic "warrenWL"; 8 u32
//     version 1; 12 store id, 16 bytes; 28 u64 sequence number, which orders the
//     files; 36 u64 first; 44 u64 salt, random; 52 u32 crc of bytes 0 to 51;
//     56 u64 driver's LSN; 64 session; 80 parent, 16 bytes each; 96 u32 crc of
//     bytes 52 to 95; 100 run, 16 bytes; 116 u32 crc of bytes 96 to 115; then
//     zeros. In an older file bytes 56 or 100 to 119 are zero. The header is on disk
//     before the file gets its .log name.
//  3. Records follow the header back to back, each a multiple of 8 bytes long.
//     The seed of a file is the crc of its salt's 8 bytes. What is not a valid
//     record is no record, whatever it is: files are preallocated with zeros.
//  4. A record begins with 48 bytes: 0 u32 header crc; 4 u32 body crc; 8 u32
//     length of the whole record in bytes; 12 u32 number of changes; 16 u64 LSN;
//     24 u64 durable, an LSN up to which all was on disk when it was written;
//     32 u64 connection; 40 u64 request (backend.Origin).
//  5. The header crc continues from the file's seed over bytes 4 to 47; the body
//     crc is that of bytes 48 to the end. A record is valid when both hold and
//     its LSN is greater than that of the record before it in the file.
//  6. A change is: u8 operation, 1 set or 2 delete; u16 length of the key, 1 to
//     1024; u32 length of the value, 0 for delete; key; value. A record has at
//     least one change, and no key twice. Operation 3 is a value that rides: the
//     driver never gets it, and recovery hands it to Options.Bulk.
//  7. A record ends with 1 to 8 bytes of 0xa5, so it is a multiple of 8 long and
//     never ends in zeros.
//  8. If first is not 0, the file's records replace those of all files before it
//     that have an LSN of first or more; they were all on disk, up to the then
//     newest, before the file got its name. Otherwise the file goes on where the
//     one before it ends.
//  9. A file is synced before a record is written to the next one. Where the
//     driver has all that is in a file, it may be written from its start again:
//     then older records, or parts of them, follow the newest.
//  10. The driver keeps, under the key "\x00warren/writeback", u32 version 1,
//     the store id, and u64 the LSN of the last Update committed, in the
//     transaction that commits it. Files with another store id are refused.
//  11. Recovery takes the records after that LSN, as long as each is one more
//     than the last. Where one is missing the log ends, and what follows it was
//     never durable; but if any record that follows has a durable at or after
//     the missing LSN, the log is damaged. A record that names bytes kept
//     elsewhere which are not there (Options.Bulk) is missing, too, unless some
//     record has a durable at or after it: then it is taken, and they are lost.
//     What follows a missing record that a power cut can have taken is removed. In
//     a file of the run now (one mount in one boot) there was none: it is kept.
//  12. The marks "synced" in the log's directory and "generation" in Bulk's (package
//     mark) have the session, its parent, the tick, and LSNs that the log and the
//     driver have on disk. Recovery that ends before the log's LSN is damage.
//  13. The driver keeps, under "\x00warren/generation", u32 version 1, session, u64
//     tick, in the transaction that commits it. Both marks have the tick on disk
//     before. A mark is of the driver's session and tick or the next tick, or of a
//     session whose parent is the driver's and of the next tick; and its driver LSN
//     is not after rule 10's. Else the parts are of two copies, and Open refuses.
package writeback
