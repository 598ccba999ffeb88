package server

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/warrenfs/warren/control"
)

// TestNamesThatAreNotText come and go as bytes: through the client under the
// names they have, in JSON as base64.
func TestNamesThatAreNotText(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	ctx := t.Context()
	const odd, dir = "caf\xe9", "d\xff"
	if n, err := f.client.MakeDir(ctx, control.MakeDir{Agent: "a", Path: dir}); err != nil || n.Name != dir {
		t.Fatalf("%+v, %v", n, err)
	}
	if n, err := f.client.Write(ctx, "a", odd, strings.NewReader("x"), 0); err != nil || n.Path != "/agents/a/workspace/"+odd {
		t.Fatalf("%+v, %v", n, err)
	}
	if n, err := f.client.Move(ctx, control.Move{Agent: "a", From: odd, To: dir + "/" + odd}); err != nil || n.Name != odd {
		t.Fatalf("%+v, %v", n, err)
	}
	names, err := f.client.List(ctx, "a", dir)
	if err != nil || len(names) != 1 || names[0].Name != odd || names[0].Path != "/agents/a/workspace/"+dir+"/"+odd {
		t.Fatalf("%+v, %v", names, err)
	}
	status, body, _ := f.send("GET", "/v1/fs/stat?agent=a&path=d%ff/caf%e9", nil)
	if status != 200 || !strings.Contains(body, `"name_base64":"Y2Fm6Q=="`) || strings.Contains(body, "target_base64") {
		t.Errorf("%d %s", status, body)
	}
	var n control.Node
	if err := json.Unmarshal([]byte(body), &n); err != nil || n.Name != odd {
		t.Errorf("%+v, %v", n, err)
	}
	status, body, _ = f.send("POST", "/v1/fs/move", strings.NewReader(`{"agent":"a","from_base64":"ZP8vY2Fm6Q==","to":"plain"}`))
	if status != 200 || strings.Contains(body, "base64") {
		t.Errorf("%d %s", status, body)
	}
	if status, body, _ = f.send("POST", "/v1/fs/move", strings.NewReader(`{"agent":"a","from":"x","from_base64":"eA==","to":"y"}`)); status != 400 {
		t.Errorf("both: %d %s", status, body)
	}
	if err := f.client.Remove(ctx, "a", dir, false); err != nil {
		t.Error(err)
	}
	if n, err := f.client.Stat(ctx, "a", "plain", false); err != nil || n.NameBytes != nil {
		t.Errorf("%+v, %v", n, err)
	}
}

// TestPutAnswersTheNameThatWasAsked of a file with two names.
func TestPutAnswersTheNameThatWasAsked(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	ctx := t.Context()
	if _, err := f.client.Write(ctx, "a", "first", strings.NewReader("old"), 0); err != nil {
		t.Fatal(err)
	}
	f.link("a", "first", "second")
	if n, err := f.client.Stat(ctx, "a", "second", false); err != nil || n.Name != "second" || n.Path != "/agents/a/workspace/second" {
		t.Errorf("stat: %+v, %v", n, err)
	}
	n, err := f.client.Write(ctx, "a", "second", strings.NewReader("new"), 0)
	if err != nil || n.Path != "/agents/a/workspace/second" {
		t.Errorf("%+v, %v", n, err)
	}
	if got, err := f.read("a", "first"); err != nil || string(got) != "new" {
		t.Errorf("first: %q, %v", got, err)
	}
	if got, err := f.read("a", "second"); err != nil || string(got) != "new" {
		t.Errorf("second: %q, %v", got, err)
	}
}

// TestSlashAfterAFile is no way to name it.
func TestSlashAfterAFile(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	ctx := t.Context()
	if _, err := f.client.Write(ctx, "a", "f", strings.NewReader("x"), 0); err != nil {
		t.Fatal(err)
	}
	_, statErr := f.client.Stat(ctx, "a", "f/", false)
	_, listErr := f.client.List(ctx, "a", "f/")
	_, readErr := f.read("a", "f/")
	_, writeErr := f.client.Write(ctx, "a", "f/", strings.NewReader("y"), 0)
	_, moveErr := f.client.Move(ctx, control.Move{Agent: "a", From: "f/", To: "g"})
	for op, err := range map[string]error{"stat": statErr, "list": listErr, "read": readErr, "write": writeErr,
		"move": moveErr, "remove": f.client.Remove(ctx, "a", "f/", true)} {
		if control.KindOf(err) != control.KindInvalid {
			t.Errorf("%s: %v", op, err)
		}
	}
	if got, err := f.read("a", "f"); err != nil || string(got) != "x" {
		t.Errorf("after all that: %q, %v", got, err)
	}
}

// TestMoveAcrossVolumes says what to do instead.
func TestMoveAcrossVolumes(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	if _, err := f.client.Write(t.Context(), "a", "f", strings.NewReader("x"), 0); err != nil {
		t.Fatal(err)
	}
	_, err := f.client.Move(t.Context(), control.Move{Agent: "a", From: "f", To: "/agents/a/scratch/f"})
	if control.KindOf(err) != control.KindConflict || !strings.Contains(err.Error(), "copy") {
		t.Errorf("%v", err)
	}
}
