package main

import "testing"

func TestParseAmount(t *testing.T) {
	for text, want := range map[string]uint64{"0": 0, "7": 7, "7b": 7, "64K": 64 << 10, "2G": 2 << 30, "1MiB": 1 << 20, "3tB": 3 << 40} {
		if got, err := parseAmount(text, 1024); err != nil || got != want {
			t.Errorf("%s is read as %d, %v", text, got, err)
		}
	}
	if got, err := parseAmount("200k", 1000); err != nil || got != 200_000 {
		t.Errorf("200k inodes are %d, %v", got, err)
	}
	for _, text := range []string{"", "k", "-1", "1.5G", "1x", "1kk", "1kM", "99999999999999999999", "99999999999T"} {
		if got, err := parseAmount(text, 1024); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}
