package server

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/warrenfs/warren/control"
)

// route is one verb of the API: one method of one path, and how far each role
// may use it.
type route struct {
	method, path string
	do           func(http.ResponseWriter, *http.Request) error
	may          rights
}

// name is how a route is called in tests and in docs/api.md.
func (r route) name() string { return r.method + " " + r.path }

// reach is how far a role may use a verb.
type reach uint8

const (
	// unset is what a route has that was given no rights: it answers nobody.
	unset reach = iota
	// never: for this role the route does not exist. It is answered as a path
	// that is none.
	never
	// anyone: it is about no agent, and tells nothing of one.
	anyone
	// itself: as the agent of the token and no other. An agent that the request
	// names (agent in the query or in the body, {key} in the path) must be that
	// one, or else there is "no such agent"; one left out is filled in.
	itself
	// below: as itself, or as an agent below that one.
	below
	// sees: about itself, or an agent that it sees: those below it; for an
	// orchestrator all whose homes are in its view.
	sees
	// narrowed: the handler looks at askerOf(r) and narrows what it does and
	// tells to what the asker may know. The router checks nothing but the role.
	narrowed
)

// rights are the row of a verb. The administrator may use every verb, whatever
// an agent may.
type rights struct{ orchestrator, soul, shared reach }

// admin is the row of verbs that are the administrator's.
var admin = rights{never, never, never}

// all gives the three roles of agents the same.
func all(r reach) rights { return rights{r, r, r} }

