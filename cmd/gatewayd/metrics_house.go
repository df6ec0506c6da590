package main

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"

	"gatewayd/gateway/provider"
)

// houseMetrics are what a supervisor wants to be woken by: the lines of /health/detailed, the model, the backups, the disk. They are
// read when somebody asks.
type houseMetrics struct{ d *daemon }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("gatewayd_"+name, help, labels, nil)
}

var (
	buildDesc   = desc("build_info", "1, with the version.", "version")
	checkDesc   = desc("check_state", "A line of /health/detailed: 0 is ok or off, 1 degraded, 2 failed.", "check")
	orderlyDesc = desc("last_run_orderly", "1 when the daemon before this one ended in order, or is not known; else 0.")
	backupDesc  = desc("last_backup_timestamp_seconds", "When the newest backup of state.db was made; 0 without one.")
	missedDesc  = desc("backup_failed", "1 when the last round of backups failed, else 0.")
	freeDesc    = desc("disk_free_bytes", "Space that is left where the home is.")
	spoolDesc   = desc("spooled_rows", "Rows that the store did not take and that wait in the spool.")
	callsDesc   = desc("model_calls_total", "Requests that went out to a model's server.", "provider", "model")
	answersDesc = desc("model_answers_total", "Complete answers of a model's server.", "provider", "model")
	failsDesc   = desc("model_failures_total", "Failures of calls, by class; a call may fail several times.", "provider", "model", "class")
	breakerDesc = desc("model_breaker_open", "1 while the server is left alone.", "provider", "model")
	queueDesc   = desc("model_calls_waiting", "Calls of chats and workers that wait for a place at the provider.", "provider", "model")
)

// checkStates are the words of a check as numbers.
var checkStates = map[string]float64{"degraded": 1, "failed": 2}

// Describe is the collector's.
func (m houseMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{buildDesc, checkDesc, orderlyDesc, backupDesc, missedDesc, freeDesc, spoolDesc, callsDesc, answersDesc, failsDesc, breakerDesc, queueDesc} {
		to <- d
	}
}

// Collect is the collector's.
func (m houseMetrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(buildDesc, 1, version)
	states := map[string]float64{}
	for _, c := range m.d.checks(context.Background()) {
		states[c.Name] = max(states[c.Name], checkStates[c.Status])
	}
	for _, name := range slices.Sorted(maps.Keys(states)) {
		gauge(checkDesc, states[name], name)
	}
	run := m.d.gateway.Receipt().Run
	gauge(orderlyDesc, flag(!run.Known() || run.Orderly()))
	gauge(backupDesc, seconds(m.d.lastBackup()))
	gauge(missedDesc, flag(readBackupNote(m.d.config.Home).Error != ""))
	var fs unix.Statfs_t
	if unix.Statfs(m.d.config.Home, &fs) == nil {
		gauge(freeDesc, float64(fs.Bavail)*float64(fs.Bsize))
	}
	gauge(spoolDesc, float64(m.d.store.Health().Spool.Rows))
	m.models(to, gauge)
}

// models tells of each server once, whichever of the models asks it.
func (m houseMetrics) models(to chan<- prometheus.Metric, gauge func(*prometheus.Desc, float64, ...string)) {
	count := func(d *prometheus.Desc, n int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	told := map[[2]string]bool{}
	for _, s := range provider.StatsOf(m.d.model()) {
		if name := [2]string{s.Provider, s.Model}; !told[name] {
			told[name] = true
			count(callsDesc, s.Calls, s.Provider, s.Model)
			count(answersDesc, s.Answered, s.Provider, s.Model)
			for class, n := range s.Failed {
				count(failsDesc, n, s.Provider, s.Model, string(class))
			}
			gauge(breakerDesc, flag(s.Open), s.Provider, s.Model)
			gauge(queueDesc, float64(len(s.Gate.Waiting)), s.Provider, s.Model)
		}
	}
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
