package visitor

import (
	"encoding/gob"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	// lookTime bounds one look-up: a process that takes longer is killed.
	lookTime = 5 * time.Second
	// idleTime is the time without a visit after which the process ends.
	idleTime = time.Minute
	// maxStuck bounds the processes that were killed and have not ended.
	maxStuck = 4
)

// ErrLate is the error of a look-up that took too long.
var ErrLate = errors.New("the look-up takes too long")

var (
	errEnded  = errors.New("the visitor has ended")
	errClosed = errors.New("the visitor is closed")
	errStuck  = errors.New("too many visitors were killed and do not end")
)

// Client has one process that visits mounts. It is safe for concurrent use.
type Client struct {
	exe string
	log *slog.Logger

	mu     sync.Mutex
	now    *process // nil: none runs
	alive  int      // processes that have not ended
	closed bool
	idle   *time.Timer
}

// New returns a client whose process is exe, started as Stage.
func New(exe string, log *slog.Logger) *Client { return &Client{exe: exe, log: log} }

// Look looks v up. Errors: ErrLate; a syscall.Errno, of which ENOENT means that
// v.Path does not lead to the directory; others if no process can be asked.
func (c *Client) Look(v Visit) error {
	for again := true; ; again = false {
		p, err := c.process()
		if err != nil {
			return err
		}
		err = p.ask(v)
		if errors.Is(err, ErrLate) {
			c.drop(p)
		}
		if again && errors.Is(err, errEnded) { // killed because of another mount, perhaps
			c.drop(p)
			continue
		}
		return err
	}
}

// Close ends the process.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.now != nil {
		c.now.kill()
		c.now = nil
	}
	if c.idle != nil {
		c.idle.Stop()
	}
}

// process returns the process that runs, or starts one.
func (c *Client) process() (*process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, errClosed
	case c.now != nil:
		c.idle.Reset(idleTime)
		return c.now, nil
	case c.alive >= maxStuck:
		return nil, errStuck
	}
	p, err := start(c.exe)
	if err != nil {
		c.log.Warn("the visitor cannot be started: processes in a directory that is renamed through another mount may be told its old name", "err", err)
		return nil, err
	}
	c.now = p
	c.alive++
	go func() {
		<-p.ended
		c.mu.Lock()
		c.alive--
		c.mu.Unlock()
		c.drop(p)
	}()
	c.idle = time.AfterFunc(idleTime, func() { c.rest(p) })
	return p, nil
}

// drop makes the next visit start another process than p.
func (c *Client) drop(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == p {
		c.now = nil
		c.idle.Stop()
	}
}

// rest ends p if nobody waits for it.
func (c *Client) rest(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == p && !p.asked() {
		c.now = nil
		p.kill()
	}
}

// process is a visitor that was started.
type process struct {
	cmd   *exec.Cmd
	in    io.Closer
	dead  chan struct{} // closed when it is killed or has ended
	ended chan struct{} // closed when it has ended
	once  sync.Once     // of closing dead

	mu      sync.Mutex
	enc     *gob.Encoder
	last    uint64
	waiting map[uint64]chan syscall.Errno
}

func start(exe string) (*process, error) {
	cmd := exec.Command(exe)
	cmd.Args = []string{Stage}
	cmd.Dir, cmd.Env, cmd.Stderr = "/", []string{"GOMAXPROCS=2", "GOGC=20"}, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a terminal's signals are the daemon's
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, in: in, enc: gob.NewEncoder(in), dead: make(chan struct{}), ended: make(chan struct{}),
		waiting: make(map[uint64]chan syscall.Errno)}
	go p.read(out)
	return p, nil
}

// read hands out the replies until the process ends.
func (p *process) read(out io.Reader) {
	for dec := gob.NewDecoder(out); ; {
		var r reply
		if err := dec.Decode(&r); err != nil {
			break
		}
		p.mu.Lock()
		if answer := p.waiting[r.ID]; answer != nil {
			answer <- r.Errno
		}
		p.mu.Unlock()
	}
	p.kill()
	_ = p.cmd.Wait()
	close(p.ended)
}

func (p *process) ask(v Visit) error {
	answer := make(chan syscall.Errno, 1)
	p.mu.Lock()
	p.last++
	id := p.last
	p.waiting[id] = answer
	err := p.enc.Encode(request{ID: id, Visit: v})
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.waiting, id)
		p.mu.Unlock()
	}()
	if err != nil {
		p.kill()
		return errEnded
	}
	t := time.NewTimer(lookTime)
	defer t.Stop()
	select {
	case errno := <-answer:
		if errno != 0 {
			return errno
		}
		return nil
	case <-p.dead:
		return errEnded
	case <-t.C:
		p.kill()
		return ErrLate
	}
}

func (p *process) asked() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.waiting) > 0
}

// kill ends the process, without waiting for its end.
func (p *process) kill() {
	p.once.Do(func() {
		close(p.dead)
		_ = p.in.Close()
		_ = p.cmd.Process.Kill()
	})
}
