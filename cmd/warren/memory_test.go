package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestCgroupMemory: the least limit on the way up counts, of either version.
func TestCgroupMemory(t *testing.T) {
	for name, x := range map[string]struct {
		list  string
		files map[string]string
		want  int64
	}{
		"none":            {"0::/\n", nil, math.MaxInt64},
		"version 2":       {"0::/a/b\n", map[string]string{"a/b/memory.max": "max\n", "a/memory.max": "62914560\n"}, 62914560},
		"in a container":  {"0::/host/x\n", map[string]string{"memory.max": "1000\n"}, 1000},
		"version 1":       {"9:name=systemd:/\n4:cpu,memory:/a\n", map[string]string{"memory/a/memory.limit_in_bytes": "5000", "memory/memory.limit_in_bytes": "9223372036854771712"}, 5000},
		"version 1, less": {"4:memory:/a/b\n0::/\n", map[string]string{"memory/a/memory.limit_in_bytes": "5000", "memory/a/b/memory.limit_in_bytes": "6000"}, 5000},
		"nonsense":        {"x\n::::\n", map[string]string{"memory.max": "-1"}, math.MaxInt64},
	} {
		root := t.TempDir()
		for file, text := range x.files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		list := filepath.Join(root, "list")
		if err := os.WriteFile(list, []byte(x.list), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := cgroupMemory(list, root); got != x.want {
			t.Errorf("%s: %d", name, got)
		}
	}
}
