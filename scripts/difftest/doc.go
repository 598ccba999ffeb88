// Command difftest does random system calls in two directories, a plain one of
// ext4 and one of a mount, and compares: each call must give the same result, or
// the same error number, and after each the same must be there: names, types,
// modes, owners, link counts of files, sizes, bytes, extended attributes, and
// which of the files' times have changed.
//
//	difftest [-ops N] [-seed N] [-user] PLAIN DIR...
//
// PLAIN and DIR are empty. With several DIRs, which must show the same files
// (mounts of one tree), each call goes through one of them at random. With -user
// half of the calls are another user's, whom the mounts must allow.
//
// The first difference ends the run: it prints the calls that led there. What
// docs/conformance.md lists as different from ext4 is not called.
package main
