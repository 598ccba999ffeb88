// Package mem keeps a store in memory, for tests. It is a full driver of
// [backend.Store] that can also be broken on purpose:
//
//   - [Store]: the driver. Its data dies with it, but for what [Store.Reopen]
//     and the crash clones give.
//   - [Store.CrashClone] and [Store.CrashRand]: an independent store that holds
//     what a disk could hold after a power cut at this moment. What
//     WaitDurable acknowledged is always in it; later Updates are in it up to a
//     point the caller chooses. It may be asked for at any time: while Updates
//     run, and from inside one by a [Hook].
//   - [Hook], [Point], [FailAt], [Hooks]: failpoints. A Hook sees every step of
//     View, Update and WaitDurable and can fail it, delay it or take a clone.
//   - [Content]: the content driver whose bytes travel in the transaction.
//
// # Durability
//
// An Update is durable once WaitDurable returned for it or a later one, or the
// store was closed. States that are not durable yet are kept as copy-on-write
// trees, at most [Options.History] of them: after that the oldest becomes
// durable by itself, as it would on a disk by age.
//
// # Limits and caveats
//
// All limits of the seam hold (package backend). A transaction used after its
// function returned fails with Invalid. Scan sees the transaction's changes
// made before it started and none made meanwhile.
//
// # Lock order
//
// Store.writer (one Update at a time), then Store.mu. Hooks and the functions
// given to View and Update run without mu, so they may call CrashClone, but
// Hooks at Update's points run with writer held and must not call Update.
package mem
