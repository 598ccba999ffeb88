package server

import (
	"context"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// asker is who makes a request: the administrator, or the agent of a token.
type asker struct {
	agent string // "": the administrator
	role  policy.Role
	token string // id of the token
	reach reach  // how far the agent may use the verb; anyone for the administrator
	// may checks an agent that the request names, within reach.
	may func(key string) error
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
func askerOf(r *http.Request) asker { return askerIn(r.Context()) }

// askerIn is askerOf by the request's context.
func askerIn(ctx context.Context) asker {
	a, _ := ctx.Value(askerKey{}).(asker)
	return a
}

// isBelow tells whether agent key is above, or one that it is parent of.
func (s *Server) isBelow(key, above string) bool {
	for seen := 0; key != "" && seen < 1000; seen++ { // the registry has no circles
		if key == above {
			return true
		}
		a, err := s.Registry.Agent(key)
		if err != nil {
			return false
		}
		key = a.Parent
	}
	return false
}

// mayKnow tells whether an asker may know of an agent: the administrator of all,
// an orchestrator of those whose homes are in its view, others of themselves and
// those below them. NotFound, worded as of an agent that is not there.
func (s *Server) mayKnow(a asker, key string) error {
	if a.administrator() {
		_, err := s.Registry.Agent(key)
		return err
	}
	if !policy.ValidKey(key) {
		_, err := s.Registry.Agent(key)
		return err
	}
	if s.isBelow(key, a.agent) || a.role == policy.Orchestrator && s.finds(a, "/agents/"+key) {
		return nil
	}
	return workspace.NoAgent(key)
}

// finds tells whether a tree path leads to something in the asker's view.
func (s *Server) finds(a asker, path string) bool {
	v, err := s.Space.Open(view.Options{Agent: a.agent, UID: backend.OwnerID, GID: backend.OwnerID})
	if err != nil {
		return false
	}
	_, err = v.Find(path, false)
	return err == nil
}

// within checks an agent that a request names against the asker's reach.
func (s *Server) within(a asker, key string) error {
	switch {
	case a.reach == itself && key == a.agent, a.reach == below && s.isBelow(key, a.agent):
		return nil
	case a.reach == sees:
		return s.mayKnow(a, key)
	case !policy.ValidKey(key):
		_, err := s.Registry.Agent(key)
		return err
	}
	return workspace.NoAgent(key)
}

// narrow checks the agent that an agent's request names in its path or query,
// and fills in the asker where none is named; input does so for a body's.
func (s *Server) narrow(r *http.Request, a asker) (*http.Request, error) {
	r = r.WithContext(withAsker(r.Context(), a))
	switch a.reach {
	case itself, below, sees:
	case anyone, narrowed:
		return r, nil
	default:
		return nil, failf(backend.Denied, "this is not for agents")
	}
	a.may = func(key string) error { return s.within(a, key) }
	r = r.WithContext(withAsker(r.Context(), a))
	if key := r.PathValue("key"); key != "" {
		if err := a.may(key); err != nil {
			return nil, err
		}
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalid("the query is not understood: %v", err)
	}
	named := slices.DeleteFunc(q["agent"], func(key string) bool { return key == "" })
	for _, key := range named {
		if err := a.may(key); err != nil {
			return nil, err
		}
	}
	if len(named) == 0 {
		named = []string{a.agent}
	}
	q["agent"] = named[:1]
	u := *r.URL
	u.RawQuery = q.Encode()
	r.URL = &u
	return r, nil
}

// narrowBody does the same for what input decoded: the field "agent" of the
// struct that v points to.
func narrowBody(r *http.Request, v any) error {
	a := askerOf(r)
	if a.may == nil {
		return nil
	}
	f := agentField(reflect.ValueOf(v).Elem())
	switch {
	case !f.IsValid():
		return nil
	case f.String() == "":
		f.SetString(a.agent)
	}
	return a.may(f.String())
}

// agentField finds the string that is "agent" in JSON, also of an embedded struct.
func agentField(v reflect.Value) reflect.Value {
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "agent" && f.Type.Kind() == reflect.String {
			return v.Field(i)
		}
		if f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct {
			if got := agentField(v.Field(i)); got.IsValid() {
				return got
			}
		}
	}
	return reflect.Value{}
}
