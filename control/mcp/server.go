package mcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path"
	"strings"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/warrenfs/warren/control"
)

// Options say whom a Server works for and what it offers.
type Options struct {
	Client *control.Client
	// Agent through whose view all is done; "": the one of the client's token.
	Agent string
	// Project that relative paths start in: a directory of the agent's workspace,
	// or /projects/NAME. "": they start in the workspace.
	Project string
	// ReadOnly leaves out the tools that change something.
	ReadOnly bool
	// Tools are names of tools, and of groups of them (Groups); none: all.
	Tools   []string
	Version string // of the program, as hosts are told
	Git     Git    // runs git; nil: there are no git tools
	// Log gets a line for each call: agent, tool, duration, outcome. No arguments
	// and no answers. nil discards.
	Log *slog.Logger
}

// Server offers tools to hosts, which all work for one agent.
type Server struct {
	o   Options
	sdk *sdk.Server
	who string // key of the agent, for the log; "": not known

	load  *load
	watch watch

	mu    sync.Mutex
	roots map[*sdk.ServerSession]hostRoots
}

// New makes a server. KindInvalid: Options.Tools names none that there is.
func New(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, who: o.Agent, load: newLoad(), roots: map[*sdk.ServerSession]hostRoots{}}
	options := &sdk.ServerOptions{Instructions: instructions(&o), Capabilities: &sdk.ServerCapabilities{},
		SubscribeHandler: s.subscribe, UnsubscribeHandler: s.unsubscribe}
	s.watchRoots(options)
	s.sdk = sdk.NewServer(&sdk.Implementation{Name: "warren", Title: "warren", Version: o.Version}, options)
	tools, err := choose(o.Tools, o.ReadOnly)
	if err != nil {
		return nil, err
	}
	for _, t := range tools {
		if t.group == gitGroup && o.Git == nil {
			continue
		}
		s.sdk.AddTool(t.def, s.handler(t))
	}
	s.sdk.AddResource(&sdk.Resource{URI: contextURI, Name: "context", Title: "Context", MIMEType: "text/markdown",
		Description: "Who the agent is, where it may write, its quota, projects, fields and recent denials."}, s.readContext)
	return s, nil
}

// EnterProject makes the project that Options names, if it is one of the agent's
// own workspace and the server may change something. Errors: those of
// control.Client.MakeDir.
func (s *Server) EnterProject(ctx context.Context) error {
	if s.o.Project == "" || s.o.ReadOnly || strings.HasPrefix(s.o.Project, "/") {
		return nil
	}
	_, err := s.o.Client.MakeDir(ctx, control.MakeDir{Agent: s.o.Agent, Path: s.o.Project, Parents: true})
	return err
}

// contextURI names the state that an agent's prompt includes.
const contextURI = "warren://context"

func (s *Server) readContext(ctx context.Context, _ *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	c, err := s.o.Client.Context(ctx, s.o.Agent)
	if err != nil {
		return nil, errors.New(errorText(err))
	}
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: contextURI, MIMEType: "text/markdown", Text: c.Text}}}, nil
}

// instructions are what a host may tell its model of the server.
func instructions(o *Options) string {
	at := "in the agent's workspace"
	if o.Project != "" {
		at = "in the project " + o.Project
	}
	return "Files of an agent's workspace. Paths are tree paths such as /agents/KEY/workspace/notes.md; one that does not start with / starts " + at +
		". Pass the etag of an earlier answer as if_match to change a file only if nobody else has. " +
		"An error is a JSON object with kind not_found, denied, invalid, conflict, quota or unavailable."
}

// Run serves one host over a pair of streams, one JSON message a line, until in
// ends or ctx does.
func (s *Server) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	err := s.sdk.Run(ctx, &stdio{in: in, out: out})
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// at gives the path that a tool's argument names, as the API takes it.
func (s *Server) at(p string) string {
	if s.o.Project == "" || strings.HasPrefix(p, "/") {
		return p
	}
	joined := strings.TrimSuffix(s.o.Project, "/") + "/" + p
	if p == "" || p == "." {
		return path.Clean(s.o.Project)
	}
	return joined
}
