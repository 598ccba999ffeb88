package policy

// Zone tells places apart that have different rules.
type Zone uint8

// The zones. Those of a home are told by the first component below it.
const (
	ZoneRoot       Zone = iota // directories above the volumes; Owner names which: "" is "/", else "agents", "users", "projects", "workspaces"
	ZoneHomeFixed              // the home directory itself, soul.md, config.toml, fields.json, skills and whatever else stands in it
	ZoneHomeFree               // session.md
	ZoneHomeTree               // notes, memory, mcp and below
	ZoneHomeCaches             // caches and below: free for an agent that is read-only
	ZoneWorkspace
	ZoneScratch
	ZoneUser
	ZoneProject
	ZoneDevice
	numZones
)

var zoneText = [numZones]string{"root", "fixed", "session", "tree", "caches", "workspace", "scratch", "user", "project", "device"}

// String gives the zone's name in Cedar.
func (z Zone) String() string {
	if z < numZones {
		return zoneText[z]
	}
	return "unknown"
}

// HomeZone is the zone of what stands under the name top in a home; "" is the
// home itself.
func HomeZone(top string) Zone {
	switch top {
	case "session.md":
		return ZoneHomeFree
	case "notes", "memory", "mcp":
		return ZoneHomeTree
	case "caches":
		return ZoneHomeCaches
	}
	return ZoneHomeFixed
}

// Resource is a place, as far as policies may tell places apart.
type Resource struct {
	Zone   Zone
	Owner  string // agent key, user id, project slug, uuid; in ZoneRoot the directory
	Grants uint32 // the set of the principal's grants that cover it (VolumeGrants.At); 0: none
	Denied bool   // the name deny-list holds for the file, or for the name it is to get
	Barred bool   // the principal's own one does
}

// Action is one thing an agent may be allowed to do at a place.
type Action uint8

// The actions. See and Read observe, the others mutate.
const (
	See    Action = iota // look up, stat, list
	Read                 // a file's data, a link's target, xattr values
	Write                // data, size, attributes, xattrs, times
	Create               // a new name in this directory
	Remove               // a name from this directory
	Move                 // this file gets another name instead
	Link                 // this file gets another name besides
	numActions
)

var actionText = [numActions]string{"see", "read", "write", "create", "remove", "move", "link"}

// String gives the action's name in Cedar.
func (a Action) String() string {
	if a < numActions {
		return actionText[a]
	}
	return "unknown"
}

// Mutates tells whether a changes anything.
func (a Action) Mutates() bool { return a > Read }

// ParseAction reads what String gives.
func ParseAction(s string) (Action, bool) {
	for i, t := range actionText {
		if s == t {
			return Action(i), true
		}
	}
	return 0, false
}
