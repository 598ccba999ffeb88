package view

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
)

// ReadFile gives the content of the regular file at a tree path, as it was at
// one moment. TooBig if it has more than limit bytes (limit < 0: any number).
func (v *View) ReadFile(path string, limit int64) (data []byte, a backend.Attr, err error) {
	for range maxRetries {
		again := false
		if data, a, again, err = v.readFile(path, limit); !again {
			break // else it was changed between the two steps
		}
	}
	return data, a, err
}

// readFile reads the file once. again is true if the file was removed, or grew, during the read.
func (v *View) readFile(path string, limit int64) (data []byte, attr backend.Attr, again bool, err error) {
	a, err := v.Resolve(path)
	if err != nil {
		return nil, a, false, err
	}
	switch {
	case a.IsDir():
		return nil, a, false, pathError("read", path, backend.IsDir)
	case a.Type != backend.TypeRegular:
		return nil, a, false, pathError("read", path, backend.Invalid)
	case limit >= 0 && a.Size > uint64(limit):
		return nil, a, false, pathError("read", path, backend.TooBig)
	}
	data = make([]byte, a.Size)
	n, now, _, err := v.ReadAt(a.Node, data, 0)
	if err != nil {
		return nil, a, isNotFound(err), pathError("read", path, err)
	}
	if now.Size > uint64(n) {
		return nil, a, true, pathError("read", path, backend.Conflict)
	}
	return data[:n], now, false, nil
}

// WriteFile replaces the content of the file at a tree path, or makes the
// file with mode. It is Put, but an existing file keeps its mode.
func (v *View) WriteFile(path string, data []byte, mode uint32) (backend.Attr, error) {
	f, _, err := v.put(path, bytes.NewReader(data), walk{create: true}, putting{mode: mode, keep: true})
	return f.Attr, err
}

// Put makes all of body the content of the file at a tree path, whole or not at
// all, and returns the file. A mode of 0 keeps an existing file's, and is
// 0644 for a new one; another is set on both. An existing file stays the one it is,
// with its names, owner, birth time and extended attributes (except security.capability,
// which writing removes): readers, and a crash, find its old content or the new one.
// An error of body is returned as it is. TooBig: neither fits in one step.
func (v *View) Put(path string, body io.Reader, mode uint32) (Found, error) {
	f, _, err := v.put(path, body, walk{create: true}, putting{mode: mode})
	return f, err
}

// PutHere is Put that follows no symlink at the end of path: what stands there
// must be a regular file, or nothing.
func (v *View) PutHere(path string, body io.Reader, mode uint32) (Found, error) {
	f, _, err := v.put(path, body, walk{create: true, stop: true}, putting{mode: mode})
	return f, err
}

// ReplaceHere does the same as PutHere, but replaces an existing file by a new one, if
// cond holds at that moment. The new file gets the old one's name, owner, extended
// attributes, creator and creation time. Other names of the old file keep the old
// content, so the agent that put the file there cannot redirect the write.
func (v *View) ReplaceHere(path string, body io.Reader, mode uint32, cond Cond) (Found, error) {
	f, _, err := v.put(path, body, walk{create: true, stop: true}, putting{mode: mode, replaces: true, cond: cond})
	return f, err
}

// MakeHere makes a file at a tree path, with all of body, and follows no symlink.
// Exist: something stands there; Loop: a symlink stands before that.
func (v *View) MakeHere(path string, body io.Reader, mode uint32) (Found, error) {
	f, _, err := v.put(path, body, walk{create: true, stop: true, plain: true}, putting{mode: mode, cond: Cond{Absent: true}})
	if errors.Is(err, backend.Invalid) || errors.Is(err, backend.IsDir) { // no file, but something
		err = pathError("write", path, backend.Exist)
	}
	return f, err
}

// writable finds the regular file at path that may be written, by the name that
// the walk w through symlinks ends at, or the name that it is to get: Attr is zero
// then. A symlink that leads nowhere is followed too, as by open(2) with O_CREAT.
func (v *View) writable(path string, w *walk) (Found, error) {
	f, err := v.find(path, w)
	switch {
	case isNotFound(err) && strings.HasSuffix(path, "/"):
		return Found{}, pathError("write", path, backend.IsDir)
	case err != nil || f.Attr.Node == 0:
		return f, err
	case f.Attr.IsDir():
		return Found{}, pathError("write", path, backend.IsDir)
	case f.Attr.Type != backend.TypeRegular:
		return Found{}, pathError("write", path, backend.Invalid)
	}
	_, err = v.Open(nil, f.Attr.Node, OpenFlags{Write: true})
	if isNotFound(err) { // replaced since it was found
		return f, backend.Stale
	}
	return f, pathError("write", path, err)
}

