package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// jam takes the locks that every reader of a database in WAL needs, as a program does that was stopped in the middle of opening it: who reads
// waits for them. It gives the function that lets go.
func jam(t *testing.T, database string) (release func()) {
	t.Helper()
	file, err := os.OpenFile(database+"-shm", os.O_RDWR, 0)
	noError(t, err)
	const firstReader, readers = 123, 5 // bytes of the -shm, as SQLite's file format has them
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: firstReader, Len: readers}
	noError(t, unix.FcntlFlock(file.Fd(), unix.F_OFD_SETLKW, &lock))
	return func() { _ = file.Close() }
}

// fill takes all places of an API, with clients that have asked for one thing and keep their connection. It gives the function that leaves them.
func fill(t *testing.T, dial func(context.Context, string, string) (net.Conn, error), addr string, places int) (leave func()) {
	t.Helper()
	var conns []net.Conn
	for range places {
		conn, err := dial(t.Context(), "tcp", addr)
		noError(t, err)
		conns = append(conns, conn)
		_, err = fmt.Fprint(conn, "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		noError(t, err)
	}
	return func() {
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}

// One part of the daemon stands still. It is no longer fed, and ends itself before the manager would kill it.
func TestAPartThatHangsIsToldOverTheSocketAndEndsTheDaemon(t *testing.T) {
	supervisor, environ := newManager(t)
	home := newHome(t, "model: {provider: offline}\n")
	d := launchIn(t, home, home, []string{environ, "WATCHDOG_USEC=3000000"})
	d.ready()
	supervisor.hears("WATCHDOG=1")
	release := jam(t, filepath.Join(home, "state.db"))
	defer release()
	supervisor.hears("STATUS=no sign of life from state.db")
	if code, signal := d.end(); code != 75 || signal != 0 {
		t.Errorf("code %d, signal %d", code, signal)
	}
	names, _ := filepath.Glob(filepath.Join(home, "logs", "stacks-*.log"))
	if log := d.log.String(); len(names) != 1 || !strings.Contains(log, "no sign of life from state.db") {
		t.Errorf("stacks %q, log:\n%s", names, log)
	}
	release()
	again := start(t, home)
	if out, errs, code := cli(t, home, "status"); code != 0 || !strings.Contains(out, "no sign of life from state.db") {
		t.Errorf("status of the next: %d %s%s", code, out, errs)
	}
	again.stop()
}

// Whoever likes can take all places at the address, without a key. That is no silence: the daemon goes on, and its person comes in by the socket.
func TestAFullHouseIsNoSilence(t *testing.T) {
	supervisor, environ := newManager(t)
	home := newHome(t, "model: {provider: offline}\napi: {max_connections: 16}\n")
	d := launchIn(t, home, home, []string{environ, "WATCHDOG_USEC=2000000"})
	d.ready()
	defer fill(t, (&net.Dialer{}).DialContext, strings.TrimPrefix(d.base, "http://"), 16)()
	for range 9 { // three times as long as it may be silent
		supervisor.hears("WATCHDOG=1")
	}
	if out, errs, code := cli(t, home, "status"); code != 0 {
		t.Errorf("status: %d %s%s", code, out, errs)
	}
	d.stop()
}
