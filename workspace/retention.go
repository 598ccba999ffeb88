package workspace

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// The kinds of file that are collected by age.
const (
	KeepScratch     = "scratch"     // in agents' scratch
	KeepCaches      = "caches"      // in agents' caches, but for what commands have as HOME: of that, only .cache
	KeepScreenshots = "screenshots" // files in directories of that name in agents' workspaces and their projects
)

// keepDefault is how long a kind is kept where nobody set it; 0 is for ever.
var keepDefault = map[string]time.Duration{KeepScratch: 7 * 24 * time.Hour, KeepCaches: 0, KeepScreenshots: 0}

// minKeep is the shortest time that can be set: what a program just wrote it
// may be about to read.
const minKeep = time.Minute

const (
	// lookEvery is the interval at which the wall clock is compared with the time that
	// has really passed.
	lookEvery = time.Minute
	// saveTime bounds the time for storing what the clock knows.
	saveTime = 2 * time.Second
)

// never is how "for ever" is written.
const never = "never"

// ParseAge reads "7d", "36h" or "never" (0). Invalid: anything else, and less
// than a minute.
func ParseAge(text string) (time.Duration, error) {
	if text == never {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d < minKeep {
		return 0, fail(backend.Invalid, "age %q: say how long, at least a minute, such as 7d or 36h, or never", text)
	}
	return d, nil
}

// Retention tells how long each kind is kept; 0 is for ever.
func (r *Registry) Retention() map[string]time.Duration {
	out := maps.Clone(keepDefault)
	for kind, text := range r.Settings().Retention {
		if d, err := ParseAge(text); err == nil {
			out[kind] = d
		}
	}
	return out
}

// SetRetention sets how long a kind is kept, as ParseAge reads it.
func (r *Registry) SetRetention(ctx context.Context, kind, age string) error {
	return r.setSettings(ctx, func(s *Settings) error { return s.keep(kind, age) })
}

// keep sets how long a kind is kept.
func (s *Settings) keep(kind, age string) error {
	if _, known := keepDefault[kind]; !known {
		return fail(backend.Invalid, "%q is not one of %s", kind, strings.Join(slices.Sorted(maps.Keys(keepDefault)), ", "))
	}
	if _, err := ParseAge(age); err != nil {
		return err
	}
	if s.Retention == nil {
		s.Retention = map[string]string{}
	}
	s.Retention[kind] = age
	return nil
}

// Collected is what one round of a Collector did, or would do.
type Collected struct {
	Removed uint64 // files and directories
	Bytes   uint64 // what the files held; other names of them may hold it still
	Failed  uint64 // what could not be removed; the log says why
}

// Collector removes what is older than its kind is kept, by the wall clock and by
// the time that has really passed. Age counts from the last change of a file's content or attributes, which no program can set back
// (a file that tar has unpacked is new); reading does not count. Symlinks are not
// followed; directories go when they are empty and old.
type Collector struct {
	Registry *Registry
	Door     *view.Space
	Log      *slog.Logger // nil discards
}

// Run collects once in each interval until ctx ends.
func (c *Collector) Run(ctx context.Context, every time.Duration) {
	log := c.log()
	tick, look := time.NewTicker(every), time.NewTicker(lookEvery)
	defer tick.Stop()
	defer look.Stop()
	c.saveClock(ctx)
	for {
		select {
		case <-ctx.Done():
			c.saveClock(context.WithoutCancel(ctx))
			return
		case <-look.C:
			if by := c.Registry.clock.Check(); by != 0 {
				log.Warn("the wall clock was set; ages count by the time that has really passed", "by", by.Round(time.Second))
				c.saveClock(ctx)
			}
			continue
		case <-tick.C:
		}
		c.saveClock(ctx)
		got, err := c.Collect(ctx, false)
		if err != nil && ctx.Err() == nil {
			log.Error("collecting old files", "err", err)
		}
		if got != (Collected{}) {
			log.Info("old files collected", "removed", got.Removed, "bytes", got.Bytes, "failed", got.Failed)
		}
	}
}

// saveClock stores what the clock knows. Without it, a daemon that starts later
// believes the wall clock for the time before.
func (c *Collector) saveClock(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, saveTime)
	defer cancel()
	if err := c.Registry.SaveClock(ctx); err != nil && ctx.Err() == nil {
		c.log().Warn("how much time has really passed is not stored", "err", err)
	}
}

func (c *Collector) log() *slog.Logger {
	if c.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Log
}