// routes is the whole API: verb × role. To add a verb, add a line here and one in
// docs/api.md (one more in its table of who may ask what, if agents may). Give it
// `admin`, unless agents are to have it: then say how far,
// and add a probe to TestCells (cells_test.go). A handler
// names the agent it works for by the request's "agent" or {key}, as before: the
// router has checked it. Where that is not what an agent is for in the request
// (a grantee, a member), say narrowed and ask askerOf. peer(r) is nobody for
// what comes by agent.sock.
func (s *Server) routes() []route {
	return []route{
		{"GET", "/v1/version", s.version, all(anyone)},
		{"GET", "/v1/status", s.status, admin},
		{"POST", "/v1/sync", s.sync, all(anyone)},
		{"POST", "/v1/fsck", s.fsck, admin},
		{"POST", "/v1/backup", s.backup, admin},
		{"GET", "/v1/users", s.listUsers, rights{narrowed, narrowed, never}},
		{"POST", "/v1/users", s.addUser, admin},
		{"GET", "/v1/users/{id}", s.showUser, rights{narrowed, narrowed, never}},
		{"DELETE", "/v1/users/{id}", s.removeUser, admin},
		{"GET", "/v1/agents", s.listAgents, all(narrowed)},
		{"POST", "/v1/agents", s.addAgent, admin},
		{"GET", "/v1/agents/{key}", s.showAgent, all(sees)},
		{"PATCH", "/v1/agents/{key}", s.setAgent, rights{sees, never, never}},
		{"DELETE", "/v1/agents/{key}", s.removeAgent, admin},
		{"GET", "/v1/tokens", s.listTokens, all(narrowed)},
		{"POST", "/v1/tokens", s.createToken, admin},
		{"DELETE", "/v1/tokens/{id}", s.revokeToken, admin},
		{"GET", "/v1/grants", s.listGrants, rights{narrowed, narrowed, never}},
		{"POST", "/v1/grants", s.addGrant, rights{narrowed, narrowed, never}},
		{"DELETE", "/v1/grants/{id}", s.revokeGrant, rights{narrowed, narrowed, never}},
		{"GET", "/v1/projects", s.listProjects, rights{narrowed, narrowed, never}},
		{"POST", "/v1/projects", s.createProject, admin},
		{"GET", "/v1/projects/{slug}", s.showProject, rights{narrowed, narrowed, never}},
		{"PUT", "/v1/projects/{slug}/members", s.setMember, admin},
		{"PUT", "/v1/projects/{slug}/trust", s.setTrust, rights{narrowed, narrowed, never}},
		{"GET", "/v1/project/list", s.listPlaces, all(itself)},
		{"GET", "/v1/project", s.showPlace, all(itself)},
		{"PUT", "/v1/project", s.switchPlace, all(itself)},
		{"POST", "/v1/project", s.initPlace, all(itself)},
		{"GET", "/v1/journal", s.readJournal, all(itself)},
		{"POST", "/v1/journal", s.appendJournal, all(itself)},
		{"POST", "/v1/journal/archive", s.archiveJournal, all(itself)},
		{"GET", "/v1/inbox", s.readInbox, all(itself)},
		{"POST", "/v1/inbox", s.addInbox, all(itself)},
		{"POST", "/v1/inbox/close", s.closeInbox, all(itself)},
		{"POST", "/v1/decisions", s.addDecision, all(itself)},
		{"POST", "/v1/news", s.whatsNew, all(itself)},
		{"POST", "/v1/delegations", s.beginDelegation, all(itself)},
		{"GET", "/v1/delegations/changes", s.delegationChanges, all(itself)},
		{"GET", "/v1/mounts", s.listMounts, all(narrowed)},
		{"POST", "/v1/mounts", s.mount, admin},
		{"DELETE", "/v1/mounts", s.unmount, admin},
		{"POST", "/v1/mounts/handover", s.handOver, rights{sees, below, below}},
		{"POST", "/v1/runs", s.startRun, admin},
		{"DELETE", "/v1/runs/{id}", s.endRun, admin},
		{"GET", "/v1/quotas", s.listQuotas, all(itself)},
		{"PUT", "/v1/quotas", s.setQuota, all(itself)},
		{"GET", "/v1/retention", s.listRetention, admin},
		{"PUT", "/v1/retention", s.setRetention, admin},
		{"POST", "/v1/retention/collect", s.collectOld, admin},
		{"GET", "/v1/fs/stat", s.fsStat, all(itself)},
		{"GET", "/v1/fs/list", s.fsList, all(itself)},
		{"GET", "/v1/fs/content", s.fsRead, all(itself)},
		{"PUT", "/v1/fs/content", s.fsWrite, all(itself)},
		{"POST", "/v1/fs/edit", s.fsEdit, all(itself)},
		{"POST", "/v1/fs/search", s.fsSearch, all(itself)},
		{"POST", "/v1/fs/mkdir", s.fsMkdir, all(itself)},
		{"POST", "/v1/fs/move", s.fsMove, all(itself)},
		{"DELETE", "/v1/fs/node", s.fsRemove, all(itself)},
		{"POST", "/v1/import", s.treeImport, all(itself)},
		{"GET", "/v1/export", s.treeExport, all(itself)},
		{"GET", "/v1/items", s.listItems, all(itself)},
		{"GET", "/v1/items/value", s.readItem, all(itself)},
		{"PUT", "/v1/items/value", s.writeItem, all(itself)},
		{"DELETE", "/v1/items/value", s.deleteItem, all(itself)},
		{"POST", "/v1/items/publish", s.publishItem, all(itself)},
		{"GET", "/v1/fields", s.listFields, all(itself)},
		{"GET", "/v1/fields/value", s.readField, all(itself)},
		{"PUT", "/v1/fields/value", s.setField, all(itself)},
		{"GET", "/v1/context", s.showContext, rights{sees, itself, itself}},
		{"GET", "/v1/session", s.readSession, all(itself)},
		{"POST", "/v1/session", s.newSession, all(itself)},
		{"DELETE", "/v1/session", s.clearSession, all(itself)},
		{"POST", "/v1/session/messages", s.appendSession, all(itself)},
		{"GET", "/v1/workspaces", s.listWorkspaces, all(narrowed)},
		{"POST", "/v1/workspaces", s.createWorkspace, rights{narrowed, never, never}},
		{"POST", "/v1/collect", s.collectWorkspaces, rights{narrowed, never, never}},
		{"GET", "/v1/workspaces/{uuid}", s.showWorkspace, all(narrowed)},
		{"PATCH", "/v1/workspaces/{uuid}", s.setWorkspace, all(narrowed)},
		{"DELETE", "/v1/workspaces/{uuid}", s.deleteWorkspace, rights{narrowed, never, never}},
		{"GET", "/v1/devices", s.listDevices, rights{narrowed, never, never}},
		{"PUT", "/v1/devices", s.bindDevice, rights{narrowed, never, never}},
		{"DELETE", "/v1/devices", s.unbindDevice, rights{narrowed, never, never}},
		{"POST", "/v1/devices/resolve", s.resolveDevice, rights{narrowed, never, never}},
		{"GET", "/v1/config", s.showConfig, all(narrowed)},
		{"GET", "/v1/log", s.showLog, all(narrowed)},
		{"GET", "/v1/log/verify", s.verifyLog, rights{narrowed, never, never}},
		{"GET", "/v1/policy", s.showPolicy, rights{sees, itself, itself}},
		{"GET", "/v1/policy/settings", s.showSettings, admin},
		{"PUT", "/v1/policy/settings", s.setSettings, admin},
		{"GET", "/v1/policy/files", s.listPolicies, admin},
		{"PUT", "/v1/policy/files", s.loadPolicy, admin},
		{"DELETE", "/v1/policy/files", s.removePolicy, admin},
		{"PUT", "/v1/policy/names", s.denyName, rights{sees, never, never}},
		{"DELETE", "/v1/policy/names", s.undenyName, rights{sees, never, never}},
		{"POST", "/v1/policy/check", s.checkPolicy, admin},
		{"PUT", "/v1/policy/exceptions", s.allowName, admin},
		{"DELETE", "/v1/policy/exceptions", s.disallowName, admin},
		{"GET", "/v1/policy/explain", s.explain, rights{sees, itself, itself}},
	}
}

