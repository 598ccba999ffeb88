package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
)

// outcome is how a backend.Kind travels.
type outcome struct {
	status int
	kind   control.Kind
}

// outcomes is the one table from kinds to HTTP; what is not in it failed.
var outcomes = map[backend.Kind]outcome{
	backend.NotFound:     {http.StatusNotFound, control.KindNotFound},
	backend.NoData:       {http.StatusNotFound, control.KindNotFound},
	backend.Exist:        {http.StatusConflict, control.KindConflict},
	backend.NotEmpty:     {http.StatusConflict, control.KindConflict},
	backend.CrossVolume:  {http.StatusConflict, control.KindConflict},
	backend.Stale:        {http.StatusConflict, control.KindConflict},
	backend.Busy:         {http.StatusConflict, control.KindConflict},
	backend.TooManyLinks: {http.StatusConflict, control.KindConflict},
	backend.WouldBlock:   {http.StatusConflict, control.KindConflict},
	backend.Deadlock:     {http.StatusConflict, control.KindConflict},
	backend.Conflict:     {http.StatusConflict, control.KindConflict},
	backend.Denied:       {http.StatusForbidden, control.KindDenied},
	backend.NotPermitted: {http.StatusForbidden, control.KindDenied},
	backend.ReadOnly:     {http.StatusForbidden, control.KindDenied},
	backend.NotDir:       {http.StatusBadRequest, control.KindInvalid},
	backend.IsDir:        {http.StatusBadRequest, control.KindInvalid},
	backend.Invalid:      {http.StatusBadRequest, control.KindInvalid},
	backend.NameTooLong:  {http.StatusBadRequest, control.KindInvalid},
	backend.Range:        {http.StatusBadRequest, control.KindInvalid},
	backend.Loop:         {http.StatusBadRequest, control.KindInvalid},
	backend.TooBig:       {http.StatusRequestEntityTooLarge, control.KindInvalid},
	backend.NoSpace:      {http.StatusInsufficientStorage, control.KindQuota},
	backend.Quota:        {http.StatusInsufficientStorage, control.KindQuota},
	backend.Interrupted:  {http.StatusServiceUnavailable, control.KindInterrupted},
	backend.Unavailable:  {http.StatusServiceUnavailable, control.KindUnavailable},
	backend.Unsupported:  {http.StatusNotImplemented, control.KindFailed},
}

// statuses is the table for errors that are in the API's words already; what is
// not in it failed.
var statuses = map[control.Kind]int{
	control.KindInvalid:     http.StatusBadRequest,
	control.KindDenied:      http.StatusForbidden,
	control.KindNotFound:    http.StatusNotFound,
	control.KindConflict:    http.StatusConflict,
	control.KindInterrupted: http.StatusServiceUnavailable,
	control.KindUnavailable: http.StatusServiceUnavailable,
	control.KindQuota:       http.StatusInsufficientStorage,
}

// fail answers with an error. What nobody classified is logged: it is a fault
// of the daemon or its disk, and the client sees no more than its text.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		err = &backend.Error{Kind: backend.Interrupted}
	}
	var e *control.Error
	if errors.As(err, &e) {
		status, known := statuses[e.Kind]
		if !known {
			status = http.StatusInternalServerError
			s.Log.Error("request failed", "method", r.Method, "path", r.URL.Path, "err", err)
		}
		writeError(w, status, &control.Error{Kind: cmp.Or(e.Kind, control.KindFailed), Text: err.Error(), Details: e.Details})
		return
	}
	o, known := outcomes[backend.KindOf(err)]
	if !known {
		o = outcome{http.StatusInternalServerError, control.KindFailed}
		s.Log.Error("request failed", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	writeError(w, o.status, control.Errorf(o.kind, "%s", text(err)))
}

// text words an error for its reader: the cause alone where the kind adds
// nothing, as in the registry's and this package's own errors.
func text(err error) string {
	var e *backend.Error
	if errors.As(err, &e) && e.Op == "" && e.Path == "" && e.Err != nil {
		return e.Err.Error()
	}
	return err.Error()
}

func writeError(w http.ResponseWriter, status int, e *control.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = encode(w, e)
}
