package server

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/policy/view"
)

// maxEdits bounds the replacements of one request, maxDiff the bytes of the diff
// in its answer.
const (
	maxEdits = 100
	maxDiff  = 256 << 10
)

// fsEdit replaces text in a file. What it has read is what it replaces: if the
// file changes meanwhile, it starts again.
func (s *Server) fsEdit(w http.ResponseWriter, r *http.Request) error {
	var c control.Edit
	if err := input(r, &c); err != nil {
		return err
	}
	if err := c.Plain(); err != nil {
		return invalid("%v", err)
	}
	if c.Path == "" || len(c.Edits) == 0 || len(c.Edits) > maxEdits {
		return invalid("edit: which file, and what? a path and 1 to %d edits are needed", maxEdits)
	}
	for i, e := range c.Edits {
		if e.Old == "" || e.Old == e.New {
			return invalid("edit %d: old must be some text, and new another one", i)
		}
	}
	v, err := s.files(c.Agent)
	if err != nil {
		return err
	}
	p := place(c.Agent, c.Path)
	for range maxChanges {
		var out control.Edited
		if out, err = edit(v, p, &c); err == nil {
			return reply(w, out)
		}
		if c.IfMatch != "" || !errors.Is(err, backend.Conflict) {
			break
		}
	}
	return s.moved(v, p, err)
}

// edit makes one try. Conflict: the file has another etag than was asked for, or
// has changed since it was read.
func edit(v *view.View, p string, c *control.Edit) (out control.Edited, err error) {
	f, err := readable(v, p)
	if err != nil {
		return out, err
	}
	if f.Attr.Size > control.MaxPiece {
		return out, &backend.Error{Op: "edit", Path: p, Kind: backend.TooBig, Err: errors.New("files of more than 8 MiB are not edited")}
	}
	old := make([]byte, f.Attr.Size+4096) // it may have grown since
	n, a, etag, err := v.ReadAt(f.Attr.Node, old, 0)
	switch {
	case errors.Is(err, backend.NotFound): // replaced since it was found
		return out, &backend.Error{Op: "edit", Path: p, Kind: backend.Conflict}
	case err != nil:
		return out, err
	case a.Size > uint64(n):
		return out, &backend.Error{Op: "edit", Path: p, Kind: backend.Conflict, Err: errors.New("it grew meanwhile")}
	case c.IfMatch != "" && c.IfMatch != etag:
		return out, &backend.Error{Op: "edit", Path: p, Kind: backend.Conflict, Err: errors.New("it has changed: its etag is another one now")}
	}
	old = old[:n]
	text, count, err := replaceAll(p, old, c.Edits)
	if err != nil {
		return out, err
	}
	if len(text) > control.MaxPiece {
		return out, &backend.Error{Op: "edit", Path: p, Kind: backend.TooBig, Err: errors.New("it would have more than 8 MiB")}
	}
	out = control.Edited{Path: f.Path, Etag: etag, Mode: octal(a.Mode), Size: uint64(len(text)), Replaced: count, DryRun: c.DryRun}
	out.Diff, out.Cut = unified(strings.TrimPrefix(f.Path, "/"), old, text, maxDiff)
	if c.DryRun {
		_, err = v.Open(nil, f.Attr.Node, view.OpenFlags{Write: true})
		return out, err
	}
	put, now, err := v.PutIf(p, bytes.NewReader(text), 0, view.Cond{Match: etag})
	if errors.Is(err, backend.NotFound) { // removed since it was read
		err = &backend.Error{Op: "edit", Path: p, Kind: backend.Conflict}
	}
	out.Etag, out.Mode = now, octal(put.Attr.Mode)
	return out, err
}

// replaceAll makes the replacements one after the other and counts the places.
func replaceAll(p string, text []byte, edits []control.Replacement) ([]byte, int, error) {
	crlf := endsCRLF(text)
	places := 0
	for i, e := range edits {
		from, to := e.Old, e.New
		if crlf {
			from, to = toCRLF(from), toCRLF(to)
		}
		n := bytes.Count(text, []byte(from))
		if n == 0 || n > 1 && !e.All {
			return nil, 0, notOnce(p, i, n, text, from)
		}
		if grows := n * (len(to) - len(from)); len(text)+grows > control.MaxPiece {
			return nil, 0, &backend.Error{Op: "edit", Path: p, Kind: backend.TooBig, Err: errors.New("it would have more than 8 MiB")}
		}
		text = bytes.ReplaceAll(text, []byte(from), []byte(to))
		places += n
	}
	return text, places, nil
}

// notOnce is the failure of edit i whose text is there n times.
func notOnce(p string, i, n int, text []byte, from string) error {
	details := map[string]any{"edit": i, "matches": n}
	if n == 0 {
		return &control.Error{Kind: control.KindConflict, Details: details,
			Text: fmt.Sprintf("edit %s: the old text of edit %d is not there", p, i)}
	}
	var lines []int
	for at, line := 0, 1; len(lines) < 20; {
		j := bytes.Index(text[at:], []byte(from))
		if j < 0 {
			break
		}
		line += bytes.Count(text[at:at+j], newline)
		lines = append(lines, line)
		line += strings.Count(from, "\n")
		at += j + len(from)
	}
	details["lines"] = lines
	return &control.Error{Kind: control.KindConflict, Details: details,
		Text: fmt.Sprintf("edit %s: the old text of edit %d is there %d times; give more of what is around it, or set all", p, i, n)}
}

// endsCRLF tells whether every line of text ends with CRLF.
func endsCRLF(text []byte) bool {
	n := bytes.Count(text, newline)
	return n > 0 && n == bytes.Count(text, []byte("\r\n"))
}

// toCRLF makes every line of s end with CRLF.
func toCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}
