package workspace

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/warrenfs/warren/policy"
	"github.com/warrenfs/warren/policy/view"
)

// Bounds of the context, so that it fits into a prompt whatever there is.
const (
	maxContext   = 16 << 10 // bytes
	contextList  = 20       // projects, other writable places
	contextField = 40
	contextText  = 120 // bytes of a value or description
	contextDeny  = 5
)

// Context is the state that an agent's prompt includes, as Markdown of at most
// 16 KiB: who the agent is, where it may write, what it uses, its projects, what
// is open and new for it there, its fields, what it was denied of late. It tells what the view may know and
// nothing else, and is the same until one of those changes.
func (l *Layer) Context(v *view.View) (string, error) {
	a, err := l.agentOf(v)
	if err != nil {
		return "", err
	}
	b := &strings.Builder{}
	l.contextAgent(b, &a, v)
	if v.Access() == view.None {
		return b.String(), nil
	}
	l.contextPlaces(b, &a, v)
	l.contextProjects(b, &a, v)
	l.contextProjectWork(b, &a, v)
	l.contextFields(b, v)
	contextDenials(b, v)
	return clip(b.String(), maxContext), nil
}

// clip cuts s at the end of a line so that it has at most n bytes.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const more = "- … (cut)\n"
	return s[:strings.LastIndexByte(s[:n-len(more)], '\n')+1] + more
}

// short is s in one line of bounded length.
func short(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > contextText {
		s = strings.ToValidUTF8(s[:contextText], "") + "…"
	}
	return s
}

// onOneLine is a tree path as it stands in a text: what could end the line or the
// code that it stands in is replaced, since agents choose names.
func onOneLine(path string) string {
	return strings.Map(func(r rune) rune {
		if r == '`' || !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, path)
}

func (l *Layer) contextAgent(b *strings.Builder, a *Agent, v *view.View) {
	fmt.Fprintf(b, "# Workspace context of %s\n\n", a.Key)
	fmt.Fprintf(b, "- You are agent `%s`", a.Key)
	if a.Name != "" {
		fmt.Fprintf(b, " (%s)", short(a.Name))
	}
	fmt.Fprintf(b, ", role %s", a.Role)
	if a.User != "" {
		fmt.Fprintf(b, ", of user `%s`", a.User)
	}
	fmt.Fprintf(b, ".\n- Access: %s.\n", v.Access())
}

// place is one line about a directory, if the view may create in it.
func (l *Layer) place(b *strings.Builder, v *view.View, path, what string) {
	if d, seen := v.Sees(path); seen && v.Allows(policy.Create, d.Node) {
		fmt.Fprintf(b, "- `%s`: %s\n", path, what)
	}
}

func (l *Layer) contextPlaces(b *strings.Builder, a *Agent, v *view.View) {
	home := "/agents/" + a.Key
	b.WriteString("\n## Where you may write\n\n")
	l.place(b, v, home+"/workspace", "your workspace; relative paths start here"+used(v, home+"/workspace"))
	l.place(b, v, home+"/scratch", "temporary files; never in a snapshot")
	for _, name := range []string{"notes", "memory", "caches"} {
		l.place(b, v, home+"/"+name, "your "+name)
	}
	if a.User != "" && a.Role != policy.Shared {
		l.place(b, v, "/users/"+a.User, "shared by this user's agents; items are here"+used(v, "/users/"+a.User))
	}
	if a.Role == policy.Orchestrator {
		b.WriteString("- every agent's tree in your view, below `/agents`\n")
	}
	if shared := l.SharedAgents(v); len(shared) > 0 {
		n := min(len(shared), contextList)
		fmt.Fprintf(b, "- publish to shared agents by `/.warren/publish/<agent>/NAME`: %s\n", list(shared[:n], len(shared)-n))
	}
}

// list names things, and how many more there are.
func list(names []string, more int) string {
	s := strings.Join(names, ", ")
	if more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// used tells what a volume holds, and of how much if it has a quota.
func used(v *view.View, path string) string {
	if _, seen := v.Sees(path); !seen {
		return ""
	}
	q, err := v.Quota(path)
	if err != nil {
		return ""
	}
	bytes, files := sizeText(q.Bytes.Used), fmt.Sprint(q.Inodes.Used)
	if q.Bytes.Hard > 0 {
		bytes += " of " + sizeText(q.Bytes.Hard)
	}
	if q.Inodes.Hard > 0 {
		files += " of " + fmt.Sprint(q.Inodes.Hard)
	}
	over := ""
	if q.Bytes.Over || q.Inodes.Over {
		over = "; over its soft limit"
	}
	return fmt.Sprintf(" (%s used, %s files and directories%s)", bytes, files, over)
}

// sizeText is a number of bytes to two or three digits.
func sizeText(n uint64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return strconv.FormatUint(n, 10) + " B"
	}
	f, i := float64(n)/1024, 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	return fmt.Sprintf("%.3g %ciB", f, units[i])
}

func (l *Layer) contextProjects(b *strings.Builder, a *Agent, v *view.View) {
	if _, seen := v.Sees(a.Active); a.Active != "" && seen {
		fmt.Fprintf(b, "- active project: `%s`\n", onOneLine(a.Active))
	}
	n := 0
	for _, p := range l.reg.Projects() {
		path := "/projects/" + p.Slug
		d, seen := v.Sees(path)
		if !seen {
			continue
		}
		if n++; n == 1 {
			b.WriteString("\n## Projects\n\n")
		}
		if n > contextList {
			continue
		}
		right := "read"
		if v.Allows(policy.Create, d.Node) {
			right = "read and write"
		}
		fmt.Fprintf(b, "- `%s`: %s\n", path, right)
	}
	if n > contextList {
		fmt.Fprintf(b, "- and %d more\n", n-contextList)
	}
}

func (l *Layer) contextFields(b *strings.Builder, v *view.View) {
	fields, err := l.Fields(v, "")
	if err != nil || len(fields) == 0 {
		return
	}
	b.WriteString("\n## Fields\n\nSet one with the tool update_workspace, or by writing to `/.warren/fields/<name>`.\n\n")
	for i, f := range fields {
		if i == contextField {
			fmt.Fprintf(b, "- and %d more\n", len(fields)-i)
			return
		}
		mark := "[EDITABLE] "
		if f.ReadOnly {
			mark = ""
		}
		fmt.Fprintf(b, "- %s%s", mark, short(f.Name))
		if f.Type != "" {
			fmt.Fprintf(b, " (%s)", f.Type)
		}
		fmt.Fprintf(b, ": %s", short(string(f.Value)))
		if f.Description != "" {
			fmt.Fprintf(b, " (%s)", short(f.Description))
		}
		b.WriteByte('\n')
	}
}

func contextDenials(b *strings.Builder, v *view.View) {
	all := v.Denials()
	if len(all) == 0 {
		return
	}
	b.WriteString("\n## Denied of late\n\n")
	for _, d := range all[max(0, len(all)-contextDeny):] {
		fmt.Fprintf(b, "- %s `%s` (%s), %d times\n", d.Op, short(d.Path), cmp.Or(d.Rule, "nothing permits it"), d.Count)
	}
}
