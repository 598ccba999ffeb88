package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"golang.org/x/sys/unix"
)

// TestMalformedRequests: whatever comes in, the answer is an error in JSON
// with the right status, and nothing happened.
func TestMalformedRequests(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	big := `{"key":"b","name":"` + strings.Repeat("x", maxBody) + `"}`
	for _, c := range []struct {
		method, path, body string
		status             int
		kind               control.Kind
	}{
		{"POST", "/v1/agents", ``, 400, control.KindInvalid},
		{"POST", "/v1/agents", `{`, 400, control.KindInvalid},
		{"POST", "/v1/agents", `not json`, 400, control.KindInvalid},
		{"POST", "/v1/agents", `[]`, 400, control.KindInvalid},
		{"POST", "/v1/agents", `{"key":7}`, 400, control.KindInvalid},
		{"POST", "/v1/agents", `{"key":"b","colour":"red"}`, 400, control.KindInvalid},
		{"POST", "/v1/agents", `{"key":"b"} {"key":"c"}`, 400, control.KindInvalid},
		{"POST", "/v1/agents", `{"key":"b"} x`, 400, control.KindInvalid},
		{"POST", "/v1/agents", big, 413, control.KindInvalid},
		{"POST", "/v1/agents", `{"key":"../b"}`, 400, control.KindInvalid},
		{"POST", "/v1/agents", `{"key":"a"}`, 409, control.KindConflict},
		{"PATCH", "/v1/agents/a", `{"role":"orchestrator"}`, 400, control.KindInvalid},
		{"PATCH", "/v1/agents/nobody", `{}`, 404, control.KindNotFound},
		{"GET", "/v1/agents/nobody", ``, 404, control.KindNotFound},
		{"GET", "/v1/agents/..%2f..", ``, 400, control.KindInvalid},
		{"GET", "/v1/nothing", ``, 404, control.KindNotFound},
		{"GET", "/", ``, 404, control.KindNotFound},
		{"DELETE", "/v1/agents", ``, 405, control.KindInvalid},
		{"PUT", "/v1/agents/a", `{}`, 405, control.KindInvalid},
		{"POST", "/v1/status", ``, 405, control.KindInvalid},
		{"POST", "/v1/mounts", `{"agent":"a","dir":"relative"}`, 400, control.KindInvalid},
		{"POST", "/v1/mounts", `{"agent":"a","dir":"/m","access":"none"}`, 400, control.KindInvalid},
		{"POST", "/v1/mounts", `{"agent":"a","dir":"/m","uid":-1}`, 400, control.KindInvalid},
		{"POST", "/v1/mounts", `{"agent":"b","dir":"/m"}`, 404, control.KindNotFound},
		{"DELETE", "/v1/mounts?dir=/nowhere", ``, 404, control.KindNotFound},
		{"POST", "/v1/runs", `{"agent":"b"}`, 404, control.KindNotFound},
		{"POST", "/v1/runs", `{"agent":"a","uid":0}`, 403, control.KindDenied},
		{"GET", "/v1/fs/stat", ``, 400, control.KindInvalid},
		{"GET", "/v1/fs/stat?agent=a", ``, 400, control.KindInvalid},
		{"GET", "/v1/fs/stat?path=/", ``, 400, control.KindInvalid},
		{"GET", "/v1/fs/list?agent=b&path=/", ``, 404, control.KindNotFound},
		{"GET", "/v1/fs/content?agent=a&path=/agents/a", ``, 400, control.KindInvalid},
		{"PUT", "/v1/fs/content?agent=a&path=f&mode=xyz", `x`, 400, control.KindInvalid},
		{"PUT", "/v1/fs/content?agent=a&path=.", `x`, 400, control.KindInvalid},
		{"PUT", "/v1/fs/content?agent=a&path=/agents/a/soul.md", `x`, 403, control.KindDenied},
		{"POST", "/v1/fs/move", `{"agent":"a","from":"","to":"x"}`, 400, control.KindInvalid},
		{"POST", "/v1/fs/mkdir", `{"agent":"a","path":"d","mode":65535}`, 400, control.KindInvalid},
		{"DELETE", "/v1/fs/node?agent=a&path=none", ``, 404, control.KindNotFound},
		{"PUT", "/v1/policy/exceptions", `{"name":"","under":"/"}`, 400, control.KindInvalid},
		{"GET", "/v1/policy/explain?agent=a&action=x&path=/", ``, 400, control.KindInvalid},
	} {
		status, body, head := f.send(c.method, c.path, strings.NewReader(c.body))
		var e control.Error
		d := json.NewDecoder(strings.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil {
			t.Errorf("%s %s: not an error in JSON: %.200s", c.method, c.path, body)
		}
		if status != c.status || e.Kind != c.kind || e.Text == "" || head.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s %.60s: %d %+v %q, want %d %s", c.method, c.path, c.body, status, e, head.Get("Content-Type"), c.status, c.kind)
		}
		if status == 405 && head.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
	}
	if got := f.server.Registry.Agents(); len(got) != 1 {
		t.Errorf("agents after malformed requests: %v", got)
	}
	if up := f.mounts.Mounted(); len(up) != 0 {
		t.Errorf("mounts after malformed requests: %v", up)
	}
}

