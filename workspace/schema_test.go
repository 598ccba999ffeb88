package workspace

import (
	"strings"
	"testing"
)

func field(t *testing.T, schema string) *fieldDef {
	t.Helper()
	s, err := compileFields([]byte(`{"$defs":{"s":{"type":"string","readOnly":true}},"properties":{"f":` + schema + `}}`))
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return s.fields["f"]
}

// TestParse: how far a text is on its way to a value.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		schema, text string
		how          staged
		value        string
	}{
		{`{"type":"string"}`, "hi\n", complete, `"hi"`},
		{`{"type":"string"}`, "hi\n\n", complete, `"hi\n"`},
		{`{"type":"string"}`, "\n", complete, ""},
		{`{"type":"string"}`, "null\n", complete, ""},
		{`{"type":"string"}`, "\xe2\x82", incomplete, ""},
		{`{"type":"string"}`, "\xff", impossible, ""},
		{`{"type":"string"}`, "a\x00", impossible, ""},
		{`{"type":"string","maxLength":3}`, "four", impossible, ""},
		{`{"type":"string","minLength":3}`, "ab", incomplete, ""},
		{`{"type":"string","pattern":"^[a-z]+$"}`, "A", incomplete, ""},
		{`{"enum":["idle","busy"]}`, "id", incomplete, ""},
		{`{"enum":["idle","busy"]}`, "ix", impossible, ""},
		{`{"enum":["idle","busy"]}`, "idle\n", complete, `"idle"`},
		{`{"enum":["1",2]}`, "2", complete, "2"},
		{`{"const":"on"}`, "on", complete, `"on"`},
		{`{"type":["string","null"]}`, "x", complete, `"x"`},
		{`{"type":"string","format":"date"}`, "2026-01-02", complete, `"2026-01-02"`},
		{`{"type":"string","format":"date"}`, "2026-13-02", incomplete, ""},
		{`{"type":"integer","minimum":10}`, "1", incomplete, ""},
		{`{"type":"integer","minimum":10}`, "12\n", complete, "12"},
		{`{"type":"integer","minimum":10}`, "1 ", impossible, ""},
		{`{"type":"integer"}`, "1.5", incomplete, ""},
		{`{"type":"integer"}`, "-", incomplete, ""},
		{`{"type":"integer"}`, "x", impossible, ""},
		{`{"type":"number"}`, "1e999999999", incomplete, ""},
		{`{"type":"boolean"}`, "tru", incomplete, ""},
		{`{"type":"boolean"}`, "true\n", complete, "true"},
		{`{"type":"boolean"}`, "trx", impossible, ""},
		{`{"type":"array","items":{"type":"string"}}`, `["a",` + "\n", incomplete, ""},
		{`{"type":"array","items":{"type":"string"}}`, `[ "a", "b" ]`, complete, `["a","b"]`},
		{`{"type":"array","items":{"type":"string"}}`, `[1]`, impossible, ""},
		{`{"type":"array"}`, `[1] 2`, impossible, ""},
		{`{"type":"object"}`, `{"b":1,"a":2}`, complete, `{"a":2,"b":1}`},
		{`{"type":"object"}`, "", complete, ""},
		{`true`, `{"x":`, incomplete, ""},
		{`{}`, strings.Repeat("x", maxValue+1), impossible, ""},
	} {
		got, how, err := field(t, c.schema).parse([]byte(c.text))
		if how != c.how || string(got) != c.value || (err == nil) != (how == complete) {
			t.Errorf("%s, %.30q: %d %s, %v; want %d %s", c.schema, c.text, how, got, err, c.how, c.value)
		}
	}
}

// TestShowParses: what a field's file shows, written back, is the same value.
func TestShowParses(t *testing.T) {
	for schema, value := range map[string]string{`{"type":"string"}`: `"two\nlines\n"`, `{"type":"array"}`: `[1,{"a":null}]`,
		`{"type":"number"}`: "1.50", `{"type":"boolean"}`: "false"} {
		f := field(t, schema)
		raw, err := f.check([]byte(value))
		if err != nil {
			t.Fatal(err)
		}
		again, how, err := f.parse(f.show(raw))
		if how != complete || string(again) != string(raw) {
			t.Errorf("%s: %s became %s, %v", schema, raw, again, err)
		}
	}
}

// TestSchemas: what can be a fields.json, and what it says of a field.
func TestSchemas(t *testing.T) {
	for _, bad := range []string{"", "x", "[]", `{"type":"array"}`, `{"properties":[]}`, `{"properties":{"f":3}}`, `{"properties":{"f":{"type":"strin"}}}`,
		`{"properties":{"f":{"$ref":"https://example.com/s.json"}}}`, `{"properties":{"f":{"$ref":"file:///etc/passwd"}}}`,
		`{"properties":{"f":{"$ref":"other.json"}}}`, `{"properties":{"f":{"$ref":"#/$defs/none"}}}`, `{"properties":{"f":{"minimum":1e999999999}}}`,
		`{"$schema":"https://example.com/meta","properties":{}}`, `{"properties":{"f":{"pattern":"("}}}`} {
		if s, err := compileFields([]byte(bad)); err == nil {
			t.Errorf("%s: %v", bad, s.names)
		}
	}
	if f := field(t, `{"$ref":"#/$defs/s"}`); !f.readOnly || !f.text {
		t.Errorf("what a definition says of a field: %+v", f)
	}
	s, err := compileFields([]byte(`{"properties":{"a/b~c %":{"type":"string","default":"x"},"é":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if f := s.fields["a/b~c %"]; f == nil || string(f.fallback()) != `"x"` || !f.text {
		t.Errorf("a name with / and ~: %+v", f)
	}
	loop, err := compileFields([]byte(`{"$defs":{"l":{"$ref":"#/$defs/l"}},"properties":{"f":{"$ref":"#/$defs/l"}}}`))
	if err == nil {
		if _, err := loop.fields["f"].check([]byte("1")); err == nil {
			t.Error("a schema that refers to itself has a value")
		}
	}
}

func FuzzFieldText(f *testing.F) {
	f.Add([]byte(`["a"`), []byte(`,"b"]`))
	f.Add([]byte("1"), []byte("2"))
	f.Add([]byte("id"), []byte("le"))
	f.Add([]byte("\xe2"), []byte("\x82\xac"))
	f.Add([]byte("\xe2"), []byte("\x80\x8a")) // white space, but not JSON's
	s, err := compileFields([]byte(`{"properties":{"a":{"type":"array","items":{"type":"string"}},"n":{"type":"integer","minimum":10},"e":{"enum":["idle","busy"]},"s":{"type":"string","maxLength":5}}}`))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, first, rest []byte) {
		for _, d := range s.fields {
			_, how, _ := d.parse(first)
			raw, whole, err := d.parse(append(append([]byte{}, first...), rest...))
			if how == impossible && whole == complete {
				t.Errorf("%s: %q is impossible, and %q completes it", d.name, first, rest)
			}
			if whole == complete && raw != nil {
				if _, err := d.check(raw); err != nil {
					t.Errorf("%s: %q is complete and does not match: %v", d.name, raw, err)
				}
			}
			if whole != complete && err == nil {
				t.Errorf("%s: not complete, and no reason", d.name)
			}
		}
	})
}
