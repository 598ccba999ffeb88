package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessage bounds one message, in bytes: 8 MiB of text may be six times as
// much in JSON.
const maxMessage = 64 << 20

// maxLinger bounds how long what was asked may take once no more comes in.
const maxLinger = time.Minute

// stdio is a transport over two streams, one JSON message a line. Other than the
// SDK's it lives on when a line is no message: the host is told, as JSON-RPC says,
// and the next line is read.
type stdio struct {
	in  io.Reader
	out io.Writer
}

var _ sdk.Transport = (*stdio)(nil)

// Connect starts to read.
func (t *stdio) Connect(context.Context) (sdk.Connection, error) {
	c := &lines{out: t.out, got: make(chan jsonrpc.Message), closed: make(chan struct{}), waiting: map[jsonrpc.ID]bool{}}
	go c.read(bufio.NewReaderSize(t.in, 64<<10))
	return c, nil
}

// lines is the one connection of a stdio.
type lines struct {
	got    chan jsonrpc.Message // closed at the end of what comes in
	closed chan struct{}
	once   sync.Once
	failed error // why got was closed; set before that

	mu      sync.Mutex // one message at a time
	out     io.Writer
	waiting map[jsonrpc.ID]bool // calls that were read and not answered
	quiet   chan struct{}       // closed when in has ended and nothing waits
}

var _ sdk.Connection = (*lines)(nil)

// read takes messages off in until its end, or until the connection is closed.
func (c *lines) read(in *bufio.Reader) {
	defer close(c.got)
	for {
		line, long, err := readLine(in)
		if len(line) > 0 || long {
			m, derr := decode(line, long)
			if derr != nil {
				c.refuse(derr)
			} else {
				select {
				case c.got <- m:
				case <-c.closed:
					return
				}
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				c.failed = err
			}
			return
		}
	}
}

// readLine reads one line without its end; of one that is too long, nothing.
func readLine(in *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > maxMessage {
			line, long = nil, true
		}
		if !long {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimSpace(line), long, err
	}
}

// refusal is why a line is no message.
type refusal struct {
	code int
	text string
	id   json.RawMessage // null where it is not known
}

// Error gives the text.
func (r *refusal) Error() string { return r.text }

// decode makes a message of a line.
func decode(line []byte, long bool) (jsonrpc.Message, error) {
	null := json.RawMessage("null")
	switch {
	case long:
		return nil, &refusal{jsonrpc.CodeInvalidRequest, "the message is too long", null}
	case !json.Valid(line):
		return nil, &refusal{jsonrpc.CodeParseError, "the line is not JSON", null}
	case line[0] != '{':
		return nil, &refusal{jsonrpc.CodeInvalidRequest, "the line is not one message; batches are not understood", null}
	}
	m, err := jsonrpc.DecodeMessage(line)
	if err == nil {
		return m, nil
	}
	var head struct {
		ID json.RawMessage `json:"id"`
	}
	r := &refusal{jsonrpc.CodeInvalidRequest, "the message is not understood", null}
	if json.Unmarshal(line, &head) == nil && len(head.ID) > 0 && (head.ID[0] == '"' || head.ID[0] >= '0' && head.ID[0] <= '9') {
		r.id = head.ID
	}
	return nil, r
}

// refuse tells the host of a line that is no message.
func (c *lines) refuse(err error) {
	var r *refusal
	if !errors.As(err, &r) {
		return
	}
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": r.id, "error": map[string]any{"code": r.code, "message": r.text}})
	if err == nil {
		_ = c.write(b) // a host that does not read is noticed at the next answer
	}
}

// Read gives the next message, or, when all that was asked is answered, io.EOF.
func (c *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m, ok := <-c.got:
		if r, is := m.(*jsonrpc.Request); is && r.IsCall() {
			c.mu.Lock()
			c.waiting[r.ID] = true
			c.mu.Unlock()
		}
		if ok {
			return m, nil
		}
		select {
		case <-c.answered():
		case <-time.After(maxLinger):
		case <-c.closed:
		case <-ctx.Done():
		}
		if c.failed != nil {
			return nil, c.failed
		}
		return nil, io.EOF
	case <-c.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// answered gives a channel that is closed when no call waits for its answer.
func (c *lines) answered() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quiet = make(chan struct{})
	if len(c.waiting) == 0 {
		close(c.quiet)
	}
	return c.quiet
}

// Write sends one message.
func (c *lines) Write(_ context.Context, m jsonrpc.Message) error {
	b, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	if err := c.write(b); err != nil {
		return err
	}
	if r, ok := m.(*jsonrpc.Response); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		was := len(c.waiting)
		delete(c.waiting, r.ID)
		if c.quiet != nil && was > 0 && len(c.waiting) == 0 {
			close(c.quiet)
		}
	}
	return nil
}

func (c *lines) write(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.out.Write(append(b, '\n'))
	return err
}

// Close ends the connection; a read of the stream that waits is left to itself.
func (c *lines) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

// SessionID is none: there is one session.
func (c *lines) SessionID() string { return "" }
