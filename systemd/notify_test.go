package systemd

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// manager is the service manager's end of a real notification socket.
type manager struct {
	*testing.T
	conn *net.UnixConn
}

func newManager(t *testing.T) manager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return manager{t, conn}
}

func (m manager) next() string {
	m.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		m.Fatal(err)
	}
	message := make([]byte, 4096)
	n, err := m.conn.Read(message)
	if err != nil {
		m.Fatalf("nothing came: %v", err)
	}
	return string(message[:n])
}

func TestTheServiceManagerIsToldOverARealSocket(t *testing.T) {
	m := newManager(t)
	n := NewNotifier()
	for want, tell := range map[string]func() error{
		"READY=1\nMAINPID=" + strconv.Itoa(os.Getpid()): n.Ready,
		"STOPPING=1":                    n.Stopping,
		"WATCHDOG=1":                    n.feed,
		"STATUS=two lines, one message": func() error { return n.Status("two lines,\none\tmessage\n") },
		"EXTEND_TIMEOUT_USEC=90000000":  func() error { return n.Extend(90 * time.Second) },
	} {
		if err := tell(); err != nil {
			t.Fatal(err)
		}
		if got := m.next(); got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
}

func TestAStatusCannotSayAnythingElse(t *testing.T) {
	m := newManager(t)
	if err := NewNotifier().Status("working\nREADY=1"); err != nil {
		t.Fatal(err)
	}
	if got := m.next(); got != "STATUS=working READY=1" {
		t.Errorf("told %q", got)
	}
}

func TestWithoutAServiceManagerNothingHappens(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	n := NewNotifier()
	for _, tell := range []func() error{n.Ready, n.Stopping, n.feed} {
		if err := tell(); err != nil {
			t.Error(err)
		}
	}
}

func TestASocketThatIsGoneIsAnErrorThatNamesTheMessage(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	if err := NewNotifier().Ready(); err == nil || err.Error()[:len("notify systemd of READY")] != "notify systemd of READY" {
		t.Errorf("%v", err)
	}
}

func TestTheWatchdogFeedsARealSocketWhileActorsLive(t *testing.T) {
	m := newManager(t)
	t.Setenv("WATCHDOG_USEC", "30000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	w := NewWatchdog(NewNotifier(), nil)
	if w.interval != 30*time.Millisecond || !w.fed {
		t.Fatalf("asked for 30 ms, took %v, fed %v", w.interval, w.fed)
	}
	w.Pulse("alive", time.Hour)
	done := make(chan error)
	go func() { done <- w.Run(t.Context()) }()
	for range 3 {
		if got := m.next(); got != "WATCHDOG=1" {
			t.Errorf("told %q", got)
		}
	}
	t.Cleanup(func() { <-done })
}

func TestTheWatchdogOfAnotherProcessIsNotOurs(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "30000")
	t.Setenv("WATCHDOG_PID", "1")
	if w := NewWatchdog(NewNotifier(), nil); w.fed || w.interval != DefaultInterval {
		t.Errorf("interval %v, fed %v", w.interval, w.fed)
	}
}
