package main

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
	"github.com/warrenfs/warren/control"
	"github.com/warrenfs/warren/control/server"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// offlineLog shows warnings of a command that opens a store itself.
func offlineLog(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// checkOffline is fsck of a store that no daemon has open. The tree is not
// opened: it may be too broken for that.
func checkOffline(ctx context.Context, dir string, repair, acceptLoss bool, progress func(done, total uint64), warnings io.Writer) (r control.Check, err error) {
	s, err := openBroken(ctx, dir, acceptLoss, offlineLog(warnings))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.kv.Close(), s.lock.Close()) }()
	var mended []control.Problem
	if repair {
		err := tree.Repair(ctx, s.kv, s.content, tree.CheckOptions{Progress: progress}, func(p tree.Problem) {
			mended = append(mended, problem(p))
		})
		if err != nil {
			return r, err
		}
	}
	r, err = server.Check(ctx, func(ctx context.Context, progress func(done, total uint64), report func(control.Problem)) error {
		if !repair { // which may just have set one aside
			if err := s.checkLog(report); err != nil {
				return err
			}
		}
		return tree.Check(ctx, s.kv, s.content, tree.CheckOptions{Content: true, Progress: progress},
			func(p tree.Problem) { report(problem(p)) })
	}, progress)
	r.Repaired = mended
	return r, err
}

// openBroken opens a store without its tree, and with acceptLoss also where its
// log is damaged. Both the log and the lock are the
// caller's to close.
func openBroken(ctx context.Context, dir string, acceptLoss bool, log *slog.Logger) (*store, error) {
	s := &store{dir: dir, acceptLoss: acceptLoss, mending: true}
	if err := s.owned(); err != nil {
		return nil, err
	}
	if err := s.take(); err != nil {
		return nil, err
	}
	err := s.readFormat(newStore{})
	if err == nil {
		err = s.openKeys(ctx, log)
	}
	if err != nil {
		return nil, errors.Join(err, s.lock.Close())
	}
	return s, nil
}

// openOffline opens the registry of a store that no daemon has open, or makes
// the store, with the named driver of content. The function lets go of it.
func openOffline(ctx context.Context, dir, content string, warnings io.Writer) (adder, func() error, error) {
	log := offlineLog(warnings)
	s, err := openStore(ctx, dir, newStore{Make: true, Content: content}, log)
	if err != nil {
		return nil, nil, err
	}
	_, r, err := openSpace(ctx, s, log, func(*view.Space) {})
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return offline{r}, s.Close, nil
}

// offline is an adder on a store that no daemon holds.
type offline struct{ r *workspace.Registry }

func (o offline) AddUser(ctx context.Context, s control.UserSpec) (control.User, error) {
	u, err := o.r.AddUser(ctx, s.ID, s.Name, s.Email)
	return control.User{ID: u.ID}, kinded(err)
}

func (o offline) AddAgent(ctx context.Context, s control.AgentSpec) (control.Agent, error) {
	g, err := o.r.AddAgent(ctx, workspace.AgentSpec{Key: s.Key, Role: policy.Role(s.Role), User: s.User})
	return control.Agent{Key: g.Key}, kinded(err)
}

// kinded gives an error of the registry the kind that the API would.
func kinded(err error) error {
	if err == nil {
		return nil
	}
	kinds := map[backend.Kind]control.Kind{backend.NotFound: control.KindNotFound, backend.Exist: control.KindConflict,
		backend.Invalid: control.KindInvalid, backend.NoSpace: control.KindQuota}
	kind, ok := kinds[backend.KindOf(err)]
	if !ok {
		return err
	}
	text := err.Error()
	var e *backend.Error
	if errors.As(err, &e) && e.Op == "" && e.Err != nil {
		text = e.Err.Error()
	}
	return control.Errorf(kind, "%s", text)
}

// offlineStore calls fn with a store that no daemon has open.
func offlineStore(ctx context.Context, dir string, warnings io.Writer, fn func(backend.Store) error) error {
	s, err := openStore(ctx, dir, newStore{}, offlineLog(warnings))
	if err != nil {
		return err
	}
	return errors.Join(kinded(fn(s.kv)), closeWithin(s, storeCloseTime))
}

// storedPolicies lists the policy files of a store that no daemon has open.
func storedPolicies(ctx context.Context, a *app, dir string) (out []control.PolicyFile, err error) {
	out = []control.PolicyFile{}
	err = offlineStore(ctx, dir, a.stderr, func(s backend.Store) error {
		files, err := workspace.StoredPolicies(ctx, s)
		for _, f := range files {
			out = append(out, control.PolicyFile(f))
		}
		return err
	})
	return out, err
}

// dropPolicy takes a policy file out of a store that no daemon has open.
func dropPolicy(ctx context.Context, a *app, dir, name string) error {
	return offlineStore(ctx, dir, a.stderr, func(s backend.Store) error { return workspace.DropPolicy(ctx, s, name) })
}
