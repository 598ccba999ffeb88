package backend

import (
	"errors"
	"strings"
)

// Kind says what went wrong, in a way that every edge can translate: errno in
// fusefs, HTTP status in control/server, exit code in cmd/warren.
//
// A Kind is itself an error, so that the hot paths (a lookup that finds
// nothing) return one without allocating.
type Kind uint8

// The kinds, with the errno each becomes at a mount.
const (
	Other        Kind = iota // EIO: an error nobody classified
	NotFound                 // ENOENT
	Exist                    // EEXIST
	NotDir                   // ENOTDIR
	IsDir                    // EISDIR
	NotEmpty                 // ENOTEMPTY
	Denied                   // EACCES: seen, but policy or mode bits forbid it
	NotPermitted             // EPERM: no policy would allow it
	ReadOnly                 // EROFS: the mount is read-only
	CrossVolume              // EXDEV
	Invalid                  // EINVAL
	NameTooLong              // ENAMETOOLONG
	NoSpace                  // ENOSPC
	Quota                    // EDQUOT
	IO                       // EIO: the bytes are there but damaged, or the disk failed
	Stale                    // ESTALE: a node id that no longer names anything
	Busy                     // EBUSY
	TooBig                   // EFBIG, or a value over a limit of the seam
	NoData                   // ENODATA: no such xattr; no data after an offset
	Range                    // ERANGE
	Unsupported              // ENOTSUP
	Loop                     // ELOOP
	TooManyLinks             // EMLINK
	Interrupted              // EINTR
	WouldBlock               // EAGAIN
	Deadlock                 // EDEADLK
	Conflict                 // 409: an etag or a state that moved
	Unavailable              // EIO, 503: closing, or a daemon that is not there
	NoDevice                 // ENXIO
	BadHandle                // EBADF
	DiskReadOnly             // EROFS: the disk below the store takes no writes
	numKinds
)

var kindText = [numKinds]string{
	Other: "failed", NotFound: "does not exist", Exist: "already exists", NotDir: "not a directory",
	IsDir: "is a directory", NotEmpty: "directory not empty", Denied: "permission denied",
	NotPermitted: "operation not permitted", ReadOnly: "read-only", CrossVolume: "crosses a volume",
	Invalid: "invalid argument", NameTooLong: "name too long", NoSpace: "no space left in the store",
	Quota: "quota exceeded", IO: "input/output error", Stale: "stale node", Busy: "busy",
	TooBig: "too large", NoData: "no data", Range: "out of range", Unsupported: "not supported",
	Loop: "too many levels of symbolic links", TooManyLinks: "too many links", Interrupted: "interrupted",
	WouldBlock: "would block", Deadlock: "deadlock avoided", Conflict: "conflict", Unavailable: "unavailable",
	NoDevice: "no such device or address", BadHandle: "bad file handle", DiskReadOnly: "the store's disk is read-only",
}

// Error gives the kind's plain text.
func (k Kind) Error() string {
	if k < numKinds {
		return kindText[k]
	}
	return "unknown error"
}

// Error is a failure with its circumstances. All fields but Kind may be empty.
type Error struct {
	Op    string // what was tried: "rename", "open store"
	Path  string // tree path, key or file concerned; never one the reader may not know
	Agent string // on whose behalf
	Kind  Kind
	Err   error // the cause; its text is shown
}

// Error joins what is known: "op path: kind: cause".
func (e *Error) Error() string {
	var b strings.Builder
	if e.Op != "" {
		b.WriteString(e.Op)
	}
	if e.Path != "" {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(e.Path)
	}
	if e.Kind != Other || e.Err == nil {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(e.Kind.Error())
	}
	if e.Err != nil {
		if b.Len() > 0 {
			b.WriteString(": ")
		}
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, backend.NotFound) hold for an Error of that kind.
func (e *Error) Is(target error) bool {
	k, ok := target.(Kind)
	return ok && k == e.Kind
}

// KindOf finds the kind of err: its own, or the first in its chain. Errors
// that carry none are Other; a nil error must not be asked about.
func KindOf(err error) Kind {
	if k, ok := err.(Kind); ok { // the hot path: no reflection
		return k
	}
	var e *Error
	if errors.As(err, &e) && (e.Kind != Other || e.Err == nil) {
		return e.Kind
	}
	var k Kind
	if errors.As(err, &k) {
		return k
	}
	return Other
}
