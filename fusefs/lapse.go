package fusefs

import (
	"time"

	"github.com/warrenfs/warren/backend"
)

// lapse is a name that INC_EPOCH made the kernel ask for again, where it may still
// hold what the name led to.
type lapse struct {
	parent backend.NodeID
	name   string
	led    backend.NodeID // to this, 0: to what is not known
}

const (
	// maxLapses bounds those that are kept; what others lead to is held until the
	// kernel asks for the name or wants its memory back.
	maxLapses = 4096
	// lapseTries is how often a lapse is put off, by echoDelay, while requests of the
	// mount change names.
	lapseTries = 10
)

// lapsed notes names of which INC_EPOCH told the kernel. It does not let go of
// what they led to until somebody asks for them: a file that has lost its last name so keeps its
// bytes. So what has not been asked for a little later is told of by INVAL_ENTRY,
// for which no change waits. mu held.
func (k *kernel) lapsed(l lapse) {
	if len(k.lapses) >= maxLapses {
		return
	}
	if len(k.lapses) == 0 {
		k.lapses = make(map[uint64]lapse)
		time.AfterFunc(echoDelay, func() { k.tellLapses(1) })
	}
	k.lapses[k.nameHash(l.parent, l.name)] = l
}

// tellLapses sends what lapsed has noted.
func (k *kernel) tellLapses(try int) {
	if try < lapseTries && k.naming.Load() > 0 {
		time.AfterFunc(echoDelay, func() { k.tellLapses(try + 1) })
		return
	}
	k.mu.Lock()
	var todo []lapse
	for _, l := range k.lapses {
		if _, held := k.nodes.get(l.led); held || l.led == 0 {
			todo = append(todo, l)
		}
	}
	k.lapses = nil
	k.mu.Unlock()
	for _, l := range todo {
		k.dev.invalEntry(k.wire(l.parent), l.name)
	}
}

// answered notes that the kernel asked for a name, and so let go of what it led to
// before. mu held.
func (k *kernel) answered(hash uint64) {
	if len(k.lapses) > 0 {
		delete(k.lapses, hash)
	}
}
