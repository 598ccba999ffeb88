// Package server answers the daemon's API: it translates requests of package
// control to the registry (workspace), the view (policy/view) and what it is
// handed to mount with, and errors to one table of HTTP statuses.
//
// There is one file a noun. A handler is a function of its request's decoded
// input; [Server.routes] is the table of all. Bodies are JSON of at most 1 MiB,
// decoded strictly (an unknown field is an error), but for file contents,
// which are streamed.
//
// # Who may ask
//
// The admin socket is for root and the daemon's own uid: its directory is 0700
// and every connection's peer credentials are checked besides. File requests
// go through the view of the agent they name and are judged as a mount's are.
//
// # Mounts
//
// A mount is made first and recorded after, so a recorded one has worked; it
// is forgotten first and unmounted after. [Server.Restore] mounts the recorded
// ones again. A run's mount is held by an open request and is never recorded.
//
// # Locks
//
// Server.mu guards the tables of runs and of failed mounts; nothing is called
// with it held. Server.mounting makes mounting and unmounting one at a time,
// and is taken before any lock of the registry or of the mounts.
package server
