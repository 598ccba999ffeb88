//go:build !race

package stack

const raceDetector = false
