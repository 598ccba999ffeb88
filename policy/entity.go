package policy

import (
	"fmt"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
)

const (
	typeUser    = types.EntityType("User")
	typeAgent   = types.EntityType("Agent")
	typeProject = types.EntityType("Project")
	typeDevice  = types.EntityType("Device")
	typeGrant   = types.EntityType("Grant")
	typePlace   = types.EntityType("Place")
	typeAction  = types.EntityType("Action")
)

func uid(t types.EntityType, id string) types.EntityUID {
	return types.NewEntityUID(t, types.String(id))
}

// administrator is the agent that the one who runs the daemon acts as. Its key is
// none that an agent can have.
var administrator = Agent{Role: Orchestrator}

// world is the entities of one snapshot, built once.
type world struct {
	entities types.EntityMap
	above    map[string]types.EntityUIDSet // agent -> itself and its ancestors
	actions  [numActions]types.EntityUID
	contexts [numAccess]types.Record
	sets     *grantSets
}

// strangers stand in for owners that do not exist, so that rules are evaluated
// on them as on those that do and are hidden.
var strangers = map[types.EntityType]types.Entity{
	typeUser:    {},
	typeAgent:   {Attributes: types.NewRecord(types.RecordMap{"role": types.String(Soul), "access": types.String(ReadWrite.String()), "user": uid(typeUser, "")})},
	typeProject: {Attributes: types.NewRecord(types.RecordMap{"members": types.NewSet(), "users": types.NewSet()})},
}

// unknownOwner is the error for a place whose owner the facts do not know.
type unknownOwner struct{ attr, owner string }

func (u *unknownOwner) Error() string { return fmt.Sprintf("unknown %s %q", u.attr, u.owner) }

func newWorld(f *Facts, sets *grantSets) *world {
	w := &world{sets: sets, entities: types.EntityMap{}, above: map[string]types.EntityUIDSet{}}
	put := func(e types.Entity) { w.entities[e.UID] = e }
	for id := range f.Users {
		put(types.Entity{UID: uid(typeUser, id)})
	}
	for key, a := range f.Agents {
		up := f.ancestors(key)
		parents := make([]types.EntityUID, 0, len(up)+1)
		for _, p := range up {
			parents = append(parents, uid(typeAgent, p))
		}
		put(types.Entity{UID: uid(typeAgent, key), Parents: types.NewEntityUIDSet(parents...), Attributes: agentRecord(a)})
		w.above[key] = types.NewEntityUIDSet(append(parents, uid(typeAgent, key))...)
	}
	put(types.Entity{UID: uid(typeAgent, administrator.Key), Attributes: agentRecord(administrator)})
	for slug, members := range f.Projects {
		put(projectEntity(f, slug, members))
	}
	for _, g := range f.Grants {
		put(types.Entity{UID: uid(typeGrant, g.ID)})
	}
	for a := range numActions {
		group := "observe"
		if a.Mutates() {
			group = "mutate"
		}
		w.actions[a] = uid(typeAction, a.String())
		put(types.Entity{UID: w.actions[a], Parents: types.NewEntityUIDSet(uid(typeAction, group))})
	}
	for m := range numAccess {
		w.contexts[m] = types.NewRecord(types.RecordMap{"mount": types.String(m.String())})
	}
	return w
}

func agentRecord(a Agent) types.Record {
	m := types.RecordMap{"role": types.String(a.Role), "access": types.String(a.Access.String())}
	if a.User != "" {
		m["user"] = uid(typeUser, a.User)
	}
	if a.OnlyUser != "" {
		m["only"] = uid(typeUser, a.OnlyUser)
	}
	return types.NewRecord(m)
}

func projectEntity(f *Facts, slug string, members map[string]string) types.Entity {
	var agents, users []types.Value
	for key := range members {
		agents = append(agents, uid(typeAgent, key))
		if a := f.Agents[key]; a.Role == Soul && a.User != "" {
			users = append(users, uid(typeUser, a.User))
		}
	}
	return types.Entity{UID: uid(typeProject, slug), Attributes: types.NewRecord(types.RecordMap{
		"members": types.NewSet(agents...), "users": types.NewSet(users...),
	})}
}

// placeUID is the one Place of a request; its identity tells nothing.
var placeUID = uid(typePlace, "resource")

// place builds the Place a Resource is. An owner the facts do not know is an
// error, which denies; the Place is built all the same, so that asking about
// what does not exist costs what asking about what is hidden does.
func (w *world) place(r Resource) (types.Entity, error) {
	m := types.RecordMap{"zone": types.String(r.Zone.String()), "denied": types.Boolean(r.Denied), "barred": types.Boolean(r.Barred)}
	e := types.Entity{UID: placeUID}
	own := func(attr types.String, t types.EntityType) error {
		owner := uid(t, r.Owner)
		m[attr] = owner
		e.Parents = types.NewEntityUIDSet(owner)
		if _, known := w.entities[owner]; !known && t != typeDevice {
			return &unknownOwner{string(attr), r.Owner}
		}
		return nil
	}
	var err error
	switch r.Zone {
	case ZoneRoot:
		m["directory"] = types.String(r.Owner)
	case ZoneHomeFixed, ZoneHomeFree, ZoneHomeTree, ZoneHomeCaches, ZoneWorkspace, ZoneScratch:
		if err = own("agent", typeAgent); err == nil {
			e.Parents = w.above[r.Owner]
		}
	case ZoneUser:
		err = own("user", typeUser)
	case ZoneProject:
		err = own("project", typeProject)
	case ZoneDevice:
		err = own("device", typeDevice)
	default:
		err = fmt.Errorf("unknown zone %d", r.Zone)
	}
	if r.Grants != 0 {
		e.Parents = w.granted(e.Parents, r.Grants)
	}
	e.Attributes = types.NewRecord(m)
	return e, err
}

// granted adds the grants of a set that are in force to a place's parents.
func (w *world) granted(parents types.EntityUIDSet, set uint32) types.EntityUIDSet {
	all := parents.Slice()
	for _, id := range w.sets.get(set) {
		if g := uid(typeGrant, id); w.has(g) {
			all = append(all, g)
		}
	}
	return types.NewEntityUIDSet(all...)
}

func (w *world) has(id types.EntityUID) bool {
	_, ok := w.entities[id]
	return ok
}

// getter answers cedar for one request about the place of owner.
type getter struct {
	w     *world
	place types.Entity
	owner string
}

var _ types.EntityGetter = (*getter)(nil)

func (w *world) getter(place types.Entity, r Resource) *getter { return &getter{w, place, r.Owner} }

// Get finds an entity of the snapshot, the request's place, or who stands in
// for its owner.
func (g *getter) Get(id types.EntityUID) (types.Entity, bool) {
	if id == placeUID {
		return g.place, true
	}
	e, ok := g.w.entities[id]
	if !ok && string(id.ID) == g.owner {
		if e, ok = strangers[id.Type]; ok {
			e.UID = id
		}
	}
	return e, ok
}

func (w *world) request(agent string, mount AccessMode, a Action) cedar.Request {
	return cedar.Request{Principal: uid(typeAgent, agent), Action: w.actions[a], Resource: placeUID, Context: w.contexts[mount]}
}
