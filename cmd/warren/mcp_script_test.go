package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/warrenfs/warren/control/mcp"
)

// scriptHosts are the MCP hosts of one script, by name.
type scriptHosts map[string]*scriptHost

// hostsKey is where a script keeps them.
type hostsKey struct{}

// scriptHost is a client of one `warren mcp` that speaks the protocol by itself, a
// line a message, and so depends on no library's reading of it.
type scriptHost struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	last int // id of the last request
}

// callLimit is how long an answer may take.
const callLimit = time.Minute

// request asks, and gives the result of the answer.
func (h *scriptHost) request(method string, params, result any) error {
	h.last++
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": h.last, "method": method, "params": params})
	if err != nil {
		return err
	}
	if _, err := h.in.Write(append(b, '\n')); err != nil {
		return err
	}
	end := time.AfterFunc(callLimit, func() { _ = h.cmd.Process.Kill() })
	defer end.Stop()
	for {
		line, err := h.out.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("%s: the server is gone: %w", method, err)
		}
		var m struct {
			ID     int
			Result json.RawMessage
			Error  json.RawMessage
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return fmt.Errorf("%s: %w: %s", method, err, line)
		}
		switch {
		case m.ID != h.last: // a notice
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error)
		default:
			return json.Unmarshal(m.Result, result)
		}
	}
}

// close ends the server as hosts do, by the end of its input.
func (h *scriptHost) close() error {
	end := time.AfterFunc(callLimit, func() { _ = h.cmd.Process.Kill() })
	defer end.Stop()
	return errors.Join(h.in.Close(), h.cmd.Wait())
}

// host NAME ARG… starts `warren mcp ARG…` and begins a session. Its standard error
// goes to the file NAME.stderr.
func host(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: host NAME ARG…")
	}
	bin, err := exec.LookPath("warren")
	ts.Check(err)
	stderr, err := os.OpenFile(ts.MkAbs(args[0]+".stderr"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	ts.Check(err)
	defer stderr.Close()
	cmd := exec.Command(bin, append([]string{"mcp"}, args[1:]...)...)
	cmd.Dir, cmd.Stderr = ts.MkAbs("."), stderr
	cmd.Env = append(os.Environ(), "WARREN_STORE="+ts.Getenv("WARREN_STORE"), "WARREN_SOCKET="+ts.Getenv("WARREN_SOCKET"))
	in, err := cmd.StdinPipe()
	ts.Check(err)
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	h := &scriptHost{cmd: cmd, in: in, out: bufio.NewReader(out)}
	ts.Defer(func() {
		if err := h.close(); err != nil {
			ts.Logf("host %s at its end: %v", args[0], err)
		}
	})
	var got struct{ ProtocolVersion string }
	ts.Check(h.request("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "script", "version": "1"}}, &got))
	if got.ProtocolVersion != "2025-06-18" {
		ts.Fatalf("host %s: the server speaks %q", args[0], got.ProtocolVersion)
	}
	_, err = io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	ts.Check(err)
	ts.Value(hostsKey{}).(scriptHosts)[args[0]] = h
}

// called is the result of a call.
type called struct {
	IsError           bool
	StructuredContent json.RawMessage
	Content           []struct{ Type, Text, MIMEType, Data string }
}

// text gives an answer's content, with a line that tells of each picture.
func (r *called) text() (text string) {
	for _, c := range r.Content {
		text += c.Text
		if c.Type == "image" {
			text += fmt.Sprintf("%s of %d bytes\n", c.MIMEType, base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(c.Data, "="))))
		}
	}
	return text
}

// call NAME TOOL [JSON] makes a call by a host. Its output is the answer's
// structure on one line, and then the answer's text. With ! the call must fail as
// calls of tools do, and the object that tells of it is the output.
func call(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: [!] call NAME TOOL [JSON]")
	}
	h := ts.Value(hostsKey{}).(scriptHosts)[args[0]]
	if h == nil {
		ts.Fatalf("no host %s", args[0])
	}
	params := map[string]any{"name": args[1]}
	if len(args) == 3 {
		params["arguments"] = json.RawMessage(args[2])
	}
	var r called
	ts.Check(h.request("tools/call", params, &r))
	text := r.text()
	_, err := fmt.Fprintf(ts.Stdout(), "%s\n%s", r.StructuredContent, text)
	ts.Check(err)
	if r.IsError != neg {
		ts.Fatalf("call %s: isError %t: %s", args[1], r.IsError, text)
	}
	if neg {
		ts.Check(r.refused())
		return
	}
	var structure map[string]any
	if err := json.Unmarshal(r.StructuredContent, &structure); err != nil || structure == nil || len(r.Content) == 0 {
		ts.Fatalf("call %s: an answer of another shape: %v: %s, %d pieces of content", args[1], err, r.StructuredContent, len(r.Content))
	}
}

// refused checks the shape of a failed call.
func (r *called) refused() error {
	var e struct{ Error, Kind string }
	if err := json.Unmarshal([]byte(r.text()), &e); err != nil {
		return fmt.Errorf("an error of another shape: %w: %s", err, r.text())
	}
	kinds := []string{"not_found", "denied", "invalid", "conflict", "quota", "unavailable"}
	if e.Error == "" || !slices.Contains(kinds, e.Kind) || r.StructuredContent != nil || len(r.Content) != 1 {
		return fmt.Errorf("an error of another shape: %s, structure %s", r.text(), r.StructuredContent)
	}
	return nil
}

// keep VARIABLE PATTERN sets a variable to what the first group of a regular
// expression finds in the last output.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: keep VARIABLE PATTERN")
	}
	re, err := regexp.Compile(args[1])
	ts.Check(err)
	m := re.FindStringSubmatch(ts.ReadFile("stdout"))
	if len(m) < 2 {
		ts.Fatalf("%s is not found", args[1])
	}
	ts.Setenv(args[0], m[1])
}

// TestEveryToolHasItsScripts: each tool that `warren mcp --print-tools json` lists
// is called by a script, once so that it works and once so that it fails.
func TestEveryToolHasItsScripts(t *testing.T) {
	var out bytes.Buffer
	if err := mcp.Print(&out, mcp.Options{}, "json"); err != nil {
		t.Fatal(err)
	}
	var tools []struct{ Function struct{ Name string } }
	if err := json.Unmarshal(out.Bytes(), &tools); err != nil || len(tools) == 0 {
		t.Fatalf("%d tools, %v", len(tools), err)
	}
	files, err := filepath.Glob("testdata/script/mcp*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	good, bad := map[string]bool{}, map[string]bool{}
	line := regexp.MustCompile(`(?m)^(! )?call \S+ (\S+)`)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		script, _, _ := strings.Cut(string(b), "\n-- ")
		for _, m := range line.FindAllStringSubmatch(script, -1) {
			if m[1] == "" {
				good[m[2]] = true
			} else {
				bad[m[2]] = true
			}
		}
	}
	for _, tool := range tools {
		if name := tool.Function.Name; !good[name] || !bad[name] {
			t.Errorf("%s: called so that it works: %t, so that it fails: %t; both belong into testdata/script/mcp_*.txtar", name, good[name], bad[name])
		}
	}
}
