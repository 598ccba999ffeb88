package server

import (
	"fmt"
	"testing"

	"github.com/warrenfs/warren/backend"
)

// TestLongListings: a listing is whole and in order, however many pieces it comes in.
func TestLongListings(t *testing.T) {
	f := newFixture(t)
	f.soul("a")
	v, at := workspaceOf(t, f)
	made := 0
	for _, n := range []int{0, 1, listAtOnce - 1, listAtOnce, listAtOnce + 1, 2*listAtOnce + 5} {
		for ; made < n; made++ {
			if _, err := v.Mknod(nil, at.Node, fmt.Sprintf("%06d", made), backend.TypeRegular, 0o644, 0); err != nil {
				t.Fatal(err)
			}
		}
		got, err := f.client.List(t.Context(), "a", ".")
		if err != nil || len(got) != n {
			t.Fatalf("%d files: %d, %v", n, len(got), err)
		}
		for i := range got {
			if got[i].Name != fmt.Sprintf("%06d", i) {
				t.Fatalf("%d files: number %d is %s", n, i, got[i].Name)
			}
		}
	}
}
