// Package stack runs the whole of warren for tests from outside: a built
// program, a daemon on a Badger store, and mounts, which shell scripts use as
// agents' programs do.
//
// A [Stack] is one store, its daemon and its mounts. A [Shared] is one Stack
// for all tests of a package, made by the first that asks and taken down, with
// everything checked to be gone, at the end. Tests that use one do not run in
// parallel.
//
// [Stack.Script] runs a shell script under a time limit. A script that is not
// done by then hangs: the daemon is made to say where its goroutines stand and
// is ended, since a process that waits for a FUSE daemon dies of no signal.
//
// It needs /dev/fuse, the right to mount, bash and the go command.
package stack
