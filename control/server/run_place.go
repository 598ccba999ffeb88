package server

import (
	"crypto/rand"
	"encoding/hex"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// runPlace is where a command of one agent finds itself: tree paths.
type runPlace struct {
	work  string            // where it starts
	home  string            // its HOME
	parts []control.RunPart // what it sees of the view; nil: all
}

// fresh is the project name that makes one that was not there.
const fresh = "-"

// slug is what the name of a new project looks like.
var slug = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// readyRun makes the directories that a command has as home, /tmp and project,
// and finds out what it is to see. Nothing here gives the agent a right that it
// has not: a path that its view does not have is an error.
func (s *Server) readyRun(a workspace.Agent, c control.RunSpec, uid, gid uint32) (runPlace, error) {
	home := "/agents/" + a.Key
	p := runPlace{work: home + "/workspace", home: home + "/caches/home"}
	if c.Mode == "" {
		if err := asItsMode(a, &c); err != nil {
			return p, err
		}
	}
	v, err := s.Space.Open(view.Options{Agent: a.Key, UID: uid, GID: gid})
	if err != nil {
		return p, err
	}
	defer v.Close()
	narrow := c.Mode == "home-only" || c.Mode == "mapped"
	if narrow {
		p.work, p.home = home+"/scratch", home+"/scratch/home"
		p.parts = []control.RunPart{{Path: home}, {Path: home + "/scratch", Write: true}}
	}
	if err := readyHome(v, a, p.home); err != nil {
		return p, err
	}
	if len(c.Map) > 0 && c.Mode != "mapped" {
		return p, invalid("paths to map are for the mode mapped")
	}
	switch c.Mode {
	case "", "own", "home-only":
	case "inherit", "inherit-ro":
		err = p.inherit(v, a, c.Mode == "inherit-ro")
	case "mapped":
		err = p.mapped(v, a, c.Map)
	default:
		err = invalid("mode %q is not own, inherit, inherit-ro, mapped or home-only", c.Mode)
	}
	if err == nil && c.Project != "" {
		err = p.project(v, a, c.Project)
	}
	return p, err
}

// asItsMode lets the agent's own mode say how a command is run that was asked for
// in none. Paths to map that were named stand in place of the mode's.
func asItsMode(a workspace.Agent, c *control.RunSpec) error {
	if len(c.Map) > 0 {
		c.Mode = workspace.ModeMapped
		return nil
	}
	mode, mapped, err := a.RunMode()
	if err != nil {
		return err
	}
	c.Mode = mode
	for _, m := range mapped {
		c.Map = append(c.Map, control.RunPart{Path: m.Path, Write: m.Write})
	}
	return nil
}

// inherit makes a command work in the workspace of its agent's parent, as far as
// the agent has rights there: what a grant gives, for one.
func (p *runPlace) inherit(v *view.View, a workspace.Agent, readOnly bool) error {
	if a.Parent == "" {
		return invalid("agent %q has no parent whose workspace it could work in", a.Key)
	}
	p.work = "/agents/" + a.Parent + "/workspace"
	at, err := v.Find(p.work, false)
	if err != nil || !at.Attr.IsDir() {
		return failf(backend.Denied, "agent %q does not see the workspace of its parent %q: to work there it needs a grant, "+
			"as by `warren grant %s %s write --ttl 2h`", a.Key, a.Parent, a.Key, p.work)
	}
	if readOnly {
		p.parts = []control.RunPart{{Path: "/", Write: true}, {Path: p.work}}
	}
	return nil
}

// mapped adds the paths that are asked for.
func (p *runPlace) mapped(v *view.View, a workspace.Agent, paths []control.RunPart) error {
	if len(paths) == 0 {
		return invalid("the mode mapped needs paths")
	}
	for _, m := range paths {
		at, err := v.Find(m.Path, false)
		switch {
		case err != nil:
			return failf(backend.KindOf(err), "agent %q does not see %s: %w", a.Key, m.Path, err)
		case at.Path != path.Clean(m.Path):
			return invalid("%s leads over symbolic links to %s; map that", m.Path, at.Path)
		case !at.Attr.IsDir():
			return invalid("%s is no directory", m.Path)
		case at.Path == "/" || slices.ContainsFunc(p.parts, func(q control.RunPart) bool { return q.Path == at.Path && q.Write }):
			return invalid("%s cannot be mapped", at.Path)
		}
		p.parts = slices.DeleteFunc(p.parts, func(q control.RunPart) bool { return q.Path == at.Path })
		p.parts = append(p.parts, control.RunPart{Path: at.Path, Write: m.Write})
	}
	slices.SortFunc(p.parts, func(x, y control.RunPart) int { return strings.Compare(x.Path, y.Path) }) // parents first
	return nil
}

// project makes the command start in a project: /projects/NAME, one that is
// shared, or NAME, a directory of where it would start else, which is made if it
// is not there.
func (p *runPlace) project(v *view.View, a workspace.Agent, name string) error {
	if shared, ok := strings.CutPrefix(name, "/projects/"); ok {
		at, err := v.Find(name, false)
		if err != nil || !slug.MatchString(shared) || !at.Attr.IsDir() {
			return failf(backend.NotFound, "agent %q sees no project %q", a.Key, name)
		}
		p.work = at.Path
		return nil
	}
	if strings.HasPrefix(p.work, "/agents/"+a.Key+"/scratch") {
		p.work = "/agents/" + a.Key + "/workspace"
	}
	if name == fresh {
		var b [3]byte
		if _, err := rand.Read(b[:]); err != nil {
			return err
		}
		name = time.Now().UTC().Format("p-20060102-") + hex.EncodeToString(b[:])
	}
	if name == "." || name == ".." || strings.Contains(name, "/") {
		return invalid("project %q is no name: name a directory of the workspace, or /projects/NAME", name)
	}
	dir := p.work + "/" + name
	at, err := v.Find(dir, false)
	switch {
	case err == nil && at.Attr.IsDir():
	case err == nil:
		return failf(backend.NotDir, "%s is no directory, so no project", dir)
	case backend.KindOf(err) != backend.NotFound:
		return err
	case !slug.MatchString(name):
		return invalid("a new project's name has 1 to 63 of a-z, 0-9, _ and -, and begins with a letter or digit; %q is none", name)
	default:
		if err := v.MkdirAll(dir, 0o755); err != nil {
			return failf(backend.KindOf(err), "agent %q cannot make the project %s: %w", a.Key, dir, err)
		}
	}
	p.work = dir
	return nil
}
