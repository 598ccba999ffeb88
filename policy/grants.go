package policy

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Grant is a permission on one subtree for one agent. It is in force for as long
// as it is among the facts: whoever publishes them takes it out when it expires.
type Grant struct {
	ID      string
	Agent   string
	Path    string    // clean tree path, in a volume; what stands there may change
	Right   string    // "read" or "write"
	Expires time.Time // zero: it has no end, and is of the agent's mode
}

// maxGrantID bounds the id of a grant, in bytes.
const maxGrantID = 80

func (g Grant) validate(f *Facts) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("grant %q: "+format, append([]any{g.ID}, args...)...)
	}
	agent, known := f.Agents[g.Agent]
	switch {
	case !validGrantID(g.ID):
		return bad("not a valid id")
	case !known:
		return bad("unknown agent %q", g.Agent)
	case agent.Role == Shared:
		return bad("agent %q is shared: it sees nothing but its own trees", g.Agent)
	case g.Right != "read" && g.Right != "write":
		return bad("right %q is not read or write", g.Right)
	}
	if err := CheckTreePath(g.Path); err != nil {
		return bad("%w", err)
	}
	if _, _, ok := PlaceOf(g.Path); !ok {
		return bad("%s stands above the trees that can be granted", g.Path)
	}
	return nil
}

// validGrantID: the letters of a key, but more of them.
func validGrantID(id string) bool {
	return len(id) <= maxGrantID && ValidKey(id[:min(len(id), 63)]) && (len(id) < 63 || ValidKey("x"+id[63:]))
}

// CheckTreePath refuses what is no clean absolute tree path in UTF-8.
func CheckTreePath(p string) error {
	if !strings.HasPrefix(p, "/") || path.Clean(p) != p || strings.ContainsRune(p, 0) {
		return fmt.Errorf("%q is not a clean tree path", p)
	}
	if !utf8.ValidString(p) {
		return errors.New("the path is not UTF-8")
	}
	return nil
}

// PlaceOf finds the volume that a clean tree path is in, as the place of its
// root directory, and the path inside it ("": the root itself). ok is false for
// the directories above the volumes.
func PlaceOf(treePath string) (vol Resource, rel string, ok bool) {
	part := strings.SplitN(strings.TrimPrefix(treePath, "/"), "/", 3)
	if len(part) < 2 || part[1] == "" {
		return Resource{}, "", false
	}
	if len(part) == 3 {
		rel = part[2]
	}
	vol.Owner = part[1]
	switch part[0] {
	case "agents":
		vol.Zone = ZoneHomeFixed
		top, rest, _ := strings.Cut(rel, "/")
		switch top {
		case "workspace":
			vol.Zone, rel = ZoneWorkspace, rest
		case "scratch":
			vol.Zone, rel = ZoneScratch, rest
		}
	case "users":
		vol.Zone = ZoneUser
	case "projects":
		vol.Zone = ZoneProject
	case "workspaces":
		vol.Zone = ZoneDevice
	default:
		return Resource{}, "", false
	}
	return vol, rel, true
}

// Lead is a name on the way to something granted.
type Lead struct {
	Name  string
	Final bool     // what is granted stands under this very name
	Place Resource // of what is granted
}

// VolumeGrants are one agent's grants as they touch one volume. nil has none.
type VolumeGrants struct {
	sets  *grantSets
	ids   string // what they are; equal for equal grants
	whole uint32
	at    map[string]uint32 // path in the volume -> set of those at or above it; not ""
	leads map[string][]Lead // path in the volume, "" for its root -> names that lead on
}

// Whole is the set of grants that cover all of the volume.
func (g *VolumeGrants) Whole() uint32 {
	if g == nil {
		return 0
	}
	return g.whole
}

// Partial tells whether a part of the volume is granted, or something below it
// in another volume.
func (g *VolumeGrants) Partial() bool { return g != nil && len(g.leads) > 0 }

// Signature is equal for equal grants.
func (g *VolumeGrants) Signature() string {
	if g == nil {
		return ""
	}
	return g.ids
}

