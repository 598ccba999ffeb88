package attack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/stack"
)

// What differs between a path of something hidden and the same of nothing. The two
// are of one length.
const (
	isHidden = "hidd"
	isAbsent = "absn"
)

// bridge is a directory that the thief sees as the way to what is granted in it.
const bridge = "/agents/web_designer/workspace/bridge"

// oddities are parts of names and paths that a door may take apart wrongly.
var oddities = []string{"", "\n", "\nread x", " ", "  x", "\t", `"`, `\`, `\n`, "%2e", "\xff\xfe", "\xed\xa0\x80", "é", "\u202e", strings.Repeat("n", 251)}

// tails are what can follow a path.
var tails = []string{"/", "//", "/.", "/..", "/../site", "/../", "/./.", "/x", "/x/..", "/soul.md", "/workspace", "/" + strings.Repeat("n", 255), "/" + strings.Repeat("n", 256), "/\xff",
	strings.Repeat("n", 252), strings.Repeat("n", 5000)}

// hideOddly makes what is hidden from the thief: an agent, a user, a project, and
// files of all odd names beside what is granted to it.
func hideOddly(t *testing.T, s *stack.Stack) (paths []string) {
	t.Helper()
	must(t, os.MkdirAll(s.Gaia+bridge+"/site", 0o755))
	for _, o := range oddities {
		must(t, os.WriteFile(s.Gaia+bridge+"/"+isHidden+o, []byte("secret"), 0o644))
		paths = append(paths, bridge+"/"+isHidden+o)
	}
	s.Warren(t, "user", "add", isHidden)
	s.Warren(t, "agent", "add", isHidden, "--role", "soul", "--user", isHidden)
	s.Warren(t, "project", "create", isHidden)
	s.Warren(t, "grant", soul, bridge+"/site", "read", "--ttl", "1h")
	t.Cleanup(func() {
		must(t, os.RemoveAll(s.Gaia+bridge))
		s.Warren(t, "agent", "rm", isHidden, "--yes")
	})
	for _, base := range []string{bridge + "/" + isHidden, "/agents/" + isHidden, "/users/" + isHidden, "/projects/" + isHidden} {
		paths = append(paths, base)
		for _, e := range tails {
			paths = append(paths, base+e)
		}
	}
	return append(paths, "../../"+isHidden, "../../web_designer/workspace/bridge/"+isHidden, "//agents//"+isHidden, "/agents/thief/../"+isHidden)
}

// explainDoor asks a door about paths, all in one order, and gives its answers.
type explainDoor struct {
	name    string
	actions []string
	ask     func(t *testing.T, action string, paths []string) []string
}

func explainDoors(t *testing.T, s *stack.Stack, mount string) []explainDoor {
	token := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(token, []byte(s.Warren(t, "token", "create", soul)), 0o600))
	all := []string{"see", "read", "write", "create", "remove", "move", "link"}
	return []explainDoor{
		{"command", []string{"read"}, func(t *testing.T, action string, paths []string) (out []string) {
			for _, p := range paths {
				var said bytes.Buffer
				cmd := s.Command("policy", "explain", "--token-file", token, "--json", "--agent", soul, "--action", action, "--", p)
				cmd.Stdout, cmd.Stderr = &said, &said
				var exit *exec.ExitError
				if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
					t.Fatal(err)
				}
				out = append(out, fmt.Sprintf("exit status %d: %s", cmd.ProcessState.ExitCode(), &said))
			}
			return out
		}},
		{"MCP", all, func(t *testing.T, action string, paths []string) []string { return byMCP(t, s, token, action, paths) }},
		{"control file", all, func(t *testing.T, action string, paths []string) (out []string) {
			for len(paths) > 0 {
				n := min(len(paths), 16)
				out = append(out, byFile(t, mount+"/.warren/explain", action, paths[:n])...)
				paths = paths[n:]
			}
			return out
		}},
	}
}

// byMCP asks by the tool of a session for all of paths.
func byMCP(t *testing.T, s *stack.Stack, token, action string, paths []string) []string {
	t.Helper()
	var in bytes.Buffer
	fmt.Fprintln(&in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	fmt.Fprintln(&in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for i, p := range paths {
		text, err := json.Marshal(p)
		must(t, err)
		fmt.Fprintf(&in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"explain","arguments":{"action":%q,"path":%s}}}`+"\n", i+1, action, text)
	}
	cmd := s.Command("mcp", "--token-file", token)
	cmd.Stdin = &in
	b, err := cmd.Output()
	must(t, err)
	out := make([]string, len(paths))
	for line := range bytes.Lines(b) {
		var m struct {
			ID            int
			Result, Error json.RawMessage
		}
		must(t, json.Unmarshal(line, &m))
		if m.ID > 0 {
			out[m.ID-1] = string(m.Result) + string(m.Error)
		}
	}
	return out
}

// byFile asks by the control file, at most 16 questions.
func byFile(t *testing.T, file, action string, paths []string) []string {
	t.Helper()
	var in bytes.Buffer
	for _, p := range paths {
		if strings.ContainsAny(p, "\n\"") {
			b, err := json.Marshal(p)
			must(t, err)
			p = string(b)
		}
		fmt.Fprintf(&in, "%s %s\n", action, p)
	}
	must(t, os.WriteFile(file, in.Bytes(), 0))
	b, err := os.ReadFile(file)
	must(t, err)
	out := strings.SplitAfter(string(b), "\n")
	if out = out[:len(out)-1]; len(out) != len(paths) {
		t.Fatalf("%d answers to %d questions: %q asked, %q", len(out), len(paths), in.String(), b)
	}
	return out
}

// some are all with odd names, and every fourth of the rest.
func some(paths []string) (out []string) {
	for i, p := range paths {
		if i < len(oddities) || i%4 == 0 {
			out = append(out, p)
		}
	}
	return out
}

// TestExplainHidesAlike: by each door, in its own words and to the byte, a soul is
// told of something hidden what it is told of nothing, whatever the name is made of.
func TestExplainHidesAlike(t *testing.T) {
	if testing.Short() {
		t.Skip("policy/view and fusefs have the parts")
	}
	s := shared.Running(t)
	mount, _ := thief(t, s)
	paths := hideOddly(t, s)
	absent := make([]string, len(paths))
	for i, p := range paths {
		absent[i] = strings.ReplaceAll(p, isHidden, isAbsent)
	}
	for _, d := range explainDoors(t, s, mount) {
		paths, absent, start := paths, absent, time.Now()
		if d.name == "command" { // a process for each: some of those that are but a longer path
			paths, absent = some(paths), some(absent)
		}
		for _, action := range d.actions {
			hidden, none := d.ask(t, action, paths), d.ask(t, action, absent)
			for i := range paths {
				if want := strings.ReplaceAll(hidden[i], isHidden, isAbsent); want != none[i] || want == "" {
					t.Errorf("%s, %s %.300q: %.500q\nwhere nothing is: %.500q", d.name, action, paths[i], hidden[i], none[i])
				}
			}
		}
		t.Logf("%s: %d paths, %d actions, %v", d.name, len(paths), len(d.actions), time.Since(start))
		// It does tell things apart that the thief may see.
		if got := d.ask(t, "read", []string{bridge + "/site", bridge + "/" + isAbsent}); !strings.Contains(got[0], "permits") || strings.Contains(got[1], "permits") {
			t.Errorf("%s: of what is granted %q, of nothing %q", d.name, got[0], got[1])
		}
	}
}
