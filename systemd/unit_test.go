package systemd

import (
	"errors"
	"flag"
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

var update = flag.Bool("update", false, "write gatewayd.service anew")

// longestStop is what a stop may take by default.
func longestStop() time.Duration {
	return config.Default().Agent.ShutdownGrace + registry.DefaultCloseTimeout + 10*time.Second
}

func packaged() Unit {
	return Unit{System: true, Exe: "/usr/local/bin/gatewayd", Stop: longestStop()}
}

// settings reads a unit: the last value of each key.
func settings(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			all[key] = value
		}
	}
	return all
}

func TestThePackagedUnitIsTheOneThatIsInstalled(t *testing.T) {
	want := packaged().Text()
	if *update {
		if err := os.WriteFile("gatewayd.service", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile("gatewayd.service")
	if err != nil || string(text) != want {
		t.Errorf("gatewayd.service differs from what install writes (%v); go test ./systemd -update", err)
	}
}

func TestTheUnitKeepsWorkersAndUnderstandsExitCodes(t *testing.T) {
	for _, u := range []Unit{packaged(), {Exe: "/bin/gatewayd"}, {Exe: "/bin/gatewayd", System: true, Alone: true}} {
		have := settings(u.Text())
		for key, want := range map[string]string{
			"Type": "notify", "NotifyAccess": "main", "KillMode": "process", "OOMPolicy": "continue", "Restart": "on-failure",
			"RestartForceExitStatus": "75", "RestartPreventExitStatus": "78", "StartLimitIntervalSec": "0", "NoNewPrivileges": "yes",
			"UMask": "0077", "ExecReload": "kill -HUP $MAINPID",
		} {
			if have[key] != want {
				t.Errorf("%+v: %s=%s, want %s", u, key, have[key], want)
			}
		}
		for _, harmful := range []string{"MemoryDenyWriteExecute", "RestrictNamespaces", "ExecStopPost", "SendSIGKILL", "PrivateTmp", "RemoveIPC", "RuntimeDirectory"} {
			if value, ok := have[harmful]; ok && !u.Alone {
				t.Errorf("%s=%s would break workers or outlive their daemon", harmful, value)
			}
		}
	}
}

func TestTheUnitWaitsLongerThanTheDaemonNeedsToStop(t *testing.T) {
	seconds, err := strconv.Atoi(settings(packaged().Text())["TimeoutStopSec"])
	if err != nil {
		t.Fatal(err)
	}
	if have := time.Duration(seconds) * time.Second; have < longestStop()+10*time.Second {
		t.Errorf("TimeoutStopSec is %v; the drain and closing the files may take %v", have, longestStop())
	}
}

func TestAPathWithOddCharactersStaysOneWord(t *testing.T) {
	have := settings(Unit{Exe: "/opt/my tools/100%/gate$wayd", Home: `/srv/$a "b"`}.Text())
	if have["ExecStart"] != `"/opt/my tools/100%%/gate$$wayd"` || have["Environment"] != `"GATEWAYD_HOME=/srv/$a \"b\""` {
		t.Errorf("ExecStart=%s Environment=%s", have["ExecStart"], have["Environment"])
	}
}

// written puts a unit where systemd's own programs read it, with a program that exists.
func written(t *testing.T, u Unit) string {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	u.Exe = program
	path := filepath.Join(t.TempDir(), "gatewayd.service")
	if err := os.WriteFile(path, []byte(u.Text()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func analyze(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("SKIPPED: systemd-analyze is not installed, so nobody but us has read the unit")
	}
	return path
}

func TestSystemdItselfTakesTheUnit(t *testing.T) {
	for _, u := range []Unit{{System: true}, {}, {Home: "/srv/a b"}, {System: true, Alone: true}} {
		out, err := exec.Command(analyze(t), "verify", "--man=no", written(t, u)).CombinedOutput()
		if err != nil || strings.Contains(string(out), "gatewayd.service") {
			t.Errorf("%+v: %v\n%s", u, err, out)
		}
	}
}

// The socket, and what a page of the docs says to write into a drop-in.
func TestSystemdItselfTakesTheSocketAndTheDropIns(t *testing.T) {
	page, err := os.ReadFile("../docs/service.md")
	if err != nil {
		t.Fatal(err)
	}
	dropIns := blocks(string(page), "ini")
	if len(dropIns) == 0 {
		t.Fatal("the page shows no drop-in")
	}
	for _, u := range []Unit{{Listen: "127.0.0.1:8642"}, {System: true, Listen: "[::1]:8642"}, {System: true, Alone: true, Listen: "127.0.0.1:8642"}} {
		for i, dropIn := range append(dropIns, "") {
			service := written(t, u)
			socket := strings.TrimSuffix(service, ".service") + ".socket"
			err := errors.Join(os.WriteFile(socket, []byte(u.SocketText()), 0o600), os.Mkdir(service+".d", 0o700), os.WriteFile(service+".d/override.conf", []byte(dropIn), 0o600))
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(analyze(t), "verify", "--man=no", socket, service).CombinedOutput()
			if err != nil || strings.Contains(string(out), "gatewayd.") {
				t.Errorf("%+v with drop-in %d: %v\n%s", u, i, err, out)
			}
		}
	}
}

// blocks are the pieces of a page in one language.
func blocks(page, language string) (all []string) {
	for _, rest := range strings.Split(page, "```"+language+"\n")[1:] {
		text, _, _ := strings.Cut(rest, "```")
		all = append(all, text)
	}
	return all
}

// The exposure that `systemd-analyze security` counts is of ten; a threshold is in tenths.
func TestTheUnitIsFencedInAsFarAsItsWorkAllows(t *testing.T) {
	for threshold, u := range map[string]Unit{"35": {System: true}, "15": {System: true, Alone: true}} {
		out, err := exec.Command(analyze(t), "security", "--offline=true", "--no-pager", "--threshold="+threshold, written(t, u)).CombinedOutput()
		if err != nil {
			t.Errorf("alone %v: %v\n%s", u.Alone, err, out)
		}
	}
}
