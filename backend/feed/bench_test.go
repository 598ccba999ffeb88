package feed_test

import (
	"testing"

	"github.com/warrenfs/warren/backend"
	"github.com/warrenfs/warren/backend/feed"
	"github.com/warrenfs/warren/backend/mem"
)

// BenchmarkPut measures transactions of 100 events.
func BenchmarkPut(b *testing.B) {
	s := mem.New(mem.Options{})
	f, err := feed.Open(b.Context(), s, feed.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	e := feed.Event{Op: "create", Agent: "web_designer", Mount: "/home/ada/warren", Path: "/agents/web_designer/workspace/site/node_modules/x/index.js", Node: 1 << 40}
	for b.Loop() {
		_, err := s.Update(b.Context(), func(kv backend.Tx) error {
			for range 100 {
				if err := f.Put(kv, &e); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(100*b.N), "ns/event")
}
