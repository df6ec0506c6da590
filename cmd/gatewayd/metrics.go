package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"gatewayd/kanban/dispatch"
)

// dispatchMetrics are read off the dispatcher's last tick, when somebody asks.
type dispatchMetrics struct{ d *dispatch.Dispatcher }

var (
	heldDesc  = prometheus.NewDesc("gatewayd_dispatch_held_cards", "Ready cards by what holds them.", []string{"reason"}, nil)
	stuckDesc = prometheus.NewDesc("gatewayd_dispatch_stuck_ticks", "Full ticks in a row in which cards that could start waited and none started; 0 when nothing is wrong.", nil, nil)
	runDesc   = prometheus.NewDesc("gatewayd_dispatch_workers", "Workers that run, over all boards.", nil, nil)
	boardDesc = prometheus.NewDesc("gatewayd_dispatch_boards", "Boards by state.", []string{"state"}, nil)
)

// Describe is the collector's.
func (m dispatchMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{heldDesc, stuckDesc, runDesc, boardDesc} {
		to <- d
	}
}

// Collect is the collector's.
func (m dispatchMetrics) Collect(to chan<- prometheus.Metric) {
	s := m.d.Status()
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	for reason, n := range s.Held {
		gauge(heldDesc, n, string(reason))
	}
	stuck := 0
	if s.Stuck != nil && !s.Stuck.Kept {
		stuck = s.Stuck.Ticks
	}
	gauge(stuckDesc, stuck)
	gauge(runDesc, s.InProgress)
	states := map[string]int{}
	for _, b := range s.Boards {
		states[b.State]++
	}
	for state, n := range states {
		gauge(boardDesc, n, state)
	}
}
