package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"gatewayd/gateway"
)

// turnMetrics are read off the conversations, when somebody asks.
type turnMetrics struct{ g *gateway.Gateway }

var (
	turnsDesc   = prometheus.NewDesc("gatewayd_turns_total", "Turns that ended, by how.", []string{"end"}, nil)
	runningDesc = prometheus.NewDesc("gatewayd_turns_running", "Turns that run.", nil, nil)
	waitingDesc = prometheus.NewDesc("gatewayd_messages_waiting", "Messages that wait for their turn.", nil, nil)
	resumedDesc = prometheus.NewDesc("gatewayd_turns_resumed_total", "Turns that went on after the end of their process.", nil, nil)
	prefixDesc  = prometheus.NewDesc("gatewayd_prefix_breaks_total", "Requests that did not begin like the one before them in their session.", nil, nil)
)

// Describe is the collector's.
func (m turnMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{turnsDesc, runningDesc, waitingDesc, resumedDesc, prefixDesc} {
		to <- d
	}
}

// Collect is the collector's.
func (m turnMetrics) Collect(to chan<- prometheus.Metric) {
	s := m.g.Status()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, n int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, kind, float64(n), labels...)
	}
	send(turnsDesc, prometheus.CounterValue, s.Turns-s.Failed-s.Interrupted, "completed")
	send(turnsDesc, prometheus.CounterValue, s.Failed, "failed")
	send(turnsDesc, prometheus.CounterValue, s.Interrupted, "interrupted")
	send(runningDesc, prometheus.GaugeValue, int64(len(s.Running)))
	send(waitingDesc, prometheus.GaugeValue, int64(s.Queued))
	send(resumedDesc, prometheus.CounterValue, s.Resumed)
	send(prefixDesc, prometheus.CounterValue, s.PrefixBreaks)
}
