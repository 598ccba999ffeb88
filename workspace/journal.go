package workspace

import (
	"bytes"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// journalTitle begins a journal.
const journalTitle = "# Journal\n"

const (
	maxTodos   = 100      // of one entry
	maxMonths  = 1200     // files of the archive that are looked into
	maxJournal = 64 << 20 // bytes of a journal that is archived, and of a file of its archive
)

// Note is what AppendJournal adds.
type Note struct {
	Summary, Details string
	Todos            []Todo
}

func (n *Note) check() error {
	if strings.TrimSpace(n.Summary) == "" {
		return fail(backend.Invalid, "summary: it is missing")
	}
	if err := checkProse("summary", n.Summary); err != nil {
		return err
	}
	if err := checkProse("details", n.Details); err != nil {
		return err
	}
	if len(n.Todos) > maxTodos {
		return fail(backend.Invalid, "todos: at most %d", maxTodos)
	}
	for _, t := range n.Todos {
		if err := checkWhom(t.For); err != nil {
			return err
		}
		if err := checkLine("todo", t.Text, false); err != nil {
			return err
		}
	}
	return nil
}

// AppendJournal adds an entry to a project's journal, as one step for every
// reader, and gives its heading's time and the file. The journal is made if it is
// not there.
func (l *Layer) AppendJournal(v *view.View, project string, n Note) (e JournalEntry, at string, err error) {
	if err := n.check(); err != nil {
		return e, "", err
	}
	a, err := l.agentOf(v)
	if err != nil {
		return e, "", err
	}
	p, err := l.ProjectDir(v, project)
	if err != nil {
		return e, "", err
	}
	text := strings.Trim(n.Summary, "\n")
	if d := strings.Trim(n.Details, "\n"); d != "" {
		text += "\n" + d
	}
	e = JournalEntry{Agent: a.Key, Name: a.Name, Text: text, Todos: n.Todos}
	at, err = p.file(v, journalName)
	if err != nil {
		return e, "", err
	}
	return e, at, l.addEntry(v, p, at, &e)
}

// addEntry puts e at the end of the journal at a tree path, with the time of then: who
// reads what is new (readNews) either finds it or has begun before that time.
func (l *Layer) addEntry(v *view.View, p ProjectDir, at string, e *JournalEntry) error {
	defer l.lock(at)()
	for range 16 {
		e.At = l.reg.now().UTC().Truncate(time.Minute)
		begin, end, err := ends(v, at)
		if isKind(err, backend.NotFound) {
			_, err = v.MakeHere(at, strings.NewReader(journalTitle+"\n"+e.encode("\n")), 0)
			if isKind(err, backend.Exist) {
				continue
			}
			return err
		}
		if err != nil {
			return err
		}
		nl := eol(begin)
		add := nl + e.encode(nl) // an empty line in front
		switch {
		case len(begin) == 0:
			add = journalTitle + add
		case end != '\n': // somebody's editor
			add = nl + add
		}
		_, err = v.AmendFile(at, view.AtEnd, []byte(add), view.Cond{})
		if isKind(err, backend.NotFound) {
			if _, gone := v.Resolve(p.Path); gone != nil {
				return gone
			}
			continue
		}
		return err
	}
	return fail(backend.Conflict, "%s is being replaced all the time; try again", at)
}

// ends gives the beginning of a file, 4 KiB at most, and its last byte.
func ends(v *view.View, at string) (begin []byte, last byte, err error) {
	f, err := v.FindHere(at)
	if err != nil {
		return nil, 0, err
	}
	if f.Attr.Type != backend.TypeRegular {
		return nil, 0, fail(backend.Invalid, "%s is not a file", at)
	}
	begin = make([]byte, min(f.Attr.Size, 4096))
	n, err := v.Read(nil, f.Attr.Node, begin, 0)
	if err != nil || n == 0 {
		return nil, 0, err
	}
	var b [1]byte
	_, err = v.Read(nil, f.Attr.Node, b[:], f.Attr.Size-1)
	return begin[:n], b[0], err
}

// ReadJournal gives the last n entries of a project's journal, oldest first; where
// the journal has fewer, also those of its archive.
func (l *Layer) ReadJournal(v *view.View, project string, n int) (entries []JournalEntry, at string, err error) {
	defer l.turn(v)()
	p, err := l.ProjectDir(v, project)
	if err != nil {
		return nil, "", err
	}
	at = p.Path + "/" + journalName
	defer l.lock(at)() // not while entries are moved: they would be there twice
	entries, err = p.journal(v, n, time.Time{}, maxProtocol)
	return entries, at, err
}

// journal reads the last n entries, and of the archive none that is older than since;
// of both at most limit bytes.
func (p ProjectDir) journal(v *view.View, n int, since time.Time, limit int) ([]JournalEntry, error) {
	data, err := p.tail(v, journalName, limit)
	if err != nil {
		return nil, err
	}
	out := lastEntries(string(data), n)
	enough := func() bool {
		return len(out) >= n || limit <= 0 || len(out) > 0 && out[0].At.Before(since)
	}
	if limit -= len(data); enough() {
		return out, nil
	}
	months, err := p.months(v)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Backward(months[max(0, len(months)-maxMonths):]) {
		if enough() {
			break
		}
		old, err := p.tail(v, archiveDir+"/"+name, limit)
		if err != nil {
			return nil, err
		}
		out = append(lastEntries(string(old), n-len(out)), out...)
		limit -= len(old)
	}
	return out, nil
}

func lastEntries(text string, n int) []JournalEntry {
	all := parseJournal(text)
	return all[max(0, len(all)-n):]
}

var monthFile = regexp.MustCompile(`^\d{4}-\d\d\.md$`)

// months lists the files of a journal's archive, oldest first.
func (p ProjectDir) months(v *view.View) (out []string, err error) {
	at, err := p.file(v, archiveDir)
	if err != nil {
		return nil, err
	}
	f, err := v.FindHere(at)
	if isKind(err, backend.NotFound) || err == nil && !f.Attr.IsDir() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := v.Children(f.Attr.Node)
	for _, c := range names {
		if monthFile.MatchString(c.Name) && c.Type == backend.TypeRegular {
			out = append(out, c.Name)
		}
	}
	return out, err
}

// Archived tells what ArchiveJournal moved.
type Archived struct {
	Entries int
	Files   []string // tree paths of the archive's files that have them, oldest first
}

// ArchiveJournal moves the entries of the months before a time's out of a
// project's journal, each month's into journal-archive/YYYY-MM.md, byte for byte.
// What is in front of the first entry stays. Cut short, it may be done again: no
// entry is lost, and none is in the archive twice.
func (l *Layer) ArchiveJournal(v *view.View, project string, before time.Time) (out Archived, err error) {
	defer l.turn(v)()
	p, err := l.ProjectDir(v, project)
	if err != nil {
		return out, err
	}
	before = time.Date(before.Year(), before.Month(), 1, 0, 0, 0, 0, time.UTC)
	err = l.amend(v, p, journalName, maxJournal, func(old []byte) ([]byte, error) {
		out = Archived{}
		byMonth := map[string][][]byte{}
		var left []byte
		at := 0
		for _, e := range parseJournal(string(old)) {
			if !e.At.Before(before) {
				continue
			}
			month := e.At.Format("2006-01") + ".md"
			byMonth[month] = append(byMonth[month], old[e.start:e.ending])
			left = append(left, old[at:e.start]...)
			at = e.ending
			out.Entries++
		}
		left = append(left, old[at:]...)
		for _, month := range slices.Sorted(maps.Keys(byMonth)) {
			file := archiveDir + "/" + month
			if err := l.archive(v, p, file, byMonth[month]); err != nil {
				return nil, err
			}
			out.Files = append(out.Files, path.Join(p.Path, file))
		}
		if out.Entries == 0 {
			return old, nil
		}
		return left, nil
	})
	return out, err
}

// archive adds entries to a file of the archive, but for those at the beginning
// that it ends with: an archiving that was cut short, or had to begin again since
// somebody changed the journal meanwhile, has put them there.
func (l *Layer) archive(v *view.View, p ProjectDir, file string, entries [][]byte) error {
	at, err := p.file(v, file)
	if err != nil {
		return err
	}
	if err := v.MkdirHere(path.Dir(at), 0o755); err != nil {
		return err
	}
	for range 16 {
		have, etag, err := p.read(v, file, maxJournal)
		if err != nil {
			return err
		}
		add := bytes.Join(entries[overlap(have, entries):], nil)
		switch {
		case etag != "" && len(add) == 0:
			return nil
		case etag == "":
			_, err = v.MakeHere(at, bytes.NewReader(append([]byte(journalTitle+"\n"), add...)), 0)
		default:
			if len(have) > 0 && have[len(have)-1] != '\n' {
				add = append([]byte("\n"), add...)
			}
			_, err = v.AmendFile(at, view.AtEnd, add, view.Cond{Match: etag})
		}
		if !changedMeanwhile(err) {
			return err
		}
	}
	return fail(backend.Conflict, "%s is being changed all the time; try again", at)
}

// overlap tells how many of the first of entries a journal ends with, apart from
// the line ends behind each. It takes time in proportion to both.
func overlap(have []byte, entries [][]byte) int {
	bare := func(e []byte) string { return string(bytes.TrimRight(e, "\r\n")) }
	want := make([]string, len(entries))
	for i, e := range entries {
		want[i] = bare(e)
	}
	shorter := make([]int, len(want)) // of the first i+1, the most that they begin and end with
	next := func(n int, e string) int {
		for n > 0 && (n == len(want) || want[n] != e) {
			n = shorter[n-1]
		}
		if n < len(want) && want[n] == e {
			n++
		}
		return n
	}
	for i := 1; i < len(want); i++ {
		shorter[i] = next(shorter[i-1], want[i])
	}
	n := 0
	for _, e := range parseJournal(string(have)) {
		n = next(n, bare(have[e.start:e.ending]))
	}
	return n
}
