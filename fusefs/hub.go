package fusefs

import (
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/latency"
	"github.com/warrenfs/warren/fusefs/filelock"
	"github.com/warrenfs/warren/fusefs/transport"
	"github.com/warrenfs/warren/fusefs/visitor"
	"github.com/warrenfs/warren/policy/view"
)

// Space is what the hub needs of *view.Space.
type Space interface {
	Open(view.Options) (*view.View, error)
	// Dropped tells that no mount holds node any more.
	Dropped(backend.NodeID)
}

var _ Space = (*view.Space)(nil)

// Hub joins the mounts of one daemon: it tells each of the others' changes and
// keeps what they share, file locks and cached writers. Give it to
// view.Space.SetNotifier before the first mount.
type Hub struct {
	space Space
	log   *slog.Logger
	posix *filelock.Table
	flock *filelock.Table
	order maphash.Seed // of the cookies in listings

	kernels atomic.Pointer[[]*kernel] // replaced under mu
	conns   atomic.Uint64
	writers writers
	drops   dropper
	serving serving
	sums    sums

	mu     sync.Mutex
	mounts map[string]*Mount // by mountpoint
	busy   map[string]bool   // mountpoints being mounted
	closed bool

	tests pretend // what tests make different
}

// pretend changes what a machine of today never shows. Its zero value changes
// nothing.
type pretend struct {
	oldKernel bool          // as if kernels knew no INC_EPOCH
	helper    bool          // mount by fusermount3 though root
	answer    time.Duration // in place of answerTime
}

var _ view.Notifier = (*Hub)(nil)

// NewHub makes a hub over space. log nil discards.
func NewHub(space Space, log *slog.Logger) *Hub {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	h := &Hub{
		space:  space,
		log:    log,
		posix:  filelock.NewTable(filelock.Grace),
		flock:  filelock.NewTable(filelock.Grace),
		order:  maphash.MakeSeed(),
		mounts: make(map[string]*Mount),
		busy:   make(map[string]bool),
	}
	h.kernels.Store(&[]*kernel{})
	h.writers.of = make(map[backend.NodeID]writer)
	h.drops.start(space.Dropped)
	return h
}

// serving is how mounts are served that do not say.
type serving struct {
	transport string
	debug     bool
	watch     transport.Watch
	files     []ControlFile
	folders   []ControlFolder
	visitor   *visitor.Client // nil: no mount is visited
}

// SetControl adds control files and directories to every mount. It must be
// called before the first mount.
func (h *Hub) SetControl(files []ControlFile, folders []ControlFolder) {
	h.serving.files, h.serving.folders = files, folders
}

// SetTransport names the transport of mounts whose Config names none, and tells
// whether each request and reply is logged, at level debug: names, sizes, and
// the first bytes of contents. It must be called before the first mount. It
// fails with Invalid when there is no such transport.
func (h *Hub) SetTransport(name string, debug bool) error {
	if !slices.Contains(Transports(), name) {
		return noTransport(name)
	}
	h.serving.transport, h.serving.debug = name, debug
	return nil
}

// Collect implements view.Notifier.
func (h *Hub) Collect(by view.Observer, changes []view.Change) view.Pending {
	out := pending{waits: &h.sums.waits}
	for _, k := range *h.kernels.Load() {
		if view.Observer(k) == by {
			k.own(changes)
			out.by = k
			continue
		}
		if n := k.collect(changes); n != nil {
			out.list = append(out.list, n)
		}
	}
	if out.list == nil {
		return nil
	}
	return out
}

// pending are the notices of one change set.
type pending struct {
	by    *kernel // of the mount whose request it is; nil: of none
	list  []*notices
	waits *latency.Histogram
}

// Send implements view.Pending. The mount of the sender is served until it returns:
// a kernel that is told may be waiting for it. Directories that moved are then looked
// up where kernels hold them.
func (p pending) Send() {
	start := time.Now()
	for _, n := range p.list {
		if p.by != nil && n.mayWait() {
			p.by.dev.standby()
		}
		n.send()
	}
	p.visit(start.Add(patience))
	p.waits.Observe(time.Since(start))
}

// InUse implements view.Notifier.
func (h *Hub) InUse(node backend.NodeID) bool {
	for _, k := range *h.kernels.Load() {
		if k.Holds(node) {
			return true
		}
	}
	return false
}

// shared tells whether a kernel other than k holds node.
func (h *Hub) shared(k *kernel, node backend.NodeID) bool {
	for _, o := range *h.kernels.Load() {
		if o != k && o.Holds(node) {
			return true
		}
	}
	return false
}

// join makes k one of those that are told.
func (h *Hub) join(k *kernel) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := append([]*kernel{}, *h.kernels.Load()...)
	list = append(list, k)
	h.kernels.Store(&list)
}

// leave takes k out and lets go of all that its mount held.
func (h *Hub) leave(k *kernel) {
	h.mu.Lock()
	list := make([]*kernel, 0, len(*h.kernels.Load()))
	for _, o := range *h.kernels.Load() {
		if o != k {
			list = append(list, o)
			continue
		}
		h.sums.past.fold(k.count)
	}
	h.kernels.Store(&list)
	h.mu.Unlock()
	for _, node := range k.bury() {
		h.drop(node)
	}
}

// drop follows up on a node that one kernel let go of.
func (h *Hub) drop(node backend.NodeID) {
	if !h.InUse(node) {
		h.drops.add(node)
	}
}

// dropper tells the space of dropped nodes, in a goroutine of its own: FORGET
// must be quick, since the transport starts no second reader for it, and a
// dropped orphan costs a transaction. It gathers for a moment: waking it for each
// would cost more than the rest.
type dropper struct {
	mu    sync.Mutex
	wake  *sync.Cond
	queue []backend.NodeID
	ended bool
	done  chan struct{}
}

// gatherTime is how long dropped nodes wait for others.
const gatherTime = 10 * time.Millisecond

func (d *dropper) start(dropped func(backend.NodeID)) {
	d.wake = sync.NewCond(&d.mu)
	d.done = make(chan struct{})
	go d.run(dropped)
}

func (d *dropper) run(dropped func(backend.NodeID)) {
	defer close(d.done)
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		for len(d.queue) == 0 {
			if d.ended {
				return
			}
			d.wake.Wait()
		}
		ended := d.ended
		d.mu.Unlock()
		if !ended {
			time.Sleep(gatherTime)
		}
		d.mu.Lock()
		batch := d.queue
		d.queue = nil
		d.mu.Unlock()
		for _, node := range batch {
			dropped(node)
		}
		d.mu.Lock()
	}
}

func (d *dropper) add(node backend.NodeID) {
	d.mu.Lock()
	d.queue = append(d.queue, node)
	first := len(d.queue) == 1
	d.mu.Unlock()
	if first {
		d.wake.Signal()
	}
}

// stop returns when all that was queued has been told.
func (d *dropper) stop() {
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	d.wake.Signal()
	<-d.done
}
