package metrics

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// TestLint: Prometheus's own linter has nothing to say about our metrics.
func TestLint(t *testing.T) {
	_, text := scrape(t, full(), "", "")
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "warren_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}
