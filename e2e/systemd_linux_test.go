package e2e

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
	"gatewayd/internal/vigil"
)

const terminalAllowed = "model: {provider: offline}\ntools: {terminal: allow}\nagent: {shutdown_grace: 2s}\n"

// A unit that waits for the daemon is started when the API answers. What the daemon does, and what it makes of its configuration, is seen
// with systemd's own programs.
func TestSystemdKnowsWhenTheDaemonAnswersAndWhatItDoes(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.install(terminalAllowed)
	m.write("/etc/systemd/system/after.service", "[Unit]\nRequires=gatewayd.service\nAfter=gatewayd.service\n[Service]\nType=oneshot\nExecStart=curl -sS --fail http://127.0.0.1:8642/health\n")
	m.run("systemctl", "stop", s.unit)
	m.run("systemctl", "daemon-reload")
	m.run("systemctl", "start", "after.service")
	if is := m.run("systemctl", "is-active", s.unit); is != "active" {
		t.Errorf("it is %s", is)
	}
	go func() { _ = s.ask(http.MethodPost, "/v1/chat/completions", turn("$ sleep 1000"), nil) }() // until it is stopped
	s.until("the status counts the turn", func() bool {
		return strings.HasPrefix(m.show(s.unit, "StatusText"), "1 turn running, 0 waiting; cards: 0 running, 0 ready on ")
	})

	m.write(s.home+"/config.yaml", strings.Replace(terminalAllowed, "agent: {", "agent: {max_iterations: 7, ", 1))
	m.run("systemctl", "reload", s.unit)
	s.says(`6 gatewayd: setting changed key=agent.max_iterations`, "Reloaded "+s.unit)
	if got := m.show(s.unit, "ActiveState"); got != "active" {
		t.Errorf("after a reload it is %s", got)
	}
	m.write(s.home+"/config.yaml", "agent: {max_iterations: many}\n")
	m.run("systemctl", "reload", s.unit)
	s.says("3 gatewayd: configuration not taken")
	if out, code := m.visit([]string{"GATEWAYD_HOME=" + s.home}, "gatewayd", "logs", "--level", "warn"); code != 0 || !strings.Contains(out, "configuration not taken") || strings.Contains(out, "\x1b") {
		t.Errorf("logs: %d %q", code, out)
	}
	m.write(s.home+"/config.yaml", strings.Replace(terminalAllowed, "grace: 2s", "grace: 5m", 1))
	m.run("gatewayd", "install", "--system")
	if waits := m.show(s.unit, "TimeoutStopUSec"); waits != "6min 40s" {
		t.Errorf("with a grace of 5 minutes systemd waits %s for a stop", waits)
	}

	out := m.run("gatewayd", "uninstall", "--system")
	for _, words := range []string{"the home /var/lib/gatewayd stays", "rm -r /var/cache/gatewayd"} {
		if !strings.Contains(out, words) {
			t.Errorf("uninstall does not say %q: %s", words, out)
		}
	}
	for _, left := range []string{
		m.types("systemctl list-units --all --no-legend 'gatewayd*'"), m.types("systemctl list-unit-files --no-legend 'gatewayd*' || true"),
		m.types("find /etc/systemd /run/systemd/system /run/systemd/transient -name '*gatewayd*' 2>/dev/null || true"),
		m.types("pgrep -u gatewayd || true"),
	} {
		if left != "" {
			t.Errorf("uninstall leaves %s", left)
		}
	}
}

