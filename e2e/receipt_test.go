package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// A start says how the run before it ended, and what became of what was in flight. The exit code tells the supervisor.
func TestAStartSaysHowTheLastRunEnded(t *testing.T) {
	home := newHome(t, allowTerminal)
	d := start(t, home)
	if r := d.receipt(); r.Run.How != "" || len(r.Turns) != 0 {
		t.Errorf("a first start says of the last run: %+v", r)
	}
	_, ended := d.hang("s")
	if err := d.child.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	d.end()
	<-ended
	for _, c := range []struct {
		how    string
		turns  int
		signal syscall.Signal
		code   int
	}{
		{"killed", 1, syscall.SIGTERM, 0},
		{"stopped", 0, syscall.SIGUSR1, 75},
		{"restart", 0, syscall.SIGINT, 0},
	} {
		d = start(t, home)
		r := d.receipt()
		if r.Run.How != c.how || len(r.Turns) != c.turns {
			t.Errorf("want %s with %d turns: %+v", c.how, c.turns, r)
		}
		if c.turns == 1 && (r.Turns[0].Session != "s" || r.Turns[0].Decision != "closed" || r.Turns[0].Unknown != 1) {
			t.Errorf("of the turn that was cut off: %+v", r.Turns[0])
		}
		if out, errs, code := cli(t, home, "status"); code != 0 || !strings.Contains(out, "last run: ") {
			t.Errorf("status: %s%s", out, errs)
		}
		if err := d.child.Signal(c.signal); err != nil {
			t.Fatal(err)
		}
		if code, signal := d.end(); code != c.code || signal != 0 {
			t.Errorf("after %v: code %d, signal %d; want code %d", c.signal, code, signal, c.code)
		}
	}
}

type lastReceipt struct {
	Run   struct{ How string }
	Turns []struct {
		Session, Decision string
		Unknown           int
	}
}

func (d *daemon) receipt() (r lastReceipt) {
	d.t.Helper()
	d.call(http.MethodGet, "/api/receipt", nil, &r)
	return r
}
