package workspace

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/warrenfs/warren/policy/view"
)

// Git is what a project's files tell of its git repository, without running git.
type Git struct {
	Head   string // hash of the commit that is checked out; "": none, or not known
	Branch string // its branch; "": none
	Remote string // URL of the remote that is called origin, or else of the first, without passwords
}

// maxGitFile bounds what is read of a repository's own files, in bytes.
const maxGitFile = 8 << 20

var objectName = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// Git tells what the files of a project tell of its git repository.
func (l *Layer) Git(v *view.View, p ProjectDir) Git { return p.git(v) }

// git reads what there is; the zero value where there is no repository. It follows
// no link: HEAD goes into files that the project's others read.
func (p ProjectDir) git(v *view.View) (g Git) {
	read := func(rel string) string {
		at := p.Path + "/.git/" + rel
		f, err := v.Find(at, false)
		if err != nil || f.Path != at { // a link leads elsewhere
			return ""
		}
		data, _, _, err := readNode(v, &f.Attr, maxGitFile)
		if err != nil {
			return ""
		}
		return string(data)
	}
	head := strings.TrimSpace(read("HEAD"))
	ref, symbolic := strings.CutPrefix(head, "ref:")
	if ref = strings.TrimSpace(ref); symbolic && strings.HasPrefix(ref, "refs/") && !strings.Contains(ref, "..") {
		g.Branch = strings.TrimPrefix(ref, "refs/heads/")
		head = strings.TrimSpace(read(ref))
		if head == "" {
			head = packed(read("packed-refs"), ref)
		}
	}
	if objectName.MatchString(head) {
		g.Head = head
	}
	g.Remote = remoteOf(read("config"))
	return g
}

// packed finds a ref among the packed ones.
func packed(text, ref string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if name, r, ok := strings.Cut(strings.TrimSpace(line), " "); ok && r == ref {
			return name
		}
	}
	return ""
}

// remoteOf finds the remote's URL in a repository's config.
func remoteOf(config string) (found string) {
	section := ""
	for line := range strings.SplitSeq(config, "\n") {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			section = strings.TrimSpace(strings.Trim(line, "[]"))
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok || strings.TrimSpace(key) != "url" || !strings.HasPrefix(section, `remote "`) {
			continue
		}
		if value = withoutPassword(strings.Trim(strings.TrimSpace(value), `"`)); found == "" || section == `remote "origin"` {
			found = value
		}
	}
	return found
}

// secretPart is what may have a password in a text that is no URL.
var secretPart = regexp.MustCompile(`:[^/@]*(?:/[^@]*)?@`)

// withoutPassword takes the password out of a URL; of what only looks like one, all
// that may be it.
func withoutPassword(s string) string {
	u, err := url.Parse(s)
	if scheme, rest, ok := strings.Cut(s, "://"); err != nil && ok {
		return scheme + "://" + secretPart.ReplaceAllString(rest, "@")
	}
	if err != nil || u.User == nil {
		return s
	}
	if _, has := u.User.Password(); has {
		u.User = url.User(u.User.Username())
	}
	return u.String()
}
