package policy

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// TestErrorDenies holds the engine to "any evaluation error is deny": Cedar
// skips a forbid that fails, which would let the request through.
func TestErrorDenies(t *testing.T) {
	f := testFacts()
	// Overflow is the one error that strict validation lets pass.
	f.Extra = []File{{Name: "extra.cedar", Text: `
@id("breaks")
forbid (principal == Agent::"web", action == Action::"read", resource)
when { resource.zone == "workspace" && 9223372036854775807 + 1 == 0 };`}}
	e := newEngine(t, f)
	p := principal(t, e, "web", ReadWrite)
	r := Resource{Zone: ZoneWorkspace, Owner: "web"}
	for range 2 {
		if d := e.Decide(p, Read, r); d.Allow || d.Rule != "breaks" {
			t.Errorf("a failing forbid: %+v, want denied by it", d)
		}
	}
	x := e.Explain(p, Read, r)
	if x.Allow || len(x.Errors) != 1 || x.Errors[0].ID != "breaks" || x.Errors[0].File != "extra.cedar" || x.Errors[0].Line != 2 || x.Errors[0].Text == "" {
		t.Errorf("explained as %+v", x)
	}
	if d := e.Decide(p, See, r); !d.Allow {
		t.Error("the failing policy is not about see")
	}
	if d := e.Decide(principal(t, e, "web2", ReadWrite), Read, Resource{Zone: ZoneWorkspace, Owner: "web2"}); !d.Allow {
		t.Error("the failing policy is not about web2")
	}
	// A failing permit denies too, though another permit holds.
	f.Extra[0].Text = strings.Replace(f.Extra[0].Text, "forbid", "permit", 1)
	if err := e.Swap(f); err != nil {
		t.Fatal(err)
	}
	if d := e.Decide(p, Read, r); d.Allow {
		t.Errorf("a failing permit: %+v", d)
	}
}

func TestOddRequestsDeny(t *testing.T) {
	e := newEngine(t, testFacts())
	gaia := principal(t, e, "gaia", ReadWrite)
	ok := Resource{Zone: ZoneWorkspace, Owner: "web"}
	for _, c := range []struct {
		p *Principal
		a Action
		r Resource
	}{
		{nil, See, ok}, {gaia, numActions, ok}, {gaia, 200, ok},
		{gaia, See, Resource{Zone: numZones, Owner: "web"}},
		{principal(t, e, "web2", ReadWrite), See, Resource{Zone: ZoneWorkspace, Owner: "web", Grants: 7}}, // no such set
		{gaia, See, Resource{Zone: ZoneWorkspace, Owner: "we"}},                                           // siblings by prefix
		{gaia, See, Resource{Zone: ZoneWorkspace, Owner: "web22"}},
	} {
		if d := e.Decide(c.p, c.a, c.r); d.Allow {
			t.Errorf("%v %+v allowed", c.a, c.r)
		}
		if x := e.Explain(c.p, c.a, c.r); x.Allow {
			t.Errorf("%v %+v explained as allowed", c.a, c.r)
		}
	}
	if _, ok := e.Principal("ghost", ReadWrite); ok {
		t.Error("an unknown agent has a principal")
	}
	if _, ok := e.Principal("gaia", numAccess); ok {
		t.Error("an unknown access mode has a principal")
	}
	if !e.Decide(gaia, See, ok).Allow {
		t.Error("the well-formed request is denied")
	}
}

