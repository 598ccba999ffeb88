package workspace

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// maxRoomFile bounds what a workspace.toml is to be, in bytes.
const maxRoomFile = 16 << 10

// roomFile is a workspace.toml.
type roomFile struct {
	UUID     string    `toml:"uuid"`
	Name     string    `toml:"name"`
	Kind     string    `toml:"kind"`
	Created  time.Time `toml:"created_at"`
	Accessed time.Time `toml:"last_accessed"`
	Provider string    `toml:"provider,omitempty"`
}

func (w *Workspace) file() roomFile {
	return roomFile{UUID: w.UUID, Name: w.Name, Kind: w.Kind, Provider: w.Provider,
		Created: w.Created.Truncate(time.Second), Accessed: w.Accessed.Truncate(time.Second)}
}

// WorkspaceFile is the workspace.toml of a workspace in the asker's view.
// NotFound.
func (l *Layer) WorkspaceFile(v *view.View, uuid string) ([]byte, error) {
	w, err := l.SeenWorkspace(v, uuid)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := toml.NewEncoder(&b)
	e.Indent = ""
	err = e.Encode(w.file())
	return b.Bytes(), err
}

// SetWorkspaceFile takes what a workspace.toml is to be: name and provider are
// taken over. Denied: something else was changed, or the asker may not write in
// that workspace; Invalid: it is no such file.
func (l *Layer) SetWorkspaceFile(ctx context.Context, v *view.View, uuid string, data []byte) error {
	w, err := l.SeenWorkspace(v, uuid)
	if err != nil {
		return err
	}
	if len(data) > maxRoomFile {
		return fail(backend.TooBig, "workspace.toml has at most %d bytes", maxRoomFile)
	}
	now, next := w.file(), w.file()
	next.Provider = ""
	err = checkTOML(string(data))
	var meta toml.MetaData
	if err == nil {
		meta, err = toml.Decode(string(data), &next)
	}
	if err != nil {
		return fail(backend.Invalid, "workspace.toml: %v", err)
	}
	if left := meta.Undecoded(); len(left) > 0 {
		return fail(backend.Invalid, "workspace.toml has no %s", left[0])
	}
	if !meta.IsDefined("name") {
		return fail(backend.Invalid, "workspace.toml: the name is missing")
	}
	for what, same := range map[string]bool{"uuid": next.UUID == now.UUID, "kind": next.Kind == now.Kind,
		"created_at": next.Created.Equal(now.Created), "last_accessed": !next.Accessed.After(now.Accessed)} {
		if !same {
			return fail(backend.Denied, "workspace.toml: %s cannot be changed, only name and provider can", what)
		}
	}
	var name, provider *string
	if next.Name != now.Name {
		name = &next.Name
	}
	if next.Provider != now.Provider {
		provider = &next.Provider
	}
	if name == nil && provider == nil {
		return nil
	}
	if _, err := l.SetWorkspace(ctx, v, uuid, name, provider); err != nil {
		return fmt.Errorf("workspace.toml: %w", err)
	}
	return nil
}
