package mcp_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/warrenfs/warren/scripts/stack"
)

// writersTime is how long TestWriters writes.
var writersTime = flag.Duration("writers", 2*time.Second, "how long the eight writers of TestWriters write")

// valueSize is how long the values are that TestWriters writes, in bytes.
const valueSize = 20_000

// desk is what eight writers write and readers read: an item that tools upsert, one
// that files are renamed to, publications to one name and to names of their own, a
// field. The agent with the letter 'a' plus n has written a value of that letter.
type desk struct {
	t      *testing.T
	s      *stack.Stack
	agents [8]string
	mounts [8]string // of those that write through one
	hosts  [8]*host  // of the others
	wrote  atomic.Int64
	read   atomic.Int64
	until  time.Time
}

// TestWriters: eight writers, half of them through mounts and half through MCP
// sessions, of two agents, upsert, publish and set fields. Whoever reads sees one
// whole value, and as its maker who made it.
func TestWriters(t *testing.T) {
	d := &desk{t: t, s: running(t)}
	s := d.s
	if _, err := s.Try("agent", "show", "writer"); err != nil {
		s.Warren(t, "agent", "add", "writer", "--user", "ada")
	}
	s.Warren(t, "agent", "set", "concierge", "--publish", "any") // both publish under one name
	mount := s.Mount(t, "--agent", "writer")
	gaia := connect(t, s, "--agent", "gaia")
	first := connect(t, s, "--agent", soul)
	for i := range 8 {
		d.agents[i] = []string{soul, "writer"}[i%2]
		if i < 4 {
			d.hosts[i] = connect(t, s, "--agent", d.agents[i], "--tools", "items,fields")
		} else {
			d.mounts[i] = []string{s.Soul, mount}[i%2]
		}
	}
	for _, agent := range d.agents[:2] {
		gaia.call("write", object{"path": "/agents/" + agent + "/fields.json", "content": `{"type":"object","properties":{"note":{"type":"string"}}}`})
	}
	first.call("workspace_write", object{"key": "upserted", "value": d.value(0)})
	first.call("workspace_write", object{"key": "replaced", "value": d.value(0)})
	first.call("workspace_publish", object{"key": "upserted", "target_agent_id": "concierge", "target_key": "news"})
	for i, agent := range d.agents[:2] {
		connect(t, s, "--agent", agent).call("update_workspace", object{"field_name": "note", "value": d.value(i)})
	}
	d.until = time.Now().Add(*writersTime)
	var writers, readers sync.WaitGroup
	var over atomic.Bool
	for i := range 8 {
		writers.Go(func() { d.writes(i) })
	}
	hall, items := connect(t, s, "--agent", "concierge"), connect(t, s, "--agent", "writer")
	readers.Go(func() {
		for !over.Load() {
			d.item(items, "upserted", func(rune) string { return soul })
			d.item(items, "replaced", func(c rune) string { return d.agents[c-'a'] })
			d.item(hall, "news", func(rune) string { return soul })
		}
	})
	readers.Go(func() {
		for !over.Load() {
			for _, name := range []string{"users/ada/upserted", "users/ada/replaced", "agents/concierge/workspace/news"} {
				d.file(filepath.Join(s.Gaia, name))
			}
			d.file(filepath.Join(s.Soul, ".warren/fields/note"))
			d.file(filepath.Join(mount, ".warren/fields/note"))
		}
	})
	writers.Wait()
	over.Store(true)
	readers.Wait()
	for i := range 8 {
		d.item(hall, fmt.Sprint("from-", i), func(rune) string { return d.agents[i] })
	}
	t.Logf("%d values written, %d read", d.wrote.Load(), d.read.Load())
}

func (d *desk) value(i int) string { return strings.Repeat(string(rune('a'+i)), valueSize) }

// writes is one writer at work; each does all of it at least once.
func (d *desk) writes(i int) {
	for n := 0; n == 0 || time.Now().Before(d.until) && !d.t.Failed(); n++ {
		value := d.value(i)
		if h := d.hosts[i]; h != nil {
			for _, c := range []struct {
				tool string
				args object
			}{
				{"workspace_write", object{"key": "upserted", "value": value}},
				{"workspace_write", object{"key": fmt.Sprint("own-", i), "value": value}},
				{"workspace_publish", object{"key": fmt.Sprint("own-", i), "target_agent_id": "concierge", "target_key": "news"}},
				{"workspace_publish", object{"key": fmt.Sprint("own-", i), "target_agent_id": "concierge", "target_key": fmt.Sprint("from-", i)}},
				{"update_workspace", object{"field_name": "note", "value": value}},
			} {
				if r, err := h.s.CallTool(d.t.Context(), &sdk.CallToolParams{Name: c.tool, Arguments: c.args}); err != nil || r.IsError {
					d.t.Errorf("writer %d: %s: %.300v, %v", i, c.tool, r, err)
				}
			}
			d.wrote.Add(5)
			continue
		}
		top := d.mounts[i]
		temp := filepath.Join(top, "users/ada", fmt.Sprint("temp-", i))
		for _, err := range []error{
			os.WriteFile(temp, []byte(value), 0o644),
			os.Rename(temp, filepath.Join(top, "users/ada/replaced")),
			overwrite(filepath.Join(top, ".warren/publish/concierge/news"), value),
			overwrite(filepath.Join(top, ".warren/publish/concierge", fmt.Sprint("from-", i)), value),
			overwrite(filepath.Join(top, ".warren/fields/note"), value),
		} {
			if err != nil {
				d.t.Errorf("writer %d: %v", i, err)
			}
		}
		d.wrote.Add(4)
	}
}

// overwrite does what echo VALUE > FILE does.
func overwrite(path, value string) error { return os.WriteFile(path, []byte(value), 0o644) }

// whole tells whose a value is; a torn one is a failure.
func (d *desk) whole(how, got string) (letter rune, ok bool) {
	d.read.Add(1)
	if len(got) != valueSize || strings.Count(got, got[:1]) != valueSize || got[0] < 'a' || got[0] > 'h' {
		d.t.Errorf("%s: a torn value of %d bytes: %.20q", how, len(got), got)
		return 0, false
	}
	return rune(got[0]), true
}

// item reads an item by the tool. maker tells who has made it, of its letter.
func (d *desk) item(h *host, key string, maker func(rune) string) {
	r, err := h.s.CallTool(d.t.Context(), &sdk.CallToolParams{Name: "workspace_read", Arguments: object{"key": key}})
	if err != nil || r.IsError {
		d.t.Errorf("read %s: %.300v, %v", key, textOf(r), err)
		return
	}
	got := r.StructuredContent.(object)
	if c, ok := d.whole("item "+key, got["value"].(string)); ok && got["created_by"] != maker(c) {
		d.t.Errorf("item %s of letter %c: made by %v, want %s", key, c, got["created_by"], maker(c))
	}
}

// file reads a file through a mount.
func (d *desk) file(path string) {
	b, err := os.ReadFile(path)
	if err != nil {
		d.t.Errorf("read: %v", err)
		return
	}
	d.whole(path, strings.TrimSuffix(string(b), "\n"))
}
