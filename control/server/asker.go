package server

import (
	"context"
	"net/http"

	"github.com/warrenfs/warren/policy"
)

// asker is who makes a request: the administrator, or the agent of a token.
type asker struct {
	agent string // "": the administrator
	role  policy.Role
	token string // id of the token
	reach reach  // how far the agent may use the verb; anyone for the administrator
}

// administrator tells whether it is the administrator who asks.
func (a asker) administrator() bool { return a.agent == "" }

// of is the row's cell for the asker.
func (a asker) of(r rights) reach {
	switch {
	case r.whole() != nil:
		return unset
	case a.administrator():
		return anyone
	}
	switch a.role {
	case policy.Orchestrator:
		return r.orchestrator
	case policy.Soul:
		return r.soul
	case policy.Shared:
		return r.shared
	}
	return never
}

type askerKey struct{}

func withAsker(ctx context.Context, a asker) context.Context {
	return context.WithValue(ctx, askerKey{}, a)
}

// askerOf tells who makes a request. What came by admin.sock is the
// administrator's.
func askerOf(r *http.Request) asker {
	a, _ := r.Context().Value(askerKey{}).(asker)
	return a
}