func TestSwapRefusesWhole(t *testing.T) {
	type change func(*Facts)
	agent := func(a Agent) change { return func(f *Facts) { f.Agents[a.Key] = a } }
	extra := func(text string) change {
		return func(f *Facts) { f.Extra = []File{{Name: "extra.cedar", Text: text}} }
	}
	for name, c := range map[string]struct {
		do   change
		want string // in the error
	}{
		"unknown user":      {agent(Agent{Key: "x", Role: Soul, User: "eve"}), `unknown user "eve"`},
		"unknown parent":    {agent(Agent{Key: "x", Role: Soul, Parent: "eve"}), `unknown parent "eve"`},
		"own parent":        {agent(Agent{Key: "x", Role: Soul, Parent: "x"}), "circle"},
		"circle":            {agent(Agent{Key: "gaia", Role: Orchestrator, Parent: "gaia"}), "circle"},
		"long circle":       {agent(Agent{Key: "web", Role: Soul, Parent: "grand"}), "circle"},
		"bad key":           {agent(Agent{Key: "Web", Role: Soul}), "not a valid key"},
		"path as key":       {agent(Agent{Key: "../x", Role: Soul}), "not a valid key"},
		"quote in key":      {agent(Agent{Key: `x"`, Role: Soul}), "not a valid key"},
		"bad role":          {agent(Agent{Key: "x", Role: "admin"}), `role "admin"`},
		"no role":           {agent(Agent{Key: "x"}), "role"},
		"bad access":        {agent(Agent{Key: "x", Role: Soul, Access: 9}), "access"},
		"filed elsewhere":   {func(f *Facts) { f.Agents["x"] = Agent{Key: "y", Role: Soul} }, "filed under"},
		"limited soul":      {agent(Agent{Key: "x", Role: Soul, OnlyUser: "ada"}), "only an orchestrator"},
		"limited to nobody": {agent(Agent{Key: "x", Role: Orchestrator, OnlyUser: "eve"}), "unknown user"},
		"promoted child":    {agent(Agent{Key: "x", Role: Orchestrator, Parent: "web"}), "an orchestrator under"},
		"bad user":          {func(f *Facts) { f.Users["A b"] = true }, "not a valid id"},
		"unknown member":    {func(f *Facts) { f.Projects["site"]["eve"] = "read" }, `"eve" is not an agent`},
		"bad right":         {func(f *Facts) { f.Projects["site"]["kid"] = "admin" }, `right "admin"`},
		"bad slug":          {func(f *Facts) { f.Projects["a/b"] = nil }, "not a valid slug"},
		"grant": {func(f *Facts) {
			f.Grants = []Grant{{ID: "g", Agent: "web", Path: "/agents", Right: "read", Expires: time.Now()}}
		}, "stands above"},
		"bad glob":          {func(f *Facts) { f.Settings.DenyNames = []string{"[a"} }, "[a"},
		"glob with slash":   {func(f *Facts) { f.Settings.DenyNames = []string{"a/b"} }, "a/b"},
		"relative under":    {func(f *Facts) { f.Settings.Exceptions = []NameException{{".env", "a"}} }, "not a tree path"},
		"dots under":        {func(f *Facts) { f.Settings.Exceptions = []NameException{{".env", "/a/../b"}} }, "not a clean"},
		"no parse":          {extra("permit (principal, action"), "extra.cedar"},
		"unknown attribute": {extra(`@id("x") permit (principal, action, resource) when { resource.path == "/" };`), "extra.cedar:1"},
		"unguarded":         {extra(`@id("x") permit (principal, action, resource) when { resource.agent == principal };`), "extra.cedar:1"},
		"unknown action":    {extra(`@id("x") permit (principal, action == Action::"chmod", resource);`), "extra.cedar:1"},
		"type mismatch":     {extra(`@id("x") permit (principal, action, resource) when { context.mount == 2 };`), "extra.cedar:1"},
		"never applies":     {extra(`@id("x") permit (principal is User, action, resource);`), "extra.cedar:1"},
		"no id":             {extra(`permit (principal, action, resource);`), "no @id"},
		"id taken":          {extra(`@id("own-observe") permit (principal, action, resource);`), "taken"},
		"unknown note":      {extra("\n" + `@id("x") @reasn("typo") permit (principal, action, resource);`), "extra.cedar:2:1: unknown annotation @reasn"},
		"file name taken":   {func(f *Facts) { f.Extra = []File{{Name: "default.cedar"}} }, "default.cedar"},
		"no example":        {extra(`@id("x") @match("web read user:bob") permit (principal, action, resource) when { resource.zone == "scratch" };`), "@match"},
		"counterexample":    {extra(`@id("x") @not_match("web read scratch:web") permit (principal, action, resource) when { resource.zone == "scratch" };`), "@not_match"},
		"bad example":       {extra(`@id("x") @match("eve read scratch:web") permit (principal, action, resource);`), "unknown agent"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, testFacts())
			before, epoch := e.Show(""), e.Epoch()
			f := testFacts()
			f.Agents["fresh"] = Agent{Key: "fresh", Role: Soul}
			c.do(&f)
			if err := e.Check(f); err == nil {
				t.Error("Check finds nothing")
			}
			err := e.Swap(f)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one that tells %q", err, c.want)
			}
			if e.Epoch() != epoch || e.Show("") != before {
				t.Error("something changed")
			}
			if _, ok := e.Principal("fresh", ReadWrite); ok {
				t.Error("part of the refused facts took effect")
			}
		})
	}
}

