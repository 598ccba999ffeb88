package main

import (
	"bytes"
	"testing"

	"github.com/warrenfs/warren/control"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "",
		"plain name.txt":        "plain name.txt",
		"grüße 日本 🎉":            "grüße 日本 🎉",
		"a\nb\tc\rd\ae\bf\vg":   `a\nb\tc\rd\ae\bf\vg`,
		"\x1b[2J\x7f\x00":       `\033[2J\177\000`,
		`back\slash`:            `back\\slash`,
		"\xff\xc3(":             `\377\303(`,
		"\u009b31m":             `\302\23331m`,          // a control sequence of one character
		"a\u202egpj.exe":        `a\342\200\256gpj.exe`, // turns the direction of writing
		"\ufffd\xef\xbf":        "\ufffd" + `\357\277`,  // the first is a character, and printable
		"zero\u200bwidth\u2028": `zero\342\200\213width\342\200\250`,
	} {
		if got := escape(in, ""); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
	if got := escape("a\\n\n\t\x1b", "\n\t\\"); got != "a\\n\n\t\\033" {
		t.Errorf("with some kept: %q", got)
	}
	var b bytes.Buffer
	if got := shown(&errWriter{w: &b}, "\x1b[2J"); got != "\x1b[2J" {
		t.Errorf("not on a terminal: %q", got)
	}
}

// TestMany: one thing is not told of as several.
func TestMany(t *testing.T) {
	for n, want := range map[int]string{0: "0 files", 1: "1 file", 2: "2 files"} {
		if got := many(n, "file", "files"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	if got := most(control.Latency{}); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}
