package writeback_test

import "github.com/warrenfs/warren/backend/internal/crashdir"

type (
	disk = crashdir.Disk
	call = crashdir.Call
)

// newDisk gives an empty directory that can crash.
func newDisk() *disk { return crashdir.New() }