// TestEveryKindHasAnOutcome: kinds that mean something to a caller do not come
// out as "failed".
func TestEveryKindHasAnOutcome(t *testing.T) {
	failed := map[backend.Kind]bool{backend.Other: true, backend.IO: true, backend.DiskReadOnly: true, backend.NoDevice: true, backend.BadHandle: true}
	for k := backend.Other; k.Error() != "unknown error"; k++ {
		if _, known := outcomes[k]; known == failed[k] {
			t.Errorf("kind %q: in the table: %t", k.Error(), known)
		}
	}
}

func TestOthersAreNotAdmitted(t *testing.T) {
	s := &Server{Options: Options{Daemon: Daemon{UID: 1000}}}
	for uid, want := range map[uint32]bool{0: true, 1000: true, 1001: false, 65534: false} {
		r, err := http.NewRequestWithContext(withCred(t.Context(), &unix.Ucred{Uid: uid}), "GET", "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.admit(r); (err == nil) != want {
			t.Errorf("uid %d: %v", uid, err)
		}
	}
	// A connection whose peer is not known is nobody's.
	r, err := http.NewRequestWithContext(t.Context(), "GET", "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.admit(r) == nil {
		t.Error("an unknown peer was admitted")
	}
}

func TestClientTellsWhatIsWrong(t *testing.T) {
	f := newFixture(t)
	ctx := t.Context()
	_, err := f.client.Agent(ctx, "nobody")
	var e *control.Error
	if !errors.As(err, &e) || e.Kind != control.KindNotFound || !strings.Contains(e.Text, `no agent "nobody"`) {
		t.Errorf("%v", err)
	}
	if _, err := f.client.Agent(ctx, "a/b"); control.KindOf(err) != control.KindInvalid {
		t.Errorf("a name with a slash: %v", err)
	}
	s, err := f.client.Status(ctx)
	if err != nil || s.Requests["LOOKUP"] != 3 || s.Volumes == 0 {
		t.Errorf("status: %+v, %v", s, err)
	}
	if err := f.client.Sync(ctx); err != nil {
		t.Error(err)
	}
	c, err := f.client.Fsck(ctx)
	if err != nil || !c.Clean || c.Problems == nil {
		t.Errorf("fsck: %+v, %v", c, err)
	}
}

// TestStatusIsTheAdministrators: how the whole store fares is for root and the
// daemon's user. To others nothing is told, not even that it was counted.
func TestStatusIsTheAdministrators(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	for uid, want := range map[uint32]int{uint32(os.Geteuid()): 200, 0: 200, 4321: 403, 65534: 403} {
		for _, token := range []string{"", "Bearer of-a-soul"} {
			r := httptest.NewRequestWithContext(withCred(t.Context(), &unix.Ucred{Uid: uid}), "GET", "/v1/status", nil)
			r.Header.Set("Authorization", token)
			w := httptest.NewRecorder()
			f.server.http.Handler.ServeHTTP(w, r)
			if told := strings.Contains(w.Body.String(), "requests"); w.Code != want || told != (want == 200) {
				t.Errorf("uid %d, %q: %d %.100s", uid, token, w.Code, w.Body)
			}
		}
	}
}

// TestControlErrorsGoByKind: an error that is in the API's own words is answered
// with the status of its kind.
func TestControlErrorsGoByKind(t *testing.T) {
	s := New(Options{})
	for kind, want := range map[control.Kind]int{
		control.KindInvalid: 400, control.KindDenied: 403, control.KindNotFound: 404, control.KindConflict: 409,
		control.KindFailed: 500, control.KindPartial: 500, control.KindUnavailable: 503, control.KindInterrupted: 503,
		control.KindQuota: 507, "no such kind": 500, "": 500,
	} {
		for _, err := range []error{control.Errorf(kind, "text"), fmt.Errorf("wrapped: %w", control.Errorf(kind, "text"))} {
			w := httptest.NewRecorder()
			s.answer(func(http.ResponseWriter, *http.Request) error { return err })(w, httptest.NewRequest("GET", "/v1/x", nil))
			var e control.Error
			if jerr := json.Unmarshal(w.Body.Bytes(), &e); jerr != nil || w.Code != want || e.Kind != cmp.Or(kind, control.KindFailed) || !strings.HasSuffix(e.Text, "text") {
				t.Errorf("%q: %d %s, want %d", kind, w.Code, w.Body, want)
			}
		}
	}
}
