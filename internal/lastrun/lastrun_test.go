package lastrun

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/peer"
	"gatewayd/internal/procfs"
)

const (
	roleVariable = "GATEWAYD_TEST_ROLE"
	dirVariable  = "GATEWAYD_TEST_DIR"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(live(role, os.Getenv(dirVariable)))
	}
	os.Exit(m.Run())
}

// live is a daemon's life: it begins its record, says so, and then ends as it is told.
func live(role, dir string) int {
	d, err := Open(dir, "test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("begun")
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	switch role {
	case "crash":
		go func() { panic("a bug of ours") }()
		select {}
	case "stop":
		_ = d.Stopping("terminated")
		_ = d.End(Stopped, 0, "")
	case "stuck":
		_ = d.Stopping("terminated")
		fmt.Println("stopping")
		_, _ = in.ReadString('\n') // never comes: a program that waits for nothing at all is ended by the runtime
	}
	return 0
}

func TestTheNextStartKnowsHowTheLastRunEnded(t *testing.T) {
	for name, c := range map[string]struct {
		role string
		kill bool
		how  string
		says string
	}{
		"stopped":                 {"stop", false, Stopped, "was stopped (terminated)"},
		"crashed":                 {"crash", false, Crashed, "panic: a bug of ours"},
		"killed":                  {"wait", true, Killed, "was killed"},
		"killed while it stopped": {"stuck", true, Killed, "while it was stopping"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			liveAndDie(t, dir, c.role, c.kill)
			last := Read(dir)
			if last.How != c.how || !strings.Contains(last.String(), c.says) || last.PID == 0 || last.Version != "test" {
				t.Errorf("%+v: %s", last, last)
			}
		})
	}
}

func liveAndDie(t *testing.T, dir, role string, kill bool) {
	t.Helper()
	p := peer.Self(t, roleVariable+"="+role, dirVariable+"="+dir)
	p.Want("begun")
	if !kill || role == "stuck" {
		p.Say("")
	}
	if role == "stuck" {
		p.Want("stopping")
	}
	if kill {
		p.Kill()
	}
	_ = p.End()
}

func TestARunOfAnotherBootEndedWithTheMachine(t *testing.T) {
	r := Run{PID: 7, Boot: "one"}
	if got := r.judge("", "two", nil); got.How != Power {
		t.Errorf("%+v", got)
	}
	if got := r.judge("", "one", nil); got.How != Killed {
		t.Errorf("%+v", got)
	}
	now := time.Now()
	r.Ended, r.How = &now, Restart
	if got := r.judge("", "two", nil); got.How != Restart {
		t.Errorf("what it said itself counts: %+v", got)
	}
}

func TestAHomeWithoutARunAndOneThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	if r := Read(dir); r.Known() {
		t.Errorf("%+v", r)
	}
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := Read(dir); r.How != Unknown || !r.Known() {
		t.Errorf("%+v", r)
	}
	var none *Diary
	if none.Stopping("x") != nil || none.End(Stopped, 0, "") != nil {
		t.Error("a daemon without a record does not go on")
	}
}

func TestAKillForWantOfMemoryIsCalledThat(t *testing.T) {
	r := Run{PID: 7, Boot: "one", OOM: []procfs.OOMCount{{Group: "/a/own", Kills: 2}, {Group: "/a", Kills: 5}}}
	for says, now := range map[string][]procfs.OOMCount{
		"its control group /a/own counted": {{Group: "/a/own", Kills: 3}, {Group: "/a", Kills: 6}},
		"of it or of a neighbour":          {{Group: "/a/own", Kills: 0}, {Group: "/a", Kills: 6}}, // the unit's group was made anew
	} {
		if got := r.judge("", "one", now); got.How != Killed || !strings.Contains(got.String(), says) {
			t.Errorf("%s: %s", says, got)
		}
	}
	for _, now := range [][]procfs.OOMCount{nil, {{Group: "/other", Kills: 9}}, r.OOM} {
		if got := r.judge("", "one", now); got.Detail != "" {
			t.Errorf("nothing was counted of it, and it says %q", got.Detail)
		}
	}
}
