package badger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"

	"github.com/dgraph-io/badger/v4"
	"github.com/warrenfs/warren/backend"
)

// fail wraps err, if it is one, with what was tried and where.
func fail(op, where string, err error) error {
	if err == nil {
		return nil
	}
	return &backend.Error{Op: op, Path: where, Kind: kindOf(err), Err: err}
}

// kindOf sorts Badger's and the system's errors. Most of Badger's own have lost
// their cause on the way and are IO.
func kindOf(err error) backend.Kind {
	switch {
	case errors.Is(err, badger.ErrTxnTooBig):
		return backend.TooBig
	case errors.Is(err, badger.ErrDBClosed), errors.Is(err, badger.ErrBlockedWrites):
		return backend.Unavailable
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return backend.NoSpace
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return backend.Denied
	case errors.Is(err, syscall.EROFS):
		return backend.DiskReadOnly
	case errors.Is(err, syscall.ENOTDIR):
		return backend.NotDir
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return backend.Interrupted
	}
	if k := backend.KindOf(err); k != backend.Other {
		return k
	}
	return backend.IO
}

// failf makes an error of the package's own.
func failf(op, where string, kind backend.Kind, format string, args ...any) error {
	return &backend.Error{Op: op, Path: where, Kind: kind, Err: fmt.Errorf(format, args...)}
}

func interrupted(ctx context.Context, op string) error {
	return &backend.Error{Op: op, Kind: backend.Interrupted, Err: ctx.Err()}
}

// damaged is err for bytes that are there and wrong, and what to do about it.
func damaged(op, dir string, err error) error {
	return failf(op, dir, backend.IO, "the store is damaged: %w; restore it from a backup, or check the disk and try again", err)
}

// openFailed sorts out why a directory could not be opened: the system refused
// something, or what it gave is wrong. A file that should be there is damage.
func openFailed(dir string, err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != syscall.ENOENT || backend.KindOf(err) != backend.Other {
		return fail("open store", dir, err)
	}
	return damaged("open store", dir, err)
}

// logger hands Badger's messages on. What Badger takes for worth an Info is of
// interest when debugging only. One of them is where a compaction can be held.
type logger struct {
	log  *slog.Logger
	room *room // nil: nothing is held
}

var _ badger.Logger = logger{}

func (l logger) say(level slog.Level, format string, args []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "badger: "+strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

func (l logger) Errorf(format string, args ...any)   { l.say(slog.LevelError, format, args) }
func (l logger) Warningf(format string, args ...any) { l.say(slog.LevelWarn, format, args) }
func (l logger) Infof(format string, args ...any)    { l.say(slog.LevelDebug, format, args) }

// Debugf holds a compaction while no table could be made.
func (l logger) Debugf(format string, _ ...any) {
	if l.room != nil && strings.HasPrefix(format, compacting) {
		l.room.beforeTable()
	}
}
