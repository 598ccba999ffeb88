// Package casetest holds failures that users of other systems reported, as
// tests of the whole program: a built warren, a daemon on a Badger store, and
// two real mounts that show one directory, the orchestrator's (M) and a soul's
// (N). Real shell commands do in them what the reports did, under a time limit,
// and fsck must find nothing after each.
//
// Scripts that any file system must pass run on a plain directory first, as
// both M and N: a case that fails there has a wrong expectation. Then they run
// on the mounts, twice, with M and N changing places.
//
// The tests need /dev/fuse and the right to mount. With -short, and under the
// race detector, long loops are shorter.
package casetest
