package e2e

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gatewayd/internal/fakellm"
)

// manager is a service manager's end of the notify socket.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

func newManager(t *testing.T) (m manager, environ string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return manager{t, conn}, "NOTIFY_SOCKET=" + path
}

// hears waits for a message that begins so, and gives it.
func (m manager) hears(begin string) string {
	m.t.Helper()
	_ = m.conn.SetReadDeadline(time.Now().Add(patience))
	for buf := make([]byte, 4096); ; {
		n, err := m.conn.Read(buf)
		if err != nil {
			m.t.Fatalf("%s was not heard: %v", begin, err)
		}
		if strings.HasPrefix(string(buf[:n]), begin) {
			return string(buf[:n])
		}
	}
}

func writeConfig(t *testing.T, home, yaml string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
}

// settings are those that the daemon says are in force.
func (d *daemon) setting(key string) string {
	d.t.Helper()
	var list struct{ Settings []struct{ Key, Value string } }
	d.call(http.MethodGet, "/api/config", nil, &list)
	for _, s := range list.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	d.t.Fatalf("%s is no setting in force", key)
	return ""
}

func TestAReloadTakesWhatMayChangeAndNothingThatIsWrong(t *testing.T) {
	t.Parallel()
	one, two := fakellm.New(t, fakellm.Text{Text: "from one"}), fakellm.New(t, fakellm.Text{Text: "from two"})
	yaml := func(url, more string) string { return "model: {base_url: \"" + url + "\", name: fake}\n" + more }
	home := newHome(t, yaml(one.URL(), "log: {level: warn}\n"))
	supervisor, environ := newManager(t)
	d := launchIn(t, home, home, []string{environ})
	supervisor.hears("READY=1")
	d.ready()
	var said string
	if err := d.say("s1", "hello", &said); err != nil || !strings.Contains(said, "from one") {
		t.Fatalf("%v %s", err, said)
	}

	writeConfig(t, home, yaml(two.URL(), "log: {level: info}\nkanban: {max_in_progress: 7}\nbackup: {keep: 3}\n"))
	out, stderr, code := cli(t, home, "config", "reload")
	if code != 0 {
		t.Fatalf("reload: %d %s", code, stderr)
	}
	for _, want := range []string{"model.base_url", "from the next message on", "kanban.max_in_progress", "from the next worker on", "backup.keep", "from the next start on"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not told:\n%s", want, out)
		}
	}
	supervisor.hears("RELOADING=1")
	supervisor.hears("READY=1")
	if err := d.say("s1", "again", &said); err != nil || !strings.Contains(said, "from two") {
		t.Errorf("after the reload: %v %s", err, said)
	}
	if got := d.setting("backup.keep"); got != "7" {
		t.Errorf("backup.keep in force: %s", got)
	}

	writeConfig(t, home, yaml(two.URL(), "kanban: {max_in_progres: 1}\n"))
	if err := d.child.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if told := supervisor.hears("RELOADING=1"); !strings.Contains(told, "MONOTONIC_USEC=") {
		t.Errorf("the manager was told %q", told)
	}
	supervisor.hears("READY=1")
	if got := d.setting("kanban.max_in_progress"); got != "7" {
		t.Errorf("max_in_progress after a wrong file: %s", got)
	}
	if err := d.child.Signal(syscall.SIGHUP); err != nil { // the same file again: there is nothing new to say
		t.Fatal(err)
	}
	supervisor.hears("RELOADING=1")
	supervisor.hears("READY=1")
	writeConfig(t, home, "") // as an editor leaves it for a moment
	if _, stderr, code := cli(t, home, "config", "reload"); code == 0 || !strings.Contains(stderr, "is empty") || d.setting("kanban.max_in_progress") != "7" {
		t.Errorf("a file that is being written: %d %s", code, stderr)
	}
	supervisor.hears("RELOADING=1")
	supervisor.hears("READY=1")
	writeConfig(t, home, yaml(one.URL(), "kanban: {max_in_progress: 1}\n"))
	if err := d.child.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	supervisor.hears("RELOADING=1")
	supervisor.hears("READY=1")
	if got := d.setting("kanban.max_in_progress"); got != "1" {
		t.Errorf("max_in_progress after it was mended: %s", got)
	}
	d.stop()
	log := d.log.String()
	if n := strings.Count(log, "configuration is mended"); n != 1 {
		t.Errorf("that it is mended is told %d times", n)
	}
	if n := strings.Count(log, "configuration not taken"); n != 2 || !strings.Contains(log, "did you mean kanban.max_in_progress") {
		t.Errorf("two wrong files are told %d times:\n%s", n, log)
	}
}
