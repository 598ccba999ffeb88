package workspace

import (
	"context"
	"maps"
	"slices"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// Projects lists all projects by slug.
func (r *Registry) Projects() []Project {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return sorted(r.projects, nil)
}

// Project gives one project. NotFound; Invalid: not a slug at all.
func (r *Registry) Project(slug string) (Project, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if !policy.ValidKey(slug) {
		return Project{}, badKey("project", slug)
	}
	if p := r.projects[slug]; p != nil {
		return *p, nil
	}
	return Project{}, NoProject(slug)
}

// NoProject is the error for a slug that is no project's, or none's that whoever
// asks may know of: the words are the same.
func NoProject(slug string) error { return fail(backend.NotFound, "no project %q", slug) }

// CreateProject makes a project with the volume at /projects/<slug>. Exist:
// there is one; NotFound: a member that is no agent; Invalid: one that is shared.
func (r *Registry) CreateProject(ctx context.Context, slug string, members map[string]string) (Project, error) {
	r.change.Lock()
	defer r.change.Unlock()
	if !policy.ValidKey(slug) {
		return Project{}, badKey("project", slug)
	}
	r.mu.RLock()
	old := r.projects[slug]
	r.mu.RUnlock()
	if old != nil {
		return Project{}, fail(backend.Exist, "there is a project %q already", slug)
	}
	for key, right := range members {
		if err := r.checkMember(key, right); err != nil {
			return Project{}, err
		}
	}
	p := &Project{Slug: slug, Members: maps.Clone(members), Created: r.now().UTC()}
	if p.Members == nil {
		p.Members = map[string]string{}
	}
	err := r.create(ctx, string(recordKey(recProject, slug)), p, projectVolumes(slug),
		func() { r.projects[slug] = p }, func() { delete(r.projects, slug) })
	if err != nil {
		return Project{}, err
	}
	r.log.Info("project created", "project", slug)
	return *p, nil
}

// SetMember gives an agent the right read or write on a project, or with ""
// takes it away. It holds in every mount when it returns.
func (r *Registry) SetMember(ctx context.Context, slug, agent, right string) (Project, error) {
	r.change.Lock()
	defer r.change.Unlock()
	p, err := r.Project(slug)
	if err != nil {
		return Project{}, err
	}
	next := p
	next.Members = maps.Clone(p.Members)
	if right == "" {
		delete(next.Members, agent)
		next.Trust = slices.DeleteFunc(slices.Clone(p.Trust), func(key string) bool { return key == agent })
	} else {
		if err := r.checkMember(agent, right); err != nil {
			return Project{}, err
		}
		next.Members[agent] = right
	}
	err = r.replaceProject(ctx, &p, &next)
	return next, err
}

// SetTrust sets whether an agent trusts the files that a project's members make there. The agent
// policy.Everyone stands for each member. The change holds in every mount when it returns.
func (r *Registry) SetTrust(ctx context.Context, slug, agent string, on bool) (Project, error) {
	r.change.Lock()
	defer r.change.Unlock()
	p, err := r.Project(slug)
	if err != nil {
		return Project{}, err
	}
	if agent != policy.Everyone {
		a, err := r.Agent(agent)
		if err != nil {
			return Project{}, err
		}
		if p.Members[agent] == "" && a.Role != policy.Orchestrator {
			return Project{}, fail(backend.Invalid, "agent %q is no member of project %q; `warren project member %s %s` makes it one", agent, slug, slug, agent)
		}
	}
	next := p
	next.Trust = slices.DeleteFunc(slices.Clone(p.Trust), func(key string) bool { return key == agent })
	if on {
		next.Trust = append(next.Trust, agent)
		slices.Sort(next.Trust)
	}
	err = r.replaceProject(ctx, &p, &next)
	return next, err
}

// replaceProject puts next in the place of the project p, everywhere. change held.
func (r *Registry) replaceProject(ctx context.Context, p, next *Project) error {
	key := string(recordKey(recProject, p.Slug))
	return r.replace(ctx, map[string]any{key: next}, map[string]any{key: p},
		func() { r.projects[p.Slug] = next }, func() { r.projects[p.Slug] = p })
}

func (r *Registry) checkMember(key, right string) error {
	if right != "read" && right != "write" {
		return fail(backend.Invalid, "right %q is not read or write", right)
	}
	a, err := r.Agent(key)
	if err == nil && a.Role == policy.Shared {
		err = fail(backend.Invalid, "agent %q is shared: it sees nothing but its own tree, so it can be no member of a project", key)
	}
	return err
}
