package mcp

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/warrenfs/warren/control"
)

// The limits of answers.
const (
	usualRead   = 256 << 10 // bytes that read gives if it is not told
	maxRead     = 1 << 20   // bytes that it gives at most, but for an image
	usualList   = 1000      // names that list gives if it is not told
	maxList     = 10000
	usualSearch = 200 // lines that search gives if it is not told
)

func fileTools() []tool {
	return []tool{
		define(about{name: "read", group: "files", title: "Read a file", effect: reads, limits: readLimits,
			text: "Read a text file, a range of its lines or bytes, an image, or a binary file (as base64). The answer has the etag to pass as if_match when changing the file."},
			read),
		define(about{name: "list", group: "files", title: "List a directory", effect: reads,
			text: "List a directory by name, in pages: pass next of an answer as cursor to go on.",
			limits: func(s *jsonschema.Schema) {
				bounds(s, "limit", 1, maxList)
				length(s, "cursor", 1, 1000)
				length(s, "dir", 1, maxPath)
			}}, list),
		define(about{name: "search", group: "files", title: "Search in files", effect: reads, limits: searchLimits,
			text: "Find lines that match a regular expression (RE2) in all files below a directory, in the order of paths. Leaves out binary files, files over 8 MiB and, unless told otherwise, names that start with a dot."},
			search),
		define(about{name: "stat", group: "files", title: "Show what is known of a path", effect: reads,
			text:   "Show type, size, mode, times, etag and who made and changed what a path names.",
			limits: func(s *jsonschema.Schema) { length(s, "path", 1, maxPath) }}, stat),
		explainTool(),
	}
}

// maxPath bounds a path, in characters, as PATH_MAX does.
const maxPath = 4096

// length bounds a string.
func length(s *jsonschema.Schema, name string, least, most int) {
	s.Properties[name].MinLength, s.Properties[name].MaxLength = &least, &most
}

// bounds bounds a number.
func bounds(s *jsonschema.Schema, name string, least, most float64) {
	s.Properties[name].Minimum, s.Properties[name].Maximum = &least, &most
}

// items bounds a list, and each string in it.
func items(s *jsonschema.Schema, name string, most, chars int) {
	p, one := s.Properties[name], 1
	p.MaxItems = &most
	p.Items.MinLength, p.Items.MaxLength = &one, &chars
}

// choice lists the values of a string.
func choice(s *jsonschema.Schema, name string, values ...any) { s.Properties[name].Enum = values }

type readIn struct {
	Path     string `json:"path" jsonschema:"file to read"`
	Line     int    `json:"line,omitempty" jsonschema:"number of the first line wanted, from 1"`
	Lines    int    `json:"lines,omitempty" jsonschema:"how many lines, with line; default: as many as fit"`
	Offset   int64  `json:"offset,omitempty" jsonschema:"first byte wanted, instead of line"`
	Length   int    `json:"length,omitempty" jsonschema:"most bytes to give; default 262144"`
	Encoding string `json:"encoding,omitempty" jsonschema:"auto (default): text as it is and the rest as an image or base64; base64: whatever it is"`
	IfMatch  string `json:"if_match,omitempty" jsonschema:"fail with a conflict unless the file has this etag"`
}

func readLimits(s *jsonschema.Schema) {
	length(s, "path", 1, maxPath)
	length(s, "if_match", 1, 200)
	bounds(s, "line", 1, 1<<40)
	bounds(s, "lines", 1, 1<<40)
	bounds(s, "offset", 0, 1<<52)
	bounds(s, "length", 1, maxRead)
	choice(s, "encoding", "auto", "base64")
}

