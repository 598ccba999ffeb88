package workspace

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	maxSchema = 256 << 10 // bytes of a fields.json
	maxFields = 256
	maxValue  = 64 << 10 // bytes of one field's value
	// maxExponent bounds numbers: bigger ones would be computed with exactly.
	maxExponent = 400
	schemaURL   = "mem:///fields.json"
)

// fieldSchema is a fields.json, compiled.
type fieldSchema struct {
	sum    [sha256.Size]byte // of the file
	names  []string          // sorted
	fields map[string]*fieldDef
}

// fieldDef is one property of it.
type fieldDef struct {
	name     string
	schema   *jsonschema.Schema
	raw      json.RawMessage
	types    []string // that the schema allows; nil: any
	readOnly bool
	text     bool // a string: its file is the bare text
	// dynamic are the parts of the file that dynamic references may lead to, by anchor
	dynamic map[string][]*jsonschema.Schema
}

// noLoader refuses every schema that is not in the file itself.
type noLoader struct{}

// Load fails.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: a schema in another place is not used", url)
}

var _ jsonschema.URLLoader = noLoader{}

// compileFields reads a fields.json: a JSON Schema, draft 2020-12 unless it says
// otherwise, of an object whose properties are the fields.
func compileFields(data []byte) (*fieldSchema, error) {
	var doc struct {
		Type       any                        `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	if doc.Type != nil && doc.Type != "object" {
		return nil, errors.New(`its type is not "object"`)
	}
	if len(doc.Properties) > maxFields {
		return nil, fmt.Errorf("it has %d properties, and at most %d can be fields", len(doc.Properties), maxFields)
	}
	whole, err := decodeValue(data)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	c.UseRegexpEngine(compilePattern)
	if err := c.AddResource(schemaURL, whole); err != nil {
		return nil, err
	}
	root, err := c.Compile(schemaURL)
	if err != nil {
		return nil, err
	}
	dynamic := dynamicIn(root)
	s := &fieldSchema{sum: sha256.Sum256(data), fields: map[string]*fieldDef{}, names: slices.Sorted(maps.Keys(doc.Properties))}
	for _, name := range s.names {
		sch, err := c.Compile(schemaURL + "#/properties/" + pointerEscape(name))
		if err != nil {
			return nil, err
		}
		f := newField(name, sch, doc.Properties[name])
		f.dynamic = dynamic
		if err := f.bound(nil); err != nil {
			return nil, fmt.Errorf("field %q: %w", name, err)
		}
		s.fields[name] = f
	}
	return s, nil
}

// pointerEscape spells name in a JSON pointer that stands in a URL's fragment.
func pointerEscape(name string) string {
	name = strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	var b strings.Builder
	for i := range len(name) {
		if c := name[i]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '~' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// newField finds out what a field's schema says of it as a whole, also where it
// refers to a definition.
func newField(name string, sch *jsonschema.Schema, raw json.RawMessage) *fieldDef {
	var compact bytes.Buffer
	_ = json.Compact(&compact, raw) // it was decoded before
	f := &fieldDef{name: name, schema: sch, raw: compact.Bytes()}
	for at, n := sch, 0; at != nil && n < maxFields; at, n = at.Ref, n+1 {
		f.readOnly = f.readOnly || at.ReadOnly
		if f.types == nil && at.Types != nil {
			f.types = at.Types.ToStrings()
		}
	}
	if f.types != nil {
		f.text = slices.Contains(f.types, "string") &&
			!slices.ContainsFunc(f.types, func(t string) bool { return t != "string" && t != "null" })
		return f
	}
	choices := f.choices()
	f.text = len(choices) > 0
	for _, c := range choices {
		if _, ok := c.(string); !ok && c != nil {
			f.text = false
		}
	}
	return f
}

// choices are the values of enum or const, nil where there is neither.
func (f *fieldDef) choices() []any {
	for at, n := f.schema, 0; at != nil && n < maxFields; at, n = at.Ref, n+1 {
		if at.Enum != nil {
			return at.Enum.Values
		}
		if at.Const != nil {
			return []any{*at.Const}
		}
	}
	return nil
}

// maxLength is that of the schema; -1: none.
func (f *fieldDef) maxLength() int {
	for at, n := f.schema, 0; at != nil && n < maxFields; at, n = at.Ref, n+1 {
		if at.MaxLength != nil {
			return *at.MaxLength
		}
	}
	return -1
}

// fallback is the default, or null.
func (f *fieldDef) fallback() json.RawMessage {
	for at, n := f.schema, 0; at != nil && n < maxFields; at, n = at.Ref, n+1 {
		if at.Default != nil {
			if b, err := encodeValue(*at.Default); err == nil {
				return b
			}
		}
	}
	return null()
}

func null() json.RawMessage { return json.RawMessage("null") }

// isNull tells whether raw is JSON's null, or nothing.
func isNull(raw json.RawMessage) bool {
	s := strings.Trim(string(raw), " \t\r\n") // JSON's white space
	return s == "" || s == "null"
}

// check validates a value and gives it in its one spelling. The error says why
// it does not match.
func (f *fieldDef) check(raw json.RawMessage) (json.RawMessage, error) {
	if len(raw) > maxValue {
		return nil, fmt.Errorf("a field's value has at most %d bytes", maxValue)
	}
	v, err := decodeValue(raw)
	if err != nil {
		return nil, err
	}
	if err := f.bound(v); err != nil {
		return nil, err
	}
	if err := f.schema.Validate(v); err != nil {
		return nil, errors.New(reason(err))
	}
	return encodeValue(v)
}

// reason words what a schema has against a value, in one line.
func reason(err error) string {
	var ve *jsonschema.ValidationError
	if !errors.As(err, &ve) {
		return err.Error()
	}
	var out []string
	add := func(at string, e *jsonschema.OutputError) {
		if e == nil {
			return
		}
		text := e.String()
		if at != "" {
			text = "at " + at + ": " + text
		}
		if !slices.Contains(out, text) && len(out) < 10 {
			out = append(out, text)
		}
	}
	whole := ve.BasicOutput()
	for _, u := range whole.Errors {
		add(u.InstanceLocation, u.Error)
	}
	if len(out) == 0 {
		add(whole.InstanceLocation, whole.Error)
	}
	if len(out) == 0 {
		return "it does not match the schema"
	}
	return strings.Join(out, "; ")
}

// decodeValue reads one JSON value, with numbers as they are written.
func decodeValue(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, notJSON(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is something after the JSON value")
	}
	return v, checkValue(v, 0)
}

func notJSON(err error) error { return fmt.Errorf("not JSON: %w", err) }

// checkValue refuses numbers that would fill memory when computed with, and what is
// nested too deep, depth being how deep v is.
func checkValue(v any, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("it is nested more than %d deep", maxNesting)
	}
	switch v := v.(type) {
	case json.Number:
		mantissa, exp, _ := strings.Cut(strings.ToLower(v.String()), "e")
		n, err := strconv.Atoi(strings.TrimPrefix(exp, "+"))
		if len(mantissa) > maxExponent || exp != "" && (err != nil || n > maxExponent || n < -maxExponent) {
			return errors.New("a number is too big or too exact")
		}
	case []any:
		for _, e := range v {
			if err := checkValue(e, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, e := range v {
			if err := checkValue(e, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// encodeValue writes a value in its one spelling: compact, keys sorted.
func encodeValue(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// staged says how far a text is on its way to a field's value.
type staged uint8

const (
	complete   staged = iota // it is one, or clears the field
	incomplete               // more may make it one
	impossible               // nothing that follows can
)

// parse reads a field's text: bare text for a string, JSON for any other type.
// nil clears the field. The error tells what keeps it from being complete.
func (f *fieldDef) parse(text []byte) (json.RawMessage, staged, error) {
	if len(text) > maxValue {
		return nil, impossible, fmt.Errorf("a field's value has at most %d bytes", maxValue)
	}
	bare := bytes.TrimSuffix(text, []byte("\n"))
	if isNull(bare) && (!f.text || len(bare) == 0 || string(bare) == "null") {
		return nil, complete, nil
	}
	if f.text {
		return f.parseString(text, bare)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, incomplete, notJSON(err)
		}
		return nil, impossible, notJSON(err)
	}
	raw, err := f.check(text)
	switch last := text[len(text)-1]; {
	case err == nil:
		return raw, complete, nil
	case last >= '0' && last <= '9' && !strings.ContainsAny(string(text), `"[{`): // a number, and digits may follow
		return nil, incomplete, err
	}
	return nil, impossible, err
}

func (f *fieldDef) parseString(text, bare []byte) (json.RawMessage, staged, error) {
	if !utf8.Valid(bare) || bytes.IndexByte(bare, 0) >= 0 {
		if looksText(bare, false) {
			return nil, incomplete, errors.New("the text ends in the middle of a character")
		}
		return nil, impossible, errors.New("it is not UTF-8 text")
	}
	raw, err := encodeValue(string(bare))
	if err == nil {
		raw, err = f.check(raw)
	}
	if err == nil {
		return raw, complete, nil
	}
	if n := f.maxLength(); n >= 0 && utf8.RuneCount(bare) > n {
		return nil, impossible, err
	}
	choices := f.choices()
	if choices != nil && !slices.ContainsFunc(choices, func(c any) bool {
		s, ok := c.(string)
		return ok && strings.HasPrefix(s, string(text))
	}) {
		return nil, impossible, err
	}
	return nil, incomplete, err
}

// show is the text of a field's file.
func (f *fieldDef) show(raw json.RawMessage) []byte {
	if isNull(raw) {
		return nil
	}
	var s string
	if f.text && json.Unmarshal(raw, &s) == nil {
		return []byte(s + "\n")
	}
	return append(slices.Clone(raw), '\n')
}
