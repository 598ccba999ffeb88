package view

import (
	"errors"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// A regular file's set-id bits, and the privileged attributes of any file, are its
// maker's: the agent that created it. "The owner" is another user in each view, so the same bits would
// give another user's rights there, root's in a root's mount, to what somebody
// else wrote, and "cp -a" would carry them out. So they are shown to nobody
// else, nobody else can set them, and they go when somebody else changes the
// content or sets the mode, which then is exactly what was asked for.

const (
	setIDBits  = 0o6000
	capability = "security.capability"
)

// privileged reports whether an extended attribute is one that the kernel obeys and only
// root sets: a program's capabilities, the layers of an overlayfs, labels.
func privileged(name string) bool {
	return strings.HasPrefix(name, "trusted.") || strings.HasPrefix(name, "security.")
}

// armed tells whether pl is a file with set-id bits.
func (c *call) armed(pl *place) bool {
	return pl.attr.Mode&setIDBits != 0 && pl.attr.Type == backend.TypeRegular
}

// made tells whether the view's agent created pl, and not one that had its key
// before.
func (c *call) made(pl *place) bool {
	p, err := c.tx.Provenance(pl.ino())
	if err != nil || p.CreatedBy != c.v.o.Agent {
		return false
	}
	return c.p == nil || !before(p.CreatedAt, c.p.Agent())
}

// before tells whether at is before a was added: who did something then under
// a's key was another agent, now removed.
func before(at backend.Time, a policy.Agent) bool {
	return !a.Since.IsZero() && at < backend.TimeOf(a.Since)
}

// disarm prepares for a change of a file's content or owner, which is decided on:
// capabilities go whoever makes it, as on any Linux filesystem; the set-id bits
// if another agent made the file.
func (c *call) disarm(pl *place) error {
	if pl.attr.Type != backend.TypeRegular {
		return nil
	}
	_, err := c.tx.GetXattr(pl.ino(), capability)
	capable := err == nil
	if err != nil && !errors.Is(err, backend.NoData) {
		return err
	}
	if capable {
		if err := c.tx.RemoveXattr(pl.ino(), capability); err != nil {
			return err
		}
	}
	if !c.armed(pl) || c.made(pl) {
		return nil
	}
	mode := pl.attr.Mode &^ setIDBits
	pl.attr, err = c.tx.Setattr(pl.ino(), backend.SetAttr{Mode: &mode})
	return err
}

// restrain prepares for s being done to pl: the mode is without set-id bits
// where they are not this view's to set.
func (c *call) restrain(pl *place, s *backend.SetAttr) error {
	if pl.attr.Type != backend.TypeRegular {
		return nil
	}
	if s.Mode != nil && *s.Mode&setIDBits != 0 && !c.made(pl) {
		mode := *s.Mode &^ setIDBits
		s.Mode = &mode
	}
	if s.Size != nil || s.UID != nil || s.GID != nil {
		return c.disarm(pl)
	}
	return nil
}
