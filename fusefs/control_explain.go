package fusefs

import (
	"encoding/json"
	"errors"
	"strings"
	"sync"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// questions are what was asked of one mount's explain file, the last ones. They
// are answered when the file is read, so that an answer is never older than that.
type questions struct {
	mu   sync.Mutex // a leaf
	last []question
}

type question struct{ action, path string }

// maxQuestions bounds what is kept.
const maxQuestions = 16

// explainFile is the control file that tells what policy permits: write
// "ACTION PATH", a line each; read the answers, a JSON object each, newest last.
// With each write the questions before it go. Where nothing was asked, it says how
// to ask: also where the kernel lets nobody write.
func explainFile() ControlFile {
	q := &questions{}
	return ControlFile{Name: "explain", Mode: 0o666, Visible: hasAccess, Read: q.answers, Write: q.ask}
}

func (q *questions) ask(v *view.View, text []byte) error {
	var asked []question
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			continue
		}
		action, path, _ := strings.Cut(line, " ")
		asked = append(asked, question{action, path})
	}
	if len(asked) > maxQuestions {
		return backend.TooBig
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last = asked
	return nil
}

func (q *questions) answers(v *view.View) ([]byte, error) {
	q.mu.Lock()
	asked := q.last
	q.mu.Unlock()
	if len(asked) == 0 {
		return jsonLine(struct {
			Note string `json:"note"`
		}{howToAsk})
	}
	var out []byte
	for _, x := range asked {
		line, err := jsonLine(explained(v, x))
		if err != nil {
			return nil, err
		}
		out = append(out, line...)
	}
	return out, nil
}

// howToAsk is the answer to no question. Of a mount that is read-only to some
// only (a bind mount, in a container) the daemon knows nothing.
const howToAsk = "nothing was asked: write ACTION PATH to this file, such as: read /agents/KEY/workspace/f, and read it again; " +
	"where the file system is read-only, ask by warren policy explain, or by the MCP tool explain"

// explained answers one question; what cannot be asked is told as a note.
func explained(v *view.View, x question) view.Answer {
	path := x.path
	if strings.HasPrefix(path, `"`) { // a path with a line's end in it
		if err := json.Unmarshal([]byte(path), &path); err != nil {
			return view.Answer{Action: x.action, Path: x.path, Note: "the path in quotes is no JSON text"}
		}
	}
	switch {
	case path == "":
		return view.Answer{Action: x.action, Note: "ask ACTION PATH, such as: read /agents/KEY/workspace/f"}
	case strings.HasPrefix(path, "/"+mountedAt+"/"):
		path = strings.TrimPrefix(path, "/"+mountedAt)
	case path[0] != '/':
		path = "/agents/" + v.Agent() + "/workspace/" + path
	}
	a, err := v.Ask(x.action, path)
	switch {
	case errors.Is(err, backend.Invalid):
		a.Note = "it cannot be asked: the action is one of see, read, write, create, remove, move, link, and the path a tree path"
	case err != nil:
		a.Note = "it cannot be told: " + backend.KindOf(err).Error()
	}
	return a
}

// mountedAt is where the tree is mounted by convention.
const mountedAt = "warren"
