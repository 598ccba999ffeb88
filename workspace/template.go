package workspace

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

// SharedTemplate is the name of the one template that there is.
const SharedTemplate = "shared"

// CheckTemplate refuses a name that is no template's; "" is none.
func CheckTemplate(name string) error {
	if name != "" && name != SharedTemplate {
		return fail(backend.Invalid, "template %q is not there; there is %s", name, SharedTemplate)
	}
	return nil
}

// keepName is a file that lets git keep a directory with nothing else in it.
const keepName = ".gitkeep"

// LayOut puts the files and directories of a project that agents share into the
// directory at a tree path. What is there already stays as it is.
func (l *Layer) LayOut(v *view.View, at, title string, members map[string]string) error {
	p, err := findProject(v, at)
	if err != nil {
		return err
	}
	files := map[string]string{readmeName: readme(title, members), journalName: journalTitle, inboxName: "# Inbox\n\n## Open\n\n## Closed\n"}
	for _, dir := range []string{"research", "drafts", "comments", decisionsDir, "assets", pointersDir} {
		files[dir+"/"+keepName] = ""
	}
	for _, rel := range slices.Sorted(maps.Keys(files)) {
		if _, err := p.makeFile(v, rel, strings.NewReader(files[rel])); err != nil && !isKind(err, backend.Exist) {
			return err
		}
	}
	return nil
}

// readme is the README.md of a new project.
func readme(title string, members map[string]string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n## Purpose\n\nWhat this project is for, in a sentence or two.\n\n## Members\n\n", title)
	for _, key := range slices.Sorted(maps.Keys(members)) {
		fmt.Fprintf(&b, "- %s (%s)\n", key, members[key])
	}
	if len(members) == 0 {
		b.WriteString("- who works here\n")
	}
	b.WriteString(`
## Conventions

- Research is in research/, drafts in drafts/, comments in comments/, decisions in decisions/, binaries in assets/.
- journal.md tells what was done, inbox.md what is open and for whom, .pointers/ who has read how far.
- On entry: see what is new, read the open items, read the last 20 entries of the journal.
- On exit: add an entry to the journal, items for what others must look at, and close those that are done.
- How agents do this is told by ` + "`warren context --skill`" + `.
`)
	return b.String()
}

// InitProject makes a project, or goes on with one, lays the template out in it
// and makes it the active one. at is its tree path; "" is the directory called
// name of the agent's workspace. made tells that it was not there.
func (l *Layer) InitProject(ctx context.Context, v *view.View, name, at string) (p ProjectDir, made bool, err error) {
	a, err := l.agentOf(v)
	if err != nil {
		return p, false, err
	}
	if at == "" {
		at = "/agents/" + a.Key + "/workspace/" + name
	} else if !strings.HasPrefix(at, "/") {
		at = "/agents/" + a.Key + "/workspace/" + at
	}
	p, err = findProject(v, at)
	if isKind(err, backend.NotFound) {
		if !policy.ValidKey(name) {
			return p, false, badKey("a new project's name", name)
		}
		if err := v.MkdirAll(at, 0o755); err != nil {
			return p, false, err
		}
		made = true
		p, err = findProject(v, at)
	}
	if err != nil {
		return p, false, err
	}
	if err := l.LayOut(v, p.Path, name, nil); err != nil {
		return p, made, err
	}
	return p, made, l.reg.setActive(ctx, a.Key, p.Path)
}
