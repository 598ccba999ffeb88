package view_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// TestPrivilegedAttributesAreTheMakers: attributes that only root sets are shown to the
// agent that made the file and to no other, and no other can set them.
func TestPrivilegedAttributesAreTheMakers(t *testing.T) {
	w := newArmory(t)
	names := []string{"trusted.overlay.redirect", "trusted.overlay.opaque", "security.capability", "security.ima", "security.selinux"}
	file, _, err := w.web.Create(nil, w.dir, "f", 0o644, true, view.OpenFlags{Write: true})
	w.ok(err, "create")
	dir, err := w.web.Mkdir(nil, w.dir, "d", 0o755)
	w.ok(err, "mkdir")
	link, err := w.web.Symlink(nil, w.dir, "l", "f")
	w.ok(err, "symlink")
	for _, n := range []backend.NodeID{file.Node, dir.Node, link.Node} {
		for _, name := range names {
			w.ok(w.web.SetXattr(nil, n, name, []byte("x"), false, false), "the maker sets "+name)
			_, err := w.web.GetXattr(nil, n, name)
			w.ok(err, "the maker reads "+name)
			for _, v := range []*view.View{w.guest, w.gaia} {
				_, err := v.GetXattr(nil, n, name)
				w.kind(err, backend.NoData, v.Agent()+" reads "+name)
				w.kind(v.SetXattr(nil, n, name, []byte("y"), false, false), backend.NotPermitted, v.Agent()+" sets "+name)
				list, err := v.ListXattr(nil, n)
				if err != nil || slices.Contains(list, name) {
					t.Errorf("%s lists %v, %v", v.Agent(), list, err)
				}
			}
		}
	}
	// An agent that replaces the content gets none of the maker's attributes; the maker keeps them.
	w.ok(w.web.RemoveXattr(nil, file.Node, "security.capability"), "remove")
	f, err := w.gaia.Put("/projects/site/f", strings.NewReader("of gaia"), 0)
	w.ok(err, "put")
	_, err = w.gaia.GetXattr(nil, f.Attr.Node, "trusted.overlay.redirect")
	w.kind(err, backend.NoData, "after a put")
}
