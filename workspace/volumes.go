package workspace

import (
	"context"
	"errors"
	"slices"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

// Space is what the registry needs of the tree: volumes, and facts put in
// force. *view.Space is one.
type Space interface {
	// EnsureVolume makes a volume with its stock unless it is there; it may
	// run again after a crash.
	EnsureVolume(ctx context.Context, spec view.VolumeSpec) (backend.VolumeID, error)
	// RemoveVolume removes a volume with all in it. NotFound: there is none.
	RemoveVolume(ctx context.Context, l view.Label) error
	// Publish puts facts in force, in every mount, before it returns. After an
	// error the old ones are.
	Publish(ctx context.Context, f policy.Facts) error
	// Check tells what Publish would say, and changes nothing.
	Check(f policy.Facts) error
}

// volume is one that a record wants.
type volume = view.VolumeSpec

// DefaultWorkspace is the device workspace that is there from the start.
const DefaultWorkspace = "default"

// The files of a new home. An agent's own description is the orchestrator's to
// write, so they say no more than what they are for.
const (
	soulText   = "# Soul\n\nWho this agent is and what it is for. The orchestrator writes this file; the agent reads it.\n"
	configText = "# Settings of this agent, over those of the store. The orchestrator writes this file.\n"
	fieldsText = "{\n  \"type\": \"object\",\n  \"properties\": {}\n}\n"
)

// agentVolumes are an agent's home and the two inside it, outer first.
func agentVolumes(key string) []volume {
	return []volume{
		{Label: view.Label{Kind: view.KindHome, Owner: key}, Mode: 0o755, Stock: []view.Stock{
			{Name: "soul.md", Text: soulText},
			{Name: "config.toml", Text: configText},
			{Name: "fields.json", Text: fieldsText},
			{Name: "skills", Dir: true},
			{Name: "session.md"},
			{Name: "notes", Dir: true},
			{Name: "caches", Dir: true},
			{Name: "memory", Dir: true},
			{Name: "mcp", Dir: true},
		}},
		{Label: view.Label{Kind: view.KindWorkspace, Owner: key}, Mode: 0o755},
		{Label: view.Label{Kind: view.KindScratch, Owner: key}, Mode: 0o755},
	}
}

func userVolumes(id string) []volume {
	return []volume{{Label: view.Label{Kind: view.KindUser, Owner: id}, Mode: 0o755}}
}

func projectVolumes(slug string) []volume {
	return []volume{{Label: view.Label{Kind: view.KindProject, Owner: slug}, Mode: 0o755}}
}

// storeVolumes are there whatever the records say.
func storeVolumes() []volume { return deviceVolumes(DefaultWorkspace) }

// ensure makes volumes, outer first.
func (r *Registry) ensure(ctx context.Context, vols []volume) error {
	for _, v := range vols {
		if _, err := r.space.EnsureVolume(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// dropVolumes removes volumes, inner first; those that are not there are no
// error.
func (r *Registry) dropVolumes(ctx context.Context, vols []volume) error {
	for _, v := range slices.Backward(vols) {
		if err := r.space.RemoveVolume(ctx, v.Label); err != nil && !errors.Is(err, backend.NotFound) {
			return err
		}
	}
	return nil
}
