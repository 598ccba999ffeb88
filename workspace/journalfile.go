package workspace

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// JournalEntry is one entry of a journal.
type JournalEntry struct {
	At     time.Time // UTC, to the minute
	Agent  string    // key
	Name   string    // display name, if it has one
	Text   string    // without the lines of its todos
	Todos  []Todo
	start  int // of its heading, in the file
	ending int // behind its last byte
}

// Todo is a line of a journal that asks somebody for something.
type Todo struct {
	For  string // agent key; "anyone"
	Text string
}

// Ref names an entry as other files refer to it: by its time.
func (e *JournalEntry) Ref() string { return e.At.Format(clock) }

var (
	// entryHead is what an entry begins with: ## 2026-05-22 14:30 — key (Name)
	entryHead = regexp.MustCompile(`^##[ \t]*(\d{4}-\d\d-\d\d(?:[ \tT]+\d?\d:\d\d(?::\d\d)?Z?)?)[ \t]*(?:—|–|--?|:)?[ \t]*([^\s(]*)[ \t]*(?:\((.*)\))?[ \t]*$`)
	// todoLine asks @key for something, also as hands write it in lists.
	todoLine = regexp.MustCompile(`^[ \t]*(?:[-*+][ \t]+)?(?:\[ \][ \t]*)?TODO[ \t]+@([\w.-]+)[ \t]*(?::|—|-)?[ \t]*(.*?)[ \t]*$`)
)

const anyone = "anyone"

// head reads the heading of an entry; escaped: it would be one but for
// backslashes in front.
func head(line string) (e JournalEntry, is, escaped bool) {
	bare := strings.TrimLeft(line, `\`)
	if !strings.HasPrefix(bare, "##") { // most lines: patterns take their time
		return e, false, false
	}
	m := entryHead.FindStringSubmatch(bare)
	if m == nil {
		return e, false, false
	}
	at, ok := parseClock(m[1])
	if !ok {
		return e, false, false
	}
	return JournalEntry{At: at, Agent: m[2], Name: m[3]}, bare == line, bare != line
}

// parseJournal finds the entries of a journal, in the order of the file. What is
// in front of the first is nobody's.
func parseJournal(text string) []JournalEntry {
	var out []JournalEntry
	var body []string
	done := func(end int) {
		if n := len(out); n > 0 {
			out[n-1].ending = end
			out[n-1].Text = strings.Trim(strings.Join(body, "\n"), "\n")
		}
		body = nil
	}
	lines(text, func(line string, start, _ int) {
		e, is, escaped := head(line)
		if is {
			done(start)
			e.start = start
			out = append(out, e)
			return
		}
		if len(out) == 0 {
			return
		}
		if m := todoOf(line); m != nil {
			last := &out[len(out)-1]
			last.Todos = append(last.Todos, Todo{For: m[1], Text: m[2]})
			return
		}
		if escaped {
			line = line[1:]
		}
		body = append(body, line)
	})
	done(len(text))
	return out
}

// todoOf reads a line that asks somebody for something; nil: it asks nobody.
func todoOf(line string) []string {
	if !strings.Contains(line, "TODO") {
		return nil
	}
	return todoLine.FindStringSubmatch(line)
}

// encode writes an entry as it stands in a journal, with lines that end with nl.
func (e *JournalEntry) encode(nl string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s — %s", e.At.Format(clock), e.Agent)
	if e.Name != "" {
		fmt.Fprintf(&b, " (%s)", e.Name)
	}
	b.WriteByte('\n')
	for line := range strings.SplitSeq(e.Text, "\n") {
		line = strings.TrimRight(line, "\r") // before it is judged: that is how it is read again
		if _, is, escaped := head(line); is || escaped {
			b.WriteByte('\\')
		}
		b.WriteString(line + "\n")
	}
	for i, t := range e.Todos {
		if i == 0 {
			b.WriteByte('\n')
		}
		who := t.For
		if who == "" {
			who = anyone
		}
		fmt.Fprintf(&b, "TODO @%s: %s\n", who, t.Text)
	}
	return strings.ReplaceAll(b.String(), "\n", nl)
}
