package workspace

import (
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy/view"
)

// Decision is what AddDecision writes down.
type Decision struct {
	Title, Context, Decision, Consequences string
	By                                     string // keys, parted by commas; "": who writes it down
}

// maxSameDecisions bounds how many decisions of one day may have one title.
const maxSameDecisions = 1000

// AddDecision writes a decision into a file of its own, decisions/DATE-SLUG.md,
// and gives its tree path.
func (l *Layer) AddDecision(v *view.View, project string, d Decision) (at string, err error) {
	if err := checkLine("title", d.Title, false); err != nil {
		return "", err
	}
	if err := checkLine("decided_by", d.By, true); err != nil {
		return "", err
	}
	for what, s := range map[string]string{"context": d.Context, "decision": d.Decision, "consequences": d.Consequences} {
		if err := checkProse(what, s); err != nil {
			return "", err
		}
	}
	if strings.TrimSpace(d.Decision) == "" {
		return "", fail(backend.Invalid, "decision: it is missing")
	}
	p, err := l.ProjectDir(v, project)
	if err != nil {
		return "", err
	}
	if d.By = strings.TrimSpace(d.By); d.By == "" {
		d.By = v.Agent()
	}
	now := l.reg.now().UTC()
	base := now.Format("2006-01-02") + "-" + slug(d.Title)
	if slug(d.Title) == "" { // no letter of ASCII
		base = now.Format("2006-01-02") + "-decision"
	}
	for i := 1; i <= maxSameDecisions; i++ {
		name := base
		if i > 1 {
			name = fmt.Sprintf("%s-%d", base, i)
		}
		at, err = p.makeFile(v, path.Join(decisionsDir, name+".md"), strings.NewReader(d.encode(now)))
		if !isKind(err, backend.Exist) {
			return at, err
		}
	}
	return "", err
}

// encode writes a decision as its file has it.
func (d *Decision) encode(now time.Time) string {
	part := func(s string) string {
		if s = strings.Trim(strings.ReplaceAll(s, "\r\n", "\n"), "\n"); s == "" {
			return "–"
		}
		return s
	}
	return fmt.Sprintf("# %s\n\nDate: %s  \nDecided by: %s  \nStatus: accepted\n\n## Context\n%s\n\n## Decision\n%s\n\n## Consequences\n%s\n",
		strings.TrimSpace(d.Title), now.Format("2006-01-02"), d.By, part(d.Context), part(d.Decision), part(d.Consequences))
}
