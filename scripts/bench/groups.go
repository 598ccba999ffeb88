package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// group is a sequence of steps in one fresh directory.
type group struct {
	name  string
	steps []step
	reads bool            // a warm mount beside it has read all files, not only listed them
	skips map[string]bool // targets that cannot do it
}

// step is a row of the table.
type step struct {
	row    string
	count  int // operations, for the requests of one; 0: do not say
	cold   bool
	before func(ctx context.Context, dir string) error // untimed
	do     func(ctx context.Context, dir string) error
}

// script is a step that runs a shell script, whose $1 is an input.
func script(text string, arg string) func(context.Context, string) error {
	return func(ctx context.Context, dir string) error { return shell(ctx, dir, text, arg) }
}

// warmed is a step that runs a script once untimed and once timed.
func warmed(row string, count int, text string) step {
	return step{row: row, count: count, before: script(text, ""), do: script(text, "")}
}

func groups(in inputs) []group {
	noRAM := map[string]bool{"floor": true}
	return []group{
		{name: "tree", reads: true, steps: []step{
			{row: "untar", count: in.files, do: script(`tar -xf "$1"`, in.tar)},
			warmed("ripgrep, warm", in.files, `rg -c --no-messages -e 'func ' src >/dev/null`),
			warmed("find, warm", in.files, `find src -type f -size +1M >/dev/null`),
			warmed("du, warm", in.files, `du -s src >/dev/null`),
			{row: "cp -r", count: in.files, do: script(`cp -r src copy`, "")},
			{row: "rm -r", count: in.files, do: script(`rm -r copy`, "")},
		}},
		{name: "git", reads: true, steps: []step{
			{row: "git clone", count: in.files, do: script(`git clone -q "file://$1" clone`, in.repo)},
			warmed("git status, warm", in.files, `git -C clone status --porcelain >/dev/null`),
		}},
		{name: "small", steps: []step{
			{row: "create 1 KB", count: in.n, do: small(in.n, createFile)},
			{row: "stat", count: in.n, before: small(in.n, statFile), do: small(in.n, statFile)},
			{row: "open+read", count: in.n, before: small(in.n, readFile), do: small(in.n, readFile)},
			{row: "rename", count: in.n, do: small(in.n, renameFile)},
			{row: "unlink", count: in.n, do: small(in.n, unlinkFile)},
			{row: "append, reopen", count: in.n, do: small(in.n, appendLine)},
		}},
		{name: "big", skips: noRAM, steps: []step{
			{row: "sequential write + fsync", do: writeBig(in.big)},
			{row: "read, cached", before: readBig, do: readBig},
			{row: "read, cold", cold: true, do: readBig},
		}},
		{name: "random", steps: []step{
			{row: "4 KiB random read-write", count: 2 * in.n, before: writeBig(in.big / 8), do: randomIO(in.n)},
		}},
		{name: "sqlite", steps: []step{
			{row: "SQLite, rollback journal", count: in.txs, before: sqlite("delete", 0), do: sqlite("delete", in.txs)},
			{row: "SQLite, WAL", count: 4 * in.txs, before: sqlite("wal", 0), do: sqlite("wal", 4*in.txs)},
		}},
	}
}

// sqlite does n durable transactions; with none it makes the database.
func sqlite(mode string, n int) func(context.Context, string) error {
	var b strings.Builder
	if n == 0 {
		fmt.Fprintf(&b, "pragma journal_mode=%s;\ncreate table t (k integer primary key, v text);\n", mode)
	}
	for i := range n {
		fmt.Fprintf(&b, "insert into t values (%d, hex(zeroblob(50)));\n", i)
	}
	return func(ctx context.Context, dir string) error {
		cmd := exec.CommandContext(ctx, "sqlite3", "-bail", mode+".db")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(b.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("sqlite3: %w: %s", err, out)
		}
		return nil
	}
}