type readOut struct {
	Path      string `json:"path" jsonschema:"tree path"`
	Etag      string `json:"etag"`
	Size      uint64 `json:"size" jsonschema:"of the whole file, in bytes"`
	Mode      string `json:"mode" jsonschema:"permission bits, octal"`
	Type      string `json:"type" jsonschema:"text, image or binary"`
	MIMEType  string `json:"mime_type,omitempty"`
	Encoding  string `json:"encoding" jsonschema:"of content: utf-8 or base64"`
	Content   string `json:"content" jsonschema:"empty for an image, which is image content"`
	Offset    uint64 `json:"offset" jsonschema:"of the first byte of content"`
	Line      int    `json:"line,omitempty" jsonschema:"number of the first line of content"`
	Lines     int    `json:"lines,omitempty" jsonschema:"how many lines the whole file has, if its end was reached"`
	Truncated bool   `json:"truncated" jsonschema:"the file goes on after content"`
	Next      uint64 `json:"next,omitempty" jsonschema:"the offset to go on from"`
}

func read(ctx context.Context, s *Server, in readIn) (readOut, said, error) {
	if in.Line > 0 && in.Offset > 0 || in.Line == 0 && in.Lines > 0 {
		return readOut{}, said{}, control.Errorf(control.KindInvalid, "give line, with or without lines, or offset")
	}
	part := control.Part{Line: in.Line, Lines: in.Lines, Offset: uint64(in.Offset), Length: uint64(in.Length), IfMatch: in.IfMatch}
	if part.Length == 0 {
		part.Length = usualRead
	}
	p, err := s.o.Client.ReadPiece(ctx, s.o.Agent, s.at(in.Path), part)
	if err != nil {
		return readOut{}, said{}, err
	}
	mime := imageType(p.Data)
	if mime != "" && p.Offset == 0 && in.Encoding != "base64" && in.Line == 0 {
		if !p.End() && p.Size <= control.MaxPiece {
			if p, err = s.o.Client.ReadPiece(ctx, s.o.Agent, s.at(in.Path), control.Part{IfMatch: p.Etag}); err != nil {
				return readOut{}, said{}, err
			}
		}
		if p.End() {
			out := described(&p)
			out.Type, out.MIMEType, out.Encoding = "image", mime, "base64"
			return out, said{content: []sdk.Content{&sdk.ImageContent{Data: p.Data, MIMEType: mime}}}, nil
		}
	}
	text := in.Encoding != "base64" && isText(&p)
	out := described(&p)
	out.Truncated = !p.End()
	if out.Truncated {
		out.Next = p.Offset + uint64(len(p.Data))
	}
	if !text {
		out.Type, out.MIMEType, out.Encoding, out.Content = "binary", mime, "base64", base64.StdEncoding.EncodeToString(p.Data)
		return out, said{text: out.Content}, nil
	}
	out.Type, out.Encoding, out.Content = "text", "utf-8", string(p.Data)
	if out.Line == 0 && p.Offset == 0 {
		out.Line = 1
		if p.End() {
			out.Lines = strings.Count(out.Content, "\n")
			if out.Content != "" && !strings.HasSuffix(out.Content, "\n") {
				out.Lines++
			}
		}
	}
	return out, said{text: out.Content}, nil
}

func described(p *control.Piece) readOut {
	return readOut{Path: p.Path, Etag: p.Etag, Size: p.Size, Mode: p.Mode, Offset: p.Offset, Line: p.Line, Lines: p.Lines}
}

type listIn struct {
	Dir    string `json:"dir,omitempty" jsonschema:"directory; default: where relative paths start"`
	Limit  int    `json:"limit,omitempty" jsonschema:"most names to give; default 1000"`
	Cursor string `json:"cursor,omitempty" jsonschema:"next of the answer before"`
}

type entry struct {
	Name   string    `json:"name" jsonschema:"bytes that are not UTF-8 are shown as U+FFFD"`
	Type   string    `json:"type" jsonschema:"file, dir, symlink, fifo, socket, char or block"`
	Size   uint64    `json:"size" jsonschema:"bytes"`
	Mode   string    `json:"mode" jsonschema:"permission bits, octal"`
	Mtime  time.Time `json:"mtime"`
	Etag   string    `json:"etag,omitempty"`
	Target string    `json:"target,omitempty" jsonschema:"of a symlink"`
}

