package metrics

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/warrenfs/warren/control"
)

// Source gives the present Status.
type Source func(context.Context) control.Status

const (
	scrapeTime = 10 * time.Second // that one scrape may take
	maxScrapes = 4                // at once; more are answered 503
)

// CheckAddress refuses, as control.KindInvalid, what is not an IP address of
// loopback with a port; port 0 takes any.
func CheckAddress(address string) error {
	a, err := netip.ParseAddrPort(address)
	if err != nil || !a.Addr().IsLoopback() {
		return control.Errorf(control.KindInvalid,
			"metrics are served on loopback alone, and %q is not a loopback address with a port, such as 127.0.0.1:9464", address)
	}
	return nil
}

// Listen opens address. Errors: CheckAddress's, those of the system.
func Listen(address string) (net.Listener, error) {
	if err := CheckAddress(address); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	return l, nil
}

// Handler answers GET /metrics. With a token, only who shows it as a bearer is
// answered; others get 401. log nil discards.
func Handler(s Source, token string, log *slog.Logger) (http.Handler, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	r := prometheus.NewRegistry()
	err := errors.Join(r.Register(&collector{s}), r.Register(collectors.NewGoCollector()),
		r.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})))
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	answer := promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes, Timeout: scrapeTime,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)})
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", guard(answer, token))
	return mux, nil
}

// guard asks for the token. It takes the same time whatever is shown.
func guard(h http.Handler, token string) http.Handler {
	if token == "" {
		return h
	}
	want := sha256.Sum256([]byte("Bearer " + token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(got[:], want[:]) == 0 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="warren"`)
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// collector fills in the table at each scrape.
type collector struct{ source Source }

var _ prometheus.Collector = (*collector)(nil)

// Describe implements prometheus.Collector.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for i := range table {
		to <- table[i].desc()
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	s := c.source(ctx)
	for i := range table {
		m := &table[i]
		desc := m.desc()
		m.read(&s, func(v sample) { to <- m.metric(desc, &s, v) })
	}
}

// desc makes the description of m.
func (m *metric) desc() *prometheus.Desc { return prometheus.NewDesc(m.name, m.help, m.labels, nil) }

// metric makes one sample of m.
func (m *metric) metric(d *prometheus.Desc, s *control.Status, v sample) prometheus.Metric {
	var out prometheus.Metric
	var err error
	switch m.kind {
	case histogram:
		out, err = prometheus.NewConstHistogram(d, v.took.Count, v.took.Seconds, cumulative(s.LatencyBounds, v.took.Buckets), v.labels...)
	case counter:
		out, err = prometheus.NewConstMetric(d, prometheus.CounterValue, v.value, v.labels...)
	default:
		out, err = prometheus.NewConstMetric(d, prometheus.GaugeValue, v.value, v.labels...)
	}
	if err != nil {
		return prometheus.NewInvalidMetric(d, err)
	}
	return out
}

// cumulative gives buckets as Prometheus has them: each with those below it.
func cumulative(bounds []float64, each []uint64) map[float64]uint64 {
	out := make(map[float64]uint64, len(bounds))
	var sum uint64
	for i, b := range bounds {
		if i < len(each) {
			sum += each[i]
		}
		out[b] = sum
	}
	return out
}
