// Package backup writes a live store to one file and makes a store of it again.
//
//   - [Write] writes a [backend.Store] and its [backend.Content] as they are after
//     one Update; with an index of earlier backups, only what changed since.
//   - [Reader] reads one backup, [Chain] a full one and the incremental ones that
//     follow it, merged.
//   - [Restore] fills an empty store from a chain.
//
// Content is read and written through its driver, so a backup does not depend on
// where that keeps its bytes. It travels next to the extents that name it.
//
// # Promises
//
// A backup is one View of the store: everything up to its LSN and nothing after.
// Damage, a cut and a wrong order of files are found before Restore writes
// anything: each record has a checksum, content has its own, and the summary at
// the end has one over everything but content.
//
// # Format
//
// Integers are little-endian. "crc" is CRC-32C (Castagnoli). docs/format.md has
// this as rules B1 to B6.
//
//  1. A file begins with "warrenBK", u32 version 1, u32 length, a JSON object of
//     that length ([Header]), and u32 crc of all that.
//  2. Records follow, keys strictly ascending: u8 kind; u16 length of the key;
//     u32 length of the value; u32 length of the content; key; value; u32 crc of
//     all that; content.
//  3. Kinds: 1 set; 2 deleted since the backup before, without a value; 3 an extent,
//     with all bytes of the content that it names; 4 an extent whose content an
//     earlier record of this file had.
//  4. Keys are those of docs/format.md but the content drivers' own (c, s). In
//     an extent's value segment and offset of the content are 0.
//  5. Kind 9 is the summary, a JSON object in the value ([Summary]), the last
//     record; then the file ends. Its sha256 is that of all bytes before it but
//     for those of contents.
//  6. An index is "warrenBI", the id of the backup it is of, 16 bytes; of each key
//     u16 length, key, and the first 16 bytes of the SHA-256 of its value; at the end
//     u16 0 and the SHA-256 of all before.
//
// # Memory
//
// Write keeps some bytes for each content that several extents name, Examine for
// each content. Nothing here locks; a View is held open for as long as Write
// takes.
package backup