type listOut struct {
	Dir     string  `json:"dir" jsonschema:"as it was asked for"`
	Entries []entry `json:"entries"`
	Next    string  `json:"next,omitempty" jsonschema:"there is more: pass it as cursor"`
}

func list(ctx context.Context, s *Server, in listIn) (listOut, said, error) {
	dir, limit := in.Dir, in.Limit
	if dir == "" {
		dir = "."
	}
	if limit == 0 {
		limit = usualList
	}
	after, err := base64.RawURLEncoding.DecodeString(in.Cursor)
	if err != nil {
		return listOut{}, said{}, control.Errorf(control.KindInvalid, "cursor: it is none of an answer")
	}
	ns, err := s.o.Client.ListPage(ctx, s.o.Agent, s.at(dir), string(after), limit+1)
	if err != nil {
		return listOut{}, said{}, err
	}
	out := listOut{Dir: dir, Entries: []entry{}}
	if len(ns) > limit {
		ns = ns[:limit]
		out.Next = base64.RawURLEncoding.EncodeToString([]byte(ns[limit-1].Name))
	}
	var text strings.Builder
	for i := range ns {
		e := entryOf(&ns[i])
		out.Entries = append(out.Entries, e)
		fmt.Fprintf(&text, "%-7s %10d  %s\n", e.Type, e.Size, e.Name)
	}
	if out.Next != "" {
		fmt.Fprintf(&text, "(more: cursor %s)\n", out.Next)
	}
	return out, said{text: text.String()}, nil
}

func entryOf(n *control.Node) entry {
	return entry{Name: valid(n.Name), Type: n.Type, Size: n.Size, Mode: n.Mode, Mtime: n.Mtime, Etag: n.Etag, Target: valid(n.Target)}
}

// valid makes text of bytes.
func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

type searchIn struct {
	Query      string   `json:"query" jsonschema:"regular expression (RE2), matched line by line"`
	Paths      []string `json:"paths,omitempty" jsonschema:"directories and files to search; default: where relative paths start"`
	Globs      []string `json:"globs,omitempty" jsonschema:"which files: *.go for names, src/**/*.ts for paths, !node_modules to leave out"`
	Literal    bool     `json:"literal,omitempty" jsonschema:"query is plain text"`
	IgnoreCase bool     `json:"ignore_case,omitempty"`
	Hidden     bool     `json:"hidden,omitempty" jsonschema:"also names that start with a dot"`
	Context    int      `json:"context,omitempty" jsonschema:"lines to give before and after each match"`
	Limit      int      `json:"limit,omitempty" jsonschema:"most matching lines to give; default 200"`
	PerFile    int      `json:"per_file,omitempty" jsonschema:"most matching lines of one file"`
}

func searchLimits(s *jsonschema.Schema) {
	length(s, "query", 1, 4096)
	items(s, "paths", 100, maxPath)
	items(s, "globs", 100, 1000)
	bounds(s, "context", 0, control.MaxContext)
	bounds(s, "limit", 1, control.MaxMatches)
	bounds(s, "per_file", 1, control.MaxMatches)
}

