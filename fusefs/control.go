package fusefs

import (
	"bytes"
	"encoding/json"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// ControlDir is the name of the control directory at the root of every mount.
// It is never listed, and shadows what stands under that name at a --root.
const ControlDir = ".warren"

// ControlFile is one row of the table of control files: small files made when
// they are read, in ControlDir. Their content is never cached.
type ControlFile struct {
	Name string
	Mode uint32 // permission bits, before those of who may not are taken off
	// Visible tells whether the file exists in a view; nil: in every view.
	Visible func(*view.View) bool
	// Reads and Writes tell who may; nil: whoever sees a file that has Read
	// or Write.
	Reads, Writes func(*view.View) bool
	// Read gives the whole content. It is called at open(2), and for the size.
	Read func(*view.View) ([]byte, error)
	// Write takes the whole content that was written, at the close(2) of a
	// descriptor that follows a write; its error is close's. nil: read-only.
	Write func(*view.View, []byte) error
}

// maxControl bounds what may be written to a control file, in bytes.
const maxControl = 1 << 20

// whoami tells a program whose view it is in.
func whoami(v *view.View) ([]byte, error) {
	return jsonLine(struct {
		Agent  string `json:"agent"`
		Role   string `json:"role"`
		User   string `json:"user"`
		Access string `json:"access"`
		Root   string `json:"root"`
		UID    uint32 `json:"uid"`
	}{v.Agent(), v.Role(), v.User(), v.Access().String(), v.RootPath(), v.UID()})
}

func jsonLine(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// denials lists what the view's own agent was refused below the view's root, one
// JSON object a line, newest last.
func denials(v *view.View) ([]byte, error) {
	var out []byte
	for _, d := range v.Denials() {
		line, err := jsonLine(d)
		if err != nil {
			return nil, err
		}
		out = append(out, line...)
	}
	return out, nil
}

// quotas tells of each volume in the view what it holds and may hold, one JSON
// object a line.
func quotas(v *view.View) ([]byte, error) {
	all, err := v.Quotas()
	var out []byte
	for _, q := range all {
		line, err := jsonLine(q)
		if err != nil {
			return nil, err
		}
		out = append(out, line...)
	}
	return out, err
}

func hasAccess(v *view.View) bool { return v.Access() != view.None }

// controlFiles is the table of what every mount has.
func (h *Hub) controlFiles() []ControlFile {
	return append([]ControlFile{
		{Name: "whoami", Mode: 0o444, Read: whoami},
		{Name: "denials", Mode: 0o444, Visible: hasAccess, Read: denials},
		{Name: "quota", Mode: 0o444, Visible: hasAccess, Read: quotas},
		explainFile(),
	}, h.serving.files...)
}

// control serves the control files of one mount. Their node ids are below
// 1<<40, where no volume has any.
type control struct {
	view    *view.View
	root    nodeID
	files   []ControlFile
	folders *folders
	made    backend.Time
}

const (
	controlDirID  nodeID = 2
	controlFileID nodeID = 3
)

// isControl tells a control node from one of the tree. It holds for every id
// of no volume but the invalid 0 and the root's 1, which never get here.
func isControl(n nodeID) bool { return n.Volume() == 0 }

func newControl(v *view.View, files []ControlFile, rows []ControlFolder) *control {
	return &control{view: v, root: v.Root(), files: files, folders: newFolders(rows), made: backend.TimeOf(time.Now())}
}

// controlHandle is an open control file.
type controlHandle struct {
	data   []byte      // as read at open, or as written
	dirty  bool        // written, and not handed over
	folder bool        // in a ControlFolder
	staged *stagedFile // one that only this mount has; it has the data
}

// at finds the control node that name in parent leads to; nil if none does.
func (c *control) at(parent nodeID, name string) *nodeID {
	if parent == c.root && name == ControlDir {
		id := controlDirID
		return &id
	}
	if !isControl(parent) {
		return nil
	}
	if parent == controlDirID {
		for i := range c.files {
			if f := &c.files[i]; f.Name == name && (f.Visible == nil || f.Visible(c.view)) {
				id := controlFileID + nodeID(i)
				return &id
			}
		}
	}
	return c.inFolder(parent, name)
}

// refuse answers a request to make name in parent, if it concerns control
// files.
func (c *control) refuse(parent nodeID, name string) fuse.Status {
	switch {
	case c.at(parent, name) != nil:
		return eexist
	case isControl(parent):
		return fuse.EACCES
	}
	return fuse.OK
}

// file finds a control file by id; nil for the directory and what is gone.
func (c *control) file(id nodeID) *ControlFile {
	i := int(id) - int(controlFileID)
	if i < 0 || i >= len(c.files) {
		return nil
	}
	f := &c.files[i]
	if f.Visible != nil && !f.Visible(c.view) {
		return nil
	}
	return f
}

func (c *control) mayRead(f *ControlFile) bool {
	return f.Read != nil && (f.Reads == nil || f.Reads(c.view))
}

func (c *control) mayWrite(f *ControlFile) bool {
	return f.Write != nil && (f.Writes == nil || f.Writes(c.view))
}

func (c *control) attr(id nodeID) (backend.Attr, fuse.Status) {
	a := backend.Attr{Node: id, Nlink: 1, UID: c.view.UID(), GID: c.view.GID(),
		Atime: c.made, Mtime: c.made, Ctime: c.made, Btime: c.made}
	if id == controlDirID {
		a.Type, a.Mode, a.Size = backend.TypeDir, 0o555, backend.BlockSize
		return a, fuse.OK
	}
	if id >= firstFolderID {
		return a, c.folderAttr(id, &a)
	}
	f := c.file(id)
	if f == nil {
		return a, fuse.ENOENT
	}
	a.Type, a.Mode = backend.TypeRegular, f.Mode&0o777
	if !c.mayWrite(f) {
		a.Mode &^= 0o222
	}
	if !c.mayRead(f) {
		a.Mode &^= 0o444
		return a, fuse.OK
	}
	data, err := f.Read(c.view)
	if err != nil {
		return a, fuse.Status(errnoOf(err))
	}
	a.Size = uint64(len(data))
	return a, fuse.OK
}

// entry answers a look-up; nothing of it may be cached.
func (c *control) entry(out *fuse.EntryOut, id *nodeID) {
	out.NodeId, out.Generation = uint64(*id), generation
	a, _ := c.attr(*id)
	fill(&out.Attr, &a)
}

func (c *control) getattr(id nodeID, out *fuse.Attr) fuse.Status {
	a, st := c.attr(id)
	if st == fuse.OK {
		fill(out, &a)
	}
	return st
}

// setattr allows only what a shell does to a file it writes: truncation.
func (c *control) setattr(fs *fileSystem, id nodeID, in *fuse.SetAttrIn, out *fuse.Attr) fuse.Status {
	if id >= firstFolderID {
		return c.setattrFolder(fs, id, in, out)
	}
	const harmless = fuse.FATTR_SIZE | fuse.FATTR_FH | fuse.FATTR_LOCKOWNER | fuse.FATTR_KILL_SUIDGID |
		fuse.FATTR_ATIME | fuse.FATTR_MTIME | fuse.FATTR_ATIME_NOW | fuse.FATTR_MTIME_NOW | fuse.FATTR_CTIME
	f := c.file(id)
	if f == nil || in.Valid&^harmless != 0 {
		return fuse.EPERM
	}
	if in.Valid&fuse.FATTR_SIZE != 0 && !c.mayWrite(f) {
		return fuse.EACCES
	}
	return c.getattr(id, out)
}

func (c *control) open(f *fileSystem, id nodeID, flags uint32, out *fuse.OpenOut) fuse.Status {
	if id >= firstFolderID {
		return c.openFolder(f, id, flags, out)
	}
	cf := c.file(id)
	if cf == nil {
		return fuse.ENOENT
	}
	o := openFlags(flags)
	if (o.Read && !c.mayRead(cf)) || (o.Write && !c.mayWrite(cf)) {
		return fuse.EACCES
	}
	ch := &controlHandle{}
	if o.Read && !o.Truncate {
		var err error
		if ch.data, err = cf.Read(c.view); err != nil {
			return f.status("control", err)
		}
	}
	out.OpenFlags = fuse.FOPEN_DIRECT_IO
	out.Fh = f.handles.add(&handle{node: id, flags: flags, direct: true, ctl: ch})
	return fuse.OK
}

func (c *control) read(f *fileSystem, id nodeID, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	h := f.handles.get(in.Fh, id)
	if h == nil || h.ctl == nil {
		return nil, fuse.EBADF
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	data := h.ctl.data
	if g := h.ctl.staged; g != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		data = g.data
	}
	if in.Offset >= uint64(len(data)) {
		return fuse.ReadResultData(nil), fuse.OK
	}
	return fuse.ReadResultData(buf[:copy(buf, data[in.Offset:])]), fuse.OK
}

// write keeps what is written until the flush that follows.
func (c *control) write(f *fileSystem, h *handle, off uint64, data []byte) (uint32, fuse.Status) {
	if h.ctl == nil {
		return 0, fuse.EBADF
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctl.folder {
		return c.writeFolder(f, h, off, data)
	}
	if !h.ctl.dirty {
		h.ctl.data, h.ctl.dirty = nil, true
	}
	if h.flags&syscall.O_APPEND != 0 {
		off = uint64(len(h.ctl.data))
	}
	if off > maxControl || off+uint64(len(data)) > maxControl {
		return 0, fuse.Status(syscall.EFBIG)
	}
	if end := int(off) + len(data); end > len(h.ctl.data) {
		h.ctl.data = append(h.ctl.data, make([]byte, end-len(h.ctl.data))...)
	}
	copy(h.ctl.data[off:], data)
	return uint32(len(data)), fuse.OK
}

// flush hands over what was written. One without data does nothing: a shell
// closes a copy of the descriptor before it writes.
func (c *control) flush(f *fileSystem, id nodeID, fh uint64) fuse.Status {
	h, cf := f.handles.get(fh, id), c.file(id)
	if h == nil || h.ctl == nil || cf == nil && !h.ctl.folder {
		return fuse.OK
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctl.folder {
		return c.flushFolder(f, h)
	}
	if !h.ctl.dirty {
		return fuse.OK
	}
	h.ctl.dirty = false
	if !c.mayWrite(cf) {
		return fuse.EACCES
	}
	return f.status("control", cf.Write(c.view, h.ctl.data))
}

// list gives the names of a control directory, and the directory above it.
func (c *control) list(dir nodeID) (names []view.Dirent, up nodeID) {
	if dir != controlDirID {
		s, _, _ := c.folders.spot(dir)
		if up = controlDirID; s.sub != "" {
			up = c.folders.id(spot{folder: s.folder, dir: true})
		}
		return c.folderList(dir), up
	}
	names = []view.Dirent{}
	for i := range c.files {
		if f := &c.files[i]; f.Visible == nil || f.Visible(c.view) {
			names = append(names, view.Dirent{Name: f.Name, Node: controlFileID + nodeID(i), Type: backend.TypeRegular})
		}
	}
	for i := range c.folders.rows {
		if s := (spot{folder: i, dir: true}); c.row(s) != nil {
			names = append(names, view.Dirent{Name: c.folders.rows[i].Name, Node: c.folders.id(s), Type: backend.TypeDir})
		}
	}
	return names, c.root
}

// released lets go of an open control file.
func (c *control) released(h *handle) {
	if h.ctl != nil && h.ctl.staged != nil {
		h.ctl.staged.close()
	}
}
