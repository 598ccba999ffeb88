package workspace

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Session is one conversation as a session.md has it: front matter, then the
// messages in order, each under a heading with its role.
type Session struct {
	Provider, Model string
	Created         time.Time
	Messages        []Message

	front []string // the lines of the front matter as they stand
	rest  string   // what follows it, as it stands
}

// Message is one message of a session.
type Message struct{ Role, Text string }

const fence = "---"

// headings are the lines that begin a message, and the roles they stand for. A
// heading of a role that is not kept begins none: it makes a file corrupt.
var headings = []struct{ line, role string }{
	{"## User", "user"}, {"## Assistant", "assistant"}, {"## System", "system"}, {"## Tool", ""},
}

// heading tells whether a line would be read as a heading, or would be but for
// backslashes before it.
func heading(line string) (role string, is, escaped bool) {
	bare := strings.TrimLeft(line, `\`)
	for _, h := range headings {
		if strings.TrimRight(bare, " \t\r") == h.line {
			return h.role, bare == line, bare != line
		}
	}
	return "", false, false
}

// roleHeading is the heading of a role in any case; "" for one that is not kept.
func roleHeading(role string) string {
	for _, h := range headings {
		if h.role != "" && h.role == strings.ToLower(role) {
			return h.line
		}
	}
	return ""
}

// newSession makes an empty session.
func newSession(provider, model string, now time.Time) *Session {
	s := &Session{Created: now.UTC().Truncate(time.Second)}
	s.set("provider", provider)
	s.set("model", model)
	s.set("created_at", s.Created.Format(time.RFC3339))
	s.Provider, s.Model = provider, model
	return s
}

// set changes a line of the front matter, or adds it.
func (s *Session) set(key, value string) {
	line := strings.TrimRight(key+": "+value, " ")
	for i, l := range s.front {
		if k, _, _ := strings.Cut(l, ":"); strings.TrimSpace(k) == key {
			s.front[i] = line
			return
		}
	}
	s.front = append(s.front, line)
}

// head writes the front matter.
func (s *Session) head() []byte {
	var b bytes.Buffer
	b.WriteString(fence + "\n")
	for _, l := range s.front {
		b.WriteString(l + "\n")
	}
	b.WriteString(fence + "\n")
	return b.Bytes()
}

// encode writes a session; what decode read is written as it was, but for what hands
// have set out otherwise.
func (s *Session) encode() []byte {
	b := bytes.NewBuffer(s.head())
	for _, m := range s.Messages {
		b.Write(m.encode())
	}
	return b.Bytes()
}

// encode writes one message as it stands after what is before it. Lines that
// would read as a heading get a backslash.
func (m *Message) encode() []byte {
	var b bytes.Buffer
	b.WriteString("\n" + roleHeading(m.Role) + "\n\n")
	for line := range strings.SplitAfterSeq(m.Text, "\n") {
		if _, is, escaped := heading(strings.TrimSuffix(line, "\n")); is || escaped {
			b.WriteByte('\\')
		}
		b.WriteString(line)
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// decodeSession reads a session.md. nil without an error: there is none yet, the
// file has nothing in it.
func decodeSession(data []byte) (*Session, error) {
	text := string(data)
	switch {
	case strings.TrimSpace(text) == "":
		return nil, nil
	case !utf8.ValidString(text):
		return nil, errors.New("it is not UTF-8 text")
	case strings.ContainsRune(text, 0):
		return nil, errors.New("it has a NUL in it")
	}
	rest, ok := strings.CutPrefix(text, fence+"\n")
	if !ok {
		return nil, errors.New("it does not begin with front matter (---)")
	}
	s := &Session{}
	rest, err := s.readFront(rest)
	if err != nil {
		return nil, err
	}
	s.rest = rest
	return s, s.readMessages(rest)
}

// readFront reads the front matter and gives what follows it.
func (s *Session) readFront(rest string) (string, error) {
	for {
		line, after, more := strings.Cut(rest, "\n")
		if line == fence {
			return after, nil
		}
		if !more {
			return "", errors.New("its front matter has no end (---)")
		}
		rest = after
		key, value, ok := strings.Cut(line, ":")
		key = strings.TrimSpace(key)
		if !ok || key == "" {
			return "", fmt.Errorf("its front matter has the line %.60q, which is no key: value", line)
		}
		if slices.ContainsFunc(s.front, func(l string) bool { k, _, _ := strings.Cut(l, ":"); return strings.TrimSpace(k) == key }) {
			return "", fmt.Errorf("its front matter has %q twice", key)
		}
		s.front = append(s.front, line)
		if err := s.front1(key, strings.Trim(strings.TrimSpace(value), `"`)); err != nil {
			return "", err
		}
	}
}

// front1 takes one value of the front matter.
func (s *Session) front1(key, value string) (err error) {
	switch key {
	case "provider":
		s.Provider = value
	case "model":
		s.Model = value
	case "created_at":
		if s.Created, err = time.Parse(time.RFC3339, value); err != nil {
			err = fmt.Errorf("its created_at is %.40q, which is no time", value)
		}
	}
	return err
}

// readMessages reads what follows the front matter.
func (s *Session) readMessages(rest string) error {
	var body strings.Builder
	open := false
	end := func(last bool) {
		if !open {
			return
		}
		text := strings.TrimSuffix(body.String(), "\n")
		if !last { // the empty line before the next heading
			text = strings.TrimSuffix(text, "\n")
		}
		s.Messages[len(s.Messages)-1].Text = text
		body.Reset()
	}
	first := false // the line after a heading
	for line := range strings.SplitAfterSeq(rest, "\n") {
		bare := strings.TrimSuffix(line, "\n")
		role, is, escaped := heading(bare)
		switch {
		case is && role == "":
			return fmt.Errorf("it has a message under %q, and only those of user, assistant and system are kept", bare)
		case is:
			end(false)
			s.Messages = append(s.Messages, Message{Role: role})
			open, first = true, true
			continue
		case !open && strings.TrimSpace(bare) != "":
			return fmt.Errorf("it has the line %.60q before the first message", bare)
		case !open: // empty lines in front of it
		case first && bare == "" && line != "": // the empty line after a heading
		case escaped:
			body.WriteString(line[1:])
		default:
			body.WriteString(line)
		}
		first = false
	}
	end(true)
	return nil
}
