package control

import (
	"context"
	"net/http"
	"time"
)

// User is a person who owns agents.
type User struct {
	ID      string    `json:"id"` // [a-z0-9][a-z0-9_-]{0,62}
	Name    string    `json:"name,omitempty"`
	Email   string    `json:"email,omitempty"`
	Created time.Time `json:"created"`
	Agents  []string  `json:"agents,omitempty"` // keys of the agents that are theirs
}

// UserSpec describes a user to be added.
type UserSpec struct {
	ID    string `json:"id"`
	Name  string `json:"name,omitempty"`
	Email string `json:"email,omitempty"`
}

// AddUser adds a user and /users/<id>. KindConflict: there is one.
func (c *Client) AddUser(ctx context.Context, spec UserSpec) (User, error) {
	var u User
	return u, c.call(ctx, http.MethodPost, "/v1/users", nil, spec, &u)
}

// Users lists all users by id.
func (c *Client) Users(ctx context.Context) ([]User, error) {
	var us []User
	return us, c.call(ctx, http.MethodGet, "/v1/users", nil, nil, &us)
}

// User tells about one user.
func (c *Client) User(ctx context.Context, id string) (User, error) {
	var u User
	path, err := under("users", id)
	if err != nil {
		return u, err
	}
	return u, c.call(ctx, http.MethodGet, path, nil, nil, &u)
}

// RemoveUser removes a user and /users/<id> with all in it. KindConflict: an
// agent is still theirs.
func (c *Client) RemoveUser(ctx context.Context, id string) error {
	path, err := under("users", id)
	if err != nil {
		return err
	}
	return c.call(ctx, http.MethodDelete, path, nil, nil, nil)
}
