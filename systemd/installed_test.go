package systemd

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestASpanOfTimeIsReadAsSystemdReadsIt(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"130": 130 * time.Second, "2min 10s": 130 * time.Second, "2min10s": 130 * time.Second, "1.5h": 90 * time.Minute, "infinity": 0, "500ms": 500 * time.Millisecond,
	} {
		if got, err := parseSpan(text); got != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"soon", "10 parsecs", "-1", "1..2"} {
		if got, err := parseSpan(text); err == nil {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func TestADropInHasTheLastWord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gatewayd.service")
	unit := Unit{Exe: "/usr/bin/gatewayd", Stop: 100 * time.Second}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(path, unit.Text())
	u, err := ReadInstalled(path)
	if stop, bad := u.StopTimeout(); err != nil || bad != nil || !u.Ours() || stop != 130*time.Second {
		t.Errorf("%v, %v, %v, ours %v", stop, err, bad, u.Ours())
	}
	if err := os.Mkdir(path+".d", 0o755); err != nil {
		t.Fatal(err)
	}
	write(path+".d/override.conf", "[Service]\nTimeoutStopSec = 5\n")
	if u, err = ReadInstalled(path); err != nil || len(u.DropIns) != 1 {
		t.Fatalf("%+v, %v", u, err)
	}
	if stop, bad := u.StopTimeout(); bad != nil || stop != 5*time.Second {
		t.Errorf("%v, %v", stop, bad)
	}
}