func TestExamplesHold(t *testing.T) {
	f := testFacts()
	f.Extra = []File{{Name: "extra.cedar", Text: `
@id("auditor") @reason("web2 audits")
@match("web2 see workspace:web; web2 read workspace:web denied")
@not_match("web2 write workspace:web; web2 see scratch:web; web see workspace:web; web2 read workspace:web ro")
permit (principal == Agent::"web2", action in Action::"observe", resource)
when { resource.zone == "workspace" && context.mount != "ro" };`}}
	e := newEngine(t, f)
	p := principal(t, e, "web2", ReadWrite)
	if d := e.Decide(p, Read, Resource{Zone: ZoneWorkspace, Owner: "web"}); !d.Allow || d.Rule != "auditor" {
		t.Errorf("%+v", d)
	}
	if ref, ok := e.Rule("auditor"); !ok || ref.File != "extra.cedar" || ref.Line != 2 || ref.Reason != "web2 audits" {
		t.Errorf("%+v", ref)
	}
}

func TestSwapCopiesFacts(t *testing.T) {
	f := testFacts()
	e := newEngine(t, f)
	f.Agents["web"] = Agent{Key: "web", Role: Orchestrator}
	f.Projects["bobs"]["web"] = "write"
	f.Users["eve"] = true
	p := principal(t, e, "web", ReadWrite)
	if e.Decide(p, See, Resource{Zone: ZoneProject, Owner: "bobs"}).Allow || e.Facts().Users["eve"] {
		t.Error("the caller's maps are the engine's")
	}
}

// TestOldPrincipal: a principal from before a Swap decides by the facts of then,
// by which its grants and names tell of places; one that is looked up after it by
// the new ones.
func TestOldPrincipal(t *testing.T) {
	f := testFacts()
	e := newEngine(t, f)
	p := principal(t, e, "web", ReadWrite)
	r := Resource{Zone: ZoneProject, Owner: "site"}
	if !e.Decide(p, Write, r).Allow {
		t.Fatal("a member may not write")
	}
	delete(f.Projects["site"], "web")
	if err := e.Swap(f); err != nil {
		t.Fatal(err)
	}
	if !e.Decide(p, Write, r).Allow || !e.Explain(p, Write, r).Allow {
		t.Error("what was decided in an epoch changes")
	}
	if p = principal(t, e, "web", ReadWrite); e.Decide(p, Write, r).Allow || e.Explain(p, Write, r).Allow {
		t.Error("a former member may write")
	}
	delete(f.Agents, "web")
	delete(f.Agents, "kid")
	delete(f.Agents, "grand")
	delete(f.Agents, "kidro")
	delete(f.Agents, "kidno")
	delete(f.Agents, "kidsh")
	if err := e.Swap(f); err != nil {
		t.Fatal(err)
	}
	if p, known := e.Principal("web", ReadWrite); known || e.Decide(p, See, Resource{Zone: ZoneRoot}).Allow {
		t.Error("a removed agent sees the root")
	}
}

