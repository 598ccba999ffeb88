package view

import (
	"crypto/rand"
	"errors"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// ReadFile gives the content of the regular file at a tree path, as it was at
// one moment. TooBig if it has more than limit bytes (limit < 0: any number).
func (v *View) ReadFile(path string, limit int64) ([]byte, backend.Attr, error) {
	a, err := v.Resolve(path)
	if err != nil {
		return nil, a, err
	}
	switch {
	case a.IsDir():
		return nil, a, pathError("read", path, backend.IsDir)
	case a.Type != backend.TypeRegular:
		return nil, a, pathError("read", path, backend.Invalid)
	case limit >= 0 && a.Size > uint64(limit):
		return nil, a, pathError("read", path, backend.TooBig)
	}
	data := make([]byte, a.Size)
	n, err := v.Read(nil, a.Node, data, 0)
	if err != nil {
		return nil, a, pathError("read", path, err)
	}
	return data[:n], a, nil
}

// WriteFile replaces the content of the file at a tree path, or makes the
// file with mode. It happens whole or not at all; an existing file keeps its
// mode and owner, not its inode. Where the view may write the file but not its
// directory (session.md) it is written in place, in steps of up to 1 MiB.
func (v *View) WriteFile(path string, data []byte, mode uint32) (backend.Attr, error) {
	old, _, err := v.resolve(path, true)
	switch {
	case err == nil && old.IsDir():
		return backend.Attr{}, pathError("write", path, backend.IsDir)
	case err == nil && old.Type != backend.TypeRegular:
		return backend.Attr{}, pathError("write", path, backend.Invalid)
	case err == nil: // by its own name, not that of a symlink to it
		if path, err = v.Path(old.Node); err != nil {
			return backend.Attr{}, err
		}
		if _, err = v.Open(nil, old.Node, OpenFlags{Write: true}); err != nil {
			return backend.Attr{}, pathError("write", path, err)
		}
		mode = old.Mode
	case !isNotFound(err):
		return backend.Attr{}, err
	}
	exists := err == nil
	dir, name, err := v.ResolveParent(path)
	if err != nil {
		return backend.Attr{}, err
	}
	var a backend.Attr
	if exists && !v.allows(policy.Create, dir.Node) {
		a, err = v.rewrite(old.Node, data)
	} else {
		a, err = v.replace(dir.Node, name, data, mode, exists, &old)
	}
	if err != nil {
		return backend.Attr{}, pathError("write", path, err)
	}
	return a, nil
}

// replace writes a nameless file and then gives it the name.
func (v *View) replace(dir backend.NodeID, name string, data []byte, mode uint32, exists bool, old *backend.Attr) (backend.Attr, error) {
	a, err := v.Tmpfile(nil, dir, mode)
	if err != nil {
		return a, err
	}
	defer v.s.Dropped(a.Node) // it stays if it got a name
	if exists && (old.UID != a.UID || old.GID != a.GID) {
		if _, err := v.Setattr(nil, a.Node, backend.SetAttr{UID: &old.UID, GID: &old.GID, Mode: &mode}); err != nil {
			return a, err
		}
	}
	if err := v.writeAll(a.Node, data); err != nil {
		return a, err
	}
	got, err := v.Link(nil, a.Node, dir, name)
	if err == nil || !errors.Is(err, backend.Exist) {
		return got, err
	}
	temp := ".warren-" + rand.Text()
	if _, err := v.Link(nil, a.Node, dir, temp); err != nil {
		return a, err
	}
	if err := v.Rename(nil, dir, temp, dir, name, 0); err != nil {
		return a, errors.Join(err, v.Unlink(nil, dir, temp))
	}
	return v.Getattr(nil, a.Node)
}

// allows tells whether the view may do a at node. It is noted nowhere.
func (v *View) allows(a policy.Action, node backend.NodeID) bool {
	yes := false
	_, err := v.look(func(c *call) error {
		c.silent = true
		return c.in(node, func(c *call) error {
			var pl place
			err := c.seen(node.Ino(), &pl)
			yes = err == nil && c.may(a, &pl)
			return err
		})
	})
	return yes && err == nil
}

// rewrite replaces a file's content in place.
func (v *View) rewrite(node backend.NodeID, data []byte) (backend.Attr, error) {
	if _, err := v.Open(nil, node, OpenFlags{Write: true, Truncate: true}); err != nil {
		return backend.Attr{}, err
	}
	if err := v.writeAll(node, data); err != nil {
		return backend.Attr{}, err
	}
	return v.Getattr(nil, node)
}

func (v *View) writeAll(node backend.NodeID, data []byte) error {
	for off := uint64(0); off < uint64(len(data)); {
		w, err := v.Write(nil, node, data[off:], off)
		if err != nil {
			return err
		}
		off += uint64(w.N)
	}
	return nil
}

// Remove removes what a tree path names (not what a symlink there leads to);
// recursive: a directory with all below it. What was removed before an error
// stays removed.
func (v *View) Remove(path string, recursive bool) error {
	dir, name, err := v.ResolveParent(path)
	if err != nil {
		return err
	}
	a, err := v.look(func(c *call) error { return c.lookup(dir.Node, name) })
	if err == nil {
		err = v.removeAll(dir.Node, name, a.Node, a.IsDir(), recursive)
	}
	return pathError("remove", path, err)
}

func (v *View) removeAll(dir backend.NodeID, name string, node backend.NodeID, isDir, recursive bool) error {
	if !isDir {
		return v.Unlink(nil, dir, name)
	}
	if recursive {
		list, err := v.listQuietly(node)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := v.removeAll(node, e.Name, e.Node, e.Type == backend.TypeDir, true); err != nil {
				return err
			}
		}
	}
	return v.Rmdir(nil, dir, name)
}

// listQuietly is List for the API's own use.
func (v *View) listQuietly(dir backend.NodeID) (list []Dirent, err error) {
	_, err = v.look(func(c *call) error {
		return c.in(dir, func(c *call) error {
			list, err = c.list(dir.Ino())
			return err
		})
	})
	return list, err
}

// MkdirAll makes the directory at a tree path and those above it that are
// missing. What is there must be directories: NotDir.
func (v *View) MkdirAll(path string, mode uint32) error {
	a, err := v.Resolve(path)
	if err == nil {
		if !a.IsDir() {
			return pathError("mkdir", path, backend.NotDir)
		}
		return nil
	}
	if !isNotFound(err) {
		return err
	}
	dir, name, err := v.ResolveParent(path)
	if isNotFound(err) {
		up := trimLast(path)
		if up == path {
			return err
		}
		if err := v.MkdirAll(up, mode); err != nil {
			return err
		}
		dir, name, err = v.ResolveParent(path)
	}
	if err != nil {
		return err
	}
	_, err = v.Mkdir(nil, dir.Node, name, mode)
	if errors.Is(err, backend.Exist) { // somebody else made it meanwhile, or it is a link to nothing
		if a, err := v.Resolve(path); err != nil || a.IsDir() {
			return err
		}
	}
	return pathError("mkdir", path, err)
}
