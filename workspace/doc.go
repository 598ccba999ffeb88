// Package workspace keeps who and what there is: agents, users, projects, the
// mounts that come back after a restart, and the simple settings.
//
// # Types
//
// [Registry] is the one door to all of it. [Agent], [User], [Project], [Mount]
// and [Settings] are its records: JSON values in the store under keys that
// start with 'g' ("gagent/web_designer"; docs/format.md). A record with a
// field that this version does not know is an error, not something to lose on
// the next write.
//
// [Layer] is what agents share and keep beyond plain files: items and
// publishing, fields with a schema, sessions, layered configuration, the context
// of a prompt. Its methods take the view of the agent that asks.
//
// From the records the registry derives two things. Volumes: an agent has a
// home, a workspace and a scratch, a user and a project one each. Facts: what
// policy decisions depend on, published to every mount at once.
//
// # Crash safety
//
// A thing is made record first, volumes after; removed by marking its record,
// then its volumes, then the record. [Open] finishes both: it makes the volumes
// that a record wants and finishes removals. All steps may run again. A call
// that returned without an error is on disk.
//
// # Caveats
//
// Text in the registry's errors may name agents, users and projects: they are
// for the administrator. The registry does no checks of who asks. The layer's are
// for who asks, and tell hidden from absent no more than the view does.
//
// # Lock order
//
// Layer.turn, then Layer.locks (one file's read-change-write, over everything below). Then
// Registry.change (one change at a time, over store transactions, volume
// making and publishing), then the volume and store locks below. Registry.mu
// guards the maps and nothing is taken under it.
package workspace
