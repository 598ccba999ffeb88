package mcp

//lint:file-ignore SA1019 The protocol drops roots in its next revision; hosts of today have them, so they are honoured.

import (
	"context"
	"encoding/json"
	"net/url"
	"path"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/warrenfs/warren/control"
)

// rootsTime bounds how long a host may take to tell its roots.
const rootsTime = 5 * time.Second

// maxRoots bounds the roots of one host that count.
const maxRoots = 64

// rootsOnce is the first revision of the protocol in which a server asks a host by its
// answer to a call, which the host then makes again; and which has no notice of
// changed roots, so that what a host told holds for rootsHold.
const (
	rootsOnce = "2026-07-28"
	rootsHold = 5 * time.Second
)

// hostRoots is what a host told of its roots.
type hostRoots struct {
	paths []string  // tree paths
	until time.Time // zero: until it tells of a change
	stale bool
}

// rootsKey names the question for roots in an answer.
const rootsKey = "roots"

// rootsOf gives the tree paths of the roots of a call's host: the directories of
// this machine that it works in, as far as they lie in a mount of the agent's.
// Those that do not are none of ours. A host is asked at its first call, and
// again when it says that they have changed. ask is an answer that asks it.
func (s *Server) rootsOf(ctx context.Context, req *sdk.CallToolRequest) (roots []string, ask *sdk.CallToolResult) {
	ss := req.Session
	p := ss.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.RootsV2 == nil {
		return nil, nil
	}
	s.mu.Lock()
	known, ok := s.roots[ss]
	s.mu.Unlock()
	if ok && !known.stale && (known.until.IsZero() || time.Now().Before(known.until)) {
		return known.paths, nil
	}
	var told *sdk.ListRootsResult
	var until time.Time
	if p.ProtocolVersion >= rootsOnce {
		if told, ok = req.Params.InputResponses[rootsKey].(*sdk.ListRootsResult); !ok {
			return nil, &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{rootsKey: &sdk.ListRootsParams{}}}
		}
		until = time.Now().Add(rootsHold)
	} else {
		ctx, cancel := context.WithTimeout(ctx, rootsTime)
		defer cancel()
		var err error
		if told, err = ss.ListRoots(ctx, nil); err != nil {
			s.o.Log.Warn("the host does not tell its roots", "err", err)
			return nil, nil
		}
	}
	mounts, err := s.o.Client.Mounts(ctx)
	if err != nil {
		s.o.Log.Warn("roots of the host are left out", "err", err)
		return nil, nil
	}
	for _, r := range told.Roots[:min(len(told.Roots), maxRoots)] {
		if p, ok := treePath(r.URI, s.o.Agent, mounts); ok {
			roots = append(roots, p)
		}
	}
	s.keepRoots(ss, hostRoots{paths: roots, until: until})
	return roots, nil
}

// keepRoots remembers roots as long as the session lasts.
func (s *Server) keepRoots(ss *sdk.ServerSession, r hostRoots) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, watched := s.roots[ss]
	s.roots[ss] = r
	if watched {
		return
	}
	go func() {
		_ = ss.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.roots, ss)
	}()
}

// watchRoots makes a server hear of changed roots.
func (s *Server) watchRoots(o *sdk.ServerOptions) { o.RootsListChangedHandler = s.rootsChanged }

// rootsChanged makes the next call ask the host again.
func (s *Server) rootsChanged(_ context.Context, r *sdk.RootsListChangedRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.roots[r.Session]; ok {
		known.stale = true
		s.roots[r.Session] = known
	}
}

// treePath gives the tree path of a file: URI that lies in one of mounts, the
// deepest, that is agent's; "": anybody's.
func treePath(uri, agent string, mounts []control.Mount) (tree string, ok bool) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !path.IsAbs(u.Path) {
		return "", false
	}
	file, deepest := path.Clean(u.Path), -1
	for _, m := range mounts {
		rest, in := below(file, m.Dir)
		if in && len(m.Dir) > deepest && (agent == "" || m.Agent == agent) {
			deepest, tree, ok = len(m.Dir), path.Join(m.Root, rest), true
		}
	}
	return tree, ok
}

// below tells whether file is dir or lies in it, and where there.
func below(file, dir string) (rest string, ok bool) {
	if file == dir {
		return "", true
	}
	return strings.CutPrefix(file, strings.TrimSuffix(dir, "/")+"/")
}

// startingIn gives the server with relative paths that start in a directory.
func (s *Server) startingIn(dir string) *Server {
	o := s.o
	o.Project = dir
	return &Server{o: o, sdk: s.sdk}
}

// pathArguments are the arguments of file tools that name a path, or a list of
// them.
var pathArguments = []string{"path", "dir", "from", "to", "paths"}

// keepTo refuses arguments that name what is outside of the host's roots. It
// goes by names: a link that leads out of a root is followed, as far as
// the view goes.
func (s *Server) keepTo(roots []string, args map[string]any) error {
	for _, name := range pathArguments {
		given, ok := args[name].([]any)
		if p, is := args[name].(string); is {
			given, ok = []any{p}, true
		}
		for _, g := range given {
			p, _ := g.(string)
			if ok && !within(path.Clean(s.at(p)), roots) {
				return control.Errorf(control.KindDenied, "%s: %s is outside of the roots that the host gave: %s", name, p, strings.Join(roots, ", "))
			}
		}
	}
	return nil
}

func within(p string, roots []string) bool {
	for _, r := range roots {
		if _, ok := below(p, r); ok || r == "/" {
			return true
		}
	}
	return false
}

// progressEvery is how often a call that lasts tells that it does.
const progressEvery = time.Second

// progress tells a host that asked for it, each second, that a call goes on, until done
// is called: the seconds that it has taken. done returns when no more is sent.
func progress(ctx context.Context, req *sdk.CallToolRequest, tool string) (done func()) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-tick.C:
				_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token,
					Progress: float64(n), Message: tool + " goes on"})
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// object gives arguments as the object that they are.
func object(raw json.RawMessage) (map[string]any, error) {
	var args any
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, control.Errorf(control.KindInvalid, "arguments: %v", err)
	}
	o, ok := args.(map[string]any)
	if !ok {
		return nil, control.Errorf(control.KindInvalid, "arguments: they are not an object")
	}
	return o, nil
}
