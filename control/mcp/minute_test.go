package mcp_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/warrenfs/warren/scripts/stack"
)

// crew are eight agents at one project: four through mounts, where they append to
// journal.md by hand and ask for inbox ids by the command, four through MCP.
type crew struct {
	t       *testing.T
	s       *stack.Stack
	project string
	until   time.Time

	mu      sync.Mutex
	entries []string          // texts that the journal must have, once each
	ids     map[string]string // by id, who got it
}

func (c *crew) wrote(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries = append(c.entries, text)
}

func (c *crew) minted(id, by string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, twice := c.ids[id]; twice {
		c.t.Errorf("%s was given to %s and to %s", id, old, by)
	}
	c.ids[id] = by
}

// byTool works through an MCP session.
func (c *crew) byTool(h *host, who string) {
	for n := 0; n == 0 || time.Now().Before(c.until) && !c.t.Failed(); n++ {
		text := fmt.Sprintf("entry %d of %s", n, who)
		for tool, args := range map[string]object{"journal_append": {"project": c.project, "summary": text}, "inbox_add": {"project": c.project, "title": text}} {
			r, err := h.s.CallTool(c.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: args})
			if err != nil || r.IsError {
				c.t.Errorf("%s: %s: %.300v %v", who, tool, r, err)
				return
			}
			if tool == "inbox_add" {
				c.minted(fmt.Sprint(r.StructuredContent.(object)["id"]), who)
			} else {
				c.wrote(text)
			}
		}
	}
}

// byHand works through a mount.
func (c *crew) byHand(mount, who string) {
	for n := 0; n == 0 || time.Now().Before(c.until) && !c.t.Failed(); n++ {
		text := fmt.Sprintf("entry %d of %s", n, who)
		line := fmt.Sprintf("\n## 2026-11-28 10:00 — %s\n\n%s\n", who, text)
		cmd := exec.Command("sh", "-c", `printf '%s' "$1" >> "$2"`, "sh", line, filepath.Join(mount, c.project, "journal.md"))
		if out, err := cmd.CombinedOutput(); err != nil {
			c.t.Errorf("%s: %v: %s", who, err, out)
			return
		}
		c.wrote(text)
		out, err := c.s.Try("inbox", "add", "--agent", who, "--project", c.project, text)
		if err != nil {
			c.t.Error(err)
			return
		}
		c.minted(strings.Fields(out)[0], who)
	}
}

// TestManyAtOneProject: eight agents append to one journal and ask for inbox ids,
// while ids of others come in as by a pull. No entry is lost or torn, no id is given twice.
// -writers says how long.
func TestManyAtOneProject(t *testing.T) {
	s := running(t)
	c := &crew{t: t, s: s, project: "/projects/crew", ids: map[string]string{}}
	var who []string
	for i := range 8 {
		key := fmt.Sprint("crew", i)
		who = append(who, key)
		s.Warren(t, "agent", "add", key, "--user", "ada")
	}
	s.Warren(t, "project", "create", "crew", "--template", "shared", "--member", strings.Join(who, ":write,")+":write")
	var hosts []*host
	var mounts []string
	for i := range 4 {
		hosts = append(hosts, connect(t, s, "--agent", who[i]))
		mounts = append(mounts, s.Mount(t, "--agent", who[4+i]))
	}
	c.until = time.Now().Add(*writersTime)
	var g sync.WaitGroup
	for i := range 4 {
		g.Go(func() { c.byTool(hosts[i], who[i]) })
		g.Go(func() { c.byHand(mounts[i], who[4+i]) })
	}
	inbox := filepath.Join(s.Gaia, c.project, "inbox.md")
	g.Go(func() { // what others numbered comes in, as by a pull
		for n := 1; n <= 3; n++ {
			time.Sleep(*writersTime / 4)
			f, err := os.OpenFile(inbox, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
				return
			}
			id := fmt.Sprintf("INB-%d", 100_000*n)
			_, err = fmt.Fprintf(f, "- [ ] %s @anyone — pulled\n", id)
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if err != nil {
				t.Error(err)
			}
			c.minted(id, "another machine")
		}
	})
	g.Wait()
	c.check(inbox)
}

// check compares the files with what was acknowledged.
func (c *crew) check(inbox string) {
	c.t.Helper()
	journal, err := os.ReadFile(filepath.Join(c.s.Gaia, c.project, "journal.md"))
	if err != nil {
		c.t.Fatal(err)
	}
	count := map[string]int{}
	for _, line := range strings.Split(string(journal), "\n") {
		count[line]++
	}
	for _, e := range c.entries {
		if count[e] != 1 {
			c.t.Errorf("%q is in the journal %d times", e, count[e])
		}
	}
	items, err := os.ReadFile(inbox)
	if err != nil {
		c.t.Fatal(err)
	}
	for id, by := range c.ids {
		if n := strings.Count(string(items), id+" "); n != 1 {
			c.t.Errorf("%s of %s is in the inbox %d times", id, by, n)
		}
	}
	c.t.Logf("%d entries, %d ids", len(c.entries), len(c.ids))
}
