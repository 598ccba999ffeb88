// Package visitor looks names up in mounts, in a process apart from the daemon
// that serves them: the daemon must never touch a mount of its own.
//
// A kernel moves a directory that it holds to a new name when a process looks
// that name up. Nothing else makes it do so, and no notice carries a new name. So
// where a directory was renamed through another mount or the API, package fusefs
// has its new name looked up in every mount whose kernel holds it.
//
//   - [Client] is the daemon's side: it starts the process when it is first
//     needed, ends it when it is idle or stuck, and asks it.
//   - [Run] is the process. The program runs it when its argv[0] is [Stage].
//   - [Visit] is one name to be looked up.
//
// # Privileges
//
// A mount without --allow-other lets in its own user only, so a root visitor
// takes that user's ids, for one thread, and keeps of its capabilities only the one
// to search any directory. It opens directories with O_PATH, follows no symbolic
// link and enters no other mount, so a path leads nowhere but into the mount asked
// for.
package visitor
