package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/chamber"
)

// selftest --chaos says in plain words and in JSON whether a place is safe, and leaves nothing behind.
func TestSelftestSaysWhetherAPlaceIsSafe(t *testing.T) {
	t.Parallel()
	place := t.TempDir()
	home := filepath.Join(t.TempDir(), "home")
	args := []string{"selftest", "--chaos", "--dir", place, "--episode", "kill_writer"}
	out, errs, code := cli(t, home, args...)
	for _, words := range []string{"This place is safe for a store.", "each acknowledged row exactly once", "kill -9", "they hold between processes"} {
		if !strings.Contains(out, words) {
			t.Errorf("does not say %q", words)
		}
	}
	if code != 0 || t.Failed() {
		t.Fatalf("code %d\n%s%s", code, out, errs)
	}
	out, errs, code = cli(t, home, append(args, "--json")...)
	var v chamber.Verdict
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 || !v.Safe || v.Totals.Kills < 3 || v.Totals.Acked == 0 || len(v.Results) != 1 {
		t.Errorf("code %d, %v\n%s%s", code, err, out, errs)
	}
	if left, err := os.ReadDir(place); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if _, err := os.Stat(home); err == nil {
		t.Error("the home was made")
	}
	for name, wrong := range map[string][]string{"no chaos": {"selftest"}, "no episode": append(args[:len(args):len(args)], "--episode", "none")} {
		if _, errs, code := cli(t, home, wrong...); code == 0 || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: code %d, %s", name, code, errs)
		}
	}
}
