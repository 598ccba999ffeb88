package server

import (
	"strings"
	"testing"
)

// TestKeysAreSpelledAsDocumented: none is matched in another case, unknown or
// taken twice, and nothing happens then.
func TestKeysAreSpelledAsDocumented(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	for body, want := range map[string]int{
		`{"Agent":"a","path":"x"}`:               400,
		`{"agent":"a","PATH":"x"}`:               400,
		`{"agent":"a","path":"x","Mode":448}`:    400,
		`{"agent":"a","path":"x","path":"y"}`:    400,
		`{"agent":"a","path":"y","Path":"x"}`:    400,
		`{"agent":"a","path":"x","owner":1}`:     400,
		`{"agent":"a","\u0070ath":"x"} {}`:       400,
		`["a","x"]`:                              400,
		`null`:                                   400,
		``:                                       400,
		`{"agent":"a","path":"x","path_b64":""}`: 400,
		`{"agent":"a","path":"z"}`:               200,
		` {"agent":"a", "\u0070ath":"w"} `:       200, // an escape is the same key
	} {
		status, answer, _ := f.send("POST", "/v1/fs/mkdir", strings.NewReader(body))
		if status != want {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	names, err := f.client.List(t.Context(), "a", ".")
	if err != nil || len(names) != 2 {
		t.Errorf("made %v, %v", names, err)
	}
}
