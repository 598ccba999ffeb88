package fusefs

import (
	"bytes"
	"context"
	"io"
	"log/slog"
)

// LibraryLog gives what the log package of the standard library must write to in
// a process that has mounts. go-fuse knows a logger for most that it has to say,
// but prints requests that it makes no sense of there, all their bytes; and what
// prints there would go to stderr past l. log's own flags must be 0: l has the
// time. With nil for l it discards.
//
// Of a request that makes no sense, only which kind it was is told, at Debug: what
// is in it may be an agent's names and content, and an agent may send as many as it
// likes. What else is printed there nobody expects: that is a Warn. Safe for use
// by several goroutines at once, as l is.
func LibraryLog(l *slog.Logger) io.Writer {
	if l == nil {
		return io.Discard
	}
	return printed{l}
}

// printed is what LibraryLog gives.
type printed struct{ log *slog.Logger }

func (p printed) Write(b []byte) (int, error) {
	line := bytes.TrimSpace(b)
	if rest, ok := bytes.CutPrefix(line, []byte("Short read for ")); ok {
		kind, _, _ := bytes.Cut(rest, []byte(":"))
		p.log.Debug("a request of a kernel is cut short", "kind", string(kind))
	} else {
		p.log.Warn("a library says", "line", string(line))
	}
	return len(b), nil
}

// libraryLog takes what go-fuse says of a mount to its logger.
type libraryLog struct{ log *slog.Logger }

func (w libraryLog) Write(b []byte) (int, error) {
	if w.log.Enabled(context.Background(), slog.LevelDebug) {
		w.log.Debug("go-fuse", "line", string(bytes.TrimSpace(b)))
	}
	return len(b), nil
}
