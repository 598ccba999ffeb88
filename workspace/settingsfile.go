package workspace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/warrenfs/warren/backend"
)

// maxSettingsText bounds a settings file, in bytes.
const maxSettingsText = 256 << 10

// settingsDoc reads one settings file into steps that change a draft. It goes on
// after what is wrong, to tell all of it.
type settingsDoc struct {
	name, text string
	md         toml.MetaData
	steps      []step
	wrong      []mistake
}

// step is one setting of a file: where it stands and what it does.
type step struct {
	at    toml.Position
	order int // what is denied goes before what is allowed of it
	do    func(*draft) error
}

type mistake struct {
	at  toml.Position
	err error
}

// The order of steps.
const (
	orderDeny = iota
	orderAllow
	orderRest
)

// parseSettings reads a settings file. Invalid: it is no TOML. What else is wrong
// is told by failure, when the steps have been tried too.
func parseSettings(name, text string) (*settingsDoc, error) {
	if len(text) > maxSettingsText {
		return nil, fail(backend.TooBig, "%s: a settings file has at most %d KiB", name, maxSettingsText>>10)
	}
	d := &settingsDoc{name: name, text: text}
	if err := checkTOML(text); err != nil {
		return nil, fail(backend.Invalid, "%s: %v", name, err)
	}
	var root map[string]toml.Primitive
	var err error
	if d.md, err = toml.Decode(text, &root); err != nil {
		var p toml.ParseError
		if !errors.As(err, &p) {
			return nil, fail(backend.Invalid, "%s: %v", name, err)
		}
		d.wrong = append(d.wrong, mistake{p.Position, errors.New(p.Message)})
		return nil, d.failure()
	}
	d.root(root)
	slices.SortStableFunc(d.steps, func(a, b step) int { return cmp.Compare(a.order, b.order) })
	return d, nil
}

// failure words all that is wrong, each once; nil if nothing is.
func (d *settingsDoc) failure() error {
	if len(d.wrong) == 0 {
		return nil
	}
	slices.SortStableFunc(d.wrong, func(a, b mistake) int {
		return cmp.Or(cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Col, b.at.Col))
	})
	var lines []string
	told := map[string]bool{}
	for _, m := range d.wrong {
		if text := m.err.Error(); !told[text] {
			told[text] = true
			lines = append(lines, fmt.Sprintf("%s:%d:%d: %s", d.name, m.at.Line, m.at.Col, text))
		}
	}
	return fail(backend.Invalid, "%s", strings.Join(lines, "\n"))
}

func (d *settingsDoc) bad(at toml.Position, format string, args ...any) {
	d.wrong = append(d.wrong, mistake{at, fmt.Errorf(format, args...)})
}

func (d *settingsDoc) root(t map[string]toml.Primitive) {
	d.lists(t, NameRule{})
	for key, p := range t {
		switch key {
		case "deny", "deny_add", "deny_remove":
		case "agents":
			for name, a := range d.table(p, "agents") {
				d.agent(name, a)
			}
		case "paths":
			for path, x := range d.table(p, "paths") {
				d.path(path, x)
			}
		case "projects":
			for slug, x := range d.table(p, "projects") {
				d.project(slug, x)
			}
		case "retention":
			d.retention(p)
		default:
			d.unknown(key, p, "deny, deny_add, deny_remove, agents, paths, projects, retention")
		}
	}
}

func (d *settingsDoc) agent(key string, p toml.Primitive) {
	t := d.table(p, "agents."+key)
	d.step(p, orderRest, func(x *draft) error { _, err := x.Agent(key); return err })
	d.lists(t, NameRule{Agent: key})
	for name, v := range t {
		switch name {
		case "deny", "deny_add", "deny_remove":
		case "access", "mode":
			if s, ok := d.text1(v, name); ok {
				d.step(v, orderRest, func(x *draft) error { return x.setAgent(key, name, s) })
			}
		case "paths":
			for path, y := range d.table(v, "paths") {
				inner := d.table(y, "paths")
				d.lists(inner, NameRule{Agent: key, Under: path})
				d.only(inner, "deny, deny_add, deny_remove")
			}
		default:
			d.unknown(name, v, "access, mode, deny, deny_add, deny_remove, paths")
		}
	}
}

func (d *settingsDoc) path(path string, p toml.Primitive) {
	t := d.table(p, "paths."+path)
	d.step(p, orderDeny, func(*draft) error {
		_, err := cleanException(NameException{Name: "x", Under: path})
		return err
	})
	d.lists(t, NameRule{Under: path})
	for name, v := range t {
		switch name {
		case "deny", "deny_add", "deny_remove":
		case "allow", "allow_add", "allow_remove":
			if list, ok := d.list(v, name); ok {
				d.step(v, orderAllow, func(x *draft) error { return x.allowNames(path, name, list) })
			}
		default:
			d.unknown(name, v, "deny, deny_add, deny_remove, allow, allow_add, allow_remove")
		}
	}
}

