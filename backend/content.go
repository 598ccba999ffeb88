package backend

// Ref names bytes kept by a Content driver. Extents in the tree carry it; its
// fields mean something to the driver alone, but for ID and Length.
type Ref struct {
	ID      uint64 // unique in the store, given by the caller of Put
	Segment uint64 // driver's own
	Offset  uint64 // driver's own
	Length  uint32 // bytes
	CRC     uint32 // CRC-32C (Castagnoli) of all Length bytes
}

// Content keeps bulk file content. The tree counts the extents that name a Ref
// and calls Free when the last is gone; the driver never looks into the tree.
//
// Durability: when an Update that names a Ref is durable, so are the Ref's
// bytes. Drivers whose bytes travel in the transaction have that for nothing;
// others must sync their bytes before the log that names them is synced.
type Content interface {
	// Put keeps data under id as part of tx. 1 to Limit() bytes. It may run
	// again with the same id if the Update does.
	Put(tx Tx, id uint64, data []byte) (Ref, error)
	// Get copies bytes [off, off+len(p)) of ref into p. Errors: IO when the
	// bytes are missing or fail their checksum (the error names the ref);
	// Range when they lie outside the ref. It never returns wrong bytes.
	Get(tx Tx, ref Ref, off uint32, p []byte) error
	// Free tells, as part of tx, that nothing names ref any more.
	Free(tx Tx, ref Ref) error
	// Check verifies the whole of ref, for fsck. Errors as Get.
	Check(tx Tx, ref Ref) error
	// Limit is the largest number of bytes one Put takes, a multiple of 4096.
	Limit() int
}

// ContentKey is the key under which drivers whose bytes travel in the
// transaction keep them (docs/format.md, rule 12).
func ContentKey(id uint64) []byte {
	return []byte{'c', byte(id >> 56), byte(id >> 48), byte(id >> 40), byte(id >> 32),
		byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}
}
