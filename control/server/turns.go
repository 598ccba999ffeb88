package server

import (
	"context"
	"net/http"

	"github.com/warrenfs/warren/backend"
)

// class tells requests apart that take different amounts of memory for different
// times.
type class uint8

const (
	classPlain  class = iota // a body, an answer or a file of 8 MiB at most in memory
	classStream              // a little of what may go on for hours
	classImport              // what there is to know of each entry: some 100 bytes
	classSearch              // two files of 8 MiB, and what is found in them
	classFollow              // waits for what comes
	classHand                // bounded by maxHanding
	numClasses
)

// maxTurns is how many requests of a class one token has worked on at a time; more
// wait for their turn. So what an agent makes the daemon keep in memory is bounded,
// however many connections it has (maxPerToken), and how slow it reads.
var maxTurns = [numClasses]int{classPlain: 8, classStream: 16, classImport: 2, classSearch: 4, classFollow: 32, classHand: maxPerToken}

// classOf is the class of a request of a verb.
func classOf(verb string) class {
	switch {
	case verb == "POST /v1/import":
		return classImport
	case verb == "POST /v1/fs/search":
		return classSearch
	case verb == "GET /v1/log":
		return classFollow
	case verb == "POST /v1/mounts/handover":
		return classHand
	case streams[verb]:
		return classStream
	}
	return classPlain
}

// turns are those of one token.
type turns [numClasses]chan struct{}

func newTurns() (t turns) {
	for c := range t {
		t[c] = make(chan struct{}, maxTurns[c])
	}
	return t
}

// wait waits for the turn of a request; done ends it. An error: ctx ended first.
func (t *turns) wait(ctx context.Context, r *http.Request) (done func(), err error) {
	c := t[classOf(r.Method+" "+r.URL.Path)]
	select {
	case c <- struct{}{}:
		return func() { <-c }, nil
	case <-ctx.Done():
		return nil, failf(backend.Busy, "this token has %d such requests under way, and none has ended in time", cap(c))
	}
}
