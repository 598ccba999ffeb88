package control

import (
	"errors"
	"fmt"
)

// Kind is what went wrong, as it travels in the "kind" field of an error.
type Kind string

// The kinds of failure.
const (
	KindFailed      Kind = "failed"      // anything that has no kind of its own
	KindInvalid     Kind = "invalid"     // the request makes no sense as it stands
	KindNotFound    Kind = "not_found"   // no such thing, or none the asker may know of
	KindConflict    Kind = "conflict"    // it exists already, is in use, or changed meanwhile
	KindDenied      Kind = "denied"      // policy, mode bits or a read-only mount forbid it
	KindQuota       Kind = "quota"       // over quota, or the store is full
	KindPartial     Kind = "partial"     // some of it was done
	KindUnavailable Kind = "unavailable" // no daemon, or one that is shutting down
	KindInterrupted Kind = "interrupted" // the caller gave up
)

// Error is a failure as the API reports it.
type Error struct {
	Text string `json:"error"`
	Kind Kind   `json:"kind"`
	// Details are facts for programs, by kind of request: see the method that has
	// them.
	Details map[string]any `json:"details,omitempty"`
}

// Error gives the text.
func (e *Error) Error() string { return e.Text }

// Errorf makes an Error.
func Errorf(k Kind, format string, args ...any) *Error {
	return &Error{Text: fmt.Sprintf(format, args...), Kind: k}
}

// KindOf gives the kind of err: that of the first Error in its chain, or
// KindFailed.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) && e.Kind != "" {
		return e.Kind
	}
	return KindFailed
}