func (d *settingsDoc) project(slug string, p toml.Primitive) {
	for name, v := range d.table(p, "projects."+slug) {
		if name != "members" {
			d.unknown(name, v, "members")
			continue
		}
		for key, r := range d.table(v, "members") {
			if right, ok := d.text1(r, key); ok {
				d.step(r, orderRest, func(x *draft) error { return x.setMember(slug, key, right) })
			}
		}
	}
	d.step(p, orderRest, func(x *draft) error { _, err := x.Project(slug); return err })
}

func (d *settingsDoc) retention(p toml.Primitive) {
	for kind, v := range d.table(p, "retention") {
		if age, ok := d.text1(v, kind); ok {
			d.step(v, orderRest, func(x *draft) error { return x.settings.keep(kind, age) })
		}
	}
}

// lists reads deny, deny_add and deny_remove of a table, for what of says.
func (d *settingsDoc) lists(t map[string]toml.Primitive, of NameRule) {
	for _, name := range []string{"deny", "deny_remove", "deny_add"} {
		p, there := t[name]
		if !there {
			continue
		}
		if list, ok := d.list(p, name); ok {
			d.step(p, orderDeny, func(x *draft) error { return x.denyNames(of, name, list) })
		}
	}
}

// only refuses keys of a table that are none of the lists of denied names.
func (d *settingsDoc) only(t map[string]toml.Primitive, known string) {
	for name, v := range t {
		if !slices.Contains(strings.Split(known, ", "), name) {
			d.unknown(name, v, known)
		}
	}
}

func (d *settingsDoc) step(p toml.Primitive, order int, do func(*draft) error) {
	d.steps = append(d.steps, step{d.at(p), order, do})
}

// unknown refuses a key, where it stands.
func (d *settingsDoc) unknown(key string, p toml.Primitive, known string) {
	at := d.at(p)
	if lines := strings.Split(d.text, "\n"); at.Line > 0 && at.Line <= len(lines) {
		before := lines[at.Line-1][:min(max(at.Col-1, 0), len(lines[at.Line-1]))]
		if i := strings.LastIndex(before, key); i >= 0 {
			at.Col = i + 1
		}
	}
	d.bad(at, "unknown key %q; known here: %s", key, known)
}

func (d *settingsDoc) table(p toml.Primitive, what string) map[string]toml.Primitive {
	var v any
	var t map[string]toml.Primitive
	err := d.md.PrimitiveDecode(p, &v)
	if _, ok := v.(map[string]any); !ok || err != nil {
		d.bad(d.at(p), "%s: it must be a table", what)
		return nil
	}
	if err := d.md.PrimitiveDecode(p, &t); err != nil {
		d.bad(d.at(p), "%s: %v", what, err)
	}
	return t
}

func (d *settingsDoc) text1(p toml.Primitive, what string) (string, bool) {
	var v any
	err := d.md.PrimitiveDecode(p, &v)
	s, ok := v.(string)
	if err != nil || !ok {
		d.bad(d.at(p), "%s: it must be text in quotes", what)
	}
	return s, ok
}

func (d *settingsDoc) list(p toml.Primitive, what string) ([]string, bool) {
	var v any
	err := d.md.PrimitiveDecode(p, &v)
	items, ok := v.([]any)
	out := make([]string, 0, len(items))
	for _, x := range items {
		s, isText := x.(string)
		ok = ok && isText
		out = append(out, s)
	}
	if err != nil || !ok {
		d.bad(d.at(p), "%s: it must be a list of texts in quotes", what)
	}
	return out, ok
}

// errProbe makes the decoder say where it is.
var errProbe = errors.New("probe")

type probe struct{}

// UnmarshalTOML fails: the decoder then tells the position.
func (*probe) UnmarshalTOML(any) error { return errProbe }

// at is where a value stands; of a table that no line of its own opens, where the
// first thing in it does.
func (d *settingsDoc) at(p toml.Primitive) toml.Position {
	var e toml.ParseError
	if errors.As(d.md.PrimitiveDecode(p, &probe{}), &e) && e.Position.Line > 0 {
		return e.Position
	}
	var t map[string]toml.Primitive
	var first toml.Position
	if d.md.PrimitiveDecode(p, &t) == nil {
		for _, child := range t {
			if at := d.at(child); first.Line == 0 || at.Line < first.Line || at.Line == first.Line && at.Col < first.Col {
				first = at
			}
		}
	}
	if first.Line == 0 {
		first.Line, first.Col = 1, 1
	}
	return first
}
