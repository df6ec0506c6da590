package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Without a directory of temporary files the daemon works, because its databases use the home, and says so where people look. What cannot
// do without is refused in one line that names it.
func TestAMissingTMPDIRIsNamedAndStopsNobody(t *testing.T) {
	t.Parallel()
	home := newHome(t, offline)
	gone := filepath.Join(t.TempDir(), "gone")
	d := launchIn(t, home, home, []string{"TMPDIR=" + gone})
	d.ready()
	if n := len(d.turn("hello")); n != 2 {
		t.Errorf("%d rows", n)
	}
	said := func(args ...string) (string, int) {
		cmd := exec.Command(program, append([]string{"--home", home}, args...)...)
		cmd.Env = append(homeEnv(home), "TMPDIR="+gone)
		out, _ := cmd.CombinedOutput()
		return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
	}
	if out, _ := said("doctor", "--all"); !strings.Contains(out, "! temporary") || !strings.Contains(out, "TMPDIR "+gone+" takes no temporary files") || strings.Contains(out, "✗") {
		t.Errorf("doctor: %s", out)
	}
	if out, code := said("backup"); code != 0 {
		t.Errorf("backup: %d %s", code, out)
	}
	hermes := t.TempDir()
	if err := os.WriteFile(filepath.Join(hermes, "config.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range [][]string{{"demo"}, {"import", "hermes", hermes, "--dry-run"}} {
		if out, code := said(verb...); code == 0 || !strings.Contains(out, "TMPDIR "+gone+" takes no temporary files: no such file or directory") {
			t.Errorf("%v: %d %s", verb, code, out)
		}
	}
	d.stop()
	if log := d.log.String(); !strings.Contains(log, "takes no temporary files") || !strings.Contains(log, "kept in the home") {
		t.Errorf("the log does not say it:\n%s", log)
	}
	if left, err := filepath.Glob(filepath.Join(home, "*.db")); err != nil || len(left) != 1 {
		t.Errorf("databases in the home: %v %v", left, err)
	}
}
