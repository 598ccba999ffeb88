package mcp

import (
	"bytes"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/warrenfs/warren/control"
)

// imageType gives the type of an image that hosts can show, by its first bytes;
// "" for anything else.
func imageType(b []byte) string {
	t := http.DetectContentType(b)
	if slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp"}, t) {
		return t
	}
	return ""
}

// isText tells whether a piece is UTF-8 text without NUL. A character that its end
// cuts is taken off, since more of the file comes after.
func isText(p *control.Piece) bool {
	if bytes.IndexByte(p.Data, 0) >= 0 {
		return false
	}
	if utf8.Valid(p.Data) {
		return true
	}
	if p.End() {
		return false
	}
	for cut := 1; cut < utf8.UTFMax && cut < len(p.Data); cut++ {
		rest := p.Data[len(p.Data)-cut:]
		if utf8.RuneStart(rest[0]) {
			if utf8.FullRune(rest) || !utf8.Valid(p.Data[:len(p.Data)-cut]) {
				return false
			}
			p.Data = p.Data[:len(p.Data)-cut]
			return true
		}
	}
	return false
}