type match struct {
	Path   string   `json:"path" jsonschema:"tree path"`
	Line   int      `json:"line" jsonschema:"from 1"`
	Column int      `json:"column" jsonschema:"of the match, in bytes from 1"`
	Text   string   `json:"text" jsonschema:"the line, at most 1000 bytes of it"`
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

type searchOut struct {
	Matches      []match `json:"matches"`
	Files        int     `json:"files" jsonschema:"how many were looked into"`
	FilesMatched int     `json:"files_matched"`
	Truncated    bool    `json:"truncated" jsonschema:"there may be more"`
	Partial      bool    `json:"partial,omitempty" jsonschema:"it took too much processor time, and was stopped"`
	Skipped      int     `json:"skipped" jsonschema:"files that are binary, too big or may not be read"`
}

func search(ctx context.Context, s *Server, in searchIn) (searchOut, said, error) {
	q := control.Search{Agent: s.o.Agent, Pattern: in.Query, Literal: in.Literal, IgnoreCase: in.IgnoreCase, Globs: in.Globs,
		Hidden: in.Hidden, Context: in.Context, Limit: in.Limit, PerFile: in.PerFile}
	if q.Limit == 0 {
		q.Limit = usualSearch
	}
	for _, p := range in.Paths {
		q.Paths = append(q.Paths, s.at(p))
	}
	if len(q.Paths) == 0 {
		q.Paths = []string{s.at(".")}
	}
	out := searchOut{Matches: []match{}}
	var text strings.Builder
	sum, err := s.o.Client.Search(ctx, q, func(m control.Match) error {
		one := match{Path: valid(m.Path), Line: m.Line, Column: m.Column, Text: m.Text, Before: m.Before, After: m.After}
		out.Matches = append(out.Matches, one)
		one.write(&text)
		return nil
	})
	if err != nil {
		return out, said{}, err
	}
	out.Files, out.FilesMatched, out.Truncated, out.Skipped = sum.Files, sum.Matched, sum.Truncated, sum.Binary+sum.Big+sum.Denied
	if len(out.Matches) == 0 {
		fmt.Fprintf(&text, "no match in %d files\n", sum.Files)
	}
	out.Partial = sum.Partial
	switch {
	case out.Partial:
		text.WriteString("(" + sum.Stopped() + ")\n")
	case out.Truncated:
		text.WriteString("(there may be more)\n")
	}
	return out, said{text: text.String()}, nil
}

// write puts a match as grep(1) does.
func (m *match) write(b *strings.Builder) {
	for i, l := range m.Before {
		fmt.Fprintf(b, "%s-%d-%s\n", m.Path, m.Line-len(m.Before)+i, l)
	}
	fmt.Fprintf(b, "%s:%d:%s\n", m.Path, m.Line, m.Text)
	for i, l := range m.After {
		fmt.Fprintf(b, "%s-%d-%s\n", m.Path, m.Line+1+i, l)
	}
	if len(m.Before)+len(m.After) > 0 {
		b.WriteString("--\n")
	}
}

type statIn struct {
	Path   string `json:"path"`
	Follow bool   `json:"follow,omitempty" jsonschema:"tell of what a symlink leads to"`
}

type statOut struct {
	entry
	Path       string    `json:"path" jsonschema:"tree path"`
	Links      uint32    `json:"links"`
	Ctime      time.Time `json:"ctime"`
	Btime      time.Time `json:"btime"`
	CreatedBy  string    `json:"created_by,omitempty"`
	CreatedAt  string    `json:"created_at,omitempty"`
	ModifiedBy string    `json:"modified_by,omitempty"`
	ModifiedAt string    `json:"modified_at,omitempty"`
}

func stat(ctx context.Context, s *Server, in statIn) (statOut, said, error) {
	n, err := s.o.Client.Stat(ctx, s.o.Agent, s.at(in.Path), in.Follow)
	if err != nil {
		return statOut{}, said{}, err
	}
	out := statOf(&n)
	return out, said{text: fmt.Sprintf("%s: %s, %d bytes, mode %s, changed %s\n", out.Path, n.Type, n.Size, n.Mode, n.Mtime.Format(time.RFC3339))}, nil
}

func statOf(n *control.Node) statOut {
	return statOut{entry: entryOf(n), Path: valid(n.Path), Links: n.Links, Ctime: n.Ctime, Btime: n.Btime,
		CreatedBy: n.CreatedBy, CreatedAt: n.CreatedAt, ModifiedBy: n.ModifiedBy, ModifiedAt: n.ModifiedAt}
}
