package main

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if runStage() {
		return
	}
	os.Exit(m.Run())
}
