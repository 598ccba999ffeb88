package fusefs

import (
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// Bounds of what a mount keeps of files that only it has.
const (
	maxStaged      = 64
	maxStagedBytes = 64 << 20         // of all together
	maxStagedFile  = 8 << 20          // of one
	stagedTime     = 10 * time.Minute // a file beside others, after its last close
	dropTime       = 10 * time.Second // a file that was handed over: its name may still be changed
	goneTime       = 2 * time.Second
)

// stagedFile is a file that only this mount has: one beside a control file, that
// is to take its place, or one that was or is to be handed over under its name.
type stagedFile struct {
	id   nodeID
	at   spot // guarded by folders.mu
	drop bool // in a directory without files of its own

	// of: this is what one open of that file has of its own: what two programs write
	// under one name of a drop at the same time must not be mixed. nil: none.
	of *stagedFile

	mu      sync.Mutex
	data    []byte // of a drop's file: as it was written last
	pending bool   // written since it was handed over
	handed  bool   // it was
	opens   int
	held    int // bytes that its opens have of their own
	closed  time.Time
}

// part opens a drop's file: what is given has its content, or nothing.
func (g *stagedFile) part(truncate bool) *stagedFile {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opens++
	p := &stagedFile{id: g.id, of: g, drop: true}
	if !truncate {
		p.data = slices.Clone(g.data)
	}
	g.held += len(p.data)
	return p
}

// lock locks the content: that of a part, and of what it is a part of.
func (g *stagedFile) lock() (unlock func()) {
	g.mu.Lock()
	if g.of == nil {
		return g.mu.Unlock
	}
	g.of.mu.Lock()
	return func() {
		g.of.mu.Unlock()
		g.mu.Unlock()
	}
}

// wrote makes data the content. lock held.
func (g *stagedFile) wrote(data []byte) {
	if g.of != nil {
		g.of.held += len(data) - len(g.data)
		g.of.data = data
	}
	g.data = data
}

func (g *stagedFile) open(truncate bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opens++
	if truncate {
		g.data = nil
	}
}

func (g *stagedFile) close() {
	if p := g; p.of != nil {
		p.mu.Lock()
		n := len(p.data)
		p.mu.Unlock()
		g = p.of
		defer g.let(n)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opens--
	g.closed = time.Now()
}

// let takes n bytes off what the opens have.
func (g *stagedFile) let(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held -= n
}

func (g *stagedFile) size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(g.held, len(g.data))
}

// over tells whether nobody can ask for it any more.
func (g *stagedFile) over(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	keep := stagedTime
	if g.drop {
		keep = dropTime
	}
	return g.opens == 0 && now.Sub(g.closed) > keep
}

// tidy lets go of what is over. mu held.
func (f *folders) tidy() {
	now := time.Now()
	for id, g := range f.staged {
		if g.over(now) {
			delete(f.staged, id)
		}
	}
	for s, until := range f.gone {
		if now.After(until) {
			delete(f.gone, s)
		}
	}
}

// find gives the staged file of that name.
func (f *folders) find(at spot) *stagedFile {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tidy()
	return f.findLocked(at)
}

// findLocked: mu held.
func (f *folders) findLocked(at spot) *stagedFile {
	for _, g := range f.staged {
		if g.at == at {
			return g
		}
	}
	return nil
}

// stage makes a file of that name.
func (f *folders) stage(at spot) (*stagedFile, fuse.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tidy()
	if len(f.staged) >= maxStaged {
		return nil, fuse.Status(syscall.ENOSPC)
	}
	g := &stagedFile{id: f.next, at: at, drop: f.rows[at.folder].Files == nil, closed: time.Now()}
	f.next++
	f.staged[g.id] = g
	return g, fuse.OK
}

// room tells whether a file may grow to n bytes; what one open has, by n.
func (f *folders) room(g *stagedFile, n int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	total := n
	for _, other := range f.staged {
		if other != g {
			total += other.size()
		}
	}
	return total <= maxStagedBytes
}

// list gives the names of staged files in a directory; those that were handed
// over are not listed.
func (f *folders) list(dir spot) []view.Dirent {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tidy()
	var out []view.Dirent
	for id, g := range f.staged {
		if g.at.folder == dir.folder && g.at.sub == dir.sub && !g.drop {
			out = append(out, view.Dirent{Name: g.at.name, Node: id, Type: backend.TypeRegular})
		}
	}
	return out
}

func (f *folders) isGone(s spot) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Before(f.gone[s])
}

// returns ends a name's being gone, and tells whether it was.
func (f *folders) returns(s spot) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, gone := f.gone[s]
	delete(f.gone, s)
	return gone
}

func (f *folders) leave(s spot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone[s] = time.Now().Add(goneTime)
}

func (f *folders) drop(id nodeID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.staged, id)
}

// put writes p at off into b, or at its end if off is negative. Too long: nil.
func put(b []byte, off int64, p []byte, limit int) []byte {
	if off < 0 {
		off = int64(len(b))
	}
	if off > int64(limit) || off+int64(len(p)) > int64(limit) {
		return nil
	}
	if end := int(off) + len(p); end > len(b) {
		b = slices.Grow(b, end-len(b))[:end]
	}
	copy(b[off:], p)
	return b
}

