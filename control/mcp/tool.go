package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/warrenfs/warren/control"
)

// tool is one tool with what does it.
type tool struct {
	def   *sdk.Tool
	group string
	in    *jsonschema.Resolved
	do    func(context.Context, *Server, json.RawMessage) (*sdk.CallToolResult, error)
}

// about is what is said of a tool.
type about struct {
	name, group, title, text string
	effect                   effect
	open                     bool // it goes to other machines
	// limits sharpens the schema that the type of the arguments gives.
	limits func(*jsonschema.Schema)
}

// effect says what a tool does to what is there.
type effect uint8

const (
	reads    effect = iota // changes nothing
	adds                   // only makes what was not there
	addsOnce               // and once more makes no difference
	replaces               // may take away what was there
	settles                // and once more makes no difference
)

// annotations tell a host of an effect.
func (e effect) annotations(title string, open bool) *sdk.ToolAnnotations {
	destructive := e == replaces || e == settles
	return &sdk.ToolAnnotations{Title: title, ReadOnlyHint: e == reads, DestructiveHint: &destructive,
		IdempotentHint: e == reads || e == addsOnce || e == settles, OpenWorldHint: &open}
}

// said is an answer in other forms than its structure: text, which a model reads,
// or content that stands for it.
type said struct {
	text    string
	content []sdk.Content
}

// define makes a tool of a function. The types of its arguments and answer give
// the schemas; it panics if one has none, which a test finds.
func define[In, Out any](a about, do func(context.Context, *Server, In) (Out, said, error)) tool {
	in, out := schema[In](), schema[Out]()
	if a.limits != nil {
		a.limits(in)
	}
	resolved, err := in.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		panic(fmt.Sprintf("tool %s: %v", a.name, err))
	}
	return tool{group: a.group, in: resolved,
		def: &sdk.Tool{Name: a.name, Title: a.title, Description: a.text, InputSchema: in, OutputSchema: out,
			Annotations: a.effect.annotations(a.title, a.open)},
		do: func(ctx context.Context, s *Server, raw json.RawMessage) (*sdk.CallToolResult, error) {
			var args In
			d := json.NewDecoder(bytes.NewReader(raw))
			d.UseNumber() // a number of any length stays what it is
			if err := d.Decode(&args); err != nil {
				return nil, control.Errorf(control.KindInvalid, "arguments: %v", err)
			}
			v, text, err := do(ctx, s, args)
			if err != nil {
				return nil, err
			}
			b, err := json.Marshal(v)
			if err != nil {
				return nil, err
			}
			content := text.content
			if content == nil {
				content = []sdk.Content{&sdk.TextContent{Text: text.text}}
			}
			return &sdk.CallToolResult{Content: content, StructuredContent: json.RawMessage(b)}, nil
		}}
}

// schema makes the schema of T, with lists that are never null.
func schema[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err)
	}
	plain(s)
	return s
}

// plain says of every list that it is one, and of nothing that it may be null.
func plain(s *jsonschema.Schema) {
	if len(s.Types) == 2 && s.Types[0] == "null" {
		s.Type, s.Types = s.Types[1], nil
	}
	for _, p := range s.Properties {
		plain(p)
	}
	if s.Items != nil {
		plain(s.Items)
	}
}

// maxArguments bounds the arguments of a call, in bytes.
const maxArguments = 56 << 20

// handler makes what the SDK calls: it checks the arguments, does the tool, words
// its failure and writes the log.
func (s *Server) handler(t tool) sdk.ToolHandler {
	return func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		start := time.Now()
		r, err := s.paced(ctx, t, req)
		if r != nil && r.InputRequests != nil {
			return r, nil // the host is asked something, and makes the call again
		}
		outcome := "ok"
		if err != nil {
			outcome = string(kindOf(err))
			r = &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: errorText(err)}}}
		}
		s.o.Log.Info("call", "agent", s.who, "tool", t.def.Name, "ms", float64(time.Since(start).Microseconds())/1000, "outcome", outcome)
		return r, nil
	}
}

// paced makes a call in its turn, and tells a host that asked how it goes on.
func (s *Server) paced(ctx context.Context, t tool, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	defer progress(ctx, req, t.def.Name)()
	ctx, done, err := s.load.begin(ctx, len(req.Params.Arguments))
	if err != nil {
		return nil, err
	}
	defer done()
	return t.call(ctx, s, req)
}

// call checks the arguments and does the tool.
func (t tool) call(ctx context.Context, s *Server, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
	raw := req.Params.Arguments
	if len(raw) > maxArguments {
		return nil, control.Errorf(control.KindInvalid, "arguments: more than %d bytes", maxArguments)
	}
	if len(raw) == 0 || string(raw) == "null" {
		raw = json.RawMessage("{}")
	}
	args, err := object(raw)
	if err != nil {
		return nil, err
	}
	if err := t.in.Validate(args); err != nil {
		return nil, control.Errorf(control.KindInvalid, "arguments: %v", err)
	}
	if t.group == "files" {
		roots, ask := s.rootsOf(ctx, req)
		if ask != nil {
			return ask, nil
		}
		if len(roots) > 0 {
			s = s.startingIn(roots[0])
			err = s.keepTo(roots, args)
		}
		if err != nil {
			return nil, err
		}
	}
	return t.do(ctx, s, raw)
}

// failure is the text of a failed call.
type failure struct {
	Error   string         `json:"error"`
	Kind    control.Kind   `json:"kind"`
	Details map[string]any `json:"details,omitempty"`
}

// maxError bounds the text of an error, in bytes: it may quote arguments.
const maxError = 2000

func errorText(err error) string {
	f := failure{Error: err.Error(), Kind: kindOf(err)}
	if len(f.Error) > maxError {
		f.Error = strings.ToValidUTF8(f.Error[:maxError], "") + "…"
	}
	var e *control.Error
	if errors.As(err, &e) {
		f.Details = e.Details
	}
	b, err := json.Marshal(f)
	if err != nil {
		return `{"error":"failed","kind":"unavailable"}`
	}
	return string(b)
}

// kindOf maps the API's kinds to those that tools have: a failure that is nobody's
// fault is "unavailable", as is one that was given up.
func kindOf(err error) control.Kind {
	switch k := control.KindOf(err); k {
	case control.KindNotFound, control.KindDenied, control.KindInvalid, control.KindConflict, control.KindQuota:
		return k
	}
	return control.KindUnavailable
}

// all gives every tool.
func all() []tool {
	return slices.Concat(fileTools(), changeTools(), itemTools(), fieldTools(), sessionTools(), projectTools(), delegationTools(), gitTools())
}

// Groups are the names that stand for several tools.
func Groups() []string {
	var out []string
	for _, t := range all() {
		if !slices.Contains(out, t.group) {
			out = append(out, t.group)
		}
	}
	return out
}

// choose gives the tools that are asked for.
func choose(names []string, readOnly bool) ([]tool, error) {
	tools, used := all(), map[string]bool{}
	var out []tool
	for _, t := range tools {
		wanted := len(names) == 0
		for _, n := range names {
			if n == t.def.Name || n == t.group {
				wanted, used[n] = true, true
			}
		}
		if wanted && (!readOnly || t.def.Annotations.ReadOnlyHint) {
			out = append(out, t)
		}
	}
	for _, n := range names {
		if !used[n] {
			var known []string
			for _, t := range tools {
				known = append(known, t.def.Name)
			}
			return nil, control.Errorf(control.KindInvalid, "no tool or group of tools is called %q; groups: %s; tools: %s", n,
				strings.Join(Groups(), ", "), strings.Join(known, ", "))
		}
	}
	return out, nil
}
