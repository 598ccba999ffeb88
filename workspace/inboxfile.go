package workspace

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// InboxItem is one item of an inbox.
type InboxItem struct {
	ID         string // INB-014
	Number     uint64
	For        string // agent key; "anyone"; "" where the file does not say (a closed one)
	Title      string
	Body       string
	Added      time.Time // zero where the file does not say
	By         string    // who added it
	Closed     bool
	ClosedAt   time.Time
	ClosedBy   string
	Resolution string // of a closed one, with what it says of the journal
	start      int    // in the file
	ending     int    // behind its last line
	bodyAt     int    // where the lines of Body begin; ending if there are none
}

// inbox is an inbox.md as far as it is understood.
type inbox struct {
	text           string
	nl             string
	items          []InboxItem
	largest        uint64 // number that an item of the file has, or seems to have
	opened, closed section
}

// section is a part of an inbox under a heading.
type section struct {
	there bool
	start int // of its heading
	end   int // behind its last line that is not empty
}

var (
	itemHead = regexp.MustCompile(`^[-*+][ \t]+\[([ xX])\][ \t]*(~~|\*\*)?[ \t]*INB-(\d{1,15})\b[ \t]*(?:@([\w.-]+))?[ \t]*(?:—|–|--?|:)?[ \t]*(.*?)[ \t]*$`)
	// itemMark is what may be an item's id, however the line was mangled. Numbers
	// of more digits are not heeded: the one after it must be readable too.
	itemMark   = regexp.MustCompile(`^[ \t]{0,3}(?:[-*+>]|#+|\d+[.)])?[ \t]*(?:\[.?\])?[ \t]*(?:~~|\*\*|` + "`" + `)?[ \t]*INB-(\d{1,12})\b`)
	addedLine  = regexp.MustCompile(`^[ \t]+added[ \t]+(\d{4}-\d\d-\d\d(?:[ \tT]+\d?\d:\d\d(?::\d\d)?Z?)?)(?:[ \t]+by[ \t]+(\S+))?[ \t]*$`)
	closedLine = regexp.MustCompile(`^[ \t]+closed[ \t]+(\d{4}-\d\d-\d\d(?:[ \tT]+\d?\d:\d\d(?::\d\d)?Z?)?)(?:[ \t]+by[ \t]+(\S+))?[ \t]*(?:(?:→|->|=>)[ \t]*(.*?))?[ \t]*$`)
	partHead   = regexp.MustCompile(`(?i)^##[ \t]*(open|closed)\b[ \t:]*$`)
)

// parseInbox reads an inbox.
func parseInbox(text string) *inbox {
	in := &inbox{text: text, nl: eol([]byte(text))}
	var part *section
	open := false // lines that are set in belong to the last item
	lines(text, func(line string, start, end int) {
		in.mark(line)
		if m := partOf(line); m != nil {
			open, part = false, &in.opened
			if strings.EqualFold(m[1], "closed") {
				part = &in.closed
			}
			if part.there {
				part = nil // a second one: what is in it stays where it is
				return
			}
			*part = section{there: true, start: start, end: end}
			return
		}
		blank := strings.TrimSpace(line) == ""
		if part != nil && !blank {
			if strings.HasPrefix(line, "# ") || strings.HasPrefix(line, "## ") {
				part = nil
			} else {
				part.end = end
			}
		}
		if it, ok := readItem(line); ok {
			it.start, it.ending, it.bodyAt = start, end, end
			in.items = append(in.items, it)
			open = true
			return
		}
		set := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		switch {
		case !open:
		case set && !blank:
			in.items[len(in.items)-1].more(text, line, start, end)
		case !blank:
			open = false
		}
	})
	for i := range in.items {
		in.items[i].Body = unindent(text[in.items[i].bodyAt:in.items[i].ending])
	}
	return in
}

// partOf reads the heading of a section; nil: it is none.
func partOf(line string) []string {
	if !strings.HasPrefix(line, "##") { // most lines: patterns take their time
		return nil
	}
	return partHead.FindStringSubmatch(line)
}

// mark heeds the number of what may be an item.
func (in *inbox) mark(line string) {
	if !strings.Contains(line, "INB-") {
		return
	}
	if m := itemMark.FindStringSubmatch(line); m != nil {
		if n, err := strconv.ParseUint(m[1], 10, 64); err == nil {
			in.largest = max(in.largest, n)
		}
	}
}

// readItem reads the first line of an item.
func readItem(line string) (it InboxItem, ok bool) {
	if !strings.Contains(line, "INB-") {
		return it, false
	}
	m := itemHead.FindStringSubmatch(line)
	if m == nil {
		return it, false
	}
	n, err := strconv.ParseUint(m[3], 10, 64)
	if err != nil {
		return it, false
	}
	it = InboxItem{ID: "INB-" + m[3], Number: n, For: m[4], Title: m[5], Closed: m[1] != " "}
	if m[2] != "" {
		it.Title = strings.TrimSpace(strings.TrimSuffix(it.Title, m[2]))
	}
	return it, true
}

