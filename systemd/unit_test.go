package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gatewayd/config"
	"gatewayd/registry"
)

// unit reads the unit file: the last value of each key.
func unit(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("gatewayd.service")
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			settings[key] = value
		}
	}
	return settings
}

func TestTheUnitKeepsWorkersAndUnderstandsExitCodes(t *testing.T) {
	settings := unit(t)
	for key, want := range map[string]string{
		"Type": "notify", "NotifyAccess": "main", "KillMode": "process", "OOMPolicy": "continue", "Restart": "on-failure",
		"RestartForceExitStatus": "75", "RestartPreventExitStatus": "78", "StartLimitIntervalSec": "0", "NoNewPrivileges": "yes",
		"UMask": "0077",
	} {
		if settings[key] != want {
			t.Errorf("%s=%s, want %s", key, settings[key], want)
		}
	}
	for _, harmful := range []string{"MemoryDenyWriteExecute", "RestrictNamespaces", "ExecStopPost", "SendSIGKILL"} {
		if value, ok := settings[harmful]; ok {
			t.Errorf("%s=%s would break workers or outlive their daemon", harmful, value)
		}
	}
}

func TestTheUnitWaitsLongerThanTheDaemonNeedsToStop(t *testing.T) {
	seconds, err := strconv.Atoi(unit(t)["TimeoutStopSec"])
	if err != nil {
		t.Fatal(err)
	}
	need := config.Default().Agent.ShutdownGrace + registry.DefaultCloseTimeout
	if have := time.Duration(seconds) * time.Second; have <= need+10*time.Second {
		t.Errorf("TimeoutStopSec is %v; the drain and closing the files may take %v", have, need)
	}
}

func TestSystemdItselfTakesTheUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("SKIPPED: systemd-analyze is not installed, so nobody but us has read the unit")
	}
	text, err := os.ReadFile("gatewayd.service")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable() // verify wants the program to exist
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "gatewayd.service")
	text = []byte(strings.ReplaceAll(string(text), "/usr/local/bin/gatewayd", program))
	if err := os.WriteFile(copied, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(analyze, "verify", "--man=no", copied).CombinedOutput()
	if err != nil || strings.Contains(string(out), "gatewayd.service") {
		t.Errorf("%v\n%s", err, out)
	}
}
