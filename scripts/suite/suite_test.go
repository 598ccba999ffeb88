package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCounts: what passes, fails, is skipped or left out is counted and shown,
// and the last line stands alone.
func TestCounts(t *testing.T) {
	var out bytes.Buffer
	s := newSuite(&out, "short")
	r := s.begin(module + "a")
	err := r.read(strings.NewReader(`{"Action":"run","Test":"TestGood"}
{"Action":"output","Test":"TestGood","Output":"not shown\n"}
{"Action":"pass","Test":"TestGood","Elapsed":0.1}
{"Action":"run","Test":"TestBad"}
{"Action":"output","Test":"TestBad","Output":"why it failed\n"}
{"Action":"fail","Test":"TestBad","Elapsed":0.1}
{"Action":"run","Test":"TestNot"}
{"Action":"output","Test":"TestNot","Output":"=== RUN TestNot\n"}
{"Action":"output","Test":"TestNot","Output":"    x_test.go:3: no disk\n"}
{"Action":"output","Test":"TestNot","Output":"--- SKIP: TestNot\n"}
{"Action":"skip","Test":"TestNot","Elapsed":0}
not JSON
`))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "why it failed") {
		t.Error("a failed test's output is not shown at once")
	}
	r.tests["TestEndless"] = r.begun
	s.showRunning()
	s.end(r, errors.New("exit status 1"), "")
	broken := s.begin(module + "broken")
	broken.line(`{"Action":"build-output","ImportPath":"broken","Output":"undefined: x\n"}`)
	s.end(broken, errors.New("exit status 1"), "left running: 7\n")
	s.leaveOut(module + "late")
	s.report()
	for _, want := range []string{
		"a, 1 passed in 0:00: TestEndless (0:00)", "undefined: x", "left running: 7", "not JSON",
		"left out, not failed: late", "\n1 passed, 2 failed, 1 skipped\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "not shown") {
		t.Error("a passed test's output is shown")
	}
	if _, err := os.Stat("/dev/fuse"); err == nil && !strings.Contains(out.String(), "skipped: a TestNot: x_test.go:3: no disk") {
		t.Errorf("the skip is not listed:\n%s", &out)
	}
}

// TestHeavyPackagesExist: a package that was renamed would run beside others.
func TestHeavyPackagesExist(t *testing.T) {
	for _, pkg := range heavy {
		tests, err := filepath.Glob(filepath.Join("..", "..", pkg, "*_test.go"))
		if err != nil || len(tests) == 0 {
			t.Errorf("%s has no tests (%v)", pkg, err)
		}
	}
}
