// Package crashtest kills daemons and cuts the power under real work in real
// mounts, and holds what is left against what was acknowledged.
//
// A writer does one operation after the other in a directory of its own and
// keeps the list. After a kill -9 its directory must be exactly what all
// acknowledged operations made, and perhaps the one that was under way, whole.
// After a power cut it must be what some prefix of them made, which has
// everything up to the last fsync that returned. Beside writers, SQLite and git
// work: what they were told is committed is there, and their own checks find
// nothing. Then fsck must find nothing.
//
// The power is cut as it is for a virtual machine whose disk lives on: the store
// is on an ext4 of its own in an image; the daemon is stopped, the image is
// copied without what the kernel still has in memory, and the store is opened on
// the copy. It needs root.
//
// The rounds are few by default; make crash ROUNDS=200 does more.
package crashtest
