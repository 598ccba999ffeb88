package workspace

import (
	"fmt"
	"strings"
	"testing"
)

// TestSchemasThatTakeForEver: a fields.json of which one value would be gone through
// for ever is refused whole, and so is a value for which it would.
func TestSchemasThatTakeForEver(t *testing.T) {
	// Each part asks two more, of the same value or of its items.
	doubled := func(n int, part, last string) string {
		var b strings.Builder
		b.WriteString(`{"$defs":{`)
		for i := range n {
			next := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
			fmt.Fprintf(&b, `"d%d":%s,`, i, strings.NewReplacer("NEXT", next).Replace(part))
		}
		fmt.Fprintf(&b, `"d%d":%s},"properties":{"f":{"$ref":"#/$defs/d0"}}}`, n, last)
		return b.String()
	}
	for what, schema := range map[string]string{
		"all of":     doubled(40, `{"allOf":[NEXT,NEXT]}`, `{"type":"string"}`),
		"any of":     doubled(40, `{"anyOf":[NEXT,NEXT]}`, `{"type":"null"}`),
		"not one of": doubled(40, `{"not":{"oneOf":[NEXT,NEXT]}}`, `true`),
		"if":         doubled(40, `{"if":NEXT,"then":NEXT}`, `true`),
		"dependent":  doubled(40, `{"dependentSchemas":{"a":NEXT,"b":NEXT}}`, `{"type":"null"}`),
		"an older draft": strings.Replace(doubled(40, `{"allOf":[NEXT,NEXT]}`, `{"type":"string"}`),
			`{`, `{"$schema":"http://json-schema.org/draft-07/schema#",`, 1),
		"dynamic":   `{"$defs":{"d":{"$dynamicAnchor":"d","allOf":[{"$dynamicRef":"#d"},{"$dynamicRef":"#d"}]}},"properties":{"f":{"$ref":"#/$defs/d"}}}`,
		"a circle":  `{"properties":{"f":{"$ref":"#/properties/f"}}}`,
		"a pattern": `{"properties":{"f":{"pattern":"((a{0,100}){0,100}){0,100}"}}}`,
		"deep":      `{"properties":{"f":` + strings.Repeat(`{"not":`, 200) + `true` + strings.Repeat(`}`, 200) + `}}`,
	} {
		if _, err := compileFields([]byte(schema)); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
	for what, c := range map[string]struct{ schema, value string }{
		"items":                  {doubled(40, `{"allOf":[{"items":NEXT},{"items":NEXT}]}`, `true`), strings.Repeat("[", 60) + strings.Repeat("]", 60)},
		"itself":                 {`{"$defs":{"d":{"allOf":[{"items":{"$ref":"#/$defs/d"}},{"items":{"$ref":"#/$defs/d"}}]}},"properties":{"f":{"$ref":"#/$defs/d"}}}`, strings.Repeat("[", 60) + strings.Repeat("]", 60)},
		"many items":             {`{"properties":{"f":{"items":{"anyOf":[` + strings.Repeat(`{"type":"null"},`, 100) + `false]}}}}`, "[" + strings.Repeat("1,", 30_000) + "1]"},
		"a text":                 {`{"properties":{"f":{"items":{"pattern":"(x+x+)+y{1,900}$"}}}}`, `["` + strings.Repeat("x", 30_000) + `","` + strings.Repeat("x", 30_000) + `"]`},
		"deep":                   {`{"properties":{"f":true}}`, strings.Repeat("[", 200) + strings.Repeat("]", 200)},
		"an expression as value": {`{"properties":{"f":{"format":"regex"}}}`, `"((a{0,100}){0,100}){0,100}"`},
		"names":                  {`{"properties":{"f":{"patternProperties":{"(a|b)*c{900}":true,"x{900}":true}}}}`, `{"` + strings.Repeat("x", 60_000) + `":1}`},
	} {
		s, err := compileFields([]byte(c.schema))
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if _, err := s.fields["f"].check([]byte(c.value)); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}

// TestSchemasThatAreUsed: what people write passes, big values too.
func TestSchemasThatAreUsed(t *testing.T) {
	const tree = `{"$defs":{"n":{"type":"object","properties":{"name":{"type":"string","pattern":"^[a-z0-9-]{1,40}$"},"kids":{"type":"array","items":{"$ref":"#/$defs/n"}}},"required":["name"],"additionalProperties":false}},"properties":{"f":{"$ref":"#/$defs/n"}}}`
	kid := `{"name":"a-1","kids":[` + strings.TrimSuffix(strings.Repeat(`{"name":"b"},`, 60), ",") + `]}`
	value := `{"name":"top","kids":[` + strings.TrimSuffix(strings.Repeat(kid+",", 60), ",") + `]}`
	s, err := compileFields([]byte(tree))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.fields["f"].check([]byte(value)); err != nil {
		t.Errorf("a tree of %d bytes: %v", len(value), err)
	}
	if _, err := s.fields["f"].check([]byte(strings.Replace(value, "a-1", "A", 1))); err == nil || !strings.Contains(err.Error(), "/kids/0/name") {
		t.Errorf("with a name that does not match: %v", err)
	}
	list := field(t, `{"type":"array","items":{"anyOf":[{"type":"string","maxLength":20},{"type":"integer"},{"enum":[null,true]}]}}`)
	if _, err := list.check([]byte("[" + strings.Repeat(`"x",1,`, 10_000) + "null]")); err != nil {
		t.Errorf("a list of 20,001: %v", err)
	}
}
