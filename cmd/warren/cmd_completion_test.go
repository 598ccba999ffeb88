package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// everyCommand lists what help offers below c.
func everyCommand(c *cobra.Command) []*cobra.Command {
	out := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			out = append(out, everyCommand(sub)...)
		}
	}
	return out
}

// plain undoes what the generator of pages escapes.
func plain(page string) string {
	return strings.NewReplacer(`\-`, "-", `\&`, "", `\[la]`, "<", `\[ra]`, ">", `\e`, `\`).Replace(page)
}

// TestManualPages: `warren man --dir` writes a page for each command with all of
// its flags, none for others, and pages refer to pages that are there.
func TestManualPages(t *testing.T) {
	a, dir := newApp(), t.TempDir()
	if code := a.main([]string{"man", "--dir", dir}); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var want []string
	for _, c := range everyCommand(newRootCommand(newApp())) {
		name := strings.ReplaceAll(c.CommandPath(), " ", "-") + ".1"
		want = append(want, name)
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		page := plain(string(b))
		if !strings.Contains(page, c.Short) {
			t.Errorf("%s does not say %q", name, c.Short)
		}
		if strings.ContainsRune(page, '…') {
			t.Errorf("%s has a character that not every locale has", name)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && !strings.Contains(page, "--"+f.Name) {
				t.Errorf("%s does not have --%s", name, f.Name)
			}
		})
		for _, ref := range regexp.MustCompile(`\\fB(warren[a-z-]*)\(1\)`).FindAllStringSubmatch(page, -1) {
			if _, err := os.Stat(filepath.Join(dir, ref[1]+".1")); err != nil {
				t.Errorf("%s refers to %s(1): %v", name, ref[1], err)
			}
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(want, e.Name()) {
			t.Errorf("a page for no command: %s", e.Name())
		}
	}
}

// TestHelperPage: mount.warren(8) names every option that the helper takes.
func TestHelperPage(t *testing.T) {
	b, err := os.ReadFile("../../scripts/package/mount.warren.8")
	if err != nil {
		t.Fatal(err)
	}
	page := plain(string(b))
	src, err := os.ReadFile("mount_helper.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\tcase "([a-z_-]+)":$`).FindAllStringSubmatch(string(src), -1)
	if len(found) < 8 {
		t.Fatalf("found only %d options", len(found))
	}
	for _, m := range found {
		if !regexp.MustCompile(`(?m)^\.BI? .*\b` + m[1] + `\b`).MatchString(page) {
			t.Errorf("mount.warren(8) does not have %s", m[1])
		}
	}
}

// TestCompletionScripts: each shell takes its script.
func TestCompletionScripts(t *testing.T) {
	for shell, args := range map[string][]string{"bash": {"-n"}, "zsh": {"-n"}, "fish": {"--no-execute"}} {
		a, out := newApp(), new(strings.Builder)
		a.stdout = out
		if code := a.main([]string{"completion", shell}); code != 0 || !strings.Contains(out.String(), "__complete") {
			t.Errorf("%s: exit code %d, %d bytes", shell, code, out.Len())
		}
		bin, err := exec.LookPath(shell)
		if err != nil {
			continue // that shell is not here
		}
		file := filepath.Join(t.TempDir(), shell)
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		if text, err := exec.Command(bin, append(args, file)...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", shell, err, text)
		}
	}
}
