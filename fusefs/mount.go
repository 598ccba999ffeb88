package fusefs

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/fusefs/filelock"
	"github.com/warrenfs/warren/policy/view"
)

// Config says what is mounted where.
type Config struct {
	Agent string
	Root  string // tree path shown as the mount's root; "" is "/"
	// Access of this mount. ReadOnly is MS_RDONLY too.
	Access view.Access
	// Dir is the mountpoint: an empty directory. Exact: it is where a mount was
	// before, and a symbolic link on the way to it now is Denied.
	Dir   string
	Exact bool
	// UID and GID are the mount's user: whose files "the owner"'s are, and who
	// may enter.
	UID, GID uint32
	// AllowOther lets other users in, as far as mode bits do.
	AllowOther bool
	Owners     bool          // other agents' files are shown as theirs (view.Options.Owners)
	ACL        bool          // POSIX ACLs are kept and enforced; each new node costs a GETXATTR
	Transport  string        // "": as Hub.SetTransport says, or TransportOwn
	Control    []ControlFile // besides those that every mount has
	Folders    []ControlFolder
}

// kernelModes reports whether the mount's kernel checks mode bits
// (default_permissions). It does if other users may enter, because only the kernel knows
// their groups and capabilities, or if ACLs must be enforced. Otherwise the view checks
// mode bits, with fewer requests.
func (c *Config) kernelModes() bool { return c.AllowOther || c.ACL }

// Mount is one view at one mountpoint.
type Mount struct {
	hub   *Hub
	cfg   Config
	fs    *fileSystem
	gate  *gate  // between the transport and fs
	minor uint32 // number of the FUSE connection
	id    int    // of the mount, as in mountinfo; 0: it is not in our tree
	since time.Time

	taking chan struct{} // holds one while somebody takes it out of the tree
	out    atomic.Bool   // it was seen to be out of the tree; see inTree
	taken  bool          // see Taken; set before done is closed
	left   atomic.Bool   // it is to stay in the tree when it ends
	end    sync.Once     // of the mount
	done   chan struct{} // closed when the mount is gone
	ended  chan struct{} // closed when the connection is
}

// Stats are one mount's figures.
type Stats struct {
	Requests map[string]uint64 `json:"requests"` // by opcode
	Notices  map[string]uint64 `json:"notices"`  // sent to its kernel
	Nodes    int               `json:"nodes"`    // that its kernel holds
	Handles  int               `json:"handles"`  // open files and directories
	// ShortTimeouts tells that the kernel is older than 6.16, where a change
	// made in another mount may stay unseen for a second.
	ShortTimeouts bool `json:"short_timeouts,omitempty"`
}

// Mount mounts cfg.Agent's view at cfg.Dir. When it returns, the mount is
// served, until Unmount, an umount(8), or the end of the connection.
//
// Errors: NotFound (unknown agent, a root it does not see, no mountpoint, no
// /dev/fuse), NotDir, NotEmpty, Busy (something is mounted there), Denied and
// NotPermitted (no right to mount), Unavailable (closed, or a mountpoint that
// hangs).
func (h *Hub) Mount(ctx context.Context, cfg Config) (*Mount, error) {
	dir, err := h.place(&cfg)
	if err != nil {
		return nil, err
	}
	cfg.Dir = dir
	if err := h.reserve(dir); err != nil {
		return nil, err
	}
	defer h.unreserve(dir)
	m := &Mount{hub: h, cfg: cfg, since: time.Now(), taking: make(chan struct{}, 1), done: make(chan struct{}), ended: make(chan struct{})}
	if err := m.openView(false); err != nil {
		return nil, err
	}
	t, err := m.start(ctx)
	if err != nil {
		close(m.ended)
		m.drop()
		return nil, err
	}
	h.mu.Lock()
	h.mounts[dir] = m
	closed := h.closed
	h.mu.Unlock()
	go m.serve(t)
	if closed { // Close has not seen it
		err := mountError(dir, backend.Unavailable, errors.New("the daemon is stopping"))
		return nil, errors.Join(err, m.Unmount(ctx, true))
	}
	return m, nil
}

// reserve keeps two callers from mounting on one directory at once.
func (h *Hub) reserve(dir string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return mountError(dir, backend.Unavailable, errors.New("the daemon is stopping"))
	case h.busy[dir]:
		return mountError(dir, backend.Busy, errors.New("it is being mounted right now"))
	}
	h.busy[dir] = true
	return nil
}

func (h *Hub) unreserve(dir string) {
	h.mu.Lock()
	delete(h.busy, dir)
	h.mu.Unlock()
}

// openView makes the mount's file system over its view, and joins the hub: from
// here on its kernel is told of changes, though it has nothing yet.
func (m *Mount) openView(handed bool) error {
	h := m.hub
	count := new(counters)
	k := newKernel(count)
	k.locks = mountLocks{conn: h.conns.Add(1), tables: [...]*filelock.Table{h.posix, h.flock}}
	o := view.Options{Agent: m.cfg.Agent, Root: m.cfg.Root, Access: m.cfg.Access,
		UID: m.cfg.UID, GID: m.cfg.GID, ACL: m.cfg.ACL, Owners: m.cfg.Owners, Observer: k, Mount: m.cfg.Dir}
	if !handed && !m.cfg.kernelModes() {
		o.Modes = callers{}
	}
	v, err := h.space.Open(o)
	if err != nil {
		return err
	}
	k.setRoot(v.Root())
	k.trusted = v.Role() == "orchestrator"
	m.fs = &fileSystem{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		ctx:           context.Background(),
		log:           h.log.With("mount", m.cfg.Dir, "agent", m.cfg.Agent),
		hub:           h,
		view:          v,
		kern:          k,
		count:         count,
		ctl:           newControl(v, append(h.controlFiles(), m.cfg.Control...), append(slices.Clone(h.serving.folders), m.cfg.Folders...)),
		conn:          k.locks.conn,
		acl:           m.cfg.ACL,
		modes:         o.Modes != nil,
	}
	m.gate = newGate(m.fs, count)
	k.busy = func() bool { return m.gate.inside.Load() > 0 || k.dev.asked() }
	if h.serving.visitor != nil && filepath.IsAbs(m.cfg.Dir) { // else it was handed over, and is in no tree of the daemon's
		k.visits.look = m.visit
	}
	h.join(k)
	return nil
}

