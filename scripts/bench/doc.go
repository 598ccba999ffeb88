// Command bench compares warren with ext4, or whatever filesystem the working directory
// is on, and with the FUSE filesystems that are installed, in one run:
//
//	scripts/bench/bench [--work DIR] [--rows RE] [--targets RE] [--scale F] [--rounds N] [--json FILE]
//
// A target is a directory on one filesystem: "native" is the plain directory,
// "warren" a soul's workspace in a fresh store on the same disk, "warren+gaia"
// the same with the orchestrator's root mount open beside it and warm before each
// step, "floor" scripts/nullfs, "loopback" go-fuse's example, and gocryptfs,
// bindfs and fuse-overlayfs where they are installed.
//
// A group is a sequence of steps that builds on itself (untar, then search, then
// remove); each step is a row of the table. Targets take turns at a group, in
// one order in odd rounds and in the other in even ones, and the best time of
// all rounds counts. Before each step everything is synced, untimed. Times are
// worth nothing on their own: the table has ratios to native.
//
// The requests that a step cost are what the daemon counted, per opcode.
//
// It needs root (mounts, dropping caches), /dev/fuse, git, sqlite3 and ripgrep.
package main