// At is the set of grants that cover a path in the volume.
func (g *VolumeGrants) At(rel string) uint32 {
	if g == nil {
		return 0
	}
	for rel != "" && len(g.at) > 0 {
		if set, ok := g.at[rel]; ok {
			return set
		}
		rel = rel[:max(strings.LastIndexByte(rel, '/'), 0)]
	}
	return g.whole
}

// Union is the set of grants that are in one of two sets.
func (g *VolumeGrants) Union(a, b uint32) uint32 {
	if a == b || b == 0 {
		return a
	}
	if a == 0 {
		return b
	}
	return g.sets.intern(append(slices.Clone(g.sets.get(a)), g.sets.get(b)...))
}

// Leads gives the names in the directory at rel that lead to something granted
// below it.
func (g *VolumeGrants) Leads(rel string) []Lead {
	if g == nil {
		return nil
	}
	return g.leads[rel]
}

// agentGrants are one agent's grants.
type agentGrants struct {
	vols map[Resource]*VolumeGrants // by the place of the volume's root
	tops map[string][]Lead          // "agents", ... -> names that lead on
}

// Grants gives p's grants that touch the volume whose root has place vol.
func (p *Principal) Grants(vol Resource) *VolumeGrants {
	if p == nil || p.grants == nil {
		return nil
	}
	return p.grants.vols[Resource{Zone: vol.Zone, Owner: vol.Owner}]
}

// HasGrants tells whether p has any grant.
func (p *Principal) HasGrants() bool { return p != nil && p.grants != nil }

// AnyGrants tells whether anybody has a grant on a part of the volume whose root
// has place vol.
func (p *Principal) AnyGrants(vol Resource) bool {
	return p != nil && p.snap.granted[Resource{Zone: vol.Zone, Owner: vol.Owner}]
}

// compileGrants sorts the grants by agent and volume. granted are the volumes of
// which anybody has a part.
func compileGrants(f *Facts, sets *grantSets) (byAgent map[string]*agentGrants, granted map[Resource]bool) {
	byAgent, granted = map[string]*agentGrants{}, map[Resource]bool{}
	exact := map[string]map[Resource]map[string][]string{} // agent -> volume -> path -> ids
	for _, g := range f.Grants {
		vol, rel, _ := PlaceOf(g.Path)
		if exact[g.Agent] == nil {
			exact[g.Agent] = map[Resource]map[string][]string{}
		}
		add := func(v Resource) {
			if exact[g.Agent][v] == nil {
				exact[g.Agent][v] = map[string][]string{}
			}
			exact[g.Agent][v][rel] = append(exact[g.Agent][v][rel], g.ID)
		}
		add(vol)
		if rel == "" && vol.Zone == ZoneHomeFixed {
			add(Resource{Zone: ZoneWorkspace, Owner: vol.Owner})
			add(Resource{Zone: ZoneScratch, Owner: vol.Owner})
		}
		if rel != "" {
			granted[vol] = true
		}
	}
	for agent, vols := range exact {
		ag := &agentGrants{vols: map[Resource]*VolumeGrants{}, tops: map[string][]Lead{}}
		for vol, paths := range vols {
			ag.vols[vol] = newVolumeGrants(sets, paths)
		}
		byAgent[agent] = ag
	}
	for _, g := range f.Grants {
		byAgent[g.Agent].lead(g, sets)
	}
	return byAgent, granted
}

func newVolumeGrants(sets *grantSets, paths map[string][]string) *VolumeGrants {
	v := &VolumeGrants{sets: sets, at: map[string]uint32{}, leads: map[string][]Lead{}}
	var ids strings.Builder
	for _, rel := range slices.Sorted(maps.Keys(paths)) {
		set := paths[""]
		for at := 0; at <= len(rel) && rel != ""; at++ {
			if at == len(rel) || rel[at] == '/' {
				set = append(slices.Clone(set), paths[rel[:at]]...)
			}
		}
		fmt.Fprintf(&ids, "%q%q", rel, slices.Sorted(slices.Values(set)))
		if rel == "" {
			v.whole = sets.intern(set)
		} else {
			v.at[rel] = sets.intern(set)
		}
	}
	v.ids = ids.String()
	return v
}