// start mounts and does the handshake with the kernel.
func (m *Mount) start(ctx context.Context) (server, error) {
	dir := m.cfg.Dir
	if err := ctx.Err(); err != nil {
		return nil, mountError(dir, backend.Interrupted, err)
	}
	helper := m.hub.helper()
	fd, err := m.attach(!helper && !m.hub.tests.oldKernel)
	if errors.Is(err, errBeneath) {
		m.fs.log.Warn("the directory is bare for a moment while a dead mount is replaced; Linux 6.5 can do without", "err", err)
		fd, err = m.attach(false)
	}
	if err != nil {
		return nil, err
	}
	t, err := m.handshake(fd)
	if err != nil {
		_ = ClearDead(dir) // not what somebody else has mounted there meanwhile
		return nil, err
	}
	return t, nil
}

// attach mounts, if inPlace in the place of a dead mount.
func (m *Mount) attach(inPlace bool) (fd int, err error) {
	cfg := &m.cfg
	p, err := prepareMountpoint(cfg, inPlace, m.fs.log)
	if err != nil {
		return -1, err
	}
	defer p.close()
	call := mountCall{dir: cfg.Dir, at: fdPath(p.bare), over: p.over, source: "warren:" + cfg.Agent, uid: cfg.UID, gid: cfg.GID,
		allowOther: cfg.AllowOther, modes: cfg.kernelModes(), readOnly: cfg.Access == view.ReadOnly, helper: m.hub.helper()}
	return call.do()
}

// handshake takes fd over. After an error the connection has ended.
func (m *Mount) handshake(fd int) (server, error) {
	if err := m.number(fd); err != nil {
		unix.Close(fd)
		return nil, err
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		unix.Close(fd)
		return nil, mountError(m.cfg.Dir, backend.Other, err)
	}
	k := m.fs.kern
	if k.dev, err = newDevice(own, m.fs.count); err != nil {
		k.dev = nil
		unix.Close(fd)
		return nil, mountError(m.cfg.Dir, backend.Other, err)
	}
	t, err := newServer(cmp.Or(m.cfg.Transport, m.hub.serving.transport), fd, m.gate, serverOptions{
		acl: m.cfg.ACL, idmap: !m.fs.modes, links: !k.trusted, watch: &m.hub.serving.watch, ended: m.gate.shut, debug: m.hub.serving.debug, log: m.fs.log})
	if err != nil {
		k.dev.close() // the last of the connection
		return nil, err
	}
	k.dev.standby, m.gate.standby = t.Standby, t.Standby
	k.epochs = k.dev.incEpoch() == 0 && !m.hub.tests.oldKernel
	m.fs.ttl = longTimeouts
	if !k.epochs {
		m.fs.ttl = shortTimeouts
		m.fs.log.Warn("kernel older than 6.16: changes made in another mount may stay unseen for a second")
	}
	k.ready.Store(true)
	return t, nil
}

// number finds out by which numbers the mount and its connection, that of fd, are known.
func (m *Mount) number(fd int) error {
	if m.fs.handed != nil {
		return nil
	}
	table, err := mountTable()
	if err != nil && len(table) == 0 {
		return mountError(m.cfg.Dir, backend.Unavailable, err)
	}
	minor := connectionOf(fd)
	for i := len(table) - 1; i >= 0; i-- {
		if e := table[i]; e.Dir == m.cfg.Dir && e.Type == fsType && (minor == 0 || e.Minor == minor) {
			m.minor, m.id, m.fs.minor = e.Minor, e.ID, e.Minor
			return nil
		}
	}
	return mountError(m.cfg.Dir, backend.Stale, errors.New("it was taken away, or moved, while it was being mounted"))
}

// Wait returns when the mount is gone, however that came.
func (m *Mount) Wait() { <-m.done }

// Done is closed when the mount is gone.
func (m *Mount) Done() <-chan struct{} { return m.done }

// Taken tells, once Done is closed, whether the mount was out of the tree when
// its connection ended: by Unmount, or an umount(8).
func (m *Mount) Taken() bool { return m.taken }

// Dir is the mountpoint, absolute and without symbolic links.
func (m *Mount) Dir() string { return m.cfg.Dir }

// Config is what was mounted, with Dir resolved.
func (m *Mount) Config() Config { return m.cfg }

// Since tells when it was mounted.
func (m *Mount) Since() time.Time { return m.since }

// Connection is the number of the FUSE connection, as under
// /sys/fs/fuse/connections.
func (m *Mount) Connection() uint32 { return m.minor }

// Stats gives the mount's figures so far.
func (m *Mount) Stats() Stats {
	f := m.fs
	c := f.count.snapshot()
	return Stats{
		Requests:      c.requests(),
		Notices:       c.notices(),
		Nodes:         f.kern.size(),
		Handles:       f.handles.size(),
		ShortTimeouts: !f.kern.epochs,
	}
}

// Mounts lists what is mounted, by mountpoint.
func (h *Hub) Mounts() []*Mount {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]*Mount, 0, len(h.mounts))
	for _, m := range h.mounts {
		out = append(out, m)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].cfg.Dir < out[j].cfg.Dir })
	return out
}