// A stop cuts no worker off, and takes nothing away from under it; the next daemon finds it again. The command of a conversation ends.
func TestSystemdStopsTheDaemonInTimeAndAWorkerGoesOn(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	const script = "set -e; for d in /tmp /var/tmp /dev/shm; do echo kept > $d/kept; done; echo once >> ~/began; while [ ! -e ~/go-on ]; do sleep 0.05; done; " +
		"cat /tmp/kept /var/tmp/kept /dev/shm/kept > ~/found; for d in /tmp /var/tmp /dev/shm; do echo more > $d/more; done"
	s := m.install(terminalAllowed + "kanban: {lanes: {slow: {preset: command, argv: [sh, -c, '" + script + "']}}}\n")
	s.call(http.MethodPost, "/api/boards", map[string]string{"slug": "b"}, nil)
	id := s.card("slow")
	s.until("the worker is at work", func() bool { _, err := os.Stat(m.file(s.home + "/began")); return err == nil })
	go func() { _ = s.ask(http.MethodPost, "/v1/chat/completions", turn("$ exec sleep 1000"), nil) }()
	s.until("the command runs", func() bool { _, code := m.try("pgrep", "-f", "^sleep 1000"); return code == 0 })
	began := time.Now()
	m.run("systemctl", "stop", s.unit)
	if took := time.Since(began); took > 60*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if active, how := m.show(s.unit, "ActiveState"), m.show(s.unit, "Result"); active != "inactive" || how != "success" {
		t.Errorf("after a stop it is %s, %s", active, how)
	}
	if left := m.types("pgrep -a -f '^sleep 1000' || true"); left != "" {
		t.Errorf("a command of a conversation outlived the daemon: %s", left)
	}
	m.run("pgrep", "-f", "go-on") // the worker
	m.run("systemctl", "start", s.unit)
	if is := s.statusOf(id); is != "running" {
		t.Errorf("the card of a worker that is at work is %s", is)
	}
	m.write(s.home+"/go-on", "")
	s.until("the card has ended", func() bool { return s.statusOf(id) != "running" })
	found, _ := os.ReadFile(m.file(s.home + "/found"))
	once, _ := os.ReadFile(m.file(s.home + "/began"))
	if is := s.statusOf(id); is != "done" || string(found) != "kept\nkept\nkept\n" || string(once) != "once\n" {
		t.Errorf("the card is %s, the worker found %q of its temporary files and began %q", is, found, once)
	}
}

// Restart, RestartForceExitStatus and RestartPreventExitStatus, as systemd takes them.
func TestSystemdStartsAgainWhatDiedAndNotWhatIsMisconfigured(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.install("model: {provider: offline}\nrespawn: {limit: 2, window: 1h, first_wait: 1h, longest_wait: 1h}\n")
	s.dropIn("[Service]\nRestartSec=100ms\n")
	s.restarts("KILL", 1)
	s.says("gatewayd: last run how=killed")
	s.restarts("USR1", 2) // 75
	s.says("gatewayd: last run how=restart ")
	s.dropIn("[Service]\nRestartSec=100ms\nTimeoutStartSec=5\n")
	for range 2 {
		s.signal("KILL")
		s.until("it is started again", func() bool { return m.show(s.unit, "SubState") != "auto-restart" && m.show(s.unit, "MainPID") != "0" })
		s.until("it is ready or waits", func() bool {
			return m.show(s.unit, "ActiveState") == "active" || strings.HasPrefix(m.show(s.unit, "StatusText"), "waits until")
		})
	}
	vigil.LetPass(6*time.Second, "systemd gives a start up after five, unless it is asked for more")
	if is, why := m.show(s.unit, "ActiveState"), m.show(s.unit, "StatusText"); is != "activating" || !strings.Contains(why, "because it was started 3 times after runs that had died") {
		t.Errorf("after a storm of deaths it is %s: %s", is, why)
	}
	m.run("systemctl", "stop", s.unit)
	if is, how := m.show(s.unit, "ActiveState"), m.show(s.unit, "Result"); is != "inactive" || how != "success" {
		t.Errorf("a stop in the wait: %s, %s", is, how)
	}
	m.write(s.home+"/config.yaml", "agent: {max_iterations: many}\n")
	if out, code := m.try("systemctl", "start", s.unit); code == 0 {
		t.Errorf("a broken configuration was started: %s", out)
	}
	// what is to be tried again is "auto-restart" as soon as it has ended
	for property, want := range map[string]string{"ActiveState": "failed", "SubState": "failed", "ExecMainStatus": "78", "NRestarts": "0"} {
		if got := m.show(s.unit, property); got != want {
			t.Errorf("after a start with a broken configuration %s is %s, want %s", property, got, want)
		}
	}
	s.says("max_iterations")
}