// findWritable is writable that looks again, as w says, where a file is replaced
// while it looks. Conflict: that happens too often.
func (v *View) findWritable(path string, w walk) (f Found, err error) {
	for range maxRetries {
		again := w
		if f, err = v.writable(path, &again); err != backend.Stale {
			return f, err
		}
	}
	return f, pathError("write", path, backend.Conflict)
}

// copyXattrs gives one file the extended attributes of another in the same
// volume, also those that the view could not read.
func (v *View) copyXattrs(from, to backend.NodeID) error {
	c := v.begin("setxattr", nil)
	defer c.end()
	err := c.in(to, func(c *call) error {
		names, err := c.tx.ListXattr(from.Ino())
		if err != nil {
			return err
		}
		for _, name := range names {
			if name == "security.capability" {
				continue
			}
			value, err := c.tx.GetXattr(from.Ino(), name)
			if err == nil {
				err = c.tx.SetXattr(to.Ino(), name, value, false, false)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if isNotFound(err) { // the old file went meanwhile
		return nil
	}
	return err
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

// WriteFull is Write that does not come back short: it writes all of b at off, or
// gives the error that kept it from the rest.
func (v *View) WriteFull(node backend.NodeID, b []byte, off uint64) error {
	for len(b) > 0 {
		w, err := v.Write(nil, node, b, off)
		if err != nil {
			return err
		}
		b, off = b[w.N:], off+uint64(w.N)
	}
	return nil
}

// ReadFull reads until buf is full. io.EOF, with what was read, is the true end: a
// body that was cut short has another error, which io.ReadFull would blur.
func ReadFull(r io.Reader, buf []byte) (int, error) {
	n := 0
	for n < len(buf) {
		got, err := r.Read(buf[n:])
		n += got
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// Remove removes what a tree path names (not what a symlink there leads to);
// recursive: a directory with all below it. What was removed before an error stays
// removed.
func (v *View) Remove(path string, recursive bool) error {
	return v.RemoveUntil(context.Background(), path, recursive)
}

// RemoveUntil is Remove that goes on no longer than ctx, with its error.
func (v *View) RemoveUntil(ctx context.Context, path string, recursive bool) error {
	dir, name, err := v.ResolveParent(path)
	if err != nil {
		return err
	}
	a, err := v.look(func(c *call) error { return c.lookup(dir.Node, name) })
	if err == nil && strings.HasSuffix(path, "/") && !a.IsDir() {
		err = backend.NotDir
	}
	if err == nil {
		err = v.removeAll(ctx, dir.Node, name, a.Node, a.IsDir(), recursive)
	}
	return pathError("remove", path, err)
}

func (v *View) removeAll(ctx context.Context, dir backend.NodeID, name string, node backend.NodeID, isDir, recursive bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !isDir {
		return v.Unlink(nil, dir, name)
	}
	if recursive {
		list, err := v.listQuietly(node)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := v.removeAll(ctx, node, e.Name, e.Node, e.Type == backend.TypeDir, true); err != nil {
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
// missing. What is there must be directories: NotDir. A symlink that leads nowhere is
// NotFound.
func (v *View) MkdirAll(path string, mode uint32) error {
	w := &walk{v: v, make: true, mode: mode}
	err := w.restart(path)
	if err == nil {
		err = w.run()
	}
	if err == nil && !w.here().attr.IsDir() {
		err = backend.NotDir
	}
	return pathError("mkdir", path, err)
}

// MkdirHere makes the directory at a tree path if it is not there, and follows no
// symlink. NotDir: something else stands there; NotFound: the one above is missing;
// Loop: a symlink stands before that.
func (v *View) MkdirHere(path string, mode uint32) error {
	f, err := v.find(path, &walk{v: v, create: true, stop: true, plain: true})
	if err == nil && f.Attr.Node == 0 {
		_, err = v.Mkdir(nil, f.Dir, f.Name, mode)
		if !errors.Is(err, backend.Exist) {
			return pathError("mkdir", path, err)
		}
		f, err = v.FindHere(path) // somebody else made it meanwhile
	}
	if err == nil && !f.Attr.IsDir() {
		err = pathError("mkdir", path, backend.NotDir)
	}
	return err
}
