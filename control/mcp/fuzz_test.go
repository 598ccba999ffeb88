package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/waits"
)

// wire is one `warren mcp` that is spoken to line by line.
type wire struct {
	cmd *exec.Cmd
	in  *bufio.Writer
	out *bufio.Reader
	n   int
}

// dial starts `warren mcp` and begins a session.
func dial(f testing.TB, args ...string) *wire {
	f.Helper()
	s := shared.Running(f)
	cmd := s.Command(append([]string{"mcp", "--log", os.DevNull}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		f.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		f.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		_ = in.Close()
		defer waits.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })()
		if err := cmd.Wait(); err != nil {
			f.Errorf("at the end: %v", err)
		}
	})
	w := &wire{cmd: cmd, in: bufio.NewWriter(in), out: bufio.NewReaderSize(out, 1<<20)}
	w.send(f, `{"jsonrpc":"2.0","id":"first","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	w.until(f, `"first"`, nil)
	w.send(f, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return w
}

func (w *wire) send(t testing.TB, line string) {
	t.Helper()
	_, err := w.in.WriteString(line + "\n")
	if err == nil {
		err = w.in.Flush()
	}
	if err != nil {
		t.Fatalf("the server takes nothing more: %v", err)
	}
}

// until reads answers, and hands each to see, up to the one with an id.
func (w *wire) until(t testing.TB, id string, see func(line string)) {
	t.Helper()
	defer waits.AfterFunc(2*time.Minute, func() { _ = w.cmd.Process.Kill() })()
	for {
		line, err := w.out.ReadString('\n')
		if err != nil {
			t.Fatalf("the server is gone: %v", err)
		}
		if see != nil {
			see(line)
		}
		var m struct{ ID json.RawMessage }
		if json.Unmarshal([]byte(line), &m) == nil && string(m.ID) == id {
			return
		}
	}
}

// answered checks the answer to a call: JSON-RPC, and of a failed call the shape
// and the kind of the error.
func answered(t *testing.T, line string) {
	t.Helper()
	var m struct {
		Error  *struct{ Code int }
		Result *struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil || m.Error == nil && m.Result == nil {
		t.Fatalf("no answer of JSON-RPC: %v, %.300s", err, line)
	}
	if m.Result == nil || !m.Result.IsError {
		return
	}
	var e struct{ Error, Kind string }
	if len(m.Result.Content) != 1 || json.Unmarshal([]byte(m.Result.Content[0].Text), &e) != nil || e.Error == "" || !slices.Contains(kinds, e.Kind) {
		t.Fatalf("a failure of another shape: %.300s", line)
	}
}

// FuzzArguments: whatever stands where a tool's arguments should is answered, by
// a server that lives on, and no answer has what is hidden from the agent.
func FuzzArguments(f *testing.F) {
	if os.Geteuid() != 0 {
		f.Skip("mounting by mount(2) needs root")
	}
	s := shared.Running(f)
	const mark = "zq7hidden"
	if _, err := s.Try("agent", "show", mark); err != nil {
		for _, args := range [][]string{{"user", "add", mark}, {"agent", "add", mark, "--user", mark}, {"fs", "mkdir", "--agent", mark, mark}} {
			if _, err := s.Try(args...); err != nil {
				f.Fatal(err)
			}
		}
	}
	for _, c := range samples() {
		b, err := json.Marshal(c.args)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(c.tool, string(b))
	}
	for _, args := range []string{`{"path":`, `null`, `[]`, `{"path":"/","recursive":true}`, `{"query":"(a*)*b"}`, `{"path":"\ud800"}`, `{"offset":1e400,"path":"x"}`, `1}},"id":5,"x":{"y":{"z":1`} {
		f.Add("read", args)
	}
	w := dial(f, "--agent", soul, "--project", "fuzz")
	f.Fuzz(func(t *testing.T, tool, args string) {
		name, err := json.Marshal(tool)
		if err != nil || len(args) > 1<<16 {
			return
		}
		args = strings.Map(func(r rune) rune {
			if r == '\n' || r == '\r' {
				return ' '
			}
			return r
		}, args)
		var value any
		whole := json.Unmarshal([]byte(args), &value) == nil
		b, _ := json.Marshal(value) // hosts send what they have in other words
		told := strings.Contains(strings.ToLower(args+string(b)+tool), mark)
		if told && !whole { // its answer may come later, where it cannot be told from another's
			return
		}
		w.n++
		id, ping := fmt.Sprint(w.n), fmt.Sprintf("%q", fmt.Sprint("ping", w.n))
		w.send(t, `{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":{"name":`+string(name)+`,"arguments":`+args+`}}`)
		see := func(line string) {
			if !told && strings.Contains(line, mark) {
				t.Fatalf("%s %s tells what is hidden: %.500s", tool, args, line)
			}
			answered(t, line)
		}
		if whole {
			w.until(t, id, see)
		}
		w.send(t, `{"jsonrpc":"2.0","id":`+ping+`,"method":"ping"}`)
		w.until(t, ping, see)
	})
}
