package policy

import (
	_ "embed"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	publicast "github.com/cedar-policy/cedar-go/ast"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/ast"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"
)

//go:embed schema.cedarschema
var schemaText string

//go:embed default.cedar
var defaultText string

const (
	schemaFile  = "schema.cedarschema"
	defaultFile = "default.cedar"
)

// RuleID names a policy: its @id. "" is no policy: nothing permitted.
type RuleID string

// rule is one policy of the set in force.
type rule struct {
	id      RuleID
	file    string
	line    int
	column  int
	offset  int
	reason  string
	policy  *cedar.Policy
	sliced  *cedar.Policy // policy without what slice has looked at: the action, and principal == Agent
	agent   string        // of `principal == Agent::"..."`; "" may be anybody
	actions uint8         // bit i: applies to Action(i)
}

// rules is a slice that cedar can walk, for an agent and an action that all of
// them may apply to.
type rules []*rule

// All yields the policies in their order.
func (r rules) All() iter.Seq2[cedar.PolicyID, *cedar.Policy] {
	return func(yield func(cedar.PolicyID, *cedar.Policy) bool) {
		for _, x := range r {
			if !yield(cedar.PolicyID(x.id), x.sliced) {
				return
			}
		}
	}
}

// ruleset is all the Cedar in force, in the order of its files and lines.
type ruleset struct {
	files   []File // default.cedar, settings.cedar, then the expert's
	all     rules
	index   map[RuleID]int    // into all
	anybody []int             // rules without an agent, ascending
	byAgent map[string][]int  // rules of one agent, ascending
	texts   map[string]string // file -> text
	tried   map[string]bool   // files whose examples need not be run
}

// newValidator compiles the schema.
func newValidator(text string) (*validate.Validator, error) {
	var s schema.Schema
	s.SetFilename(schemaFile)
	if err := s.UnmarshalCedar([]byte(text)); err != nil {
		return nil, fmt.Errorf("%s: %w", schemaFile, err)
	}
	resolved, err := s.Resolve()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", schemaFile, err)
	}
	return validate.New(resolved, validate.WithStrict()), nil
}

// load parses and validates files. The error names file and line of
// everything that is wrong.
func load(v *validate.Validator, files []File) (*ruleset, error) {
	set := &ruleset{files: files, index: map[RuleID]int{}, byAgent: map[string][]int{}, texts: map[string]string{}, tried: map[string]bool{}}
	var errs []error
	for _, f := range files {
		if _, dup := set.texts[f.Name]; dup || f.Name == "" || f.Name != path.Base(f.Name) {
			errs = append(errs, fmt.Errorf("policy file %q: the name is taken or no file name", f.Name))
			continue
		}
		set.texts[f.Name], set.tried[f.Name] = f.Text, f.Tried
		list, err := cedar.NewPolicyListFromBytes(f.Name, []byte(f.Text))
		if err != nil {
			errs = append(errs, parseError(f.Name, err))
			continue
		}
		for _, p := range list {
			if err := set.add(v, p); err != nil {
				pos := p.Position()
				errs = append(errs, fmt.Errorf("%s:%d:%d: %w", f.Name, pos.Line, pos.Column, err))
			}
		}
	}
	return set, errors.Join(errs...)
}

// parseError puts a file's name and the place in it first. The parser tells the
// place in its text alone, as "<input>:line:column".
func parseError(name string, err error) error {
	what, where, found := strings.Cut(err.Error(), "<input>:")
	if !found {
		return fmt.Errorf("%s: %w", name, err)
	}
	at, why, _ := strings.Cut(where, " ")
	at = strings.TrimSuffix(at, ":")
	if near, ok := strings.CutSuffix(what, "at "); ok {
		what = near + "near "
	}
	return fmt.Errorf("%s:%s: %s%s", name, at, what, why)
}

// knownAnnotations are those a policy may carry.
var knownAnnotations = []types.AnnotationKey{"id", "reason", "names", "except", "match", "not_match"}