// Collect does one round. dry: it removes nothing, and tells what it would.
func (c *Collector) Collect(ctx context.Context, dry bool) (Collected, error) {
	v, err := c.Door.Open(view.Options{Administrator: true, UID: backend.OwnerID, GID: backend.OwnerID})
	if err != nil {
		return Collected{}, err
	}
	r := &round{ctx: ctx, v: v, dry: dry, log: c.log()}
	for kind, keep := range c.Registry.Retention() {
		if keep == 0 {
			continue
		}
		r.before = backend.TimeOf(c.Registry.clock.Before(keep))
		for _, a := range c.Registry.Agents() {
			if err := r.agent(kind, "/agents/"+a.Key); err != nil {
				return r.got, err
			}
		}
	}
	return r.got, nil
}

// round is one Collect under way.
type round struct {
	ctx    context.Context
	v      *view.View
	dry    bool
	log    *slog.Logger
	before backend.Time // what changed last before it goes
	// at tells whether what is in a directory at a path of its volume is of the
	// kind: it may be moved away meanwhile. nil: all of the volume is.
	at  func(dir string) bool
	got Collected
}

// agent collects one kind below an agent's home.
func (r *round) agent(kind, home string) error {
	switch kind {
	case KeepScratch:
		r.at = nil
		// Runs have scratch/tmp as /tmp while it is empty as well.
		return r.below(r.dir(home+"/scratch"), "tmp")
	case KeepCaches:
		r.at = inCaches
		return errors.Join(r.below(r.dir(home+"/caches"), "home"), r.below(r.dir(home+"/caches/home/.cache"), ""))
	}
	r.at = inScreenshots
	work := r.dir(home + "/workspace")
	list, err := r.list(work)
	for _, e := range list {
		if err != nil {
			return err
		}
		switch {
		case e.Type != backend.TypeDir:
		case e.Name == KeepScreenshots:
			err = r.files(e.Node)
		default:
			if a, lerr := r.v.Lookup(nil, e.Node, KeepScreenshots); lerr == nil && a.IsDir() {
				err = r.files(a.Node)
			}
		}
	}
	return err
}

// inCaches tells whether what stands in a directory of a home is collected.
func inCaches(dir string) bool {
	rest, ok := strings.CutPrefix(dir+"/", "caches/")
	return ok && (!strings.HasPrefix(rest, "home/") || strings.HasPrefix(rest, "home/.cache/"))
}

// inScreenshots tells whether the files in a directory of a workspace are collected.
func inScreenshots(dir string) bool {
	up, name := path.Split(dir)
	return name == KeepScreenshots && strings.Count(up, "/") <= 1
}

// dir finds a directory, following no link at its end; 0: there is none.
func (r *round) dir(path string) backend.NodeID {
	f, err := r.v.Find(path, false)
	if err != nil || !f.Attr.IsDir() {
		return 0
	}
	return f.Attr.Node
}

func (r *round) list(dir backend.NodeID) ([]view.Dirent, error) {
	if err := r.ctx.Err(); err != nil || dir == 0 {
		return nil, err
	}
	list, err := r.v.List(nil, dir)
	if errors.Is(err, backend.NotFound) {
		err = nil
	}
	return list, err
}

// below collects all that is below dir. The directory spare in it stays; what is
// in that goes unless it is a home.
func (r *round) below(dir backend.NodeID, spare string) error {
	list, err := r.list(dir)
	for _, e := range list {
		if err != nil {
			return err
		}
		if e.Type != backend.TypeDir {
			err = r.remove(dir, e)
			continue
		}
		if e.Name == spare && spare == "home" {
			continue
		}
		if err = r.below(e.Node, ""); err == nil && e.Name != spare {
			err = r.remove(dir, e)
		}
	}
	return err
}

// files collects the files in dir.
func (r *round) files(dir backend.NodeID) error {
	list, err := r.list(dir)
	for _, e := range list {
		if err == nil && e.Type == backend.TypeRegular {
			err = r.remove(dir, e)
		}
	}
	return err
}

// remove removes e if it is old. What cannot be removed is counted and logged.
func (r *round) remove(dir backend.NodeID, e view.Dirent) error {
	if err := r.ctx.Err(); err != nil {
		return err
	}
	a, err := r.v.Getattr(nil, e.Node)
	if err != nil || !view.Older(&a, r.before) {
		return nil // it went, or stays
	}
	if !r.dry {
		err = r.v.RemoveOlder(dir, e.Name, a.IsDir(), r.before, r.at)
	} else if a.IsDir() {
		return nil // whether it will be empty is not known
	}
	switch {
	case err == nil:
		r.got.Removed++
		if a.Nlink == 1 && !a.IsDir() {
			r.got.Bytes += a.Blocks * 512
		}
	case errors.Is(err, backend.NotEmpty), errors.Is(err, backend.NotFound), errors.Is(err, backend.Conflict):
	default:
		r.got.Failed++
		r.log.Warn("an old file stays", "dir", dir.String(), "err", err)
	}
	return nil
}
