// Package feed keeps the ordered record of changes and denials.
//
// # Types
//
// A [Feed] is the record of one store, under keys that start with 'f' (an
// [Event] each; docs/format.md). A change is put into the very transaction that
// makes it ([Feed.Put]), so that there is never one without the other. Denials
// change nothing: they are noted ([Feed.Note]), equal ones counted, and written
// once a second.
//
// Events are numbered in the order in which they took effect. Numbers may be
// left out. A reader that goes on after the last number it was given misses
// nothing.
//
// # Caveats
//
//   - Repeated changes of one node by one agent need one event, as long as no
//     reader was given it: who calls Put asks [Feed.Fresh] first.
//   - Denials of the last second are lost when the daemon is killed.
//   - [Feed.Trim] removes events that are older than the options allow, and of too many
//     events the oldest of the agents that have most.
//   - Each event carries a hash of all before it ([Feed.Verify]).
//   - The package knows no rights: readers see everything. policy/view narrows.
//
// # Locks
//
// Feed.mu guards what is in memory, and nothing is taken under it. It is taken
// under a volume's lock, and inside transactions.
package feed
