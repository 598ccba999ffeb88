package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"

	"github.com/warrenfs/warren/backend"
)

// maxBody bounds a JSON request.
const maxBody = 1 << 20

// input decodes a request's body, one JSON object, into the struct v points to.
// It is strict: a key that v does not have in that very spelling, one given
// twice, and anything after the object are Invalid.
func input(r *http.Request, v any) error {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return invalid("read the request: %v", err)
	}
	if len(body) > maxBody {
		return &backend.Error{Kind: backend.TooBig, Err: fmt.Errorf("the request has more than %d bytes", maxBody)}
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err = d.Decode(v)
	if err == nil && d.More() {
		err = errors.New("there is something after its JSON value")
	}
	if err == nil {
		err = checkKeys(body, keysOf(v))
	}
	if err != nil {
		return invalid("the request is not understood: %v", err)
	}
	return narrowBody(r, v)
}

// keysOf lists the JSON keys of the struct that v points to.
func keysOf(v any) map[string]bool {
	keys := map[string]bool{}
	t := reflect.TypeOf(v).Elem()
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		keys[name] = true
	}
	return keys
}

// checkKeys finds what encoding/json lets through: keys in another case, and
// keys that are there twice, of which it takes the last.
func checkKeys(body []byte, known map[string]bool) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return errors.New("it is not a JSON object")
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := t.(string)
		switch {
		case !known[key]:
			return fmt.Errorf("json: unknown field %q (keys are in lower case)", key)
		case seen[key]:
			return fmt.Errorf("key %q is there twice", key)
		}
		seen[key] = true
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			return err
		}
	}
	return nil
}
