package workspace

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// Ask is what AddInbox adds.
type Ask struct {
	Title, Body string
	For         string // agent key; "" is anyone
}

// AddInbox adds an item to a project's inbox and gives it, with an id that no
// other item of this project has: one more than the largest that the file has or
// that was ever given out here. The inbox is made if it is not there.
func (l *Layer) AddInbox(ctx context.Context, v *view.View, project string, q Ask) (it InboxItem, at string, err error) {
	defer l.turn(v)()
	if err := checkLine("title", q.Title, false); err != nil {
		return it, "", err
	}
	if err := checkProse("body", q.Body); err != nil {
		return it, "", err
	}
	if err := checkWhom(q.For); err != nil {
		return it, "", err
	}
	p, err := l.ProjectDir(v, project)
	if err != nil {
		return it, "", err
	}
	it = InboxItem{For: strings.TrimSpace(q.For), Title: strings.TrimSpace(q.Title), Body: strings.Trim(q.Body, "\n"),
		By: v.Agent()}
	if it.For == "" {
		it.For = anyone
	}
	err = l.amend(v, p, inboxName, maxProtocol, func(old []byte) ([]byte, error) {
		it.Added = l.reg.now().UTC().Truncate(time.Minute)
		in := parseInbox(string(old))
		if it.Number <= in.largest { // at first, and when others brought more meanwhile
			n, err := l.reg.nextID(ctx, p.node, in.largest)
			if err != nil {
				return nil, err
			}
			it.Number, it.ID = n, inboxID(n)
		}
		return []byte(in.with(it.encode(), false)), nil
	})
	return it, p.Path + "/" + inboxName, err
}

// inboxCount is the record of the ids that an inbox gave out.
type inboxCount struct {
	Last uint64 `json:"last"`
}

// nextID gives a number that the inbox in a directory never gave out, greater
// than what its file has.
func (r *Registry) nextID(ctx context.Context, dir backend.NodeID, largest uint64) (uint64, error) {
	key := recordKey(recInbox, strconv.FormatUint(uint64(dir), 10))
	var count inboxCount
	_, err := r.store.Update(ctx, func(tx backend.Tx) error {
		count = inboxCount{}
		b, err := tx.Get(key)
		if err == nil {
			err = decode(key, b, &count)
		}
		if err != nil && !errors.Is(err, backend.NotFound) {
			return err
		}
		count.Last = max(count.Last, largest) + 1
		return tx.Set(key, encode(&count))
	})
	return count.Last, err
}

// CloseInbox strikes an item out and moves it to the closed ones, with what came
// of it; the text below the item goes with it. NotFound: no such item; Conflict:
// it is closed already; Invalid: an id that is none.
func (l *Layer) CloseInbox(v *view.View, project, id, resolution, journalRef string) (it InboxItem, at string, err error) {
	defer l.turn(v)()
	if err := checkLine("resolution", resolution, false); err != nil {
		return it, "", err
	}
	if err := checkLine("journal_ref", journalRef, true); err != nil {
		return it, "", err
	}
	digits, _ := strings.CutPrefix(strings.ToUpper(strings.TrimSpace(id)), "INB-")
	number, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return it, "", fail(backend.Invalid, "id %q: expected one such as INB-014", id)
	}
	p, err := l.ProjectDir(v, project)
	if err != nil {
		return it, "", err
	}
	at = p.Path + "/" + inboxName
	err = l.amend(v, p, inboxName, maxProtocol, func(old []byte) ([]byte, error) {
		in := parseInbox(string(old))
		found := in.find(number)
		switch {
		case found == nil:
			return nil, fail(backend.NotFound, "no item %s in %s", inboxID(number), at)
		case found.Closed:
			return nil, fail(backend.Conflict, "%s is closed already: %s", found.ID, found.Resolution)
		}
		it = *found
		it.Closed, it.ClosedAt, it.ClosedBy = true, l.reg.now().UTC().Truncate(time.Minute), v.Agent()
		it.Resolution = strings.TrimSpace(resolution)
		if ref := strings.TrimSpace(journalRef); ref != "" {
			it.Resolution += ", see journal " + ref
		}
		body := strings.TrimRight(in.text[found.bodyAt:found.ending], "\r\n")
		rest := parseInbox(in.without(found))
		rest.nl = in.nl
		return []byte(rest.with(it.encodeClosed(strings.ReplaceAll(body, "\r\n", "\n")), true)), nil
	})
	return it, at, err
}

// Inbox lists the items of a project's inbox in the order of the file. for, if
// not "", leaves only those for that agent or for anyone; closed leaves the
// closed ones in.
func (l *Layer) Inbox(v *view.View, project, whom string, closed bool) (items []InboxItem, at string, err error) {
	defer l.turn(v)()
	p, err := l.ProjectDir(v, project)
	if err != nil {
		return nil, "", err
	}
	items, err = p.inbox(v, whom, closed, maxProtocol)
	return items, p.Path + "/" + inboxName, err
}

// inbox is Inbox of an inbox.md of at most limit bytes. TooBig.
func (p ProjectDir) inbox(v *view.View, whom string, closed bool, limit int) ([]InboxItem, error) {
	data, _, err := p.read(v, inboxName, limit)
	if err != nil {
		return nil, err
	}
	out := []InboxItem{}
	for _, it := range parseInbox(string(data)).items {
		if it.Closed && !closed || whom != "" && it.For != whom && it.For != anyone && it.For != "" {
			continue
		}
		out = append(out, it)
	}
	return out, nil
}