// lead notes the names that lead to g, in every directory above it.
func (ag *agentGrants) lead(g Grant, sets *grantSets) {
	vol, rel, _ := PlaceOf(g.Path)
	place := vol
	if vol.Zone == ZoneHomeFixed && rel != "" {
		top, _, _ := strings.Cut(rel, "/")
		place.Zone = HomeZone(top)
	}
	place.Grants = ag.vols[vol].At(rel)
	for at, name := "", ""; rel != ""; {
		name, rel, _ = strings.Cut(rel, "/")
		ag.vols[vol].addLead(at, Lead{Name: name, Final: rel == "", Place: place})
		at = strings.TrimPrefix(at+"/"+name, "/")
	}
	full := strings.SplitN(g.Path, "/", 5) // "", top, owner, ...
	ag.tops[full[1]] = append(ag.tops[full[1]], Lead{Name: full[2], Final: len(full) == 3, Place: place})
	if vol.Zone == ZoneWorkspace || vol.Zone == ZoneScratch {
		home := Resource{Zone: ZoneHomeFixed, Owner: vol.Owner}
		if ag.vols[home] == nil {
			ag.vols[home] = newVolumeGrants(sets, nil)
		}
		ag.vols[home].addLead("", Lead{Name: full[3], Final: len(full) == 4, Place: place})
	}
}

func (g *VolumeGrants) addLead(at string, l Lead) {
	g.leads[at] = append(g.leads[at], l)
	g.ids += fmt.Sprintf("%q%q", at, l.Name)
}

// grantSets gives numbers to the sets of grants of one epoch. No other epoch uses
// them: there, a set by that number has none.
type grantSets struct {
	last *atomic.Uint32 // that any epoch used

	mu    sync.RWMutex
	byKey map[string]uint32
	byID  map[uint32][]string
}

func newGrantSets(last *atomic.Uint32) *grantSets {
	return &grantSets{last: last, byKey: map[string]uint32{}, byID: map[uint32][]string{}}
}

func (s *grantSets) get(id uint32) []string {
	if id == 0 {
		return nil
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byID[id]
}

// intern gives the number of a set; 0 for none.
func (s *grantSets) intern(ids []string) uint32 {
	if len(ids) == 0 {
		return 0
	}
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	key := strings.Join(ids, " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	if id := s.byKey[key]; id != 0 {
		return id
	}
	id := s.last.Add(1)
	s.byKey[key], s.byID[id] = id, ids
	return id
}

// writeGrant writes the Cedar of one grant.
func writeGrant(b *strings.Builder, g Grant) {
	reason := quote(fmt.Sprintf("granted on %s until %s", g.Path, g.Expires.UTC().Format(time.RFC3339)))
	if g.Expires.IsZero() {
		reason = quote("the agent's mode gives it " + g.Path)
	}
	fmt.Fprintf(b, `
@id("grant/%[1]s")
@reason(%[3]s)
permit (principal == Agent::"%[2]s", action in Action::"observe", resource in Grant::"%[1]s");
`, g.ID, g.Agent, reason)
	if g.Right != "write" {
		return
	}
	fmt.Fprintf(b, `
@id("grant/%[1]s/write")
@reason(%[3]s)
permit (principal == Agent::"%[2]s", action in Action::"mutate", resource in Grant::"%[1]s")
unless { ["fixed", "session"].contains(resource.zone) };

@id("grant/%[1]s/session")
@reason(%[3]s)
permit (principal == Agent::"%[2]s", action == Action::"write", resource in Grant::"%[1]s")
when { resource.zone == "session" };
`, g.ID, g.Agent, reason)
}

// Tops gives the names in a directory of the root volume ("agents", ...) that
// lead to something granted to p.
func (p *Principal) Tops(dir string) []Lead {
	if !p.HasGrants() {
		return nil
	}
	return p.grants.tops[dir]
}
