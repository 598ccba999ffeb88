package policy

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"
)

// Engine holds the rules in force. All its methods may be called from any
// goroutine.
type Engine struct {
	log       *slog.Logger
	validator *validate.Validator
	lastSet   atomic.Uint32 // of grants, that any epoch numbered

	swap sync.Mutex // one Swap at a time
	cur  atomic.Pointer[snapshot]
	past uint64 // decisions remembered in earlier epochs; guarded by swap

	evaluations atomic.Uint64
}

// snapshot is everything one epoch decides with. It never changes, but for
// what it remembers.
type snapshot struct {
	epoch uint64
	facts *Facts
	names *names
	rules *ruleset
	world *world

	grants  map[string]*agentGrants // by agent
	granted map[Resource]bool       // volumes of which a part is granted

	mu         sync.Mutex
	principals map[identity]*Principal
}

type identity struct {
	agent string // "" and admin: the administrator
	mount AccessMode
	admin bool
}

// New makes an engine with the view rules and no facts: nobody may do
// anything. log may be nil.
func New(log *slog.Logger) (*Engine, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	v, err := newValidator(schemaText)
	if err != nil {
		return nil, err
	}
	e := &Engine{log: log, validator: v}
	if err := e.Swap(Facts{}); err != nil {
		return nil, err
	}
	return e, nil
}

// Swap checks f whole and then lets it take effect at once, for every principal
// that is looked up after it returned. After an error, which tells all that is
// wrong, nothing has changed.
func (e *Engine) Swap(f Facts) error {
	e.swap.Lock()
	defer e.swap.Unlock()
	s, err := e.build(f.clone(), defaultText)
	if err != nil {
		return err
	}
	s.epoch = 1
	if old := e.cur.Load(); old != nil {
		s.epoch = old.epoch + 1
		e.past += old.hits()
	}
	e.cur.Store(s)
	e.log.Debug("policy in force", "epoch", s.epoch, "rules", len(s.rules.all), "agents", len(s.facts.Agents))
	return nil
}

// build makes a snapshot of f with the given view rules. e.swap is not needed.
func (e *Engine) build(f *Facts, defaults string) (*snapshot, error) {
	if err := f.validate(); err != nil {
		return nil, fmt.Errorf("policy facts: %w", err)
	}
	sets := newGrantSets(&e.lastSet)
	s := &snapshot{facts: f, names: compileNames(f.Settings), world: newWorld(f, sets), principals: map[identity]*Principal{}}
	s.grants, s.granted = compileGrants(f, sets)
	files := []File{{Name: defaultFile, Text: defaults}, {Name: settingsFile, Text: compileSettings(f, s.names)}}
	set, err := load(e.validator, append(files, f.Extra...))
	if err != nil {
		return nil, err
	}
	s.rules = set
	var errs []error
	for _, r := range set.all {
		if !set.tried[r.file] {
			errs = append(errs, s.examples(r))
		}
	}
	return s, errors.Join(errs...)
}

// Check tells what Swap would say, and changes nothing.
func (e *Engine) Check(f Facts) error {
	_, err := e.build(f.clone(), defaultText)
	return err
}

// Epoch counts the Swaps. It only grows.
func (e *Engine) Epoch() uint64 { return e.cur.Load().epoch }

// Facts gives the facts in force. They must not be changed.
func (e *Engine) Facts() *Facts { return e.cur.Load().facts }

// NameDenied finds the entry of the deny-list that name, the last component of
// a path, meets. Exceptions are not considered: see [Engine.NameExcepted].
func (e *Engine) NameDenied(name string) (glob string, denied bool) {
	return e.cur.Load().names.denied(name)
}

// NameExcepted tells whether the file at this absolute tree path may be used
// in spite of a name on the deny-list.
func (e *Engine) NameExcepted(file string) bool { return e.cur.Load().names.excepted(file) }