// resize makes b n bytes long.
func resize(b []byte, n uint64) []byte {
	if n <= uint64(len(b)) {
		return b[:n]
	}
	return append(b, make([]byte, n-uint64(len(b)))...)
}

// writeFolder takes one write to a file of a folder. h.mu held.
func (c *control) writeFolder(f *fileSystem, h *handle, off uint64, data []byte) (uint32, fuse.Status) {
	at := int64(off)
	if h.flags&syscall.O_APPEND != 0 {
		at = -1
	}
	ch := h.ctl
	if g := ch.staged; g != nil {
		n := int(off) + len(data)
		if g.of != nil {
			n = len(data)
		}
		if !c.folders.room(g, n) {
			return 0, fuse.Status(syscall.ENOSPC)
		}
		defer g.lock()()
		next := put(g.data, at, data, maxStagedFile)
		if next == nil {
			return 0, fuse.Status(syscall.EFBIG)
		}
		g.wrote(next)
		g.pending = true
		return uint32(len(data)), fuse.OK
	}
	next := put(slices.Clip(ch.data), at, data, maxControl)
	if next == nil {
		return 0, fuse.Status(syscall.EFBIG)
	}
	ch.data, ch.dirty = next, true
	s, _, ok := c.folders.spot(h.node)
	if !ok {
		return 0, fuse.ENOENT
	}
	applied, st := c.apply(f, s, ch.data, false)
	if st != fuse.OK {
		return 0, st
	}
	ch.dirty = !applied
	return uint32(len(data)), fuse.OK
}

// apply hands over what was written to a file of a folder.
func (c *control) apply(f *fileSystem, s spot, data []byte, ended bool) (bool, fuse.Status) {
	r := c.row(s)
	if r == nil {
		return false, fuse.ENOENT
	}
	applied, err := r.Write(c.view, s.sub, s.name, slices.Clone(data), ended)
	if err != nil {
		return false, f.status("control", err)
	}
	return applied, fuse.OK
}

// flushFolder hands over what was not applied yet. What is incomplete stays: it
// may have been one of several descriptors. h.mu held.
func (c *control) flushFolder(f *fileSystem, h *handle) fuse.Status {
	s, g, ok := c.folders.spot(h.node)
	if !ok {
		return fuse.OK
	}
	if g == nil {
		if !h.ctl.dirty {
			return fuse.OK
		}
		applied, st := c.apply(f, s, h.ctl.data, true)
		h.ctl.dirty = !applied
		return st
	}
	p := h.ctl.staged
	if p == nil || p.of == nil {
		return fuse.OK
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.pending {
		return fuse.OK
	}
	_, st := c.apply(f, s, p.data, true)
	if st == fuse.OK {
		p.pending = false
		g.mu.Lock()
		defer g.mu.Unlock()
		g.handed = true
	}
	return st
}

// setattrFolder lets a file's size be set, which only stages; owner, mode and
// times are taken and forgotten.
func (c *control) setattrFolder(f *fileSystem, id nodeID, in *fuse.SetAttrIn, out *fuse.Attr) fuse.Status {
	s, g, ok := c.folders.spot(id)
	if !ok || s.dir {
		return fuse.EPERM
	}
	if in.Valid&fuse.FATTR_SIZE != 0 {
		if in.Size > maxControl {
			return fuse.Status(syscall.EFBIG)
		}
		if g != nil {
			if h := f.handles.get(in.Fh, id); in.Valid&fuse.FATTR_FH != 0 && h != nil && h.ctl != nil && h.ctl.staged != nil {
				g = h.ctl.staged
			}
			unlock := g.lock()
			g.wrote(resize(slices.Clip(g.data), in.Size))
			unlock()
		} else if h := f.handles.get(in.Fh, id); in.Valid&fuse.FATTR_FH != 0 && h != nil && h.ctl != nil {
			h.mu.Lock()
			h.ctl.data = resize(slices.Clip(h.ctl.data), in.Size)
			h.mu.Unlock()
		}
	}
	return c.getattr(id, out)
}

// unlink removes a staged file. A control file's name is free for a moment, for
// what is to replace it, and then back: the value stays.
func (c *control) unlink(parent nodeID, name string) fuse.Status {
	s, _, ok := c.folders.spot(parent)
	if !ok || !s.dir {
		return fuse.EPERM
	}
	r := c.row(s)
	if r == nil || !leaf(r, s) {
		return fuse.EPERM
	}
	at := spot{folder: s.folder, sub: s.sub, name: name}
	if g := c.folders.find(at); g != nil {
		c.folders.drop(g.id)
		return fuse.OK
	}
	e, there := c.folderEntry(r, at)
	switch {
	case !there:
		return fuse.ENOENT
	case !e.Writable:
		return fuse.EACCES
	}
	c.folders.leave(at)
	return fuse.OK
}
