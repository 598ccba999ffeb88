// Package mcp serves an agent's files, items, fields and session to a host that
// speaks the Model Context Protocol. It is a client of the API like any other:
// what a tool may do is decided by the daemon, in the agent's view.
//
// A Server is made of tools. A tool has a name, what a host and a model are told
// of it, the schemas of its arguments and of its answer, which are made of Go
// types, and a function that does it by a control.Client. tool.go puts these
// together; the files tools_*.go have one group of tools each.
//
// An answer has structured content, as the tool's output schema says, and the same
// as plain text. A failure is an answer with isError and, as its text, a JSON
// object {"error", "kind", "details"?}; kind is one of not_found, denied, invalid,
// conflict, quota, unavailable. It has no structured content, which hosts would
// hold against the output schema. Arguments that the input schema refuses are such
// a failure too, of kind invalid, so that the model sees them.
//
// Calls run side by side. A cancelled one ends its request, and with it what the
// daemon does for it.
package mcp
