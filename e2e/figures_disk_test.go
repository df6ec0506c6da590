package e2e

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// diskFigures are measured inside the package that has the guards, which alone can leave them out.
func diskFigures(t *testing.T) []figure {
	guards := benchmark(t, "internal/sqlite", "BenchmarkAppendBesideUnguarded", "200x")
	log := benchmark(t, "internal/sqlite", "BenchmarkRecovery", "7x")
	return []figure{
		atMost("durable append with all guards", guards["µs/append"], "µs", "the same without them", guards["µs/unguarded"], 1.05),
		atMost("kill -9 with a 64 MB log: open to first read", log["ms/read"], "ms", "bare library", log["ms/bare-read"], 1.2),
		atMost("the same: open to first durable write", log["ms/write"], "ms", "bare library", log["ms/bare-write"], 1.2),
	}
}

// benchmark runs one benchmark of a package and gives its metrics by unit.
func benchmark(t *testing.T, pkg, name, times string) map[string]float64 {
	t.Helper()
	cmd := exec.Command("go", "test", "./"+pkg, "-run", "^$", "-bench", "^"+name+"$", "-benchtime", times)
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	metrics := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[0], name) {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			metrics[fields[i+1]], _ = strconv.ParseFloat(fields[i], 64)
		}
	}
	if len(metrics) == 0 {
		t.Fatalf("%s reported nothing:\n%s", name, out)
	}
	return metrics
}
