package e2e

import (
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gatewayd/internal/fakellm"
)

var metricName = regexp.MustCompile(`\bgatewayd_[a-z_]+`)

// documented is the table of docs/metrics.md: names with their types.
func documented(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	table := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(gatewayd_[a-z_]+)` \\| ([a-z]+) \\|").FindAllStringSubmatch(string(text), -1) {
		table[row[1]] = row[2]
	}
	return table
}

func TestTheListOfMetricsIsTheMetrics(t *testing.T) {
	llm := fakellm.New(t, fakellm.Error{Status: 400, Message: "no such model"}, fakellm.Text{Text: "fine"})
	d := start(t, newHome(t, "model: {base_url: \""+llm.URL()+"\", name: fake-model}\n"))
	_ = d.say("s1", "hello", nil)
	if err := d.say("s2", "hello", nil); err != nil {
		t.Fatal(err)
	}
	d.call(http.MethodPost, "/api/boards", map[string]any{"slug": "default"}, nil)
	d.call(http.MethodPost, "/api/boards/default/tasks", map[string]any{"title": "x", "assignee": "nobody"}, nil)
	list, got, others := documented(t), map[string]string{}, map[string]bool{}
	d.until("the card is held", func() bool {
		resp, err := d.send(http.MethodGet, "/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range regexp.MustCompile(`(?m)^# TYPE ([a-z_]+) ([a-z]+)$`).FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(row[1], "gatewayd_") {
				got[row[1]] = row[2]
			} else {
				others[row[1]] = true
			}
		}
		return got["gatewayd_dispatch_held_cards"] != ""
	})
	if !maps.Equal(list, got) {
		t.Errorf("docs/metrics.md lists\n%s\nand there are\n%s", lines(list), lines(got))
	}
	for _, path := range askers {
		for _, name := range regexp.MustCompile(`\b(process|go)_[a-z_]+`).FindAllString(textOf(t, path), -1) {
			if !others[name] {
				t.Errorf("%s asks for %s, which the daemon does not tell", path, name)
			}
		}
	}
}

// askers are the files that ask for metrics.
var askers = []string{"../deploy/prometheus/gatewayd.rules.yaml", "../deploy/grafana/gatewayd.json"}

func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Each alert has a moment in its test at which it fires, and one at which it does not.
func TestNoAlertIsWithoutATest(t *testing.T) {
	alerts := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(textOf(t, askers[0]), -1)
	tests := textOf(t, "../deploy/prometheus/gatewayd.rules.test.yaml")
	for _, a := range alerts {
		if !strings.Contains(tests, "- alertname: "+a[1]+"\n") || !strings.Contains(tests, "{alertname: "+a[1]+",") {
			t.Errorf("%s is not seen to fire, or not seen to be quiet", a[1])
		}
	}
	if len(alerts) < 10 {
		t.Errorf("only %d alerts were found", len(alerts))
	}
}

func lines(m map[string]string) string {
	var all []string
	for name, kind := range m {
		all = append(all, name+" "+kind)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func TestAlertsAndDashboardAskForMetricsThatExist(t *testing.T) {
	list := documented(t)
	for _, path := range askers {
		for _, name := range metricName.FindAllString(textOf(t, path), -1) {
			if list[strings.TrimSuffix(name, "_bucket")] == "" {
				t.Errorf("%s asks for %s, which is not in docs/metrics.md", path, name)
			}
		}
	}
}

func TestAlertsFireOnWhatTheyAreFor(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("SKIPPED: promtool (Debian's package prometheus) is not installed, so no alert was seen to fire")
	}
	for _, args := range [][]string{{"check", "rules", "gatewayd.rules.yaml"}, {"test", "rules", "gatewayd.rules.test.yaml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = filepath.Join("..", "deploy", "prometheus")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
