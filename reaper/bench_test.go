package reaper_test

import (
	"testing"

	"gatewayd/reaper"
)

// BenchmarkStart prints what a keeper costs before its child runs, cold and warm, against a bare start. The binary is
// the test's; the daemon's own is larger and its cold keeper dearer.
func BenchmarkStart(b *testing.B) {
	figures, err := reaper.Measure(b.Context(), b.TempDir(), []string{path}, max(b.N, 20))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(figures.Bare.Microseconds()), "bare-us")
	b.ReportMetric(float64(figures.Cold.Microseconds()), "cold-us")
	b.ReportMetric(float64(figures.Warm.Microseconds()), "warm-us")
	b.ReportMetric(figures.ColdRatio(), "cold/bare")
	b.ReportMetric(figures.WarmRatio(), "warm/bare")
}

func TestMeasuringWorks(t *testing.T) {
	figures, err := reaper.Measure(t.Context(), t.TempDir(), []string{path}, 1)
	if err != nil || figures.Bare <= 0 || figures.Cold <= 0 || figures.Warm <= 0 {
		t.Errorf("%+v, %v", figures, err)
	}
}