func (s *ruleset) add(v *validate.Validator, p *cedar.Policy) error {
	notes := p.Annotations()
	for key := range notes {
		if !slices.Contains(knownAnnotations, key) {
			return fmt.Errorf("unknown annotation @%s", key)
		}
	}
	id := RuleID(notes["id"])
	if id == "" {
		return errors.New("the policy has no @id")
	}
	if _, dup := s.index[id]; dup {
		return fmt.Errorf("the @id %q is taken", id)
	}
	tree := (*ast.Policy)(p.AST())
	if err := v.Policy(string(id), tree); err != nil {
		return fmt.Errorf("%s: %w", id, err)
	}
	pos := p.Position()
	r := &rule{id: id, file: pos.Filename, line: pos.Line, column: pos.Column, offset: pos.Offset,
		reason: string(notes["reason"]), policy: p, actions: actionsOf(tree.Action)}
	if eq, ok := tree.Principal.(ast.ScopeTypeEq); ok {
		r.agent = string(eq.Entity.ID)
	}
	r.sliced = cedar.NewPolicyFromAST((*publicast.Policy)(withoutScope(tree)))
	at := len(s.all)
	s.all, s.index[id] = append(s.all, r), at
	if r.agent == "" {
		s.anybody = append(s.anybody, at)
	} else {
		s.byAgent[r.agent] = append(s.byAgent[r.agent], at)
	}
	return nil
}

// withoutScope copies a policy without the parts of its scope by which slice
// chooses: Cedar need not look at them again, once for each policy.
func withoutScope(tree *ast.Policy) *ast.Policy {
	short := *tree
	short.Action = ast.ScopeTypeAll{}
	if eq, ok := tree.Principal.(ast.ScopeTypeEq); ok && eq.Entity.ID != "" { // "": the administrator, who is not chosen by
		short.Principal = ast.ScopeTypeAll{}
	}
	return &short
}

// actionsOf gives the actions a scope covers as bits.
func actionsOf(scope ast.IsActionScopeNode) uint8 {
	switch s := scope.(type) {
	case ast.ScopeTypeEq:
		return actionBits(s.Entity)
	case ast.ScopeTypeIn:
		return actionBits(s.Entity)
	case ast.ScopeTypeInSet:
		var bits uint8
		for _, e := range s.Entities {
			bits |= actionBits(e)
		}
		return bits
	}
	return 1<<numActions - 1
}

func actionBits(e cedar.EntityUID) uint8 {
	var bits uint8
	for a := range numActions {
		group := "observe"
		if a.Mutates() {
			group = "mutate"
		}
		if id := string(e.ID); id == group || id == a.String() {
			bits |= 1 << a
		}
	}
	return bits
}

// slice gives the rules that may apply to an agent's action, in order.
func (s *ruleset) slice(agent string, a Action) rules {
	var out rules
	mine, any := s.byAgent[agent], s.anybody
	for len(mine) > 0 || len(any) > 0 {
		var at int
		if len(any) == 0 || len(mine) > 0 && mine[0] < any[0] {
			at, mine = mine[0], mine[1:]
		} else {
			at, any = any[0], any[1:]
		}
		if r := s.all[at]; r.actions&(1<<a) != 0 {
			out = append(out, r)
		}
	}
	return out
}

// text is the source of rule i, from its first annotation to its semicolon.
func (s *ruleset) text(i int) string {
	r := s.all[i]
	text := s.texts[r.file][r.offset:]
	for at := 0; at < len(text); at++ {
		switch {
		case text[at] == ';':
			return text[:at+1]
		case text[at] == '"':
			for at++; at < len(text) && text[at] != '"'; at++ {
				if text[at] == '\\' {
					at++
				}
			}
		case strings.HasPrefix(text[at:], "//"):
			for at < len(text) && text[at] != '\n' {
				at++
			}
		}
	}
	return text
}