// router finds the handler of a request for who asks. A path that the asker may
// use no method of is answered as one that does not exist.
func (s *Server) router(routes []route, who func(rights) reach) http.Handler {
	mux := http.NewServeMux()
	allow := map[string][]string{}
	for _, r := range routes {
		reach := who(r.may)
		if reach == unset || reach == never {
			continue
		}
		allow[r.path] = append(allow[r.path], r.method)
		mux.HandleFunc(r.method+" "+r.path, s.answer(s.reaching(reach, r.do)))
	}
	for path, methods := range allow {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			writeError(w, http.StatusMethodNotAllowed, control.Errorf(control.KindInvalid,
				"%s: method %s is not one of %s", r.URL.Path, r.Method, strings.Join(methods, ", ")))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, control.Errorf(control.KindNotFound, "no such resource: %s", r.URL.Path))
	})
	return mux
}

// reaching lets an agent do what is within its reach. The administrator's
// requests pass.
func (s *Server) reaching(to reach, do func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		a := askerOf(r)
		if a.administrator() {
			return do(w, r)
		}
		a.reach = to
		r, err := s.narrow(r, a)
		if err != nil {
			return err
		}
		return do(w, r)
	}
}

// streams are the verbs that may go on for hours; what comes by
// agent.sock is else over in two minutes.
var streams = map[string]bool{
	"GET /v1/fs/content": true,
	"PUT /v1/fs/content": true,
	"POST /v1/fs/search": true,
	"DELETE /v1/fs/node": true, // with all that is in a directory
	"POST /v1/import":    true,
	"GET /v1/export":     true,
}

// whole checks that every route says what each role may: a row with a hole is
// refused to everybody, the administrator too.
func (r rights) whole() error {
	if r.orchestrator == unset || r.soul == unset || r.shared == unset {
		return fmt.Errorf("no right is said for a role")
	}
	return nil
}
