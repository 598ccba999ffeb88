package workspace

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A schema that is short can take for ever: one that refers to two of its parts, each
// of which refers to two more, is gone through a billion times at thirty lines. So
// what a value's check would come to is counted first.
const (
	// maxSteps bounds the schemas gone through for one value.
	maxSteps = 200_000
	// maxPattern bounds a regular expression, in steps of its program, and
	// maxPatternWork such steps times the bytes of a text: so much is one step above.
	maxPattern     = 5_000
	maxPatternWork = 500
	// maxNesting bounds how deep a schema and a value may be: every complaint about a
	// value tells the whole way to it.
	maxNesting = 100
)

// errSteps says that a value would take too long.
var errSteps = fmt.Errorf("its schema goes through more than %d parts of itself for one value", maxSteps)

// pattern is a regular expression of a schema, with its size.
type pattern struct {
	*regexp.Regexp
	size int
}

// compilePattern is the schemas' way to compile one.
func compilePattern(s string) (jsonschema.Regexp, error) {
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		return nil, err
	}
	n := patternSize(tree)
	if n > maxPattern {
		return nil, fmt.Errorf("a regular expression of more than %d steps", maxPattern)
	}
	re, err := regexp.Compile(s)
	return &pattern{re, n}, err
}

// patternSize is about how many instructions an expression comes to; those past
// maxPattern are not counted.
func patternSize(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		if n += patternSize(sub); n > maxPattern {
			return n
		}
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1) + 1 // of at most 1000
	}
	return n
}

// steps counts what going through a schema comes to.
type steps struct {
	left  int
	chain int // how many parts are being asked of the same value, one by the other
	// dynamic are the schemas that a dynamic reference by an anchor's name may lead to;
	// a recursive one's name is "".
	dynamic map[string][]*jsonschema.Schema
}

// dynamicIn finds what dynamic references in a schema may lead to, by anchor.
func dynamicIn(root *jsonschema.Schema) map[string][]*jsonschema.Schema {
	dynamic, seen := map[string][]*jsonschema.Schema{}, map[*jsonschema.Schema]bool{}
	todo := []*jsonschema.Schema{root}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if s == nil || seen[s] {
			continue
		}
		seen[s] = true
		if s.DynamicAnchor != "" {
			dynamic[s.DynamicAnchor] = append(dynamic[s.DynamicAnchor], s)
		}
		if s.RecursiveAnchor {
			dynamic[""] = append(dynamic[""], s)
		}
		todo = append(todo, sameValue(s)...)
		todo = append(todo, itemsOf(s)...)
		todo = append(todo, membersOf(s)...)
		if s.DynamicRef != nil {
			todo = append(todo, s.DynamicRef.Ref)
		}
		todo = append(todo, s.RecursiveRef, s.PropertyNames)
	}
	return dynamic
}

// sameValue lists the parts of s that are asked of the same value.
func sameValue(s *jsonschema.Schema) (out []*jsonschema.Schema) {
	out = append(out, s.Ref, s.Not, s.If, s.Then, s.Else)
	out = append(append(append(out, s.AllOf...), s.AnyOf...), s.OneOf...)
	for _, d := range s.DependentSchemas {
		out = append(out, d)
	}
	for _, d := range s.Dependencies {
		if d, ok := d.(*jsonschema.Schema); ok {
			out = append(out, d)
		}
	}
	return out
}

// itemsOf lists the parts of s that may be asked of an array's items.
func itemsOf(s *jsonschema.Schema) (out []*jsonschema.Schema) {
	out = append(append(out, s.PrefixItems...), s.Contains, s.Items2020, s.UnevaluatedItems)
	for _, i := range []any{s.Items, s.AdditionalItems} {
		switch i := i.(type) {
		case *jsonschema.Schema:
			out = append(out, i)
		case []*jsonschema.Schema:
			out = append(out, i...)
		}
	}
	return out
}

// membersOf lists the parts of s that may be asked of an object's values.
func membersOf(s *jsonschema.Schema) (out []*jsonschema.Schema) {
	for _, p := range s.Properties {
		out = append(out, p)
	}
	for _, p := range s.PatternProperties {
		out = append(out, p)
	}
	if a, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		out = append(out, a)
	}
	return append(out, s.UnevaluatedProperties)
}

// bound fails if checking v would take too long.
func (f *fieldDef) bound(v any) error {
	t := steps{left: maxSteps, dynamic: f.dynamic}
	return t.cost(f.schema, v)
}

// cost fails if going through s for v, with each part that may be asked, is too much.
func (t *steps) cost(s *jsonschema.Schema, v any) error {
	if s == nil {
		return nil
	}
	// The way through the parts of one value is looked through at each step.
	if t.left -= 1 + t.chain/64; t.left < 0 {
		return errSteps
	}
	t.chain++
	defer func(n int) { t.chain = n }(t.chain - 1)
	if s.Enum != nil {
		t.left -= len(s.Enum.Values) / 8
	}
	if err := t.each(sameValue(s), v); err != nil {
		return err
	}
	if d := s.DynamicRef; d != nil {
		if err := t.each(append(t.dynamic[d.Anchor], d.Ref), v); err != nil {
			return err
		}
	}
	if s.RecursiveRef != nil {
		if err := t.each(append(t.dynamic[""], s.RecursiveRef), v); err != nil {
			return err
		}
	}
	t.chain = 0
	switch v := v.(type) {
	case string:
		t.match(s.Pattern, v)
	case []any:
		return t.items(s, v)
	case map[string]any:
		return t.members(s, v)
	}
	return nil
}

func (t *steps) each(all []*jsonschema.Schema, v any) error {
	for _, s := range all {
		if err := t.cost(s, v); err != nil {
			return err
		}
	}
	return nil
}

// match counts the matching of a text.
func (t *steps) match(re jsonschema.Regexp, text string) {
	if p, ok := re.(*pattern); ok {
		t.left -= 1 + p.size*len(text)/maxPatternWork
	}
}

// items counts an array's. Items that stand at a place have the parts for that place,
// and those for any.
func (t *steps) items(s *jsonschema.Schema, v []any) error {
	at := s.PrefixItems
	any := []*jsonschema.Schema{s.Contains, s.Items2020, s.UnevaluatedItems}
	switch i := s.Items.(type) {
	case *jsonschema.Schema:
		any = append(any, i)
	case []*jsonschema.Schema:
		at = i
	}
	if a, ok := s.AdditionalItems.(*jsonschema.Schema); ok {
		any = append(any, a)
	}
	for i, item := range v {
		if i < len(at) {
			if err := t.cost(at[i], item); err != nil {
				return err
			}
		}
		if err := t.each(any, item); err != nil {
			return err
		}
	}
	return nil
}

func (t *steps) members(s *jsonschema.Schema, v map[string]any) error {
	any := []*jsonschema.Schema{s.UnevaluatedProperties}
	if a, ok := s.AdditionalProperties.(*jsonschema.Schema); ok {
		any = append(any, a)
	}
	for name, value := range v {
		if err := errors.Join(t.cost(s.PropertyNames, name), t.cost(s.Properties[name], value)); err != nil {
			return err
		}
		for re, p := range s.PatternProperties {
			t.match(re, name)
			if t.left < 0 {
				return errSteps
			}
			if re.MatchString(name) {
				if err := t.cost(p, value); err != nil {
					return err
				}
			}
		}
		if err := t.each(any, value); err != nil {
			return err
		}
	}
	return nil
}
