package workspace

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// pointer is how far an agent has read in a project: what is understood of its
// .pointers/KEY.json.
type pointer struct {
	SHA  string    // last_seen_sha: HEAD of the project's git repository; "": there is none
	Seq  string    // last_seen_seq: a cursor of the feed, for this agent
	Read time.Time // last_read_at
}

// readPointer reads a pointer; of a value that is not understood there is none.
// false: it is not a JSON object.
func readPointer(data []byte) (p pointer, ok bool) {
	members, _, ok := objectMembers(data)
	if !ok {
		return p, false
	}
	text := func(name string) (s string) {
		if m := members[name]; m != nil && json.Unmarshal(data[m[0]:m[1]], &s) != nil {
			return ""
		}
		return s
	}
	p.SHA, p.Seq = text("last_seen_sha"), text("last_seen_seq")
	if t, err := time.Parse(time.RFC3339, text("last_read_at")); err == nil {
		p.Read = t
	}
	return p, true
}

// write gives data with the values of p, and all else as it is. false: data is
// not a JSON object.
func (p pointer) write(data []byte) ([]byte, bool) {
	values := []struct{ name, value string }{{"last_seen_sha", p.SHA}, {"last_seen_seq", p.Seq}, {"last_read_at", p.Read.UTC().Format(time.RFC3339)}}
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{}\n")
	}
	for _, x := range values {
		members, last, ok := objectMembers(data)
		if !ok {
			return nil, false
		}
		quoted, _ := json.Marshal(x.value) // a string always can be
		if m := members[x.name]; m != nil {
			if x.value == "" {
				quoted = []byte(`""`)
			}
			data = splice(data, m[0], m[1], string(quoted))
			continue
		}
		if x.value == "" {
			continue
		}
		member := `"` + x.name + `": ` + string(quoted)
		if len(members) == 0 {
			open := bytes.IndexByte(data, '{')
			shut := bytes.LastIndexByte(data, '}')
			data = splice(data, open+1, shut, "\n  "+member+"\n")
			continue
		}
		data = splice(data, last, last, ",\n  "+member)
	}
	return data, true
}

func splice(data []byte, from, to int, with string) []byte {
	return bytes.Join([][]byte{data[:from], []byte(with), data[to:]}, nil)
}

// objectMembers finds where in a JSON object the value of each member stands, and
// where the last one ends. false: it is not one JSON object, or has a member
// twice.
func objectMembers(data []byte) (members map[string][]int, last int, ok bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, 0, false
	}
	members = map[string][]int{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, 0, false
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, 0, false
		}
		key, _ := name.(string)
		if members[key] != nil {
			return nil, 0, false
		}
		last = int(d.InputOffset())
		members[key] = []int{last - len(raw), last}
	}
	if _, err := d.Token(); err != nil {
		return nil, 0, false
	}
	return members, last, strings.TrimSpace(string(data[d.InputOffset():])) == ""
}

// maxPointer bounds a pointer's file, in bytes.
const maxPointer = 64 << 10

// pointerFile is where an agent's pointer is, in a project.
func pointerFile(agent string) string { return pointersDir + "/" + agent + ".json" }

// movePointer writes an agent's pointer. ok: false if the file is there and is
// not understood: it is left as it is.
func (l *Layer) movePointer(v *view.View, p ProjectDir, to pointer) (ok bool, err error) {
	rel := pointerFile(v.Agent())
	at, err := p.file(v, pointersDir)
	if err != nil {
		return false, err
	}
	if err := v.MkdirHere(at, 0o755); err != nil {
		return false, err
	}
	ok = true
	err = l.amend(v, p, rel, maxPointer, func(old []byte) ([]byte, error) {
		var next []byte
		if next, ok = to.write(old); !ok {
			return old, nil
		}
		return next, nil
	})
	return ok, err
}

// pointerOf reads the pointer of the view's agent. warning: the file is there, and
// is not understood.
func (p ProjectDir) pointerOf(v *view.View) (at pointer, warning string, err error) {
	data, etag, err := p.read(v, pointerFile(v.Agent()), maxPointer)
	if isKind(err, backend.TooBig) {
		return at, err.Error() + ", and is left as it is; remove it to begin anew", nil
	}
	if err != nil || etag == "" || len(bytes.TrimSpace(data)) == 0 {
		return at, "", err
	}
	at, ok := readPointer(data)
	if !ok {
		warning = p.Path + "/" + pointerFile(v.Agent()) + " is not understood, and left as it is; remove it to begin anew"
	}
	return at, warning, nil
}

// isRefusal tells whether err says that the asker may not write there.
func isRefusal(err error) bool {
	return isKind(err, backend.Denied) || isKind(err, backend.NotPermitted) || isKind(err, backend.ReadOnly)
}