// more takes a line that is set in below an item's first. Once one has said when it
// was closed, or the item is open, such lines are its text.
func (it *InboxItem) more(text, line string, start, end int) {
	first := strings.TrimSpace(text[it.bodyAt:start]) == ""
	it.ending = end
	if !first {
		return
	}
	if m := addedLine.FindStringSubmatch(line); m != nil && it.Added.IsZero() && it.ClosedAt.IsZero() {
		it.Added, _ = parseClock(m[1])
		it.By, it.bodyAt = m[2], end
	} else if m := closedLine.FindStringSubmatch(line); m != nil && it.Closed && it.ClosedAt.IsZero() {
		it.ClosedAt, _ = parseClock(m[1])
		it.ClosedBy, it.Resolution, it.bodyAt = m[2], m[3], end
	} else {
		it.bodyAt = start
	}
}

// unindent is the text of lines that are set in by two spaces.
func unindent(s string) string {
	var out []string
	lines(s, func(line string, _, _ int) {
		line = strings.TrimRight(line, " \t")
		if t, ok := strings.CutPrefix(line, "  "); ok {
			line = t
		} else {
			line = strings.TrimLeft(line, " \t")
		}
		out = append(out, line)
	})
	return strings.Trim(strings.Join(out, "\n"), "\n")
}

// indent sets the lines of a text in by two spaces, each with its end.
func indent(s string) string {
	var b strings.Builder
	for line := range strings.SplitSeq(strings.Trim(strings.ReplaceAll(s, "\r\n", "\n"), "\n"), "\n") {
		if line = strings.TrimRight(line, " \t\r"); line != "" {
			b.WriteString("  " + line)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// find gives the item of an id; of two of one number an open one. nil: none.
func (in *inbox) find(number uint64) (found *InboxItem) {
	for i := range in.items {
		if it := &in.items[i]; it.Number == number && (found == nil || found.Closed && !it.Closed) {
			found = it
		}
	}
	return found
}

// inboxID is how a number is written.
func inboxID(n uint64) string { return fmt.Sprintf("INB-%03d", n) }

// encode writes an open item.
func (it *InboxItem) encode() string {
	s := fmt.Sprintf("- [ ] %s @%s — %s  \n  added %s by %s", it.ID, it.For, it.Title, it.Added.Format(clock), it.By)
	if it.Body != "" {
		s += "  \n" + strings.TrimSuffix(indent(it.Body), "\n")
	}
	return s + "\n"
}

// encodeClosed writes a closed item; body has the lines that stay below it.
func (it *InboxItem) encodeClosed(body string) string {
	s := fmt.Sprintf("- [x] ~~%s — %s~~  \n  closed %s by %s → %s", it.ID, it.Title, it.ClosedAt.Format(clock), it.ClosedBy, it.Resolution)
	if body != "" {
		s += "  \n" + strings.TrimSuffix(body, "\n")
	}
	return s + "\n"
}

// with gives the text with an item at the end of a section, which is made if it
// is not there: Open in front of Closed, Closed at the end.
func (in *inbox) with(item string, closed bool) string {
	text, nl := in.text, in.nl
	item = strings.ReplaceAll(item, "\n", nl)
	part, heading := in.opened, "## Open"
	if closed {
		part, heading = in.closed, "## Closed"
	}
	if part.there {
		return text[:part.end] + lineEnd(text[:part.end], nl) + nl + item + text[part.end:]
	}
	if !closed && in.closed.there {
		at := in.closed.start
		return text[:at] + heading + nl + nl + item + nl + text[at:]
	}
	switch {
	case strings.TrimSpace(text) == "":
		text = "# Inbox" + nl
		if closed {
			break
		}
		return text + nl + heading + nl + nl + item + nl + "## Closed" + nl
	default:
		text += lineEnd(text, nl)
	}
	if !strings.HasSuffix(text, nl+nl) {
		text += nl
	}
	return text + heading + nl + nl + item
}

// without gives the text without an item, and one of the empty lines around it.
func (in *inbox) without(it *InboxItem) string {
	start, end := it.start, it.ending
	if end == len(in.text) {
		if before := in.text[:start]; strings.HasSuffix(before, in.nl+in.nl) {
			start -= len(in.nl)
		}
	}
	for _, blank := range []string{"\r\n", "\n"} {
		if strings.HasPrefix(in.text[end:], blank) {
			end += len(blank)
			break
		}
	}
	return in.text[:start] + in.text[end:]
}

// lineEnd ends a text's last line, if it has none.
func lineEnd(text, nl string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return ""
	}
	return nl
}
