// Package backend is the seam between warren's tree and what keeps its bytes.
//
// Four things live here and nothing else:
//
//   - [Store] and [Tx]: an ordered, transactional key-value store. POSIX is
//     written once above it (backend/tree); drivers below it stay small.
//   - [Content]: where bulk file content goes, named by [Ref].
//   - the ids ([VolumeID], [Ino], [NodeID]) and [Attr] that every layer speaks.
//   - [Error] and [Kind]: one vocabulary of failures, translated once at each
//     edge (errno, HTTP status, exit code).
//
// # Lock order
//
// Nothing in this package holds a lock. The order of the locks above and below
// the seam is in docs/architecture.md; in one line: registry, volume, store.
//
// This package imports nothing else of warren.
package backend
