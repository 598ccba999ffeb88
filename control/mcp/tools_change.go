package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/warrenfs/warren/control"
)

func changeTools() []tool {
	path := func(s *jsonschema.Schema) { length(s, "path", 1, maxPath) }
	return []tool{
		define(about{name: "write", group: "files", title: "Write a file", effect: replaces, limits: writeLimits,
			text: "Write a whole file, or add to the end of one; the file is changed whole or not at all and keeps its mode. Pass the etag you have read as if_match so as not to overwrite what others wrote since; no_clobber only makes new files."},
			write),
		define(about{name: "edit", group: "files", title: "Edit a file", effect: replaces, limits: editLimits,
			text: "Replace text in a file, as one step. Each old text must be there exactly once, unless all is set. Line ends and mode are kept. dry_run only shows the unified diff."},
			edit),
		define(about{name: "move", group: "files", title: "Move a file or directory", effect: adds,
			text: "Rename a file or directory inside one volume (a workspace, a project); never replaces what is there. If to is a directory, it goes into that.",
			limits: func(s *jsonschema.Schema) {
				length(s, "from", 1, maxPath)
				length(s, "to", 1, maxPath)
				length(s, "if_match", 1, 200)
			}}, move),
		define(about{name: "mkdir", group: "files", title: "Make a directory", effect: adds, limits: path,
			text: "Make a directory; with parents also those above it, and one that is there already is no error."}, mkdir),
		define(about{name: "remove", group: "files", title: "Remove a file or directory", effect: settles,
			limits: func(s *jsonschema.Schema) {
				path(s)
				length(s, "if_match", 1, 200)
			},
			text: "Remove a file or an empty directory; with recursive a directory with all in it; with if_match a file only if it still has that etag."}, remove),
	}
}

type writeIn struct {
	Path      string `json:"path" jsonschema:"file to write"`
	Content   string `json:"content" jsonschema:"at most 8 MiB"`
	Encoding  string `json:"encoding,omitempty" jsonschema:"of content: utf-8 (default) or base64"`
	Mode      string `json:"mode,omitempty" jsonschema:"overwrite (default) or append"`
	IfMatch   string `json:"if_match,omitempty" jsonschema:"fail with a conflict unless the file has this etag"`
	NoClobber bool   `json:"no_clobber,omitempty" jsonschema:"fail with a conflict if the file is there"`
}

func writeLimits(s *jsonschema.Schema) {
	length(s, "path", 1, maxPath)
	length(s, "content", 0, 12<<20)
	length(s, "if_match", 1, 200)
	choice(s, "encoding", "utf-8", "base64")
	choice(s, "mode", "overwrite", "append")
}

type writeOut struct {
	Path string `json:"path" jsonschema:"tree path"`
	Etag string `json:"etag" jsonschema:"of what was written"`
	Size uint64 `json:"size" jsonschema:"of the file, in bytes"`
	Mode string `json:"mode" jsonschema:"permission bits, octal"`
}

func write(ctx context.Context, s *Server, in writeIn) (writeOut, said, error) {
	data := []byte(in.Content)
	if in.Encoding == "base64" {
		var err error
		if data, err = base64.StdEncoding.DecodeString(in.Content); err != nil {
			return writeOut{}, said{}, control.Errorf(control.KindInvalid, "content: %v", err)
		}
	}
	if len(data) > control.MaxPiece {
		return writeOut{}, said{}, control.Errorf(control.KindInvalid, "content: it has %d bytes, and at most %d are written at once", len(data), control.MaxPiece)
	}
	n, err := s.o.Client.WriteIf(ctx, s.o.Agent, s.at(in.Path), io.NopCloser(bytes.NewReader(data)),
		control.Writing{IfMatch: in.IfMatch, NoClobber: in.NoClobber, Append: in.Mode == "append"})
	if err != nil {
		return writeOut{}, said{}, err
	}
	out := writeOut{Path: valid(n.Path), Etag: n.Etag, Size: n.Size, Mode: n.Mode}
	return out, said{text: fmt.Sprintf("%s: %d bytes\n", out.Path, out.Size)}, nil
}

