package control

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
)

// The layers a setting can come from, weakest first.
const (
	OriginStore       = "store"       // the store's config.toml
	OriginWorkspace   = "workspace"   // the workspace's, or the agent's home's, config.toml
	OriginEnvironment = "environment" // a variable of the asker's environment
)

// ConfigVariables are the environment variables that override a setting.
func ConfigVariables() map[string]string {
	return map[string]string{
		"ANTHROPIC_API_KEY": "providers.claude.api_key",
		"GOOGLE_API_KEY":    "providers.gemini.api_key",
		"OPENAI_API_KEY":    "providers.openai.api_key",
	}
}

// Setting is one value of the configuration.
type Setting struct {
	Key    string          `json:"key"`    // dotted, as in TOML: providers.claude.model
	Value  json.RawMessage `json:"value"`  // JSON; "********" for a secret
	Origin string          `json:"origin"` // store, workspace, environment
	Source string          `json:"source"` // the file or variable it came from
	Secret bool            `json:"secret,omitempty"`
}

// Config is the configuration that holds for a workspace, by key.
type Config struct {
	Settings []Setting `json:"settings"`
	// Warnings tell of layers that could not be read; they are left out.
	Warnings []string `json:"warnings,omitempty"`
}

// Config merges the layers of configuration for an agent, or for a device
// workspace. variables are the names of those of ConfigVariables that the
// asker's environment has; their values stay where they are. Secrets are masked.
func (c *Client) Config(ctx context.Context, agent, workspace string, variables []string) (Config, error) {
	var out Config
	q := query("agent", agent, "workspace", workspace, "variables", strings.Join(variables, ","))
	return out, c.call(ctx, http.MethodGet, "/v1/config", q, nil, &out)
}
