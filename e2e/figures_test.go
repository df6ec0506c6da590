package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var figuresFile = flag.String("figures", "", "measure the figures and write them to this `file`")

// figure is one row of the table: what was measured, what it is held against in the same run, and the target.
type figure struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Unit   string  `json:"unit"`
	Limit  string  `json:"limit"` // what the ratio is taken to, with its own value
	Ratio  float64 `json:"ratio,omitempty"`
	Target string  `json:"target"`
	Met    bool    `json:"met"`
}

// TestFigures measures the table of docs/performance.md. It is a measurement and not a check: a target that is
// missed is written down as missed. It takes minutes and a quiet machine, so `make bench` asks for it.
func TestFigures(t *testing.T) {
	if *figuresFile == "" {
		t.Skip("figures are measured by `make bench` only")
	}
	var table []figure
	for _, measure := range []func(*testing.T) []figure{
		appendFigures, indexerFigure, loadFigure, searchFigures, claimFigures, tickFigures, startLatencyFigures,
		turnFigures, conversationFigure, registryFigure, coldStartFigures, firstByteFigure, doorFigures, idleFigures, keeperFigure, binaryFigure, diskFigures, pageFigures,
	} {
		rows := measure(t)
		for _, f := range rows {
			t.Log(f.line())
		}
		table = append(table, rows...)
	}
	raw, err := json.MarshalIndent(table, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(*figuresFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*figuresFile, append(raw, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// line is the figure as a row of a Markdown table.
func (f figure) line() string {
	ratio := ""
	if f.Ratio != 0 {
		ratio = fmt.Sprintf("%.2f", f.Ratio)
	}
	met := "yes"
	if !f.Met {
		met = "MISSED"
	}
	return fmt.Sprintf("| %s | %s %s | %s | %s | %s | %s |", f.Name, short(f.Value), f.Unit, f.Limit, ratio, f.Target, met)
}

func short(v float64) string {
	s := fmt.Sprintf("%.3g", v)
	if strings.Contains(s, "e") {
		s = fmt.Sprintf("%.0f", v)
	}
	return s
}

// atMost makes a figure whose ratio to a limit of the same unit must not exceed the target.
func atMost(name string, value float64, unit, limitName string, limit, target float64) figure {
	return figure{
		Name: name, Value: value, Unit: unit, Limit: fmt.Sprintf("%s: %s %s", limitName, short(limit), unit), Ratio: value / limit,
		Target: fmt.Sprintf("≤ %g ×", target), Met: value/limit <= target,
	}
}

// below makes a figure that must not exceed an absolute target; its ratio is to that.
func below(name string, value float64, unit string, target float64) figure {
	f := figure{Name: name, Value: value, Unit: unit, Limit: "the target", Target: fmt.Sprintf("≤ %g %s", target, unit), Met: value <= target}
	if target > 0 {
		f.Ratio = value / target
	}
	return f
}

func median(v []float64) float64 { return quantile(v, 0.5) }

func quantile(v []float64, q float64) float64 {
	sorted := slices.Clone(v)
	slices.Sort(sorted)
	return sorted[min(int(float64(len(sorted))*q), len(sorted)-1)]
}

// micros times one call.
func micros(t *testing.T, do func() error) float64 {
	t.Helper()
	began := time.Now()
	if err := do(); err != nil {
		t.Fatal(err)
	}
	return float64(time.Since(began).Nanoseconds()) / 1e3
}
