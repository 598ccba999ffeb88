package mcp

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/warrenfs/warren/control"
)

const gitGroup = "git"

func gitTools() []tool {
	message := func(s *jsonschema.Schema) { length(s, "message", 1, 64<<10) }
	return []tool{
		define(about{name: "git_status", group: gitGroup, title: "Git: status", effect: reads,
			text: "Tell which files of a git repository are changed, staged or untracked, and how many commits it is ahead of and behind its upstream, as of the last fetch." + inProject}, gitStatus),
		define(about{name: "git_diff", group: gitGroup, title: "Git: diff", effect: reads,
			text: "Show what has changed since the last commit, or since another, as a unified diff." + inProject}, gitDiff),
		define(about{name: "git_log", group: gitGroup, title: "Git: log", effect: reads,
			limits: func(s *jsonschema.Schema) { bounds(s, "n", 1, 1000) },
			text:   "List commits, newest first, 20 unless told." + inProject}, gitLog),
		define(about{name: "git_add", group: gitGroup, title: "Git: add", effect: addsOnce,
			text: "Stage files, directories or removals for the next commit." + inProject}, gitAdd),
		define(about{name: "git_commit", group: gitGroup, title: "Git: commit", effect: adds, limits: message,
			text: "Commit what is staged. You are the author, and your key is put before the message. No hooks are run." + inProject}, gitCommit),
		define(about{name: "git_fetch", group: gitGroup, title: "Git: fetch", effect: addsOnce, open: true,
			text: "Fetch from the remote, without changing files." + inProject}, gitFetch),
		define(about{name: "git_pull", group: gitGroup, title: "Git: pull", effect: settles, open: true,
			text: "Fetch, and move the branch forward if that is all it takes (fast-forward). Never merges: else it fails with the kind conflict, and with the files in the way, if it is these." + inProject}, gitPull),
		define(about{name: "git_push", group: gitGroup, title: "Git: push", effect: adds, open: true,
			text: "Push the current branch to the branch of the same name. Never forces: a push that the remote refuses fails with the kind conflict and its reason." + inProject}, gitPush),
	}
}

type gitStatusOut struct {
	Branch    string   `json:"branch" jsonschema:"empty: no branch is checked out"`
	Head      string   `json:"head" jsonschema:"commit; empty: there is none yet"`
	Upstream  string   `json:"upstream"`
	Ahead     int      `json:"ahead"`
	Behind    int      `json:"behind"`
	Staged    []string `json:"staged"`
	Modified  []string `json:"modified" jsonschema:"changed, removed or in conflict, and not staged"`
	Untracked []string `json:"untracked"`
	Filters   []string `json:"filters_ignored,omitempty" jsonschema:"content filters that the repository asks for and that are not run"`
}

func gitStatus(ctx context.Context, s *Server, in inProjectIn) (gitStatusOut, said, error) {
	out := gitStatusOut{Staged: []string{}, Modified: []string{}, Untracked: []string{}}
	r, err := s.repoOf(ctx, in.Project)
	if err != nil {
		return out, said{}, err
	}
	text, err := r.must(ctx, "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal", "--ignore-submodules=dirty")
	if err != nil {
		return out, said{}, err
	}
	out.Filters = r.filters
	readStatus(text, &out)
	var b strings.Builder
	fmt.Fprintf(&b, "branch %s at %s, ahead %d, behind %d\n", out.Branch, shortHash(out.Head), out.Ahead, out.Behind)
	names := []string{"staged", "modified", "untracked"}
	for i, list := range [][]string{out.Staged, out.Modified, out.Untracked} {
		if len(list) > 0 {
			fmt.Fprintf(&b, "%s: %s\n", names[i], onOneLine(strings.Join(list, ", ")))
		}
	}
	return out, said{text: b.String()}, nil
}

// readStatus reads what git-status(1) calls porcelain format version 2, with NULs.
func readStatus(text string, out *gitStatusOut) {
	fields := strings.Split(text, "\x00")
	for i := 0; i < len(fields); i++ {
		kind, rest, _ := strings.Cut(fields[i], " ")
		switch kind {
		case "#":
			readBranch(rest, out)
		case "1", "2", "u":
			n := map[string]int{"1": 8, "2": 9, "u": 10}[kind]
			parts := strings.SplitN(rest, " ", n)
			if len(parts) < n || len(parts[0]) < 2 {
				continue
			}
			if kind == "2" {
				i++ // the old name
			}
			path := strings.ToValidUTF8(parts[n-1], "�")
			if kind != "u" && parts[0][0] != '.' {
				out.Staged = append(out.Staged, path)
			}
			if kind == "u" || parts[0][1] != '.' {
				out.Modified = append(out.Modified, path)
			}
		case "?":
			out.Untracked = append(out.Untracked, strings.ToValidUTF8(rest, "�"))
		}
	}
}

