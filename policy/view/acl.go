package view

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
)

// POSIX ACLs (Options.ACL): the kernel enforces them, as it does mode bits; kept,
// inherited and shown they are here. A view without the option has none and
// inherits none.
//
// The owner's, the mask's and the others' rights are those of the mode, whatever
// the stored ACL says: so a chmod through any door changes the ACL. Who "the owner" is
// in an entry is shown as everywhere.

const (
	aclAccess  = "system.posix_acl_access"
	aclDefault = "system.posix_acl_default"

	aclVersion = 2 // of the form that xattrs have

	// Tags of entries, in the order in which they stand.
	aclUserObj  = 0x01
	aclUser     = 0x02
	aclGroupObj = 0x04
	aclGroup    = 0x08
	aclMask     = 0x10
	aclOther    = 0x20

	permBits  = 0o777
	setGIDBit = 0o2000
)

type aclEntry struct {
	tag, perm uint16
	id        uint32
}

func isACL(name string) bool { return name == aclAccess || name == aclDefault }

// parseACL reads an ACL. Invalid unless it has one entry of the owner, the group
// and the others, and a mask if there are more; in order.
func parseACL(b []byte) ([]aclEntry, error) {
	if len(b) < 4 || len(b)%8 != 4 || binary.LittleEndian.Uint32(b) != aclVersion {
		return nil, backend.Invalid
	}
	var list []aclEntry
	count := map[uint16]int{}
	for b = b[4:]; len(b) > 0; b = b[8:] {
		e := aclEntry{binary.LittleEndian.Uint16(b), binary.LittleEndian.Uint16(b[2:]), binary.LittleEndian.Uint32(b[4:])}
		if e.perm > 7 || len(list) > 0 && e.tag < list[len(list)-1].tag {
			return nil, backend.Invalid
		}
		count[e.tag]++
		list = append(list, e)
	}
	named := count[aclUser] + count[aclGroup]
	if count[aclUserObj] != 1 || count[aclGroupObj] != 1 || count[aclOther] != 1 || count[aclMask] > 1 ||
		named > 0 && count[aclMask] == 0 || named+count[aclMask]+3 != len(list) {
		return nil, backend.Invalid
	}
	return list, nil
}

func encodeACL(list []aclEntry) []byte {
	b := binary.LittleEndian.AppendUint32(nil, aclVersion)
	for _, e := range list {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, e.id)
	}
	return b
}

// aclShift is where in a mode the rights of e stand; false if they stand in none.
func aclShift(list []aclEntry, e aclEntry) (uint, bool) {
	switch e.tag {
	case aclUserObj:
		return 6, true
	case aclMask:
		return 3, true
	case aclGroupObj:
		for _, o := range list {
			if o.tag == aclMask {
				return 0, false
			}
		}
		return 3, true
	case aclOther:
		return 0, true
	}
	return 0, false
}

// aclMode is the mode that list stands for.
func aclMode(list []aclEntry) (mode uint32) {
	for _, e := range list {
		if by, ok := aclShift(list, e); ok {
			mode |= uint32(e.perm) << by
		}
	}
	return mode
}

// withMode gives list the rights of mode.
func withMode(list []aclEntry, mode uint32) {
	for i, e := range list {
		if by, ok := aclShift(list, e); ok {
			list[i].perm = uint16(mode >> by & 7)
		}
	}
}

// getACL gives pl's ACL as the view shows it. NoData if it has none.
func (c *call) getACL(pl *place, name string) ([]byte, error) {
	if pl.hollow() {
		return nil, backend.NoData
	}
	b, err := c.tx.GetXattr(pl.ino(), name)
	if err != nil {
		return nil, err
	}
	list, err := parseACL(b)
	if err != nil {
		return nil, backend.IO
	}
	for i, e := range list {
		switch {
		case e.tag == aclUser && e.id == backend.OwnerID:
			list[i].id = c.v.o.UID
		case e.tag == aclGroup && e.id == backend.OwnerID:
			list[i].id = c.v.o.GID
		}
	}
	if name == aclAccess {
		c.show(pl)
		withMode(list, c.attr.Mode)
	}
	return encodeACL(list), nil
}

// setACL gives pl an ACL; it is decided that pl may be changed. An ACL that says
// no more than a mode can is kept as one.
func (c *call) setACL(pl *place, name string, value []byte) error {
	list, err := parseACL(value)
	if err != nil {
		return err
	}
	if name == aclDefault && !pl.attr.IsDir() {
		return backend.Denied
	}
	for i, e := range list {
		switch e.tag {
		case aclUser:
			list[i].id = c.v.storedUID(e.id)
		case aclGroup:
			list[i].id = c.v.storedGID(e.id)
		}
	}
	if name == aclAccess && len(list) == 3 {
		err = c.tx.RemoveXattr(pl.ino(), name)
		if errors.Is(err, backend.NoData) {
			err = nil
		}
	} else {
		err = c.tx.SetXattr(pl.ino(), name, encodeACL(list), false, false)
	}
	if err != nil || name == aclDefault {
		return err
	}
	mode := pl.attr.Mode&^permBits | aclMode(list)
	if c.r.KillPriv {
		mode &^= setGIDBit
	}
	s := backend.SetAttr{Mode: &mode}
	if err := c.restrain(pl, &s); err != nil {
		return err
	}
	_, err = c.tx.Setattr(pl.ino(), s)
	return err
}

// inherit gives what is made in dir the mode and the ACLs that dir's default ACL
// says, or takes the caller's umask off its mode if there is none.
func (c *call) inherit(dir *place, spec *tree.CreateSpec) error {
	if !c.v.o.ACL || spec.Type == backend.TypeSymlink {
		return nil
	}
	b, err := c.tx.GetXattr(dir.ino(), aclDefault)
	if errors.Is(err, backend.NoData) {
		spec.Mode &^= c.r.Umask & permBits
		return nil
	}
	if err != nil {
		return err
	}
	list, err := parseACL(b)
	if err != nil {
		return backend.IO
	}
	spec.Mode &= aclMode(list) | ^uint32(permBits)
	if len(list) > 3 {
		spec.Xattrs = append(spec.Xattrs, tree.Xattr{Name: aclAccess, Value: b})
	}
	if spec.Type == backend.TypeDir {
		spec.Xattrs = append(spec.Xattrs, tree.Xattr{Name: aclDefault, Value: b})
	}
	return nil
}

// withoutACLs drops the names of ACLs where the view shows none.
func (v *View) withoutACLs(names []string) []string {
	if v.o.ACL {
		return names
	}
	kept := names[:0]
	for _, n := range names {
		if !strings.HasPrefix(n, "system.") {
			kept = append(kept, n)
		}
	}
	return kept
}