// One part of the daemon stands still, with a systemd that is to be told every few seconds.
func TestSystemdStartsADaemonAgainOfWhichAPartHangs(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.install("model: {provider: offline}\n")
	s.dropIn("[Service]\nRestartSec=100ms\nWatchdogSec=4\n")
	m.run("systemctl", "restart", s.unit)
	before := m.show(s.unit, "MainPID")
	release := jam(t, m.file(s.home+"/state.db"))
	s.until("another process runs", func() bool { pid := m.show(s.unit, "MainPID"); return pid != "0" && pid != before })
	release()
	s.becomes("ActiveState", "active")
	s.says("3 gatewayd: actor is silent, watchdog is not fed actor=state.db", "3 gatewayd: ended at once reason=\"no sign of life from state.db\" code=75", "gatewayd: last run how=failed")
	if stacks := m.types("cat " + s.home + "/logs/stacks-*.log"); !strings.Contains(stacks, "no sign of life from state.db") || !strings.Contains(stacks, "goroutine ") {
		t.Errorf("stacks: %.300s", stacks)
	}
	if n := m.show(s.unit, "NRestarts"); n != "1" {
		t.Errorf("it was started again %s times", n)
	}
}

// The first connection starts the daemon. While it is stopped, killed and started again nobody is refused; when the service is taken away
// the door is shut, and nobody who knocks meanwhile starts it again.
func TestTheDoorOfSystemdIsOpenWhileTheDaemonIsStartedAgain(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	s := m.install("model: {provider: offline}\n", "--socket")
	s.dropIn("[Service]\nRestartSec=100ms\n")
	m.run("systemctl", "stop", s.unit)
	if is := m.show(s.unit, "ActiveState"); is != "inactive" {
		t.Fatalf("after a stop it is %s", is)
	}
	if err := s.knock(); err != nil {
		t.Errorf("the first connection: %v", err)
	}
	if is := m.run("systemctl", "is-active", s.unit, "gatewayd.socket"); is != "active\nactive" {
		t.Errorf("after the first connection they are %q", is)
	}
	var clients sync.WaitGroup
	over, gone := make(chan struct{}), make(chan struct{})
	for range 3 {
		clients.Go(func() {
			for {
				conn, err := m.dial(t.Context(), "tcp", "127.0.0.1:8642")
				select {
				case <-gone:
					if err == nil {
						_ = conn.Close()
					}
					return
				default:
				}
				if err == nil {
					_, _ = fmt.Fprint(conn, "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
					_, _ = conn.Read(make([]byte, 1))
					_ = conn.Close()
					continue
				}
				select {
				case <-over:
				default:
					t.Errorf("refused: %v", err)
					return
				}
			}
		})
	}
	m.run("systemctl", "restart", s.unit)
	s.restarts("KILL", 1)
	if err := s.knock(); err != nil {
		t.Errorf("after a restart and a kill: %v", err)
	}
	close(over)
	m.run("gatewayd", "uninstall", "--system")
	close(gone)
	clients.Wait()
	if left := m.types("systemctl list-units --no-legend 'gatewayd*'; pgrep -a -u gatewayd || true"); left != "" {
		t.Errorf("uninstall leaves %s", left)
	}
	if err := s.knock(); err == nil {
		t.Error("somebody answers after it was taken away")
	}
}

// A service of a user, who has a key in a file of their own and a project in their home.
func TestAServiceOfAUserHasItsCredentialAndWorksInTheHome(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.run("useradd", "--create-home", "--uid", "4000", "person")
	m.run("systemctl", "start", "user@4000.service")
	as := func(argv ...string) (string, int) {
		return m.visit([]string{"HOME=/home/person", "USER=person", "XDG_RUNTIME_DIR=/run/user/4000"}, append([]string{"setpriv", "--reuid=person", "--regid=person", "--init-groups", "--"}, argv...)...)
	}
	run := func(argv ...string) string {
		t.Helper()
		out, code := as(argv...)
		if code != 0 {
			t.Fatalf("%q: %d %s", argv, code, out)
		}
		return out
	}
	run("mkdir", "-p", "-m", "700", "/home/person/.gatewayd", "/home/person/.secrets", "/home/person/project")
	m.write("/home/person/.secrets/model.key", "sk-of-systemd\n")
	m.write("/home/person/.gatewayd/config.yaml", "model: {provider: openai, base_url: 'http://"+modelPort+"/v1', name: "+fakellm.Model+"}\ntools: {terminal: allow}\n")
	run("mkdir", "-p", "/home/person/.config/systemd/user/gatewayd.service.d")
	m.write("/home/person/.config/systemd/user/gatewayd.service.d/override.conf", "[Service]\nLoadCredential=model.api_key:%h/.secrets/model.key\n")
	said := run("gatewayd", "install")
	for _, words := range []string{"loginctl enable-linger person", "systemctl --user start gatewayd.service"} {
		if !strings.Contains(said, words) {
			t.Errorf("install does not say %q: %s", words, said)
		}
	}
	run("systemctl", "--user", "start", "gatewayd.service")
	if is := run("systemctl", "--user", "is-active", "gatewayd.service"); is != "active" {
		t.Errorf("it is %s", is)
	}
	s := &service{m, "gatewayd.service", "/home/person/.gatewayd"}
	if got := s.say("hello"); got != "from the model" {
		t.Errorf("the model says %q", got)
	}
	for _, r := range m.model.Requests() {
		if r.Kind == "main" && r.Key != "sk-of-systemd" {
			t.Errorf("the model was asked with the key %q", r.Key)
		}
	}
	m.model.Push(fakellm.ToolCall{Name: "terminal", Args: map[string]any{"command": "echo made > /home/person/project/file"}})
	s.say("make it")
	if text, err := os.ReadFile(m.file("/home/person/project/file")); string(text) != "made\n" {
		t.Errorf("a command of the service did not write into the home: %v %q", err, text)
	}
	run("systemctl", "--user", "restart", "gatewayd.service")
	run("gatewayd", "uninstall")
	left, _ := as("sh", "-c", "systemctl --user list-units --all --no-legend 'gatewayd*'; find ~/.config -name 'gatewayd.service' -o -name 'gatewayd.socket'; pgrep -a gatewayd")
	if left != "" {
		t.Errorf("uninstall leaves %s", left)
	}
}

// What the units forbid is forbidden, and what an agent needs is there: in a service of the machine and in the narrow one.
func TestTheFenceOfAServiceHoldsAndLetsAnAgentWork(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	may := []string{
		"touch /tmp/x", "touch /var/tmp/x", "touch ~/x", "touch /dev/shm/x", "echo \"#!/bin/sh\" > /tmp/run; chmod 755 /tmp/run; /tmp/run", "unshare -Ur true",
		"unshare -Urm sh -c \"mount -t tmpfs t /mnt\"", "unshare -Urn true", "nice true", "python3 -c \"import mmap; mmap.mmap(-1, 4096, prot=7)\"", "ps ax",
	}
	mayNot := []string{
		"touch /srv/open/x", "ls /home", "ls /root", "cat /proc/1/cmdline", "ls /dev/kmsg", "chmod 4755 /tmp/x", "strace true", "hostname other", "echo 1 > /proc/sys/kernel/panic", "mkdir /sys/fs/cgroup/x",
	}
	m.run("install", "-d", "-m", "1777", "/srv/open") // anybody's, but for the fence
	lanes := "kanban: {lanes: {may: {preset: command, argv: [sh, -c, '" + probes(may) + "']}, may-not: {preset: command, argv: [sh, -c, '" + probes(mayNot) + "']}}}\n"
	s := m.install("model: {provider: offline}\n" + lanes)
	s.call(http.MethodPost, "/api/boards", map[string]string{"slug": "b"}, nil)
	for lane, want := range map[string][]string{"may": nil, "may-not": mayNot} {
		id := s.card(lane)
		s.until("the probes have ended", func() bool { is := s.statusOf(id); return is != "running" && is != "ready" && is != "todo" })
		failed, err := os.ReadFile(m.file(s.home + "/failed"))
		var got []string
		for _, number := range strings.Fields(string(failed)) {
			n, _ := strconv.Atoi(number)
			got = append(got, map[string][]string{"may": may, "may-not": mayNot}[lane][n])
		}
		if !slices.Equal(got, want) || err != nil {
			t.Errorf("%s: what failed is\n%q\nwant\n%q\n%v", lane, got, want, err)
		}
	}
	m.run("gatewayd", "install", "--system", "--api-only", "--now")
	if got := s.say("hello"); !strings.Contains(got, "hello") {
		t.Errorf("fenced in narrowly it says %q", got)
	}
	if is := m.show(s.unit, "MemoryDenyWriteExecute"); is != "yes" {
		t.Errorf("it is not the narrow fence: %s", is)
	}
}

// probes is a script that runs each command and writes those that fail into the home.
func probes(commands []string) string {
	script := ": > ~/failed"
	for i, command := range commands {
		script += fmt.Sprintf("; ( %s ) >/dev/null 2>&1 </dev/null || echo %d >> ~/failed", command, i)
	}
	return script
}
