package workspace

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

const (
	// MaxItem is how long an item's value may be where it travels as one, in
	// bytes.
	MaxItem = 8 << 20
	// maxItems bounds a listing.
	maxItems = 10_000
	// previewLength is how much of a text a listing shows, in characters.
	previewLength = 100
)

// ItemInfo is one item of a listing.
type ItemInfo struct {
	Key     string // the file's name, bytes; a directory's with a / at the end
	Preview string // of a text
	Type    string // text, binary, dir; file where it may not be read; else the type of file
	Size    uint64
	By      string // who made it, as far as the asker may know; "" the administrator
	Changed time.Time
}

// Item is one item with its value.
type Item struct {
	Key, Value    string
	By            string
	Made, Changed time.Time
}

// itemPlace is where an agent's items are: the workspace's tree path and id.
func itemPlace(a *Agent) (dir, id string) {
	if a.Role != policy.Shared && a.User != "" {
		return "/users/" + a.User, "user-" + a.User
	}
	return "/agents/" + a.Key + "/workspace", "agent-" + a.Key
}

// Items lists the items of the view's agent, newest first, maxItems at most.
func (l *Layer) Items(v *view.View) ([]ItemInfo, error) {
	defer l.turn(v)()
	a, err := l.agentOf(v)
	if err != nil {
		return nil, err
	}
	place, _ := itemPlace(&a)
	dir, err := v.Resolve(place)
	if err != nil {
		return nil, err
	}
	names, err := v.List(nil, dir.Node)
	if err != nil {
		return nil, err
	}
	out := []ItemInfo{}
	for _, e := range names {
		var it ItemInfo
		err := again(func() error { return listItem(v, dir.Node, e.Name, &it) })
		if isKind(err, backend.NotFound) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		if out = append(out, it); len(out) >= 2*maxItems {
			out = newestItems(out)
		}
	}
	return newestItems(out), nil
}

// newestItems sorts items, and leaves out the oldest where there are too many.
func newestItems(all []ItemInfo) []ItemInfo {
	slices.SortStableFunc(all, func(a, b ItemInfo) int { return b.Changed.Compare(a.Changed) })
	return all[:min(len(all), maxItems)]
}

// listItem tells about one name of a listing. NotFound: it is gone, or was
// replaced meanwhile.
func listItem(v *view.View, dir backend.NodeID, name string, it *ItemInfo) error {
	attr, err := v.Lookup(nil, dir, name)
	if err != nil {
		return err
	}
	*it = ItemInfo{Key: name, Size: attr.Size}
	describe(v, &attr, it)
	it.By, _, it.Changed, err = provenance(v, attr.Node)
	return err
}

// describe fills in what a listing shows of the content at a.
func describe(v *view.View, a *backend.Attr, it *ItemInfo) {
	switch {
	case a.IsDir():
		it.Key, it.Type, it.Size = it.Key+"/", "dir", 0
		return
	case a.Type != backend.TypeRegular:
		it.Type = fileTypes[a.Type]
		return
	}
	head := make([]byte, min(a.Size, (previewLength+1)*utf8.UTFMax))
	n, err := v.Read(nil, a.Node, head, 0)
	if err != nil { // the deny-list
		it.Type = "file"
		return
	}
	if !looksText(head[:n], uint64(n) == a.Size) {
		it.Type = "binary"
		return
	}
	it.Type, it.Preview = "text", preview(string(head[:n]))
}

var fileTypes = map[backend.FileType]string{
	backend.TypeSymlink: "symlink", backend.TypeFIFO: "fifo", backend.TypeSocket: "socket",
	backend.TypeChar: "char", backend.TypeBlock: "block",
}

// preview is the first 100 characters of s, with ... after them where there are
// more.
func preview(s string) string {
	n := 0
	for i := range s {
		if n++; n > previewLength {
			return s[:i] + "..."
		}
	}
	return s
}

// itemPath is the tree path of the item called key. Invalid: no key.
func (l *Layer) itemPath(v *view.View, key string) (path, id string, err error) {
	a, err := l.agentOf(v)
	if err != nil {
		return "", "", err
	}
	if err := checkFileName("key", key); err != nil {
		return "", "", err
	}
	dir, id := itemPlace(&a)
	return dir + "/" + key, id, nil
}

// itemError words an error about the item called key.
func itemError(err error, key, id string) error {
	switch {
	case isKind(err, backend.NotFound), isKind(err, backend.NotDir):
		return fail(backend.NotFound, "no item %q in workspace %s", key, id)
	case isKind(err, backend.IsDir):
		return fail(backend.Invalid, "%q in workspace %s is a directory, not an item", key, id)
	case isKind(err, backend.Invalid):
		return fail(backend.Invalid, "%q in workspace %s is no regular file, and so no item", key, id)
	case isKind(err, backend.TooBig):
		return fail(backend.Invalid, "item %q has more than %d bytes; read it as a file", key, MaxItem)
	}
	return err
}

// ReadItem gives one item. NotFound; Invalid: it is no text of at most MaxItem
// bytes, or a link.
func (l *Layer) ReadItem(v *view.View, key string) (Item, error) {
	path, id, err := l.itemPath(v, key)
	if err != nil {
		return Item{}, err
	}
	it := Item{Key: key}
	err = again(func() error {
		b, attr, err := readHere(v, path, MaxItem)
		if err != nil {
			return err
		}
		it.Value = string(b)
		it.By, it.Made, it.Changed, err = provenance(v, attr.Node)
		return err
	})
	if err != nil {
		return Item{}, itemError(err, key, id)
	}
	if !utf8.ValidString(it.Value) {
		return Item{}, fail(backend.Invalid, "item %q is not UTF-8 text; read it as a file", key)
	}
	return it, nil
}

// WriteItem makes an item or replaces its value, whole or not at all, and gives
// the id of the workspace. Who made it and when stays.
func (l *Layer) WriteItem(v *view.View, key, value string) (id string, err error) {
	path, id, err := l.itemPath(v, key)
	if err != nil {
		return id, err
	}
	if len(value) > MaxItem {
		return id, fail(backend.TooBig, "item %q: a value has at most %d bytes; write it as a file", key, MaxItem)
	}
	if !utf8.ValidString(value) {
		return id, fail(backend.Invalid, "item %q: a value is UTF-8 text; write anything else as a file", key)
	}
	if _, seen := v.Sees(strings.TrimSuffix(path, "/"+key)); !seen {
		return id, fail(backend.Denied, "workspace %s is not in this agent's view", id)
	}
	err = again(func() error {
		_, err := v.PutHere(path, strings.NewReader(value), 0)
		return err
	})
	return id, itemError(err, key, id)
}

// DeleteItem removes an item. NotFound; Invalid: it is a directory.
func (l *Layer) DeleteItem(v *view.View, key string) error {
	path, id, err := l.itemPath(v, key)
	if err != nil {
		return err
	}
	f, err := v.Find(path, false)
	if err == nil && f.Attr.IsDir() {
		err = backend.IsDir
	}
	if err == nil {
		err = v.Unlink(nil, f.Dir, f.Name)
	}
	return itemError(err, key, id)
}
