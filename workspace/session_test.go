package workspace

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// example has what a session.md of another program looks like.
const example = `---
provider: claude
model: claude-sonnet-4-20250514
created_at: 2026-02-15T10:30:00Z
---

## User

What files are in the current directory?

## Assistant

I'll check the directory listing for you. Here are the files:
- src/
- Cargo.toml
- README.md

## User

Show me Cargo.toml

## Assistant

Here's the contents of Cargo.toml:
...
`

// TestSessionRoundTrip: what is read is written byte for byte.
func TestSessionRoundTrip(t *testing.T) {
	s, err := decodeSession([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(s.encode()); got != example {
		t.Errorf("written:\n%s", got)
	}
	if s.Provider != "claude" || s.Model != "claude-sonnet-4-20250514" || !s.Created.Equal(time.Date(2026, 2, 15, 10, 30, 0, 0, time.UTC)) {
		t.Errorf("front matter: %+v", s)
	}
	want := []Message{{"user", "What files are in the current directory?"},
		{"assistant", "I'll check the directory listing for you. Here are the files:\n- src/\n- Cargo.toml\n- README.md"},
		{"user", "Show me Cargo.toml"}, {"assistant", "Here's the contents of Cargo.toml:\n..."}}
	if len(s.Messages) != len(want) {
		t.Fatalf("messages: %+v", s.Messages)
	}
	for i, m := range s.Messages {
		if m != want[i] {
			t.Errorf("message %d: %+v", i, m)
		}
	}
	extra := strings.Replace(example, "model:", "temperature: 0.2\nmodel:", 1)
	if s, err = decodeSession([]byte(extra)); err != nil || string(s.encode()) != extra {
		t.Errorf("a line of another program's is lost: %v", err)
	}
}

// TestMessagesComeBackWhole: of headings, fences, front-matter marks, backslashes,
// empty lines and any text there is.
func TestMessagesComeBackWhole(t *testing.T) {
	hostile := []string{"", "\n", "\n\n\n", "## User", "## User\n\nhi", `\## User`, `\\\## Assistant  `, "## System\r", "## Tool", "---", "---\nprovider: x\n---",
		"```\n## User\n```", "a\n## Assistant\nb\n", "\n## User\n", "## Users", "# User", " ## User", "é 日本 🎉\u2028## User", "text\n\n", "\t## User\t"}
	check := func(t interface{ Errorf(string, ...any) }, texts []string) {
		s := newSession("p", "m", time.Unix(1e9, 0))
		for i, text := range texts {
			s.Messages = append(s.Messages, Message{[]string{"user", "assistant", "system"}[i%3], text})
		}
		data := s.encode()
		got, err := decodeSession(data)
		if err != nil || len(got.Messages) != len(texts) {
			t.Errorf("%q: %v\n%s", texts, err, data)
			return
		}
		for i, m := range got.Messages {
			if m != s.Messages[i] {
				t.Errorf("message %d is %+v, was %+v", i, m, s.Messages[i])
			}
		}
		if again := got.encode(); string(again) != string(data) {
			t.Errorf("written again:\n%s\nwas\n%s", again, data)
		}
	}
	check(t, hostile)
	for _, text := range hostile {
		check(t, []string{text})
		check(t, []string{text, text})
	}
	rapid.Check(t, func(r *rapid.T) {
		piece := rapid.OneOf(rapid.SampledFrom(hostile), rapid.StringMatching(`[ -~\n\\#é]{0,12}`))
		texts := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) string {
			return strings.Join(rapid.SliceOfN(piece, 0, 4).Draw(r, "pieces"), rapid.SampledFrom([]string{"", "\n"}).Draw(r, "between"))
		}), 0, 4).Draw(r, "texts")
		check(r, texts)
	})
}

// corrupt has files that are no session, each in a way of its own.
var corrupt = map[string]string{
	"no front matter":              "## User\n\nhi\n",
	"front matter without an end":  "---\nprovider: x\n",
	"a line that is no key: value": "---\nprovider\n---\n",
	"a key twice":                  "---\nmodel: a\nmodel: b\n---\n",
	"no time":                      "---\ncreated_at: yesterday\n---\n",
	"text before the messages":     "---\nmodel: a\n---\nhello\n\n## User\n\nhi\n",
	"a tool's message":             "---\nmodel: a\n---\n\n## Tool\n\n{}\n",
	"not UTF-8":                    "---\nmodel: a\n---\n\n## User\n\n\xff\n",
	"a NUL":                        "---\nmodel: a\n---\n\n## User\n\n\x00\n",
	"something else":               "{\"messages\": []}",
	"an empty key":                 "---\n: x\n---\n",
}

// TestCorruptSessions: each is told what is wrong with it.
func TestCorruptSessions(t *testing.T) {
	for what, text := range corrupt {
		if s, err := decodeSession([]byte(text)); err == nil {
			t.Errorf("%s: %+v", what, s)
		}
	}
	for _, empty := range []string{"", "\n", " \n\n"} {
		if s, err := decodeSession([]byte(empty)); s != nil || err != nil {
			t.Errorf("%q: %+v, %v", empty, s, err)
		}
	}
}

func FuzzSession(f *testing.F) {
	f.Add([]byte(example))
	for _, text := range corrupt {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := decodeSession(data)
		if err != nil || s == nil {
			return
		}
		again, err := decodeSession(s.encode())
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if len(again.Messages) != len(s.Messages) {
			t.Fatalf("%d messages became %d", len(s.Messages), len(again.Messages))
		}
		for i, m := range s.Messages {
			if again.Messages[i] != m {
				t.Fatalf("message %d: %+v became %+v", i, m, again.Messages[i])
			}
		}
	})
}
