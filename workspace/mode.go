package workspace

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// The modes in which an agent works under its parent. A mapped one is followed by
// what is mapped, as PATH:ro or PATH:rw, parted by blanks.
const (
	ModeOwn       = "own"        // its own trees; what "" means
	ModeInherit   = "inherit"    // its parent's workspace too, as the parent may use it
	ModeInheritRO = "inherit-ro" // its parent's workspace too, to read
	ModeMapped    = "mapped"     // what is named
	ModeHomeOnly  = "home-only"  // its home, read-only, and its scratch
)

// maxMapped bounds what one agent is given by its mode.
const maxMapped = 32

// mapping is one PATH:ro or PATH:rw of a mapped mode.
type mapping struct{ path, right string }

// parseMode reads a mode. Invalid: it is none.
func parseMode(s string) (mode string, maps []mapping, err error) {
	words := strings.Fields(s)
	if len(words) == 0 {
		return ModeOwn, nil, nil
	}
	mode = words[0]
	switch {
	case mode == ModeMapped && len(words) > 1 && len(words) <= maxMapped+1:
	case slices.Contains([]string{ModeOwn, ModeInherit, ModeInheritRO, ModeHomeOnly}, mode) && len(words) == 1:
		return mode, nil, nil
	default:
		return "", nil, fail(backend.Invalid, "mode %q is not one of own, inherit, inherit-ro, home-only, mapped PATH:ro|rw … (%d at most)", s, maxMapped)
	}
	for _, w := range words[1:] {
		at := strings.LastIndexByte(w, ':')
		right, known := map[string]string{"ro": "read", "rw": "write"}[w[at+1:]]
		if at < 0 || !known {
			return "", nil, fail(backend.Invalid, "%q is not PATH:ro or PATH:rw", w)
		}
		m := mapping{path.Clean(w[:at]), right}
		if err := policy.CheckTreePath(m.path); err != nil {
			return "", nil, fail(backend.Invalid, "%v", err)
		}
		if _, _, ok := policy.PlaceOf(m.path); !ok {
			return "", nil, fail(backend.Invalid, "%s stands above the trees of agents, users and projects; map one of these, or what is in it", m.path)
		}
		maps = append(maps, m)
	}
	return mode, maps, nil
}

// checkMode judges a record's. mu held.
func (r *Registry) checkMode(a *Agent) error {
	mode, _, err := parseMode(a.Mode)
	switch {
	case err != nil:
		return err
	case mode != ModeOwn && a.Role != policy.Soul:
		return fail(backend.Invalid, "mode %s is for souls, and %q is a %s", mode, a.Key, a.Role)
	case (mode == ModeInherit || mode == ModeInheritRO) && a.Parent == "":
		return fail(backend.Invalid, "mode %s needs a parent, and %q has none", mode, a.Key)
	}
	return nil
}

// modeGrants are what an agent's mode gives it, as grants without an end. mu held.
func (r *Registry) modeGrants(a *Agent) (out []policy.Grant) {
	mode, mapped, err := parseMode(a.Mode)
	if err != nil {
		return nil
	}
	if p := r.agents[a.Parent]; p != nil && (mode == ModeInherit || mode == ModeInheritRO) {
		right := "write"
		if mode == ModeInheritRO || p.Access == policy.ReadOnly.String() {
			right = "read"
		}
		if p.Access != policy.NoAccess.String() {
			mapped = []mapping{{"/agents/" + p.Key + "/workspace", right}}
		}
	}
	for i, m := range mapped {
		out = append(out, policy.Grant{ID: fmt.Sprintf("mode-%d-%s", i, a.Key), Agent: a.Key, Path: m.path, Right: m.right})
	}
	return out
}

// withoutMapped takes what is at top or below it out of the modes of all agents:
// the agents that change, and the records that say so. change held.
func (r *Registry) withoutMapped(top string) (changed map[string]*Agent, records map[string]any) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	changed, records = map[string]*Agent{}, map[string]any{}
	for key, a := range maps.Clone(r.agents) {
		_, mapped, err := parseMode(a.Mode)
		left := slices.DeleteFunc(slices.Clone(mapped), func(m mapping) bool { return m.path == top || strings.HasPrefix(m.path, top+"/") })
		if err != nil || len(left) == len(mapped) {
			continue
		}
		next := *a
		next.Mode = ""
		if len(left) > 0 {
			next.Mode = ModeMapped
		}
		for _, m := range left {
			next.Mode += " " + m.path + ":" + map[string]string{"read": "ro", "write": "rw"}[m.right]
		}
		changed[key] = &next
		records[string(recordKey(recAgent, key))] = &next
	}
	return changed, records
}

// Mapped is a directory that an agent's mode gives it.
type Mapped struct {
	Path  string // tree path
	Write bool
}

// RunMode tells how the agent's commands are run unless one is asked to be run
// otherwise: in its mode, which also gives it the rights that the mode needs.
func (a *Agent) RunMode() (mode string, mapped []Mapped, err error) {
	mode, maps, err := parseMode(a.Mode)
	for _, m := range maps {
		mapped = append(mapped, Mapped{Path: m.path, Write: m.right == "write"})
	}
	return mode, mapped, err
}
