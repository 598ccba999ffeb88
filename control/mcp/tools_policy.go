package mcp

import (
	"context"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
)

func explainTool() tool {
	return define(about{name: "explain", group: "files", title: "Tell whether policy permits something", effect: reads,
		text: "Tell whether policy lets this agent do something with a path, without doing it. Mode bits and quotas are not looked at. What the agent may not know of does not exist.",
		limits: func(s *jsonschema.Schema) {
			length(s, "path", 1, maxPath)
			choice(s, "action", "see", "read", "write", "create", "remove", "move", "link")
		}}, explain)
}

type explainIn struct {
	Action string `json:"action" jsonschema:"what would be done"`
	Path   string `json:"path" jsonschema:"with what; of create, what would be made"`
}

type ruleOut struct {
	ID     string `json:"id"`
	File   string `json:"file"`
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

type explainOut struct {
	Action string    `json:"action"`
	Path   string    `json:"path"`
	Allow  bool      `json:"allow"`
	Note   string    `json:"note"`
	Rules  []ruleOut `json:"rules" jsonschema:"those that decided; told to orchestrators"`
}

func explain(ctx context.Context, s *Server, in explainIn) (explainOut, said, error) {
	got, err := s.o.Client.ExplainOwn(ctx, s.o.Agent, in.Action, s.at(in.Path))
	if err != nil {
		return explainOut{}, said{}, err
	}
	out := explainOut{Action: got.Action, Path: valid(got.Path), Allow: got.Allow, Note: got.Note, Rules: []ruleOut{}}
	verdict := "deny"
	if got.Allow {
		verdict = "allow"
	}
	text := fmt.Sprintf("%s: %s %s\n", verdict, got.Action, got.Path)
	for _, r := range got.Rules {
		out.Rules = append(out.Rules, ruleOut{r.ID, r.File, r.Line, r.Reason})
		text += fmt.Sprintf("  %s  %s:%d  %s\n", r.ID, r.File, r.Line, r.Reason)
	}
	if got.Note != "" {
		text += "  " + got.Note + "\n"
	}
	return out, said{text: text}, nil
}
