package policy

import "slices"

// Everyone in Facts.Trust is each member of the project.
const Everyone = "*"

// Trusts reports whether agent takes the files that other made in a project for its own:
// the project's members were told to trust each other, or agent was told to trust them. An
// orchestrator's files are trusted with the members'.
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

// Commands reports whether other is above agent: an orchestrator, or one of its ancestors. What
// those change in agent's files they could also have made agent do.
func (f *Facts) Commands(other, agent string) bool {
	return f.Agents[other].Role == Orchestrator || slices.Contains(f.ancestors(agent), other)
}
