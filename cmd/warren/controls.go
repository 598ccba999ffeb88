package main

import (
	"context"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/fusefs"
	"github.com/warrenfs/warren/policy/view"
	"github.com/warrenfs/warren/workspace"
)

// storeConfigFile is the store's own configuration, in its directory.
const storeConfigFile = "config.toml"

// workspaceFile is the one file in a directory of /.warren/workspaces.
const workspaceFile = "workspace.toml"

// controlFiles are those that the workspace layer has in every mount, besides
// the mount's own.
func controlFiles(l *workspace.Layer) ([]fusefs.ControlFile, []fusefs.ControlFolder) {
	files := []fusefs.ControlFile{
		{Name: "context.md", Mode: 0o444, Read: func(v *view.View) ([]byte, error) {
			text, err := l.Context(v)
			return []byte(text), err
		}, Visible: hasAccess},
	}
	return files, []fusefs.ControlFolder{fieldFolder(l), publishFolder(l), workspaceFolder(l)}
}

func hasAccess(v *view.View) bool { return v.Access() != view.None }

// fieldFolder has a file for each of the agent's fields.
func fieldFolder(l *workspace.Layer) fusefs.ControlFolder {
	return fusefs.ControlFolder{
		Name: "fields", Visible: hasAccess,
		Files: func(v *view.View, _ string) []fusefs.ControlEntry {
			fields, err := l.Fields(v, "")
			if err != nil { // no workspace in this context
				return nil
			}
			var out []fusefs.ControlEntry
			for _, f := range fields {
				if workspace.FieldFile(f.Name) {
					out = append(out, fusefs.ControlEntry{Name: f.Name, Writable: !f.ReadOnly})
				}
			}
			return out
		},
		Read: func(v *view.View, _, name string) ([]byte, error) {
			f, err := l.Field(v, "", name)
			return f.Text, err
		},
		Write: func(v *view.View, _, name string, data []byte, ended bool) (bool, error) {
			return l.StageField(v, name, data, ended)
		},
		Check: func(v *view.View, _, name string) error { return l.MayStage(v, name) },
	}
}

// publishFolder has a directory for each shared agent; what is written there is
// published, and cannot be read.
func publishFolder(l *workspace.Layer) fusefs.ControlFolder {
	return fusefs.ControlFolder{
		Name:    "publish",
		Visible: func(v *view.View) bool { return hasAccess(v) && v.Role() != "shared" },
		Subs:    l.SharedAgents,
		Write: func(v *view.View, target, key string, data []byte, ended bool) (bool, error) {
			if !ended {
				return false, nil
			}
			_, err := l.PublishData(v, target, key, data)
			return err == nil, err
		},
		Check:    l.MayPublish,
		Withdraw: l.Withdraw,
	}
}

// workspaceFolder has a directory for each workspace in the view.
func workspaceFolder(l *workspace.Layer) fusefs.ControlFolder {
	return fusefs.ControlFolder{
		Name: "workspaces", Visible: hasAccess,
		Subs: func(v *view.View) []string {
			var out []string
			for _, w := range l.SeenWorkspaces(v) {
				out = append(out, w.UUID)
			}
			return out
		},
		Files: func(v *view.View, uuid string) []fusefs.ControlEntry {
			return []fusefs.ControlEntry{{Name: workspaceFile, Writable: l.MayChange(v, uuid)}}
		},
		Read: func(v *view.View, uuid, name string) ([]byte, error) {
			if name != workspaceFile {
				return nil, backend.NotFound
			}
			return l.WorkspaceFile(v, uuid)
		},
		Write: func(v *view.View, uuid, _ string, data []byte, ended bool) (bool, error) {
			if !ended {
				return false, nil
			}
			err := l.SetWorkspaceFile(context.Background(), v, uuid, data)
			return err == nil, err
		},
	}
}
