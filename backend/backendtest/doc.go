// Package backendtest holds what every driver of the seam must pass:
//
//   - [TestStore]: every sentence of the contract of backend.Store and
//     backend.Tx, and a random-operations test against a small model.
//   - [TestContent]: the contract of backend.Content.
//
// A driver's test gives a [Factory] (or [ContentFactory]) that makes a new,
// empty store for each subtest and says how to reopen it and, where it can, what
// a crash would leave. The suite reads nothing but the seam, so that it runs
// over a layer of several drivers as well as over one.
//
// The random-operations test prints its seed; BACKENDTEST_SEED in the
// environment repeats a run and BACKENDTEST_STEPS sets its length.
//
// Nothing here is for use outside tests; nothing holds a lock over a call into
// the store.
package backendtest
