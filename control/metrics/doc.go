// Package metrics tells Prometheus what a daemon's Status has, in its text
// format, over HTTP.
//
//   - [Listen] opens the port, on a loopback address and no other.
//   - [Handler] answers GET /metrics.
//
// Each metric is a row of a table, filled in from one control.Status a scrape;
// docs/metrics.md has the same rows, and a test compares the two. Besides them
// there are the client library's own of the Go runtime (go_) and of the process
// (process_).
//
// # Caveats
//
// Every process of the host that can reach loopback can scrape, an agent too,
// unless a token is asked for. So no label has a path, a name of a file, an
// agent, a user or a project, and nothing tells how many of these there are.
// Labels take values of short, fixed lists only.
package metrics
