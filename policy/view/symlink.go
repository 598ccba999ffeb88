package view

import (
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// A symlink that one agent made never leads an orchestrator or the administrator to a
// place that its maker does not see: not out of the tree, and not to a hidden place in
// it. A caller that reads the text of such a link gets it unchanged. A caller that
// follows it gets another text, without "..", so that the maker cannot redirect the walk
// by moving directories.

// Symlink is a symbolic link as its view knows it.
type Symlink struct {
	Target string // its text
	// Guarded: an agent made it that is not the view's, the view is an
	// orchestrator's or the administrator's, and the target is not simply below
	// the directory that the link is in. Only View.Follow returns where it leads.
	Guarded bool

	author string
	made   backend.Time
	path   string // tree path; "": it has several
}

// Shown is a directory outside the tree, a mountpoint, and the tree path of what is
// shown there.
type Shown struct{ Dir, Root string }

// ReadSymlink returns the symlink node. It fails with Invalid for any other node.
func (v *View) ReadSymlink(r *Request, node backend.NodeID) (s Symlink, err error) {
	c := v.begin("readlink", r)
	defer c.end()
	err = c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		if err := c.need(policy.Read, &pl, ""); err != nil {
			return err
		}
		if s.Target, err = c.tx.Readlink(node.Ino()); err != nil {
			return err
		}
		if c.p == nil || c.p.Agent().Role != policy.Orchestrator || c.made(&pl) || descends(s.Target) {
			return nil
		}
		p, err := c.tx.Provenance(pl.ino())
		if err != nil || p.CreatedBy == "" { // the administrator is nobody's deputy
			return err
		}
		s.Guarded, s.author, s.made = true, p.CreatedBy, p.CreatedAt
		if pl.attr.Nlink == 1 {
			s.path, err = c.treePath(pl.ino(), "")
		}
		return err
	})
	return s, err
}

// descends reports whether a target stays below the link's own directory, wherever
// that is.
func descends(target string) bool {
	if strings.HasPrefix(target, "/") {
		return false
	}
	for name := range strings.SplitSeq(target, "/") {
		if name == ".." {
			return false
		}
	}
	return true
}

// Follow returns the text by which a guarded link may be followed: an absolute path
// without "..", below one of the places where the tree is shown. It fails with Denied if
// the target is in none of them, if the text has ".." behind a name (which may be a link
// to anywhere), or if the agent that made the link does not see the target.
func (v *View) Follow(s Symlink, at []Shown) (string, error) {
	for _, m := range at {
		landing, ok := s.landing(m)
		if !ok || !v.makerSees(&s, landing) {
			continue
		}
		rest, _ := beneath(landing, m.Root)
		text := strings.TrimSuffix(m.Dir, "/") + rest
		if stepsOf(s.Target)[len(stepsOf(s.Target))-1] == "." {
			text += "/" // it must be a directory
		}
		if len(text) >= maxPath {
			return "", backend.NameTooLong
		}
		return text, nil
	}
	v.s.deny(Denial{Agent: v.o.Agent, Op: "follow", Path: s.path}, v.o.Mount, false)
	return "", backend.Denied
}

// landing returns the tree path that the text of s leads to, if it does not leave what
// is shown at m.
func (s *Symlink) landing(m Shown) (path string, ok bool) {
	names := parts(s.Target)
	var dir []string
	if strings.HasPrefix(s.Target, "/") {
		rest, ok := beneath("/"+strings.Join(names, "/"), m.Dir)
		if !ok {
			return "", false
		}
		names, dir = parts(rest), parts(m.Root)
	} else {
		if s.path == "" {
			return "", false
		}
		dir = parts(trimLast(s.path))
		for len(names) > 0 && names[0] == ".." {
			if len(dir) == 0 {
				return "", false
			}
			names, dir = names[1:], dir[:len(dir)-1]
		}
		if _, ok := beneath("/"+strings.Join(dir, "/"), m.Root); !ok {
			return "", false
		}
	}
	for _, name := range names {
		if name == ".." {
			return "", false
		}
	}
	return "/" + strings.Join(append(dir, names...), "/"), true
}

// beneath returns the rest of a clean path after dir, with a slash in front.
func beneath(path, dir string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, strings.TrimSuffix(dir, "/"))
	if rest == "/" {
		rest = ""
	}
	return rest, ok && (rest == "" || rest[0] == '/')
}

// makerSees reports whether the agent that made s sees a tree path. An agent that was
// removed, or does not see the link any more, once saw the volume that the link is in.
func (v *View) makerSees(s *Symlink, landing string) bool {
	maker, ok := v.s.engine.Principal(s.author, policy.ReadWrite)
	now := backend.TimeOf(time.Now())
	if ok = ok && !before(s.made, maker.Agent()); ok && v.seesPath(maker, landing, now) {
		return true
	}
	if ok && v.seesPath(maker, s.path, now) {
		return false
	}
	a, _, aok := policy.PlaceOf(s.path)
	b, _, bok := policy.PlaceOf(landing)
	return aok && bok && a.Zone == b.Zone && a.Owner == b.Owner
}