func readBranch(line string, out *gitStatusOut) {
	name, value, _ := strings.Cut(line, " ")
	switch name {
	case "branch.oid":
		if value != "(initial)" {
			out.Head = value
		}
	case "branch.head":
		if value != "(detached)" {
			out.Branch = value
		}
	case "branch.upstream":
		out.Upstream = value
	case "branch.ab":
		ahead, behind, _ := strings.Cut(value, " ")
		out.Ahead, _ = strconv.Atoi(strings.TrimPrefix(ahead, "+"))
		out.Behind, _ = strconv.Atoi(strings.TrimPrefix(behind, "-"))
	}
}

type gitDiffIn struct {
	Since string   `json:"since,omitempty" jsonschema:"a commit, branch or tag; left out: HEAD"`
	Paths []string `json:"paths,omitempty" jsonschema:"only these, relative to the project"`
	inProjectIn
}

type gitDiffOut struct {
	Diff string `json:"diff"`
	Cut  bool   `json:"cut,omitempty" jsonschema:"it is longer than is told"`
}

func gitDiff(ctx context.Context, s *Server, in gitDiffIn) (gitDiffOut, said, error) {
	r, err := s.repoOf(ctx, in.Project)
	if err != nil {
		return gitDiffOut{}, said{}, err
	}
	since, err := r.commit(ctx, in.Since, "HEAD")
	if err != nil {
		return gitDiffOut{}, said{}, err
	}
	args := append([]string{"diff", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty", since, "--"}, in.Paths...)
	got, err := r.run(ctx, args...)
	if err == nil && got.Status != 0 {
		err = control.Errorf(control.KindInvalid, "git diff: %s", shortened(got.Err))
	}
	out := gitDiffOut{Diff: strings.ToValidUTF8(string(got.Out), "�"), Cut: got.Cut}
	return out, said{text: out.Diff}, err
}

// commit gives the hash of what a tool's argument names, so that no argument is
// taken for an option.
func (r *repo) commit(ctx context.Context, name, otherwise string) (string, error) {
	if name == "" {
		name = otherwise
	}
	got, err := r.run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if err != nil {
		return "", err
	}
	if got.Status != 0 {
		return "", control.Errorf(control.KindNotFound, "there is no commit %s", name)
	}
	return strings.TrimSpace(string(got.Out)), nil
}

type gitLogIn struct {
	Since string   `json:"since,omitempty" jsonschema:"a commit, branch or tag; only what came after it"`
	N     int      `json:"n,omitempty" jsonschema:"how many; 20 if left out"`
	Paths []string `json:"paths,omitempty" jsonschema:"only commits that change these, relative to the project"`
	inProjectIn
}

type gitLogOut struct {
	Commits []control.Commit `json:"commits"`
}

func gitLog(ctx context.Context, s *Server, in gitLogIn) (gitLogOut, said, error) {
	if in.N == 0 {
		in.N = 20
	}
	out := gitLogOut{Commits: []control.Commit{}}
	r, err := s.repoOf(ctx, in.Project)
	if err != nil {
		return out, said{}, err
	}
	if out.Commits, err = r.log(ctx, in.Since, in.N, in.Paths...); err != nil {
		return out, said{}, err
	}
	return out, said{text: commitsText(out.Commits)}, nil
}

// log lists up to n commits, newest first, that came after since (if it is not
// empty) and change one of paths (if there are any).
func (r *repo) log(ctx context.Context, since string, n int, paths ...string) ([]control.Commit, error) {
	span, err := r.commit(ctx, "", "HEAD")
	if err != nil {
		return nil, err
	}
	if since != "" {
		from, err := r.commit(ctx, since, "")
		if err != nil {
			return nil, err
		}
		span = from + ".." + span
	}
	text, err := r.must(ctx, append([]string{"log", "-z", "--no-show-signature", "--format=%H%x01%an%x01%ae%x01%at%x01%B", "-n", strconv.Itoa(n), span, "--"}, paths...)...)
	if err != nil {
		return nil, err
	}
	out := []control.Commit{}
	for _, rec := range strings.Split(text, "\x00") {
		f := strings.SplitN(strings.ToValidUTF8(rec, "�"), "\x01", 5)
		if len(f) < 5 {
			continue
		}
		at, _ := strconv.ParseInt(f[3], 10, 64)
		out = append(out, control.Commit{SHA: f[0], Author: f[1], Email: f[2], At: time.Unix(at, 0).UTC(), Message: strings.TrimSpace(f[4])})
	}
	return out, nil
}

func commitsText(commits []control.Commit) string {
	var b strings.Builder
	for _, c := range commits {
		first, _, _ := strings.Cut(c.Message, "\n")
		fmt.Fprintf(&b, "%s %s %s: %s\n", shortHash(c.SHA), c.At.Format(time.DateOnly), onOneLine(c.Author), onOneLine(first))
	}
	return b.String()
}

// Commits lists up to n commits of a project's repository, newest first; project
// "": the active one. KindUnavailable: o.Git is nil; KindInvalid: it is no repository.
func Commits(ctx context.Context, o Options, project string, n int) ([]control.Commit, error) {
	r, err := (&Server{o: o}).repoOf(ctx, project)
	if err != nil {
		return nil, err
	}
	return r.log(ctx, "", n)
}

// newsCommits bounds the commits that news tell of.
const newsCommits = 100

// AddCommits adds to news the commits that are new in the project's repository, if
// it has one and o.Git can be asked. What git fails to tell becomes the warning.
func AddCommits(ctx context.Context, o Options, n *control.News) {
	if o.Git == nil || n.Project.Head == "" || n.Project.Head == n.OldHead {
		return
	}
	r, err := (&Server{o: o}).repoOf(ctx, n.Project.Path)
	if err == nil {
		n.Commits, err = r.log(ctx, n.OldHead, newsCommits)
		if control.KindOf(err) == control.KindNotFound { // the old one is no more: history was rewritten
			n.Commits, err = r.log(ctx, "", newsCommits)
		}
	}
	if err != nil && n.Warning == "" {
		n.Warning = "commits are left out: " + err.Error()
	}
}

type gitAddIn struct {
	Paths []string `json:"paths" jsonschema:"relative to the project; . is all of it"`
	inProjectIn
}

type gitDone struct {
	OK      bool     `json:"ok"`
	Filters []string `json:"filters_ignored,omitempty" jsonschema:"content filters that the repository asks for and that were not run"`
}

func gitAdd(ctx context.Context, s *Server, in gitAddIn) (gitDone, said, error) {
	r, err := s.repoOf(ctx, in.Project)
	if err != nil {
		return gitDone{}, said{}, err
	}
	if len(in.Paths) == 0 {
		return gitDone{}, said{}, control.Errorf(control.KindInvalid, "paths: name at least one")
	}
	got, err := r.change(ctx, append([]string{"add", "--all", "--"}, in.Paths...)...)
	_, err = got.text("add", err)
	text := "staged\n"
	if len(r.filters) > 0 {
		text += "as they are: these filters of the repository were not run: " + strings.Join(r.filters, ", ") + "\n"
	}
	return gitDone{OK: err == nil, Filters: r.filters}, said{text: text}, err
}

type gitCommitIn struct {
	Message string `json:"message"`
	inProjectIn
}

type gitCommitted struct {
	SHA string `json:"sha"`
}

func gitCommit(ctx context.Context, s *Server, in gitCommitIn) (gitCommitted, said, error) {
	r, err := s.repoOf(ctx, in.Project)
	if err != nil {
		return gitCommitted{}, said{}, err
	}
	got, err := r.run(ctx, "diff", "--cached", "--quiet", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")
	if err != nil {
		return gitCommitted{}, said{}, err
	}
	if got.Status == 0 {
		return gitCommitted{}, said{}, control.Errorf(control.KindConflict, "nothing is staged: git_add first")
	}
	got, err = r.change(ctx, "commit", "--quiet", "--no-verify", "--no-gpg-sign", "--cleanup=whitespace", "-m", "["+r.agent.Key+"] "+in.Message)
	if _, err := got.text("commit", err); err != nil {
		return gitCommitted{}, said{}, err
	}
	sha, err := r.commit(ctx, "", "HEAD")
	return gitCommitted{SHA: sha}, said{text: "committed " + sha + "\n"}, err
}

type gitFetched struct {
	Updated bool   `json:"updated"`
	NewHead string `json:"new_head,omitempty"`
}

// refs gives all refs, to see whether a fetch changed one.
func (r *repo) refs(ctx context.Context) (string, error) {
	return r.must(ctx, "for-each-ref", "--format=%(objectname) %(refname)")
}

// fetch fetches, and tells whether that changed anything.
func (r *repo) fetch(ctx context.Context) (updated bool, err error) {
	before, err := r.refs(ctx)
	if err != nil {
		return false, err
	}
	got, err := r.remote(ctx, "upload-pack", "", "fetch", "--quiet", "--no-auto-maintenance", "--no-recurse-submodules")
	if err != nil {
		return false, err
	}
	if got.Status != 0 {
		return false, control.Errorf(control.KindUnavailable, "git fetch: %s", shortened(got.Err))
	}
	after, err := r.refs(ctx)
	return before != after, err
}

func gitFetch(ctx context.Context, s *Server, in inProjectIn) (gitFetched, said, error) {
	r, err := s.repoOf(ctx, in.Project)
	if err != nil {
		return gitFetched{}, said{}, err
	}
	updated, err := r.fetch(ctx)
	text := "nothing new\n"
	if updated {
		text = "fetched\n"
	}
	return gitFetched{Updated: updated}, said{text: text}, err
}

func gitPull(ctx context.Context, s *Server, in inProjectIn) (gitFetched, said, error) {
	r, err := s.repoOf(ctx, in.Project)
	if err != nil {
		return gitFetched{}, said{}, err
	}
	if _, err := r.fetch(ctx); err != nil {
		return gitFetched{}, said{}, err
	}
	before, err := r.commit(ctx, "", "HEAD")
	if err != nil {
		return gitFetched{}, said{}, err
	}
	got, err := r.change(ctx, "merge", "--quiet", "--ff-only", "--no-verify-signatures", "--no-verify", "@{upstream}")
	if err != nil {
		return gitFetched{}, said{}, err
	}
	if got.Status != 0 {
		e := control.Errorf(control.KindConflict, "git pull: %s", shortened(got.Err))
		if files := inTheWay(string(got.Err)); len(files) > 0 {
			e.Details = map[string]any{"files": files}
		}
		return gitFetched{}, said{}, e
	}
	head, err := r.commit(ctx, "", "HEAD")
	text := "nothing new\n"
	if head != before {
		text = "now at " + head + "\n"
	}
	return gitFetched{Updated: head != before, NewHead: head}, said{text: text}, err
}

// inTheWay gives the files that git names, each on a line with a tab before it.
func inTheWay(text string) (files []string) {
	for _, line := range strings.Split(text, "\n") {
		if f, ok := strings.CutPrefix(line, "\t"); ok {
			files = append(files, strings.ToValidUTF8(f, "�"))
		}
	}
	return files
}

// branch gives the full name of the branch that is checked out, and the remote that
// it goes to: its upstream's, or else origin. KindConflict: none is checked out.
func (r *repo) branch(ctx context.Context) (ref, remote string, err error) {
	text, err := r.must(ctx, "for-each-ref", "--format=%(HEAD)%(refname) %(upstream:remotename)", "refs/heads")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(text) {
		if line, ok := strings.CutPrefix(line, "*"); ok {
			ref, remote, _ = strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		}
	}
	switch {
	case ref == "":
		return "", "", control.Errorf(control.KindConflict, "no branch with a commit is checked out")
	case remote == "", remote == ".":
		remote = "origin"
	}
	return ref, remote, nil
}

func gitPush(ctx context.Context, s *Server, in inProjectIn) (gitDone, said, error) {
	r, err := s.repoOf(ctx, in.Project)
	if err != nil {
		return gitDone{}, said{}, err
	}
	branch, remote, err := r.branch(ctx)
	if err != nil {
		return gitDone{}, said{}, err
	}
	got, err := r.remote(ctx, "receive-pack", remote, "push", "--porcelain", "--no-verify", "--no-signed", "--no-recurse-submodules", "--set-upstream", "--", remote, branch+":"+branch)
	if err == nil && got.Status != 0 {
		err = control.Errorf(control.KindConflict, "git push: %s", shortened(append(got.Out, got.Err...)))
	}
	return gitDone{OK: err == nil}, said{text: "pushed\n"}, err
}
