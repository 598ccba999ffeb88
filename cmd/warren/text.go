package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// onTerminal tells whether w is one.
func onTerminal(w io.Writer) bool {
	if e, ok := w.(*errWriter); ok {
		w = e.w
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// shown gives the name or path of a file as it is written to w: to a terminal
// with what is not printable escaped as in C, since names are made by agents and
// terminals obey what they are sent; to anything else as it is.
func shown(w io.Writer, name string) string {
	if !onTerminal(w) {
		return name
	}
	return escape(name, "")
}

// many is n with the word for one, or for any other number.
func many[N int | int64 | uint64](n N, one, others string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, others)
}

// shownText is shown for a text that has names in it.
func shownText(w io.Writer, text string) string {
	if !onTerminal(w) {
		return text
	}
	return escape(text, "\n\t\\")
}

// escape writes what is not printable in s, and backslashes, as C does: \n, \033.
// The characters of keep stay.
func escape(s, keep string) string {
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		at := strings.IndexByte("\a\b\t\n\v\f\r\\", s[0])
		switch {
		case n == 1 && strings.IndexByte(keep, s[0]) >= 0:
			b.WriteByte(s[0])
		case at >= 0:
			b.WriteString([]string{`\a`, `\b`, `\t`, `\n`, `\v`, `\f`, `\r`, `\\`}[at])
		case unicode.IsPrint(r) && (r != utf8.RuneError || n > 1):
			b.WriteString(s[:n])
		default:
			for _, c := range []byte(s[:n]) {
				fmt.Fprintf(&b, `\%03o`, c)
			}
		}
		s = s[n:]
	}
	return b.String()
}

// facts prints names and values in two columns; empty values are left out.
func facts(w io.Writer, pairs ...string) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			_, _ = fmt.Fprintf(t, "%s:\t%s\n", pairs[i], pairs[i+1])
		}
	}
	_ = t.Flush()
}

// stamp shows a time to the second, in UTC.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// size shows bytes for people.
func size(n uint64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/1024, 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", f, units[i])
}
