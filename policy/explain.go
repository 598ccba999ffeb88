package policy

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
)

// Explanation is a decision with everything that bears on it.
type Explanation struct {
	Allow  bool
	Rules  []RuleRef // those that decided, by file and line; none: nothing permits
	Errors []RuleError
}

// RuleRef points at a policy.
type RuleRef struct {
	ID     RuleID
	File   string
	Line   int
	Reason string // its @reason
}

// RuleError is a policy that failed. One is enough to deny.
type RuleError struct {
	RuleRef
	Text string
}

// Explain decides as [Engine.Decide] does and tells why. It remembers nothing.
func (e *Engine) Explain(p *Principal, a Action, r Resource) Explanation {
	if p == nil || a >= numActions {
		return Explanation{}
	}
	s := p.snap
	place, err := s.world.place(r)
	if err != nil {
		return Explanation{Errors: []RuleError{{Text: err.Error()}}}
	}
	answer, diag := cedar.Authorize(p.slices[a], s.world.getter(place, r), s.world.request(p.id.agent, p.id.mount, a))
	x := Explanation{Allow: answer == cedar.Allow && len(diag.Errors) == 0}
	for _, d := range diag.Reasons { // in the order of the slice: by file and line
		x.Rules = append(x.Rules, s.rules.ref(RuleID(d.PolicyID)))
	}
	for _, d := range diag.Errors {
		x.Errors = append(x.Errors, RuleError{s.rules.ref(RuleID(d.PolicyID)), d.Message})
	}
	return x
}

// Rule points at the policy a decision named.
func (e *Engine) Rule(id RuleID) (RuleRef, bool) {
	s := e.cur.Load()
	if _, ok := s.rules.index[id]; !ok {
		return RuleRef{}, false
	}
	return s.rules.ref(id), true
}

func (s *ruleset) ref(id RuleID) RuleRef {
	r := s.all[s.index[id]]
	return RuleRef{ID: id, File: r.file, Line: r.line, Reason: r.reason}
}

// Show gives the Cedar in force, file by file: all of it for agent "", else
// the policies that may apply to that agent.
func (e *Engine) Show(agent string) string {
	set := e.cur.Load().rules
	var b strings.Builder
	file := ""
	head := func(name string) {
		if name != file {
			if file != "" {
				b.WriteByte('\n')
			}
			fmt.Fprintf(&b, "// ======== %s ========\n", name)
			file = name
		}
	}
	if agent == "" {
		for _, f := range set.files {
			head(f.Name)
			b.WriteString(strings.TrimRight(f.Text, "\n") + "\n")
		}
		return b.String()
	}
	for i, r := range set.all {
		if r.agent == "" || r.agent == agent {
			head(r.file)
			fmt.Fprintf(&b, "\n// line %d\n%s\n", r.line, set.text(i))
		}
	}
	return b.String()
}

// examples runs a rule's own: @match are requests it must apply to, @not_match
// ones it must not. Each is "agent action zone:owner", then "denied", "barred",
// "ro" or "none" if the deny-list holds, the agent's own one does, or the mount is
// so; more are parted by ";".
func (s *snapshot) examples(r *rule) error {
	notes := r.policy.Annotations()
	for _, want := range []struct {
		note  types.AnnotationKey
		match bool
	}{{"match", true}, {"not_match", false}} {
		text, ok := notes[want.note]
		if !ok {
			continue
		}
		for example := range strings.SplitSeq(string(text), ";") {
			got, err := s.applies(r, strings.Fields(example))
			if err == nil && got != want.match {
				err = errors.New("the policy applies to it")
				if want.match {
					err = errors.New("the policy does not apply to it")
				}
			}
			if err != nil {
				return fmt.Errorf("%s:%d:%d: %s: @%s %q: %w", r.file, r.line, r.column, r.id, want.note, strings.TrimSpace(example), err)
			}
		}
	}
	return nil
}

func (s *snapshot) applies(r *rule, words []string) (bool, error) {
	if len(words) < 3 {
		return false, fmt.Errorf("not of the form: agent action zone:owner")
	}
	action, ok := ParseAction(words[1])
	if _, known := s.facts.Agents[words[0]]; !known || !ok {
		return false, fmt.Errorf("unknown agent or action")
	}
	zone, owner, _ := strings.Cut(words[2], ":")
	place := Resource{Zone: numZones, Owner: owner}
	for z := range numZones {
		if z.String() == zone {
			place.Zone = z
		}
	}
	mount := ReadWrite
	for _, w := range words[3:] {
		switch w {
		case "denied":
			place.Denied = true
		case "barred":
			place.Barred = true
		case "ro":
			mount = ReadOnly
		case "none":
			mount = NoAccess
		default:
			return false, fmt.Errorf("unknown word %q", w)
		}
	}
	e, err := s.world.place(place)
	if err != nil {
		return false, err
	}
	if r.agent != "" && r.agent != words[0] || r.actions&(1<<action) == 0 {
		return false, nil
	}
	_, diag := cedar.Authorize(rules{r}, s.world.getter(e, place), s.world.request(words[0], mount, action))
	if len(diag.Errors) > 0 {
		return false, fmt.Errorf("%s", diag.Errors[0].Message)
	}
	return len(diag.Reasons) > 0, nil
}
