package api

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the API's own. Routes are patterns, so a client cannot make new series by asking for new paths.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	streams  prometheus.Gauge
}

func newMetrics(registry *prometheus.Registry) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gatewayd_http_requests_total", Help: "Requests by route, method and status."}, []string{"route", "method", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gatewayd_http_request_seconds", Help: "How long requests took, streams included.", Buckets: []float64{.001, .005, .025, .1, .5, 2, 10, 60, 600},
		}, []string{"route"}),
		streams: prometheus.NewGauge(prometheus.GaugeOpts{Name: "gatewayd_http_streams", Help: "Answers being streamed now."}),
	}
	if registry != nil {
		registry.MustRegister(m.requests, m.seconds, m.streams)
	}
	return m
}

func (m *metrics) request(route, method string, status int, took time.Duration) {
	if route == "" || route == "/*" {
		route = "none"
	}
	m.requests.WithLabelValues(route, knownMethod(method), strconv.Itoa(status)).Inc()
	m.seconds.WithLabelValues(route).Observe(took.Seconds())
}

func knownMethod(method string) string {
	switch method {
	case "GET", "POST", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE":
		return method
	}
	return "other"
}