// TestSwapWhileDeciding runs under -race. Two worlds alternate; a decision
// must always be that of a whole one, and after Swap returned that of the new.
func TestSwapWhileDeciding(t *testing.T) {
	with, without := testFacts(), testFacts()
	delete(without.Projects["site"], "web")
	without.Agents["web"] = Agent{Key: "web", Role: Soul, Access: ReadOnly}
	e := newEngine(t, with)
	site := Resource{Zone: ZoneProject, Owner: "site"}
	work := Resource{Zone: ZoneWorkspace, Owner: "web"}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				p, _ := e.Principal("web", ReadWrite)
				for _, r := range []Resource{site, work} {
					d := e.Decide(p, Write, r)
					if r == work && !d.Allow && d.Rule != "access/web" {
						t.Errorf("neither world decides %+v", d)
					}
					if !e.Decide(p, See, work).Allow {
						t.Error("both worlds allow this")
					}
				}
				e.Explain(p, Write, site)
				e.NameDenied(".env")
			}
		})
	}
	for i := range 60 {
		f, want := with, true
		if i%2 == 0 {
			f, want = without, false
		}
		if err := e.Swap(f); err != nil {
			t.Fatal(err)
		}
		if p := principal(t, e, "web", ReadWrite); e.Decide(p, Write, site).Allow != want || e.Decide(p, Write, work).Allow != want {
			t.Fatalf("swap %d has not taken effect", i)
		}
	}
	close(stop)
	wg.Wait()
}

func TestShow(t *testing.T) {
	f := testFacts()
	f.Settings.Exceptions = []NameException{{Name: ".env", Under: `/agents/web/work"space/`}}
	f.Extra = []File{{Name: "extra.cedar", Text: "// a comment; with a semicolon\n@id(\"x\") @reason(\"a;b\")\npermit (principal == Agent::\"kid\", action, resource) when { resource.zone == \"user\" }; // tail; tail\n"}}
	e := newEngine(t, f)
	all := e.Show("")
	for _, want := range []string{"default.cedar", "settings.cedar", "extra.cedar", `@id("access/ro")`, `@id("member/site/web2")`,
		`@names(".env .env.local .netrc id_ed25519 id_rsa")`, `.env under /agents/web/work\"space`, "// tail; tail"} {
		if !strings.Contains(all, want) {
			t.Errorf("Show leaves out %s", want)
		}
	}
	kid := e.Show("kid")
	if !strings.Contains(kid, `@id("own-observe")`) || !strings.Contains(kid, "@reason(\"a;b\")\npermit (principal == Agent::\"kid\", action, resource) when { resource.zone == \"user\" };\n") {
		t.Errorf("Show of kid:\n%s", kid)
	}
	if strings.Contains(kid, "member/site") || strings.Contains(kid, "access/") {
		t.Error("Show of kid tells of other agents")
	}
	// What Show prints is what is in force: it parses to as many policies.
	if got, want := strings.Count(all, "@id("), len(e.cur.Load().rules.all); got != want {
		t.Errorf("%d policies shown, %d in force", got, want)
	}
}

// TestEntitiesFitSchema validates the entities and requests the engine builds.
func TestEntitiesFitSchema(t *testing.T) {
	e := newEngine(t, testFacts())
	w := e.cur.Load().world
	if err := e.validator.Entities(w.entities); err != nil {
		t.Error(err)
	}
	for _, c := range table {
		place, err := w.place(c.resource(t))
		if err != nil {
			continue
		}
		if err := e.validator.Entity(place); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		if err := e.validator.Request(w.request(c.agent, c.mount, c.action)); err != nil {
			t.Errorf("%v: %v", c, err)
		}
	}
}
