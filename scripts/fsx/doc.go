// Command fsx does random things to one file and compares what it reads with a
// model in memory, in the manner of the fsx that other filesystems are tested
// with: read, write, append, direct I/O, reads and writes through maps, truncate,
// allocate, punch, zero, copy ranges (within the file and by way of another), seek
// to data and holes, fsync, reopen, drop caches.
//
//	fsx [-ops N] [-seed N] [-other FILE] DIR...
//
// With several directories, which must show the same files (mounts of one
// tree), each operation goes through one of them at random, by a descriptor that
// stays open there while the others' do. What docs/coherence.md asks for is kept:
// before a store through a map all other descriptors are closed, and after it
// comes msync. Else nothing is: each operation must see what the one before it did.
//
// FILE is where ranges are copied to and from; it may be in another volume.
//
// The first difference ends the run: it prints the operations that led there.
// The same seed does the same again.
package main
