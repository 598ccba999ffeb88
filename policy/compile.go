package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// settingsFile is the name under which compiled settings are shown.
const settingsFile = "settings.cedar"

// compileSettings writes the Cedar that access modes, members and the
// deny-list mean. The same facts give the same text.
func compileSettings(f *Facts, n *names) string {
	var b strings.Builder
	b.WriteString("// Compiled from the store's settings: deny-list, access modes, project members, grants.\n")
	if deny := n.all(); deny != "" {
		b.WriteString("\n@id(\"deny-names\")\n@reason(\"the name is on the deny-list\")\n")
		fmt.Fprintf(&b, "@names(%s)\n", quote(deny))
		if len(n.exceptions) > 0 {
			fmt.Fprintf(&b, "@except(%s)\n", quote(n.exceptionList()))
		}
		fmt.Fprintf(&b, "forbid (principal, action in [%s], resource)\nwhen { resource.denied };\n", deniedActions)
	}
	for _, key := range slices.Sorted(maps.Keys(f.Agents)) {
		writeAccess(&b, f.Agents[key])
		writeHomeOnly(&b, f.Agents[key])
		writeOwnNames(&b, key, n.own[key])
	}
	for _, slug := range slices.Sorted(maps.Keys(f.Projects)) {
		for _, key := range slices.Sorted(maps.Keys(f.Projects[slug])) {
			writeMember(&b, slug, key, f.Projects[slug][key])
		}
	}
	for _, g := range f.Grants {
		writeGrant(&b, g)
	}
	return b.String()
}

func writeAccess(b *strings.Builder, a Agent) {
	switch a.Access {
	case ReadOnly:
		fmt.Fprintf(b, `
@id("access/%[1]s")
@reason("the agent is read-only but for its own scratch and caches")
forbid (principal == Agent::"%[1]s", action in Action::"mutate", resource)
unless { resource has agent && resource.agent == principal && ["scratch", "caches"].contains(resource.zone) };
`, a.Key)
	case NoAccess:
		fmt.Fprintf(b, `
@id("access/%[1]s")
@reason("the agent has no access")
forbid (principal == Agent::"%[1]s", action, resource);
`, a.Key)
	}
}

// deniedActions are what is refused of a name on a deny-list: it may be seen and
// removed.
const deniedActions = `Action::"read", Action::"write", Action::"create", Action::"move", Action::"link"`

func writeOwnNames(b *strings.Builder, key string, own []nameRule) {
	if len(own) == 0 {
		return
	}
	fmt.Fprintf(b, `
@id("deny-names/%[1]s")
@reason("the name is denied to this agent")
@names(%[2]s)
forbid (principal == Agent::"%[1]s", action in [%[3]s], resource)
when { resource.barred };
`, key, quote(strings.Join(ruleList(own), "; ")), deniedActions)
}

// all is the deny-list that holds for everybody, in one line.
func (n *names) all() string {
	parts := ruleList(n.rules)
	if everywhere := n.list(); len(everywhere) > 0 {
		parts = append([]string{strings.Join(everywhere, " ")}, parts...)
	}
	return strings.Join(parts, "; ")
}

// ruleList gives rules as they were written, sorted.
func ruleList(rules []nameRule) (out []string) {
	for _, r := range rules {
		if r.under == "" {
			out = append(out, r.written)
		} else {
			out = append(out, r.written+" under "+r.under)
		}
	}
	slices.Sort(out)
	return out
}

func writeHomeOnly(b *strings.Builder, a Agent) {
	if !a.HomeOnly {
		return
	}
	fmt.Fprintf(b, `
@id("mode/%[1]s/nothing-else")
@reason("the agent has its home and its scratch, and nothing else")
forbid (principal == Agent::"%[1]s", action, resource)
unless { resource.zone == "root" }
unless { resource has agent && resource.agent == principal && resource.zone != "workspace" };

@id("mode/%[1]s/read-only")
@reason("the agent's home is read-only to it")
forbid (principal == Agent::"%[1]s", action in Action::"mutate", resource)
unless { resource has agent && resource.agent == principal && resource.zone == "scratch" };
`, a.Key)
}

func writeMember(b *strings.Builder, slug, key, right string) {
	action := `action in Action::"observe"`
	if right == "write" {
		action = "action"
	}
	fmt.Fprintf(b, `
@id("member/%[1]s/%[2]s")
@reason("a member of the project")
permit (principal == Agent::"%[2]s", %[3]s, resource in Project::"%[1]s");
`, slug, key, action)
}

func (n *names) exceptionList() string {
	var out []string
	for _, x := range n.exceptions {
		under := x.under
		if under == "" {
			under = "/"
		}
		out = append(out, x.name+" under "+under)
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// quote writes s as a Cedar string.
func quote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
