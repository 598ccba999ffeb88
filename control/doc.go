// Package control is the daemon's API: the types that travel and a client.
//
// The API is HTTP with JSON over a unix socket. There is one file a noun; each
// holds the noun's types and the [Client] methods that speak of it. Paths start
// with /v1. Every answer is one JSON value, but for file contents, which are
// bytes. A failure is an [Error] with the HTTP status that belongs to its
// [Kind]; a client tells failures apart by Kind, never by text.
//
// Fields are added, never renamed or given a new meaning. A daemon refuses
// fields it does not know (KindInvalid), so that a typing error or a newer
// client's wish is never silently dropped; a client ignores answers' fields
// that it does not know.
//
// A Client may be used from any goroutine and holds no locks of its own.
//
// This package imports nothing else of warren.
package control
