//go:build race

package waits

// detector is how many times longer the race detector makes everything take.
const detector = 4
