package fusefs

import "time"

// patience bounds how long a change waits for the kernel of a mount whose
// processes are not trusted. A program can keep a directory's lock, by reading
// it into memory that it makes faults of wait; it must not be able to stop who
// works on the directory from another mount.
const patience = time.Second

// within runs fn, which may wait for something in this kernel. An orchestrator's
// mount is waited for, in this goroutine; any other may be left behind, and fn
// goes on in one of its own. It tells whether fn has ended.
func (k *kernel) within(fn func()) bool {
	if k.trusted {
		fn()
		return true
	}
	ended := make(chan struct{})
	go func() {
		fn()
		close(ended)
	}()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-ended:
		return true
	case <-t.C:
	}
	k.count.add(noteOverdue)
	k.overdue.Add(1)
	go func() {
		<-ended
		k.overdue.Add(-1)
	}()
	return false
}

// send tells the kernel. No lock may be held. Where the kernel keeps it waiting
// too long its names are made stale by what waits for nothing; pages that it
// keeps locked go as soon as it lets go of them.
func (n *notices) send() {
	k := n.to
	if !n.mayWait() {
		n.tell()
		return
	}
	if k.within(n.tell) {
		return
	}
	if k.epochs {
		k.dev.incEpoch()
	}
	for i := range n.inodes {
		k.dev.invalInode(k.wire(n.inodes[i].node), -1, 0)
	}
}

// mayWait tells whether telling can wait for something in the kernel.
func (n *notices) mayWait() bool {
	if !n.epoch && len(n.entries) > 0 {
		return true
	}
	for i := range n.inodes {
		if n.inodes[i].off >= 0 {
			return true
		}
	}
	return false
}
