package policy

import "slices"

// Everyone in Facts.Trust is each member of the project.
const Everyone = "*"

// Trusts reports whether agent trusts the files that other made in a project: trust is
// set for all members, or for agent. It includes an orchestrator's files.
func (f *Facts) Trusts(slug, agent, other string) bool {
	members := f.Projects[slug]
	_, member := members[agent]
	list := f.Trust[slug]
	if !slices.Contains(list, agent) && (!member || !slices.Contains(list, Everyone)) {
		return false
	}
	_, also := members[other]
	return also || f.Agents[other].Role == Orchestrator
}

// Commands reports whether other is above agent: an orchestrator, or one of its ancestors. Such
// an agent could also make agent itself do what it does to agent's files.
func (f *Facts) Commands(other, agent string) bool {
	return f.Agents[other].Role == Orchestrator || slices.Contains(f.ancestors(agent), other)
}
