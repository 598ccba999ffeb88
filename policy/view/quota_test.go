package view_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

func num(n uint64) *uint64 { return &n }

// paths lists what a view is told of.
func (w *world) quotas(v *view.View) (paths []string) {
	w.t.Helper()
	all, err := v.Quotas()
	w.ok(err, "quotas")
	for _, q := range all {
		paths = append(paths, q.Path)
	}
	return paths
}

// TestQuotasOfTheView: a view is told of the volumes it sees and no other, by
// list or by path.
func TestQuotasOfTheView(t *testing.T) {
	w := newWorld(t)
	w.write("/agents/web/workspace/app/f", "f")
	web := w.open("web")
	want := []string{"/agents/kid", "/agents/kid/scratch", "/agents/kid/workspace", "/agents/web", "/agents/web/scratch",
		"/agents/web/workspace", "/projects/site", "/users/ada"}
	if got := w.quotas(web); !slices.Equal(got, want) {
		t.Errorf("web is told of %v", got)
	}
	if got := w.quotas(w.open("conc")); !slices.Equal(got, []string{"/agents/conc", "/agents/conc/scratch", "/agents/conc/workspace"}) {
		t.Errorf("conc is told of %v", got)
	}
	if got := w.quotas(w.openWith(view.Options{Agent: "web", Root: "/agents/web/workspace/app"})); !slices.Equal(got, []string{"/agents/web/workspace"}) {
		t.Errorf("a view of app is told of %v", got)
	}
	if got := w.quotas(w.open("none")); len(got) != 0 {
		t.Errorf("an agent without access is told of %v", got)
	}
	if got := w.quotas(w.gaia); len(got) < 40 || slices.Contains(got, "/") {
		t.Errorf("gaia is told of %v", got)
	}
	for _, p := range []string{"/agents/guest/workspace", "/agents/boss", "/users/bob", "/projects/bobs", "/nowhere"} {
		_, err := web.Quota(p)
		w.kind(err, backend.NotFound, p)
		_, err = web.SetQuota(p, view.QuotaChange{SoftBytes: num(1)})
		w.kind(err, backend.NotFound, "set "+p)
	}
	if q, err := web.Quota("/agents/web/workspace/app/f"); err != nil || q.Path != "/agents/web/workspace" || q.Bytes.Used != 1 || q.Inodes.Used != 3 {
		t.Errorf("%+v, %v", q, err)
	}
	w.kind(second(web.Quota("/agents")), backend.NotFound, "of the directory above")
}

// TestWhoSetsQuotas: hard limits are not a soul's to set, its own or others'.
func TestWhoSetsQuotas(t *testing.T) {
	w := newWorld(t)
	web, ro, boss := w.open("web"), w.open("ro"), w.open("boss")
	const work = "/agents/web/workspace"
	for _, c := range []struct {
		v    *view.View
		path string
		ch   view.QuotaChange
		kind backend.Kind // Other: done
	}{
		{w.gaia, work, view.QuotaChange{Bytes: num(1000), Inodes: num(10)}, backend.Other},
		{web, work, view.QuotaChange{Bytes: num(1 << 40)}, backend.Denied},
		{web, work, view.QuotaChange{Bytes: num(0), SoftBytes: num(5)}, backend.Denied},
		{web, work, view.QuotaChange{Inodes: num(0)}, backend.Denied},
		{web, work, view.QuotaChange{SoftBytes: num(500), SoftInodes: num(5)}, backend.Other},
		{web, work, view.QuotaChange{SoftBytes: num(5000)}, backend.Invalid},
		{web, work + "/", view.QuotaChange{SoftBytes: num(0)}, backend.Other},
		{web, "/agents/web", view.QuotaChange{SoftInodes: num(100)}, backend.Other},
		{web, "/agents/web/notes", view.QuotaChange{SoftInodes: num(100)}, backend.Invalid},
		{web, "/projects/site", view.QuotaChange{SoftBytes: num(5)}, backend.Denied},
		{web, "/users/ada", view.QuotaChange{SoftBytes: num(5)}, backend.Denied},
		{boss, work, view.QuotaChange{SoftBytes: num(5)}, backend.Denied},
		{ro, "/agents/ro/scratch", view.QuotaChange{SoftBytes: num(5)}, backend.Denied},
		{w.open("limbob"), work, view.QuotaChange{Bytes: num(5)}, backend.NotFound},
		{w.open("lim"), work, view.QuotaChange{Bytes: num(2000)}, backend.Other},
		{w.openWith(view.Options{Agent: "gaia", Access: view.ReadOnly}), work, view.QuotaChange{Bytes: num(5)}, backend.ReadOnly},
		{w.gaia, "/agents", view.QuotaChange{Bytes: num(5)}, backend.NotFound},
		{w.openWith(view.Options{Administrator: true}), "/workspaces/default", view.QuotaChange{Bytes: num(5)}, backend.Other},
	} {
		_, err := c.v.SetQuota(c.path, c.ch)
		if c.kind == backend.Other {
			w.ok(err, c.v.Agent()+" sets "+c.path)
		} else {
			w.kind(err, c.kind, c.v.Agent()+" sets "+c.path)
		}
	}
	q, err := web.Quota(work)
	want := view.Quota{Path: work, Bytes: view.Amount{Hard: 2000}, Inodes: view.Amount{Used: 1, Hard: 10, Soft: 5}}
	if err != nil || q != want {
		t.Errorf("%+v, %v", q, err)
	}
}

