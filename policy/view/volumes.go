package view

import (
	"context"
	"errors"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/tree"
)

// EnsureVolume makes the volume spec.Label names, attaches it at its place in
// the tree, and puts its stock there. What is there already stays as it is, so
// it may be called again. NotFound when what it is attached to is missing (the
// home of a workspace).
func (s *Space) EnsureVolume(ctx context.Context, spec VolumeSpec) (backend.VolumeID, error) {
	s.change.Lock()
	defer s.change.Unlock()
	info, ok := s.tree.VolumeByLabel(spec.Label)
	if !ok {
		var err error
		if info, err = s.makeVolume(ctx, spec); err != nil {
			return 0, &backend.Error{Op: "make volume", Path: volumePath(spec.Label), Kind: backend.KindOf(err), Err: err}
		}
	}
	var pending []Pending
	err := s.tree.With(info.ID, func(tx *tree.Txn) error {
		tx.Op = tree.Op{Agent: spec.Agent, UID: backend.OwnerID, GID: backend.OwnerID}
		err := stock(tx, spec.Stock)
		s.collect(nil, tx.Changes(), &pending)
		return err
	})
	send(pending)
	if err != nil {
		return 0, &backend.Error{Op: "stock volume", Path: volumePath(spec.Label), Kind: backend.KindOf(err), Err: err}
	}
	return info.ID, nil
}

// makeVolume makes and attaches a volume, and tells every mount that sees it.
// change is held.
func (s *Space) makeVolume(ctx context.Context, spec VolumeSpec) (tree.VolumeInfo, error) {
	parent, name, err := s.place(spec.Label)
	if err != nil {
		return tree.VolumeInfo{}, err
	}
	if spec.Mode == 0 {
		spec.Mode = 0o755
	}
	before := s.surveys()
	info, changes, err := s.tree.CreateVolume(ctx, tree.VolumeSpec{
		Label: spec.Label, Parent: parent, Name: name, Mode: spec.Mode, Agent: spec.Agent})
	if err != nil {
		return info, err
	}
	s.attached.Add(1)
	err = s.announce(parent.Volume(), changes)
	s.revoke(before, nil) // a directory above it may appear with it
	return info, err
}

// announce tells the mounts of changes that were made without the notifier at
// hand. Those of the root volume are not for everybody, not even that there was
// one: a mount that sees the volume gets to know by its Revoker.
func (s *Space) announce(vol backend.VolumeID, changes []Change) error {
	if vol == s.root {
		return nil
	}
	var pending []Pending
	err := s.tree.With(vol, func(*tree.Txn) error {
		s.collect(nil, changes, &pending)
		return nil
	})
	send(pending)
	return err
}

func send(pending []Pending) {
	for _, p := range pending {
		p.Send()
	}
}

// place finds where a volume is attached.
func (s *Space) place(l Label) (parent backend.NodeID, name string, err error) {
	if l.Owner == "" || checkName(l.Owner) != nil {
		return 0, "", backend.Invalid
	}
	for i, kind := range topKinds {
		if l.Kind != kind {
			continue
		}
		err = s.tree.With(s.root, func(tx *tree.Txn) error {
			parent, _, err = tx.Lookup(backend.RootIno, topNames[i])
			return err
		})
		return parent, l.Owner, err
	}
	name = "workspace"
	switch l.Kind {
	case KindScratch:
		name = "scratch"
	case KindWorkspace:
	default:
		return 0, "", backend.Invalid
	}
	home, ok := s.tree.VolumeByLabel(Label{Kind: KindHome, Owner: l.Owner})
	if !ok {
		return 0, "", backend.NotFound
	}
	return backend.Node(home.ID, backend.RootIno), name, nil
}

// stock makes what is missing of what stands in a volume from the start. The
// volume's lock is held.
func stock(tx *tree.Txn, entries []Stock) error {
	for _, e := range entries {
		spec := tree.CreateSpec{Type: backend.TypeRegular, Mode: e.Mode}
		if e.Dir {
			spec.Type = backend.TypeDir
		}
		if e.Mode == 0 {
			spec.Mode = 0o644
			if e.Dir {
				spec.Mode = 0o755
			}
		}
		a, err := tx.Create(backend.RootIno, e.Name, spec)
		if errors.Is(err, backend.Exist) {
			continue
		}
		if err != nil {
			return err
		}
		for text := []byte(e.Text); len(text) > 0; {
			w, err := tx.Append(a.Node.Ino(), text)
			if err != nil {
				return err
			}
			text = text[w.N:]
		}
	}
	return nil
}

// RemoveVolume detaches the volume l names from the tree, in every mount at
// once; its content is reclaimed in the background. One that is not there is no
// error. Busy while others hang in it.
func (s *Space) RemoveVolume(ctx context.Context, l Label) error {
	s.change.Lock()
	defer s.change.Unlock()
	info, ok := s.tree.VolumeByLabel(l)
	if !ok {
		return nil
	}
	before := s.surveys()
	changes, err := s.tree.RemoveVolume(ctx, info.ID)
	if err != nil {
		return &backend.Error{Op: "remove volume", Path: volumePath(l), Kind: backend.KindOf(err), Err: err}
	}
	s.attached.Add(1)
	err = s.announce(info.Parent.Volume(), changes)
	s.revoke(before, nil)
	return err
}
