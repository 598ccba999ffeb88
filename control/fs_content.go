package control

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// MaxPiece is the most bytes that one ReadPiece gives, 8 MiB.
const MaxPiece = 8 << 20

// The headers of an answer that is a piece of a file.
const (
	HeaderPath   = "Warren-Path"   // tree path, percent-encoded
	HeaderMode   = "Warren-Mode"   // as in Node
	HeaderSize   = "Warren-Size"   // of the whole file, bytes
	HeaderOffset = "Warren-Offset" // of the first byte of the body
	HeaderLine   = "Warren-Line"   // number of the first line of the body, where lines were asked for
	HeaderLines  = "Warren-Lines"  // how many lines the whole file has, where that came to be known
)

// Part says which part of a file is wanted: bytes, or lines if Line is set.
type Part struct {
	Offset uint64 // in bytes
	Length uint64 // in bytes, MaxPiece at most; 0: as many as there are, up to that
	Line   int    // number of the first line wanted, from 1
	Lines  int    // how many; 0: as many as there are
	// IfMatch: KindConflict unless the file has this etag.
	IfMatch string
}

// Piece is a part of a file, all of one moment.
type Piece struct {
	Data   []byte
	Path   string // tree path
	Mode   string // four octal digits
	Etag   string
	Size   uint64 // of the whole file
	Offset uint64 // of Data
	// Line is the number of the first line of Data; 0: bytes were asked for.
	Line int
	// Lines is how many lines the whole file has; 0: not known.
	Lines int
}

// End tells whether p reaches to the end of the file.
func (p *Piece) End() bool { return p.Offset+uint64(len(p.Data)) >= p.Size }

// Read copies a file's bytes to w.
func (c *Client) Read(ctx context.Context, agent, path string, w io.Writer) error {
	return c.ReadIf(ctx, agent, path, "", w)
}

// ReadIf is Read of a file that has etag ("": any). KindConflict: it has another.
func (c *Client) ReadIf(ctx context.Context, agent, path, etag string, w io.Writer) error {
	resp, err := c.send(ctx, http.MethodGet, "/v1/fs/content", query("agent", agent, "path", path, "if_match", etag), nil)
	if err != nil {
		return err
	}
	defer drain(resp.Body)
	if _, err := io.Copy(w, resp.Body); err != nil {
		return c.broken(ctx, fmt.Errorf("%s: %w", path, err))
	}
	return nil
}

// ReadPiece gives a part of a file. Lines that do not fit in max bytes (0:
// MaxPiece) are left out, but a first line that does not is cut.
// KindConflict: the file has another etag than asked for, or changed too often
// while its lines were counted.
func (c *Client) ReadPiece(ctx context.Context, agent, path string, part Part) (Piece, error) {
	q := query("agent", agent, "path", path, "if_match", part.IfMatch)
	if part.Line > 0 {
		q.Set("line", strconv.Itoa(part.Line))
		if part.Lines > 0 {
			q.Set("lines", strconv.Itoa(part.Lines))
		}
	} else {
		q.Set("offset", strconv.FormatUint(part.Offset, 10))
	}
	length := part.Length
	if length == 0 {
		length = MaxPiece
	}
	q.Set("length", strconv.FormatUint(length, 10))
	resp, err := c.send(ctx, http.MethodGet, "/v1/fs/content", q, nil)
	if err != nil {
		return Piece{}, err
	}
	defer drain(resp.Body)
	p := Piece{Mode: resp.Header.Get(HeaderMode), Etag: strings.Trim(resp.Header.Get("ETag"), `"`)}
	p.Path, _ = url.PathUnescape(resp.Header.Get(HeaderPath))
	p.Size, _ = strconv.ParseUint(resp.Header.Get(HeaderSize), 10, 64)
	p.Offset, _ = strconv.ParseUint(resp.Header.Get(HeaderOffset), 10, 64)
	p.Line, _ = strconv.Atoi(resp.Header.Get(HeaderLine))
	p.Lines, _ = strconv.Atoi(resp.Header.Get(HeaderLines))
	if p.Data, err = io.ReadAll(resp.Body); err != nil {
		return p, c.broken(ctx, fmt.Errorf("%s: %w", path, err))
	}
	return p, nil
}

// Writing says how a file is written.
type Writing struct {
	Mode uint32 // permission bits; 0 keeps an existing file's, and is 0644 for a new one
	// IfMatch: KindConflict unless the file has this etag; KindNotFound if it is
	// not there.
	IfMatch   string
	NoClobber bool // KindConflict if there is a file
	// Append adds to the end of what is there, as one step; at most MaxPiece
	// bytes. Else the file is replaced whole.
	Append bool
}

// Write makes or replaces a file with all of r, whole or not at all. A mode of
// 0 keeps an existing file's, and is 0644 for a new one.
func (c *Client) Write(ctx context.Context, agent, path string, r io.Reader, mode uint32) (Node, error) {
	return c.WriteIf(ctx, agent, path, r, Writing{Mode: mode})
}

// WriteIf writes all of r to a file, whole or not at all. The etag of the answer
// is that of what was written.
func (c *Client) WriteIf(ctx context.Context, agent, path string, r io.Reader, w Writing) (Node, error) {
	var n Node
	q := query("agent", agent, "path", path, "if_match", w.IfMatch)
	if w.Mode != 0 {
		q.Set("mode", fmt.Sprintf("%04o", w.Mode))
	}
	if w.NoClobber {
		q.Set("no_clobber", "true")
	}
	if w.Append {
		q.Set("append", "true")
	}
	resp, err := c.send(ctx, http.MethodPut, "/v1/fs/content", q, r)
	if err != nil {
		return n, err
	}
	defer drain(resp.Body)
	return n, c.decode(ctx, resp.Body, &n)
}
