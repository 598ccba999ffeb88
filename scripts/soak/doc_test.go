// Package soak works on four mounts of one store for a long time and sees that
// nothing grows and nothing is lost.
//
// Each mount has a worker with a directory of its own, which knows what every
// file in it must be ([own]); in two directories that three mounts share, three
// workers each use the same few names, one at a time, so that each reads what
// another has just written through another mount ([shared]). Operations are
// mixed: names, links, bytes, attributes, holes, syncs, and pages of a large file
// written over again.
//
// The daemon is ended with SIGTERM after a tenth of the operations and with
// SIGKILL after two tenths, while nobody works; both times and at the end all
// that there is must be what the workers know, through every mount that shows it.
// At the end fsck finds nothing, and the store takes a third more than what is
// live and a fixed allowance. In the daemon's last life its anonymous memory,
// descriptors and threads are counted all the time: in the last third of it there
// are no more than in the first.
//
// TestEverything has fsx, stress-ng, git, SQLite, listings and copies work at once
// over three mounts, for as long as -for says.
//
// make soak OPS=10000000 does that many operations; by default it is a short one.
package soak
