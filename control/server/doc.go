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
// [Server.routes] is the one table of who may use which verb, and how far: verb ×
// role. What is not in it nobody may; what a role may not use is not there for
// it. The administrator asks at admin.sock, agents at agent.sock.
//
// The admin socket is for root and the daemon's own uid: its directory is 0700
// and every connection's peer credentials are checked besides. File requests
// go through the view of the agent they name and are judged as a mount's are.
//
// At agent.sock anybody may connect. A request's token says which agent it is
// from (asker); the router checks the agent that a request names against that
// one's reach before a handler sees it, and askerOf tells a handler that has to
// narrow what it does or tells. Requests, streams and mounts that came with a
// token belong to a session (guests), which ends with it; what they may take, of
// time, bytes and connections, is bounded (pace, guests).
//
// # Mounts
//
// A mount is made first and recorded after, so a recorded one has worked; it
// is forgotten first and unmounted after. [Server.Restore] mounts the recorded
// ones again. A run's mount is held by an open request and is never recorded.
//
// # Locks
//
// Server.mu guards the tables of runs, of failed mounts and of those handed over,
// guests.mu connections and sessions, paced.mu one request's deadlines; nothing is
// called with them held. Server.mounting makes mounting and unmounting one at a time,
// and is taken before any lock of the registry or of the mounts.
package server
