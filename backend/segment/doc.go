// Package segment is a content driver: bytes go to append-only files, and what
// is named of them is counted in the store.
//
//   - [Content], made by [Open], is the [backend.Content].
//   - [Store], made by Content.Bind, is the store that it is bound to. It tells
//     when transactions end, and runs the reclaimer.
//   - The directory is a dirfs.FS (backend/internal/dirfs).
//   - [Relocator] is what compacting needs of the tree.
//
// Put writes a record behind the last one with pwrite and sets keys in the
// transaction; Get verifies the record's header and the 32 KiB blocks that it
// reads. 32 KiB: reading 4 KiB at random out of 1 MiB then costs 32 KiB from the
// disk and one checksum of it, a whole Ref 32 times as much, while smaller blocks
// make a longer table that each read has to fetch first. BenchmarkGet measures it.
//
// # Promises
//
// A Put's bytes are on disk when a Sync that began after it has returned; who
// makes an Update durable calls Sync first, and calls it before the driver
// commits the Update too. So a durable Ref has its bytes. Over a log
// ([Options].Logged) small content rides in the log record as well: then the
// log's sync needs SyncLoose only, which leaves such content out, and a recovery
// calls Restore before Verify. So a small durable write costs one sync. A Get never gives
// wrong bytes: what is missing, damaged or given back is IO, with the segment
// and the offset in the error. Damage of one segment touches no other.
//
// Space comes back when the Update that freed it is settled ([Options].Settled)
// and no transaction that began before its end still runs: empty segments are
// unlinked, and pages inside freed records punched out.
//
// # Caveats
//
// A log's recovery calls Verify for each change it replays, so Settled must not
// return while recovery could still look at the Updates in question.
//
// A long View holds up the reclaimer. Transactions of the store below that do
// not go through [Store] hold up nothing: what they read may vanish.
//
// A record whose Update failed is made void but keeps its space until its
// segment is removed or compacted; so does one that was lost with an unsynced
// log. Segments are compacted only where SetRelocator was called.
//
// If a sync fails and a record cannot be read back intact, Sync fails until the
// next start, where the log's recovery finds that the record is not there.
//
// # Lock order
//
// Content.append.mu (held while a segment is made), then Content.mu, which is
// held for moments and over open(2), close(2) and unlink(2) only. Neither is held
// over a call into the store. grace.mu is taken alone.
//
// # Format
//
// Integers in files are little-endian. "crc" is CRC-32C (Castagnoli).
//
//  1. A segment is the file SEGMENT.seg, its number as 16 lower-case hexadecimal
//     digits, never 0. SEGMENT.tmp files are unfinished and removed. The file
//     ballast holds nothing. A number is not given out again while the store
//     or the directory knows it.
//  2. A file begins with 4096 bytes: 0 magic "warrenSG"; 8 u32 version 1; 12
//     store id, 16 bytes; 28 u64 segment; 36 u64 salt, random; 44 u32 crc of bytes
//     0 to 43; then zeros. It is on disk before the file gets its .seg name.
//  3. Records follow at multiples of 64. The seed of a file is the crc of its
//     salt and its segment number, 8 bytes each. What is no valid record is none.
//  4. A record begins with 64 bytes: 0 u32 header crc; 4 u8 kind, 1 data or 2
//     void; 8 u64 id; 16 u32 length of the content, at most 1 MiB; 20 u32 crc of
//     the content; 24 u64 size of the whole record; 32 u64 its own offset; else
//     zeros. For content of more than 32 KiB a table follows, the crc of each
//     32 KiB (u32), padded with zeros to a multiple of 64.
//  5. The header crc continues from the seed over bytes 4 to 63 and the table
//     without its padding.
//  6. The content follows, and bytes without meaning up to a multiple of 64. A void
//     record has id, length and crc 0, and only its size means anything; it
//     may cover what were several records.
//  7. Ref.Segment is the segment, Ref.Offset where the record begins.
//  8. Keys are of the family 's'; in keys, numbers are big-endian and of 8 bytes;
//     in values they are varints. s 0: u8 version 1, store id, 16 bytes.
//  9. s 1 <segment>: u8 version 1; bytes of the named records, headers included;
//     their number; where the last record ends that was ever named; how
//     many records the Update that set the key put into the segment; of each
//     the id, offset, length and crc. A segment that has no such key holds
//     nothing that is named.
//  10. s 2 <segment><offset>: a record that was freed and whose space was not yet
//     given back. Value: the length of its content.
//  11. s 3 <segment><offset>, in a log alone: content that rides. Value: id; content.
package segment
