// Package filelock keeps advisory file locks across mounts: POSIX record locks
// (fcntl), open file description locks, and flock. It holds them in memory and
// knows nothing of FUSE or of the tree.
//
// A [Table] keeps one family: the two families of Linux do not see each other,
// so a daemon has a Table for fcntl locks and one for flock. A lock belongs to
// an [Owner] (a mount and the number its kernel gives to a process or to an open
// file) and remembers the handle through which it was taken: where closing sends
// no FLUSH, the handle's release is what ends it.
//
// # Locks of its own
//
// A Table has one mutex, held for the length of a list walk and never across a
// wait.
package filelock