type editIn struct {
	Path    string        `json:"path" jsonschema:"file to edit"`
	Edits   []replacement `json:"edits" jsonschema:"made one after the other, all or none"`
	IfMatch string        `json:"if_match,omitempty" jsonschema:"fail with a conflict unless the file has this etag"`
	DryRun  bool          `json:"dry_run,omitempty" jsonschema:"show what would change, and change nothing"`
}

type replacement struct {
	Old string `json:"old" jsonschema:"text that is there exactly once"`
	New string `json:"new" jsonschema:"what comes in its place"`
	All bool   `json:"all,omitempty" jsonschema:"every place where old is"`
}

func editLimits(s *jsonschema.Schema) {
	least, most := 1, 100
	length(s, "path", 1, maxPath)
	length(s, "if_match", 1, 200)
	s.Properties["edits"].MinItems, s.Properties["edits"].MaxItems = &least, &most
	length(s.Properties["edits"].Items, "old", 1, 1<<20)
	length(s.Properties["edits"].Items, "new", 0, 1<<20)
}

type editOut struct {
	Path     string `json:"path" jsonschema:"tree path"`
	Etag     string `json:"etag" jsonschema:"of the file as it is now"`
	Size     uint64 `json:"size" jsonschema:"of the file with the edits, in bytes"`
	Mode     string `json:"mode" jsonschema:"permission bits, octal"`
	Replaced int    `json:"replaced" jsonschema:"how many places"`
	Diff     string `json:"diff" jsonschema:"unified"`
	Cut      bool   `json:"diff_truncated,omitempty"`
	DryRun   bool   `json:"dry_run"`
}

func edit(ctx context.Context, s *Server, in editIn) (editOut, said, error) {
	e := control.Edit{Agent: s.o.Agent, Path: s.at(in.Path), IfMatch: in.IfMatch, DryRun: in.DryRun}
	for _, r := range in.Edits {
		e.Edits = append(e.Edits, control.Replacement(r))
	}
	got, err := s.o.Client.Edit(ctx, e)
	if err != nil {
		return editOut{}, said{}, err
	}
	return editOut(got), said{text: got.Diff}, nil
}

type moveIn struct {
	From    string `json:"from"`
	To      string `json:"to" jsonschema:"new path, or a directory to move into"`
	IfMatch string `json:"if_match,omitempty" jsonschema:"fail with a conflict unless from is a file with this etag"`
}

func move(ctx context.Context, s *Server, in moveIn) (statOut, said, error) {
	n, err := s.o.Client.Move(ctx, control.Move{Agent: s.o.Agent, From: s.at(in.From), To: s.at(in.To), IfMatch: in.IfMatch})
	if err != nil {
		return statOut{}, said{}, err
	}
	return statOf(&n), said{text: fmt.Sprintf("now %s\n", valid(n.Path))}, nil
}

type mkdirIn struct {
	Path    string `json:"path"`
	Parents bool   `json:"parents,omitempty" jsonschema:"make missing parents too; one that exists is no error"`
}

func mkdir(ctx context.Context, s *Server, in mkdirIn) (statOut, said, error) {
	n, err := s.o.Client.MakeDir(ctx, control.MakeDir{Agent: s.o.Agent, Path: s.at(in.Path), Parents: in.Parents})
	if err != nil {
		return statOut{}, said{}, err
	}
	return statOf(&n), said{text: fmt.Sprintf("made %s\n", valid(n.Path))}, nil
}

type removeIn struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"a directory with all in it"`
	IfMatch   string `json:"if_match,omitempty" jsonschema:"fail with a conflict unless it is a file with this etag"`
}

type removeOut struct {
	Removed string `json:"removed" jsonschema:"the path, as it was given"`
}

func remove(ctx context.Context, s *Server, in removeIn) (removeOut, said, error) {
	var err error
	switch {
	case in.IfMatch == "":
		err = s.o.Client.Remove(ctx, s.o.Agent, s.at(in.Path), in.Recursive)
	case in.Recursive:
		err = control.Errorf(control.KindInvalid, "if_match is for one file, recursive for a directory")
	default:
		err = s.o.Client.RemoveIf(ctx, s.o.Agent, s.at(in.Path), in.IfMatch)
	}
	if err != nil {
		return removeOut{}, said{}, err
	}
	return removeOut{Removed: in.Path}, said{text: "removed " + in.Path + "\n"}, nil
}
