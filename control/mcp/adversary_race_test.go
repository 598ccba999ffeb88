package mcp_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warrenfs/warren/scripts/stack"
)

// adversaryTime is how long each of the races goes on; a tenth in short tests.
var adversaryTime = flag.Duration("adversary", time.Second, "how long each race of TestAdversary… goes on")

// race does what second does, over and over in a thread of its own, while first is
// done over and over here. Each is done twice at least.
func race(t *testing.T, first, second func(round int)) {
	t.Helper()
	span := *adversaryTime
	if stack.Short() {
		span /= 10
	}
	until := time.Now().Add(span)
	over := make(chan struct{})
	var g sync.WaitGroup
	seconds := 0
	g.Go(func() {
		for ; (seconds < 2 || !done(over)) && !t.Failed(); seconds++ {
			second(seconds)
		}
	})
	firsts := 0
	for ; (firsts < 2 || time.Now().Before(until)) && !t.Failed(); firsts++ {
		first(firsts)
	}
	close(over)
	g.Wait()
	t.Logf("%d rounds against %d", firsts, seconds)
}

func done(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// any makes a call, whose outcome may be any, and must tell of nothing hidden.
func (p *plot) any(tool string, args object) {
	p.t.Helper()
	r := p.h.raw(tool, args)
	b, err := json.Marshal(r)
	if err != nil {
		p.t.Fatal(err)
	}
	p.untold(fmt.Sprint(tool, args), string(b))
	if r.IsError {
		p.h.refusal(tool, r, kinds...)
	}
}

// TestAdversarySwap: a name that is now a directory of the soul's own, now a link to
// what is hidden, swapped in one step while tools, reads and renames go through it:
// all that is reached is the soul's own.
func TestAdversarySwap(t *testing.T) {
	p := newPlot(t, "swap")
	for _, err := range []error{os.Mkdir(filepath.Join(p.work, "flip"), 0o755), os.Symlink("../../../stranger/workspace/plot", filepath.Join(p.work, "flop"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	flip := filepath.Join(p.work, "flip")
	race(t, func(int) {
		for _, c := range []struct {
			tool string
			args object
		}{
			{"write", object{"path": "flip/secret", "content": "own\n"}}, {"read", object{"path": "flip/secret"}}, {"edit", object{"path": "flip/secret", "edits": []object{{"old": "o", "new": "0"}}}},
			{"list", object{"dir": "flip"}}, {"stat", object{"path": "flip/secret", "follow": true}}, {"search", object{"query": ".", "paths": []string{"."}}}, {"search", object{"query": ".", "paths": []string{"flip"}}},
			{"mkdir", object{"path": "flip/a/b", "parents": true}}, {"move", object{"from": "flip/secret", "to": "flip/a/b"}}, {"move", object{"from": "flip/a/b/secret", "to": "flip"}},
			{"write", object{"path": "flip/secret", "content": "more\n", "mode": "append"}}, {"remove", object{"path": "flip/secret"}}, {"remove", object{"path": "flip/a", "recursive": true}},
			{"explain", object{"action": "write", "path": "flip/secret"}}, {"journal_append", object{"project": p.path + "/flip", "summary": "x"}}, {"inbox_add", object{"project": p.path + "/flip", "title": "x"}},
		} {
			p.any(c.tool, c.args)
		}
		_ = os.WriteFile(flip+"/secret", []byte("own\n"), 0o644)
		_ = os.Rename(flip+"/secret", filepath.Join(p.drop, "swapped"))
		_ = os.WriteFile(flip+"/secret", []byte("own\n"), 0o644)
		_ = os.Rename(flip+"/secret", filepath.Join(p.field, "note"))
		if b, err := os.ReadFile(filepath.Join(p.field, "note")); err != nil || strings.Contains(string(b), mark) {
			t.Errorf("the field has %q, %v", b, err)
		}
		if b, err := os.ReadFile(filepath.Join(p.hall, "swapped")); err == nil && strings.Contains(string(b), mark) {
			t.Errorf("published: %q", b)
		}
	}, func(int) {
		if err := exchange(flip, filepath.Join(p.work, "flop")); err != nil {
			t.Error(err)
		}
	})
	if err := os.Remove(filepath.Join(p.hall, "swapped")); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestAdversaryItems: another agent of the user swaps an item for links to what only
// the soul may reach, and to what is hidden from it: the soul's tools read, write
// and publish neither.
func TestAdversaryItems(t *testing.T) {
	p := newPlot(t, "items")
	if _, err := p.s.Try("agent", "show", "mate"); err != nil {
		p.s.Warren(t, "agent", "add", "mate", "--user", "ada")
	}
	mate := filepath.Join(p.s.Mount(t, "--agent", "mate"), "users/ada")
	own := filepath.Join(p.work, "own")
	if err := os.WriteFile(own, []byte("own, and only the soul's\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(mate, "swapped")
	race(t, func(int) {
		p.any("workspace_write", object{"key": "swapped", "value": "shared"})
		p.any("workspace_list", object{})
		for tool, args := range map[string]object{"workspace_read": {"key": "swapped"}, "workspace_publish": {"key": "swapped", "target_agent_id": "concierge"}} {
			if got := p.outcome(tool, args); strings.Contains(got, "only the soul's") {
				t.Errorf("%s: %s", tool, got)
			}
		}
		if b, err := os.ReadFile(own); err != nil || string(b) != "own, and only the soul's\n" {
			t.Errorf("what a link led to is %q, %v", b, err)
		}
		if b, err := os.ReadFile(filepath.Join(p.hall, "swapped")); err == nil && string(b) != "shared" && string(b) != "mate's" {
			t.Errorf("published: %q", b)
		}
	}, func(round int) {
		temp := filepath.Join(mate, "temp")
		var err error
		switch round % 3 {
		case 0:
			err = os.Symlink("/warren"+p.path+"/own", temp)
		case 1:
			err = os.Symlink("../.."+hidden+"/secret", temp)
		case 2:
			err = os.WriteFile(temp, []byte("mate's"), 0o644)
		}
		if err := errors.Join(err, os.Rename(temp, key)); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{key, filepath.Join(p.hall, "swapped")} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
}

// TestAdversaryTarget: the shared agent swaps the name that is published under for
// links of both kinds to a file of its own that the publisher may not touch, and to
// another's: only the name itself is written.
func TestAdversaryTarget(t *testing.T) {
	p := newPlot(t, "target")
	hall := filepath.Join(p.s.Mount(t, "--agent", "concierge"), "agents/concierge/workspace")
	p.h.call("workspace_write", object{"key": "target", "value": "published"})
	race(t, func(int) {
		p.any("workspace_publish", object{"key": "target", "target_agent_id": "concierge"})
		_ = os.WriteFile(filepath.Join(p.drop, "target"), []byte("dropped"), 0o644) // refused where a link is
		if b, err := os.ReadFile(filepath.Join(p.hall, "private")); err != nil || string(b) != mark+" of concierge\n" {
			t.Errorf("the file that links led to is %q, %v", b, err)
		}
	}, func(round int) {
		temp := filepath.Join(hall, "temp")
		var err error
		switch round % 4 {
		case 0:
			err = os.Link(filepath.Join(hall, "private"), temp)
		case 1:
			err = os.Symlink("private", temp)
		case 2:
			err = os.Symlink("/warren"+hidden+"/secret", temp)
		case 3:
			err = os.WriteFile(temp, []byte("concierge's"), 0o644)
		}
		if err := errors.Join(err, os.Rename(temp, filepath.Join(hall, "target"))); err != nil {
			t.Error(err)
		}
		if round%4 == 0 { // rename(2) of two links of one file does nothing
			if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		}
	})
	if err := os.Remove(filepath.Join(hall, "target")); err != nil {
		t.Error(err)
	}
	p.h.call("workspace_delete", object{"key": "target"})
}

// TestAdversaryWithdraw: what was dropped under one name and is renamed there is
// taken back under the first, but not the shared agent's own file that has come in its
// place.
func TestAdversaryWithdraw(t *testing.T) {
	p := newPlot(t, "withdraw")
	hall := filepath.Join(p.s.Mount(t, "--agent", "concierge"), "agents/concierge/workspace")
	start := make(chan string)
	finish := make(chan error)
	defer close(start)
	go func() {
		for name := range start {
			temp := filepath.Join(hall, "temp")
			finish <- errors.Join(os.WriteFile(temp, []byte("concierge's"), 0o644), os.Rename(temp, filepath.Join(hall, name)))
		}
	}()
	race(t, func(round int) {
		name := fmt.Sprint("temp-", round%8)
		if err := os.WriteFile(filepath.Join(p.drop, name), []byte("dropped"), 0o644); err != nil {
			t.Error(err)
		}
		start <- name
		if err := os.Rename(filepath.Join(p.drop, name), filepath.Join(p.drop, "final")); err != nil {
			t.Error(err)
		}
		if err := <-finish; err != nil {
			t.Error(err)
		}
		if b, err := os.ReadFile(filepath.Join(hall, name)); err != nil || string(b) != "concierge's" {
			t.Errorf("the shared agent's own file is %q, %v", b, err)
		}
		if err := os.Remove(filepath.Join(hall, name)); err != nil {
			t.Error(err)
		}
	}, func(int) { time.Sleep(time.Millisecond) })
	if err := os.Remove(filepath.Join(hall, "final")); err != nil {
		t.Error(err)
	}
}

// TestAdversaryMovedIn: a file that is renamed into the drop, while another writes a
// new one in its place through another mount: the new one is published, or is there.
func TestAdversaryMovedIn(t *testing.T) {
	p := newPlot(t, "movedin")
	other := filepath.Join(p.s.Mount(t, "--agent", soul), p.path)
	start := make(chan struct{})
	finish := make(chan error)
	defer close(start)
	go func() {
		for range start {
			finish <- errors.Join(os.WriteFile(other+"/temp", []byte("second"), 0o644), os.Rename(other+"/temp", other+"/f"))
		}
	}()
	race(t, func(int) {
		if err := os.WriteFile(p.work+"/f", []byte("first"), 0o644); err != nil {
			t.Error(err)
		}
		start <- struct{}{}
		err := os.Rename(p.work+"/f", filepath.Join(p.drop, "moved"))
		if err := errors.Join(err, <-finish); err != nil {
			t.Error(err)
		}
		there, err := os.ReadFile(filepath.Join(other, "f"))
		if errors.Is(err, os.ErrNotExist) {
			if b, err := os.ReadFile(filepath.Join(p.hall, "moved")); err != nil || string(b) != "second" {
				t.Errorf("what is published is %q, %v, and the other is gone", b, err)
			}
		} else if err != nil || string(there) != "second" {
			t.Errorf("left behind: %q, %v", there, err)
		}
	}, func(int) { time.Sleep(time.Millisecond) })
	if err := os.Remove(filepath.Join(p.hall, "moved")); err != nil {
		t.Error(err)
	}
}

// TestAdversaryMovedAway: a directory that the soul may write by a grant is renamed
// out of it while tools walk it. What its owner writes there then is not read, named
// or changed.
func TestAdversaryMovedAway(t *testing.T) {
	p := newPlot(t, "away")
	shared := hidden + "/shared"
	theirs := filepath.Join(p.s.Mount(t, "--agent", "stranger"), hidden)
	for i := range 8 {
		if err := errors.Join(os.MkdirAll(fmt.Sprintf("%s/shared/sub/d%d", theirs, i), 0o755), os.WriteFile(fmt.Sprintf("%s/shared/sub/d%d/f", theirs, i), []byte("plain\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	var grant struct{ ID string }
	if err := json.Unmarshal([]byte(p.s.Warren(t, "grant", soul, shared, "write", "--ttl", "1h", "--json")), &grant); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.s.Warren(t, "revoke", grant.ID) })
	p.was = p.survey()
	p.forget(shared)
	sub := shared + "/sub"
	race(t, func(int) {
		for i := range 8 {
			f := fmt.Sprintf("%s/d%d/f", sub, i)
			p.any("read", object{"path": f})
			p.any("write", object{"path": f, "content": "soul's\n"})
			p.any("write", object{"path": f, "content": "soul's\n", "mode": "append"})
			p.any("edit", object{"path": f, "edits": []object{{"old": "s", "new": "z", "all": true}}})
		}
		for _, c := range []struct {
			tool string
			args object
		}{
			{"search", object{"query": ".", "paths": []string{shared}}}, {"list", object{"dir": sub}}, {"list", object{"dir": sub + "/d0"}}, {"stat", object{"path": sub + "/d1/f"}},
			{"mkdir", object{"path": sub + "/d1/new"}}, {"move", object{"from": sub + "/d2/f", "to": sub + "/d1/new"}}, {"remove", object{"path": sub + "/d1/new", "recursive": true}},
		} {
			p.any(c.tool, c.args)
		}
	}, func(round int) { p.away(theirs, round) })
	if err := os.RemoveAll(filepath.Join(p.s.Gaia, shared)); err != nil {
		t.Error(err)
	}
}

// forget leaves a directory out of what must not change.
func (p *plot) forget(dir string) {
	for path := range p.was {
		if strings.HasPrefix(path, dir) {
			delete(p.was, path)
		}
	}
}

// away takes what is shared out of the soul's reach, writes into it, looks that it
// stays so, and puts it back.
func (p *plot) away(theirs string, round int) {
	sub, away := theirs+"/shared/sub", theirs+"/away"
	if err := os.Rename(sub, away); err != nil {
		p.t.Error(err)
		return
	}
	text := fmt.Sprint(mark, " ", round, "\n")
	dir := fmt.Sprintf("%s/d%d", away, round%8)
	name := dir + "/" + mark
	errs := []error{os.WriteFile(dir+"/f", []byte(text), 0o644), os.WriteFile(name, []byte(text), 0o644)}
	before, err := os.ReadDir(dir)
	errs = append(errs, err)
	time.Sleep(time.Duration(round%5) * time.Millisecond)
	after, err := os.ReadDir(dir)
	errs = append(errs, err)
	for _, f := range []string{dir + "/f", name} {
		if b, err := os.ReadFile(f); err != nil || string(b) != text {
			errs = append(errs, fmt.Errorf("%s is %q, want %q: %w", f, b, text, err))
		}
	}
	if fmt.Sprint(before) != fmt.Sprint(after) {
		errs = append(errs, fmt.Errorf("%s had %v, and has %v", dir, before, after))
	}
	errs = append(errs, os.Remove(name), os.WriteFile(dir+"/f", []byte("plain\n"), 0o644), os.Rename(away, sub))
	if err := errors.Join(errs...); err != nil {
		p.t.Error(err)
	}
}

// TestAdversaryWalk: a tree that is removed, searched and listed by tools is swapped
// for a link to another of the soul's own: that one stays whole.
func TestAdversaryWalk(t *testing.T) {
	p := newPlot(t, "walk")
	grow := func(dir string) error {
		var errs []error
		for i := range 4 {
			d := fmt.Sprintf("%s/d%d", dir, i)
			errs = append(errs, os.MkdirAll(d, 0o755), os.WriteFile(d+"/f", []byte("kept\n"), 0o644))
		}
		return errors.Join(errs...)
	}
	keep, tree, link := p.work+"/keep", p.work+"/tree", p.work+"/link"
	if err := errors.Join(grow(keep), grow(tree), os.Symlink("keep", link)); err != nil {
		t.Fatal(err)
	}
	race(t, func(int) {
		p.any("remove", object{"path": "tree", "recursive": true})
		p.any("search", object{"query": "kept", "paths": []string{"tree"}})
		p.any("list", object{"dir": "tree/d1"})
		for i := range 4 {
			if b, err := os.ReadFile(fmt.Sprintf("%s/d%d/f", keep, i)); err != nil || string(b) != "kept\n" {
				t.Errorf("what a link led to: %q, %v", b, err)
			}
		}
	}, func(int) {
		// The tools take both away: what is missing is made anew.
		if i, err := os.Lstat(tree); err == nil && i.Mode().Type() == os.ModeSymlink {
			_ = os.Remove(tree)
		}
		fresh := p.work + "/fresh"
		if err := errors.Join(grow(fresh), os.RemoveAll(link), os.Symlink("keep", link)); err != nil {
			t.Error(err)
		}
		_ = os.Rename(fresh, tree) // if there is none
		_ = exchange(tree, link)
	})
}
