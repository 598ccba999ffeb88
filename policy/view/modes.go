package view

import (
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
)

// Mode bits (Options.Modes). A mount that only its own user may enter leaves them
// to the view, which checks them as the kernel's default_permissions would, with one
// difference: for the mount's user, the owner's bits count for every file that is
// an agent's, whichever agent made it. Policy decides first, and the
// view's own user (a nil Request) is asked for no bits.

// Rights that a caller asks for, as in access(2) and the FUSE protocol.
const (
	MayExec  = 1
	MayWrite = 2
	MayRead  = 4
)

const stickyBit = 0o1000

// Capabilities of capabilities(7) that a mode check may turn on.
const (
	capChown         = 0
	capDACOverride   = 1
	capDACReadSearch = 2
	capFowner        = 3
	capFsetid        = 4
)

// Privileges reports what a request does not include about its thread. The view calls it
// only if the caller's ids do not suffice, with a volume's lock held: it must not call
// the view.
type Privileges interface {
	// Capable reports whether the thread pid has a capability over a file of uid and
	// gid.
	Capable(pid uint32, capability int, uid, gid uint32) bool
	// InGroup reports whether gid is a supplementary group of the thread pid.
	InGroup(pid uint32, gid uint32) bool
}

// checksModes reports whether mode bits count for this call.
func (c *call) checksModes() bool { return c.v.o.Modes != nil && !c.own }

// owns reports whether the caller counts as the owner of pl.
func (c *call) owns(pl *place) bool {
	if pl.attr.UID == backend.OwnerID {
		return c.tx.Op.UID == backend.OwnerID
	}
	return c.r.UID == c.shownUID(pl)
}

// grouped reports whether the caller is in pl's group.
func (c *call) grouped(pl *place) bool {
	gid := c.shownGID(pl)
	return c.r.GID == gid || c.v.o.Modes.InGroup(c.r.PID, gid)
}

func (c *call) capable(pl *place, capability int) bool {
	return c.v.o.Modes.Capable(c.r.PID, capability, c.shownUID(pl), c.shownGID(pl))
}

// permit checks that pl's mode bits let the caller do all of want. Denied if not.
func (c *call) permit(pl *place, want uint32) error {
	if !c.checksModes() || pl.hollow() || c.vol == c.v.s.root {
		return nil
	}
	bits := pl.attr.Mode
	switch {
	case c.owns(pl):
		bits >>= 6
	case bits>>3&7 != bits&7 && c.grouped(pl):
		bits >>= 3
	}
	if bits&want == want {
		return nil
	}
	dir := pl.attr.IsDir()
	if (dir || want&MayExec == 0 || pl.attr.Mode&0o111 != 0) && c.capable(pl, capDACOverride) {
		return nil
	}
	if (want == MayRead || dir && want&MayWrite == 0) && c.capable(pl, capDACReadSearch) {
		return nil
	}
	return backend.Denied
}

// permitNames checks that the caller may change the names in dir.
func (c *call) permitNames(dir *place) error { return c.permit(dir, MayWrite|MayExec) }

// permitTaking checks that the caller may take the name of what is at pl out of dir:
// from a sticky directory only its owner may, or the owner of pl.
func (c *call) permitTaking(dir, pl *place) error {
	if err := c.permitNames(dir); err != nil {
		return err
	}
	if !c.checksModes() || dir.attr.Mode&stickyBit == 0 || c.owns(pl) || c.owns(dir) || c.capable(pl, capFowner) {
		return nil
	}
	return backend.NotPermitted
}

// permitTakingNode does the same as permitTaking for a node without a place.
func (c *call) permitTakingNode(dir *place, ino backend.Ino) error {
	if !c.checksModes() {
		return nil
	}
	var pl place
	if err := c.place(ino, &pl); err != nil {
		return err
	}
	return c.permitTaking(dir, &pl)
}

// permitSet checks that the caller may make the changes s to pl, and takes the
// set-group-id bit off a mode where it may not set that.
func (c *call) permitSet(pl *place, s *backend.SetAttr) error {
	if !c.checksModes() {
		return nil
	}
	if err := c.permitTimes(pl, s); err != nil {
		return err
	}
	owner := c.owns(pl)
	if s.Mode != nil {
		if !owner && !c.capable(pl, capFowner) {
			return backend.NotPermitted
		}
		if *s.Mode&setGIDBit != 0 && !c.grouped(pl) && !c.capable(pl, capFsetid) {
			mode := *s.Mode &^ setGIDBit
			s.Mode = &mode
		}
	}
	keepsUID := s.UID == nil || owner && *s.UID == c.shownUID(pl)
	keepsGID := s.GID == nil || owner && (*s.GID == c.shownGID(pl) || *s.GID == c.r.GID || c.v.o.Modes.InGroup(c.r.PID, *s.GID))
	if (!keepsUID || !keepsGID) && !c.capable(pl, capChown) {
		return backend.NotPermitted
	}
	return nil
}

// permitTimes does the part of permitSet for a size and for times.
func (c *call) permitTimes(pl *place, s *backend.SetAttr) error {
	switch {
	case s.Size != nil && c.r.Handle:
		return nil // decided when it was opened
	case s.Size != nil:
		return c.permit(pl, MayWrite)
	case s.Atime == nil && s.Mtime == nil, c.owns(pl), c.capable(pl, capFowner):
		return nil
	case c.r.Touch:
		return c.permit(pl, MayWrite)
	}
	return backend.NotPermitted
}

// permitXattr checks an access to an extended attribute. The kernel itself checks
// the namespaces that are root's.
func (c *call) permitXattr(pl *place, name string, want uint32) error {
	if !strings.HasPrefix(name, "user.") {
		return nil
	}
	return c.permit(pl, want)
}

// Permits reports, as access(2) does, whether the caller may do all of want
// (MayRead, MayWrite, MayExec) to node. Nothing is noted as a denial. Errors: Denied,
// NotFound.
func (v *View) Permits(r *Request, node backend.NodeID, want uint32) error {
	c := v.begin("access", r)
	defer c.end()
	return c.in(node, func(c *call) error {
		var pl place
		if err := c.seen(node.Ino(), &pl); err != nil {
			return err
		}
		if want&MayWrite != 0 && !c.mayWrite(&pl) ||
			want&(MayRead|MayExec) != 0 && pl.attr.Type == backend.TypeRegular && !c.mayRead(&pl) {
			return backend.Denied
		}
		return c.permit(&pl, want)
	})
}

// losesSearch reports whether a change of pl to a mode takes away a right to search it.
func losesSearch(pl *place, mode *uint32) bool {
	return mode != nil && pl.attr.IsDir() && pl.attr.Mode&^*mode&0o111 != 0
}

// unsearchable makes the kernels of a volume ask again for the names they hold: a
// name in a cache is found without the directory being asked for its bits. No lock
// is held.
func (s *Space) unsearchable(vol backend.VolumeID) {
	views := s.told(func(v *View) bool { return v.o.Modes != nil })
	if len(views) == 0 {
		return
	}
	info, ok := s.tree.Volume(vol)
	if !ok || info.Label.Kind == tree.KindRoot {
		return
	}
	for _, v := range views {
		if v.within(&info) && v.listsVolume(v.principal(), info.Label) {
			v.o.Observer.(Revoker).Revoked(Revocation{Names: true, Standing: v.standing})
		}
	}
}
