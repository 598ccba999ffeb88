// Package transport carries FUSE requests from one /dev/fuse to a file system
// and the replies back.
//
// Its types:
//
//   - [Loop] serves one connection, from [New], which answers the kernel's INIT,
//     to the end of the connection, when [Loop.Serve] returns.
//   - [Watch] looks after the loops of one daemon: it finds those whose handlers
//     take long.
//
// # One reader
//
// Waking another thread costs more than most requests. So one goroutine reads
// a request, handles it, and writes the reply before it reads the next; all
// others are parked. One goroutine of a loop reads, or is about to, or
// none while a handler runs. A handler that may wait for something (another
// mount's kernel, a file lock, a disk) says so first, by [Loop.Standby], and a
// parked goroutine, or a new one, reads on; whoever comes back from handling
// and finds another reading is parked. A handler that waits without having said
// so is found by the Watch within two of its ticks. So a connection is always
// read again, however many of its handlers wait.
//
// While requests queue behind handlers that are busy, not waiting, the Watch lets
// more goroutines read at once, up to the number of processors or four.
//
// # Caveats
//
// The read is a system call that the Go runtime knows to block: one that it does
// not know of would stop garbage collection for as long as the kernel has no
// request. Replies do not block; short ones are written by the cheaper kind.
//
// Buffers are outside the Go heap. A reader has room for the largest request and
// the largest reply, but only what was used of it is memory, and most of that is
// given back after a second without requests.
//
// The library (fuse.ProtocolServer) decodes requests; it writes no
// notifications. Whoever needs those writes them to a duplicate of the
// descriptor.
//
// # Locks
//
// Loop.mu is a leaf, taken only when readers change; Watch.mu is a leaf, taken
// when a loop comes or goes, or when ticking starts.
package transport
