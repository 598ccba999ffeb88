package mcp_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/warrenfs/warren/scripts/stack"
	"github.com/warrenfs/warren/scripts/waits"
)

var shared stack.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// soul is the agent that the tests work as.
const soul = "web_designer"

// running gives the daemon that all tests share, with a second soul that the
// first does not see, and a shared agent.
func running(t *testing.T) *stack.Stack {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting by mount(2) needs root")
	}
	s := shared.Running(t)
	if _, err := s.Try("agent", "show", "stranger"); err != nil {
		s.Warren(t, "user", "add", "bob")
		s.Warren(t, "agent", "add", "stranger", "--user", "bob")
		s.Warren(t, "agent", "add", "concierge", "--role", "shared")
	}
	return s
}

// host is a client of one `warren mcp` over its standard streams.
type host struct {
	t     *testing.T
	s     *sdk.ClientSession
	out   map[string]*jsonschema.Resolved // output schemas, by tool
	tools []*sdk.Tool
	log   *bytes.Buffer
}

// connect starts `warren mcp` with args.
func connect(t *testing.T, s *stack.Stack, args ...string) *host {
	t.Helper()
	return connectAs(t, s, nil, args...)
}

// connectAs is connect for a host with handlers of its own.
func connectAs(t *testing.T, s *stack.Stack, o *sdk.ClientOptions, args ...string) *host {
	t.Helper()
	h := &host{t: t, out: map[string]*jsonschema.Resolved{}, log: &bytes.Buffer{}}
	cmd := s.Command(append([]string{"mcp"}, args...)...)
	cmd.Stderr = h.log
	var err error
	c := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o)
	if h.s, err = c.Connect(t.Context(), &sdk.CommandTransport{Command: cmd, TerminateDuration: 20 * time.Second}, nil); err != nil {
		t.Fatalf("%v\n%s", err, h.log)
	}
	t.Cleanup(func() {
		if err := h.s.Close(); err != nil {
			t.Errorf("close: %v\n%s", err, h.log)
		}
	})
	got, err := h.s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	h.tools = got.Tools
	for _, tool := range got.Tools {
		b, err := json.Marshal(tool.OutputSchema)
		if err != nil {
			t.Fatal(err)
		}
		var schema jsonschema.Schema
		if err := json.Unmarshal(b, &schema); err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
		if h.out[tool.Name], err = schema.Resolve(nil); err != nil {
			t.Fatalf("%s: %v", tool.Name, err)
		}
	}
	return h
}

// raw makes a call; the protocol must carry it.
func (h *host) raw(tool string, args any) *sdk.CallToolResult {
	h.t.Helper()
	ctx, cancel := waits.Context(h.t.Context(), time.Minute)
	defer cancel()
	r, err := h.s.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		h.t.Fatalf("%s %.200v: %v\n%s", tool, args, err, h.log)
	}
	return r
}

// object is a JSON object.
type object = map[string]any

// call makes a call that must work, and gives its structure, which must be as the
// tool's schema says.
func (h *host) call(tool string, args any) object {
	h.t.Helper()
	r := h.raw(tool, args)
	if r.IsError {
		h.t.Fatalf("%s %v: %s", tool, args, textOf(r))
	}
	return h.checked(tool, r)
}

// checked gives the structure of an answer.
func (h *host) checked(tool string, r *sdk.CallToolResult) object {
	h.t.Helper()
	out, ok := r.StructuredContent.(object)
	if !ok || len(r.Content) == 0 {
		h.t.Fatalf("%s: structure %T, %d pieces of content", tool, r.StructuredContent, len(r.Content))
	}
	if err := h.out[tool].Validate(r.StructuredContent); err != nil {
		h.t.Errorf("%s: the answer is not as its schema says: %v", tool, err)
	}
	return out
}

// fails makes a call that must fail with one of the kinds, and gives the error.
func (h *host) fails(tool string, args any, kinds ...string) object {
	h.t.Helper()
	r := h.raw(tool, args)
	if !r.IsError {
		h.t.Errorf("%s %.200v works: %s", tool, args, textOf(r))
		return nil
	}
	return h.refusal(tool, r, kinds...)
}

// refusal checks the shape of a failed call.
func (h *host) refusal(tool string, r *sdk.CallToolResult, kinds ...string) object {
	h.t.Helper()
	var e object
	if err := json.Unmarshal([]byte(textOf(r)), &e); err != nil || e["error"] == "" || r.StructuredContent != nil {
		h.t.Fatalf("%s: %v: %s", tool, err, textOf(r))
	}
	kind, _ := e["kind"].(string)
	for _, k := range kinds {
		if k == kind {
			return e
		}
	}
	h.t.Errorf("%s: kind %q, want one of %v: %v", tool, kind, kinds, e["error"])
	return e
}

func textOf(r *sdk.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}
