// Package fusefs shows views of the tree (policy/view) to kernels: it mounts
// them, answers the FUSE protocol, and keeps the caches of all kernels coherent.
//
// Its types:
//
//   - [Hub] joins the mounts of one daemon. It is the view's Notifier: what
//     changes through one mount it tells the kernels of the others, before the
//     request that made the change is answered.
//   - [Mount] is one view at one mountpoint, from [Hub.Mount] to
//     [Mount.Unmount] or the end of the connection.
//   - visits are the look-ups by which a kernel learns the new names of directories;
//     package visitor makes them, in a process of its own.
//   - [ControlFile] is a row of the table of files in /.warren.
//
// Inside: kernel is what one mount's kernel may have cached (it is the view's
// Observer), fileSystem answers its requests, device writes notifications to
// it, transport reads requests and writes replies. gate, between transport and
// fileSystem, is shut when a mount ends: a connection whose users stay can often
// not be ended, so its requests are answered ENOTCONN from then on.
//
// # Coherence
//
// Kernels cache names, attributes, listings and pages for ever; the daemon
// knows which and tells of every change. docs/coherence.md has the protocol, why
// it cannot deadlock, what a reader may rely on and what is left.
//
// # Locks
//
// A volume's lock (policy/view, backend/tree) comes first. Under it the view
// calls Hub.Collect, Hub.InUse and the kernel's Observer methods, which take
// only leaves: kernel.mu, and nothing else. Hub.mu, writers.mu, handleTable.mu,
// dropper.mu and the lock table's are leaves too, never held across a call of
// the view or a notification. handle.mu is held while a listing is read, so it
// comes before the volume's lock. Mount.taking is held across umount(2) and
// fusermount3, and never with another lock.
//
// # Caveats
//
// The daemon must never touch a file in a mount of its own: not even stat(2) a
// mountpoint. It reads /proc/self/mountinfo instead.
//
// Unmounting goes by a path, and a path may lead to what somebody else has mounted
// there since, or over it. So a mount is known by its number and its connection's, it is
// looked first where its path leads, and one goes at a time (Mount.take).
//
// A kernel is told nothing before the handshake is done (manners.ready), though its
// view hears of changes of rules from before the mount.
//
// A notification is a write(2) that may wait for a directory's lock or a page's
// in the kernel. No lock may be held, and Lookup, ReadDir and Forget must not
// send any. A process that is killed meanwhile may not end (docs/coherence.md).
package fusefs
