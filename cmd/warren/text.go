package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// facts prints names and values in two columns; empty values are left out.
func facts(w io.Writer, pairs ...string) {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			_, _ = fmt.Fprintf(t, "%s:\t%s\n", pairs[i], pairs[i+1])
		}
	}
	_ = t.Flush()
}

// stamp shows a time to the second, in UTC.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// size shows bytes for people.
func size(n uint64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, i := float64(n)/1024, 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	return fmt.Sprintf("%.1f %ciB", f, units[i])
}