// TestQuotaInTwoViews: writers in two views never pass the limit together; what
// a view is told, what files hold and what fsck counts agree.
func TestQuotaInTwoViews(t *testing.T) {
	w := newWorld(t)
	const limit = 1 << 20
	const work = "/agents/web/workspace"
	_, err := w.gaia.SetQuota(work, view.QuotaChange{Bytes: num(limit), SoftBytes: num(1000)})
	w.ok(err, "set")
	var wg sync.WaitGroup
	for i := range 8 {
		v := w.open([]string{"web", "gaia"}[i%2])
		dir := w.node(work)
		wg.Add(1)
		go func() {
			defer wg.Done()
			a, _, err := v.Create(nil, dir, string(rune('a'+i)), 0o644, true, view.OpenFlags{Write: true})
			for err == nil {
				if _, err = v.Append(nil, a.Node, make([]byte, 3000+i)); err == nil {
					if st, err := v.Statfs(nil, dir); err != nil || st.UsedBytes > limit || st.Bytes != limit {
						t.Errorf("%+v, %v", st, err)
					}
				}
			}
			if !errors.Is(err, backend.Quota) {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	list, err := w.gaia.List(nil, w.node(work))
	w.ok(err, "list")
	var sum uint64
	for _, e := range list {
		a, err := w.gaia.Getattr(nil, e.Node)
		w.ok(err, "stat")
		sum += a.Size
	}
	q, err := w.open("web").Quota(work)
	if err != nil || sum != limit || q.Bytes != (view.Amount{Used: limit, Hard: limit, Soft: 1000, Over: true}) {
		t.Errorf("files hold %d; %+v, %v", sum, q, err)
	}
}

// TestQuotaAndGrants: the directories above what is granted tell of no quota; what
// is granted, where it is written, does.
func TestQuotaAndGrants(t *testing.T) {
	w := grantWorld(t)
	w.grant("g1", granted, "write")
	guest := w.open("guest")
	above := w.node("/agents/web/workspace")
	before, err := guest.Statfs(nil, above)
	w.ok(err, "statfs")
	_, err = w.gaia.SetQuota("/agents/web/workspace", view.QuotaChange{Bytes: num(77), Inodes: num(1000)})
	w.ok(err, "set")
	if after, err := guest.Statfs(nil, above); err != nil || after != before {
		t.Errorf("%+v, %v; before %+v", after, err, before)
	}
	w.kind(second(guest.Quota("/agents/web/workspace")), backend.NotFound, "quota above a grant")
	if got := w.quotas(guest); slices.Contains(got, "/agents/web/workspace") || slices.Contains(got, "/agents/web") {
		t.Errorf("guest is told of %v", got)
	}
	if st, err := guest.Statfs(nil, w.node(granted)); err != nil || st.Bytes != 77 || st.Inodes != 1000 {
		t.Errorf("in what is granted: %+v, %v", st, err)
	}
	w.kind(second(guest.SetQuota(granted, view.QuotaChange{SoftBytes: num(1)})), backend.Invalid, "set in a grant")
}
