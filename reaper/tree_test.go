package reaper_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/procfs"
	"gatewayd/reaper"
)

// trees are the ways in which a program's processes get away from who started it. MARK is a length of sleep that no
// other test uses. Each says "up" when it stands, and each dies out by itself in a while, lest a keeper that fails
// in a test fills the machine.
var trees = map[string]string{
	"deaf to TERM":       `trap '' TERM; sh -c 'trap "" TERM; sleep MARK; sleep MARK' & echo up; wait; sleep MARK`,
	"own session":        `setsid sleep MARK & setsid sh -c 'sleep MARK & sleep MARK' & echo up; wait`,
	"twice away":         `setsid sh -c 'setsid sh -c "trap \"\" TERM HUP; sleep MARK & sleep MARK" & exit' & wait; echo up; sleep MARK`,
	"without a trace":    `env -i setsid sh -c "env -i setsid /bin/sleep MARK & exit" & wait; echo up; exec env -i sleep MARK`,
	"stopped":            `sleep MARK & kill -STOP $!; echo up; sleep MARK`,
	"forks in a loop":    `trap '' TERM; echo up; i=0; while [ $i -lt 400 ]; do i=$((i+1)); setsid sleep MARK & sleep 0.01; done; sleep MARK`,
	"chain of forks":     `trap '' TERM; hop() { [ $1 -gt 0 ] || exit; sleep 0; hop $(($1-1)) & exit; }; echo up; : MARK; hop 2000 & sleep MARK`,
	"chain of sessions":  `trap '' TERM; export N=2000 HOP='trap "" TERM; : MARK; [ $N -gt 0 ] || exit; N=$((N-1)); setsid sh -c "$HOP" & exit'; echo up; setsid sh -c "$HOP" & sleep MARK`,
	"born when it ends":  `trap 'setsid sleep MARK & sleep MARK & exit 3' TERM; echo up; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); sleep 0.02; done`,
	"holds its pipe":     `(sleep MARK) & (setsid sleep MARK >/dev/null) & echo up; wait`,
	"keeps its terminal": `nohup sleep MARK & echo up; wait`,
}

// upWriter closes up at the first word of the tree.
type upWriter struct{ up chan struct{} }

func (w *upWriter) Write(p []byte) (int, error) {
	if w.up != nil && strings.Contains(string(p), "up") {
		close(w.up)
		w.up = nil
	}
	return len(p), nil
}

// plant starts a tree and returns when it stands.
func plant(t *testing.T, r *reaper.Reaper, id, script, mark string, change func(*reaper.Spec)) *reaper.Process {
	t.Helper()
	up := make(chan struct{})
	spec := shell(id, strings.ReplaceAll(script, "MARK", mark))
	spec.Lifetime, spec.Output = reaper.EndsWithDaemon, &upWriter{up}
	change(&spec)
	p := start(t, r, spec)
	select {
	case <-up:
	case <-p.Done():
	case <-time.After(limit):
		t.Fatal("the tree does not stand up")
	}
	return p
}

func nothingLeft(t *testing.T, id, mark string) {
	t.Helper()
	if left := marked(mark); len(left) > 0 {
		t.Errorf("%d processes of the tree are left: %v", len(left), left)
	}
	if left, err := procfs.Tagged(reaper.TagKey, id); err != nil || len(left) > 0 {
		t.Errorf("processes with the tag are left: %v, %v", left, err)
	}
}

func TestNoTreeSurvivesStopOrDeadline(t *testing.T) {
	r := newReaper(t)
	n := 0
	for name, script := range trees {
		n++
		mark := own(fmt.Sprintf("90.81%02d", n))
		t.Run(name, func(t *testing.T) {
			id := own(fmt.Sprintf("stop-%d", n))
			p := plant(t, r, id, script, mark, func(s *reaper.Spec) {})
			p.Stop(50 * time.Millisecond)
			p.Stop(50 * time.Millisecond)
			if got := wait(t, p); got.Reason != reaper.Stopped || got.Rounds < 1 || got.Error != "" {
				t.Errorf("record %+v", got)
			}
			nothingLeft(t, id, mark)

			id = own(fmt.Sprintf("deadline-%d", n))
			p = plant(t, r, id, script, mark, func(s *reaper.Spec) {
				s.Deadline, s.Grace = 80*time.Millisecond, 30*time.Millisecond
			})
			if got := wait(t, p); got.Reason != reaper.Deadline {
				t.Errorf("record %+v", got)
			}
			nothingLeft(t, id, mark)
		})
	}
}

func TestALeaderThatExitsLeavesNothingBehind(t *testing.T) {
	r := newReaper(t)
	n := 0
	for name, script := range trees {
		n++
		mark := own(fmt.Sprintf("90.82%02d", n))
		t.Run(name, func(t *testing.T) {
			id := own(fmt.Sprintf("left-%d", n))
			script := fmt.Sprintf("(%s) & read word <&3; exit 143", script)
			p := plant(t, r, id, script, mark, func(s *reaper.Spec) {
				s.Grace = 50 * time.Millisecond
				s.Argv[2] = fifo(s.Argv[2])
			})
			if got := wait(t, p); got.Reason != reaper.Exited || got.Code != 143 || got.Signal != 0 {
				t.Errorf("record %+v", got)
			}
			nothingLeft(t, id, mark)
		})
	}
}

// fifo lets the leader wait for the first line of its own tree: the tree writes to a pipe that the leader reads and
// passes on.
func fifo(script string) string {
	return `d=$(mktemp -d); mkfifo $d/f; exec 4>&1; exec 3<>$d/f; rm -r $d; ` +
		strings.Replace(script, ") & read word <&3;", ") >&3 & read word <&3; echo $word >&4; exec 3>&-;", 1)
}

func TestAPipeThatIsKeptOpenDoesNotKeepTheRun(t *testing.T) {
	r := newReaper(t)
	mark := own("90.8301")
	for name, script := range map[string]string{
		"background":  `sleep ` + mark + ` & echo up`,
		"own session": `setsid sleep ` + mark + ` & echo up`,
	} {
		t.Run(name, func(t *testing.T) {
			log := t.TempDir() + "/log"
			p := start(t, r, reaper.Spec{
				ID: own("pipe-" + strings.ReplaceAll(name, " ", "-")), Argv: []string{"sh", "-c", script}, Env: []string{path}, LogPath: log,
			})
			if got := wait(t, p); got.Code != 0 || got.Reason != reaper.Exited || got.Error != "" {
				t.Errorf("record %+v", got)
			}
			nothingLeft(t, p.ID(), mark)
		})
	}
}

func TestALaterStopCanShortenTheGrace(t *testing.T) {
	r := newReaper(t)
	p := plant(t, r, "hurry", trees["deaf to TERM"], "90.8302", func(s *reaper.Spec) { s.Grace = time.Hour })
	p.Stop(time.Hour)
	p.Stop(0)
	if got := wait(t, p); got.Reason != reaper.Stopped || got.Signal != 9 {
		t.Errorf("record %+v", got)
	}
	p.Stop(0) // after the end it does nothing
}

func TestAProgramThatEndsInItsGraceIsNotKilled(t *testing.T) {
	r := newReaper(t)
	p := plant(t, r, "polite", `trap 'exit 17' TERM; echo up; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); sleep 0.02; done`, "90.8303", func(s *reaper.Spec) {})
	p.Stop(time.Minute)
	if got := wait(t, p); got.Reason != reaper.Stopped || got.Code != 17 || got.Signal != 0 || got.Rounds != 1 {
		t.Errorf("record %+v", got)
	}
}

func TestAStoppedProgramIsWokenToHearThatItMustEnd(t *testing.T) {
	r := newReaper(t)
	p := plant(t, r, "frozen", `trap 'exit 17' TERM; echo up; kill -STOP $$; sleep 90.8304`, "90.8304", func(s *reaper.Spec) {})
	until(t, "it is stopped", func() bool {
		stat, err := procfs.ReadStat(p.Child().PID)
		return err == nil && stat.State == 'T'
	})
	p.Stop(time.Minute)
	if got := wait(t, p); got.Code != 17 || got.Rounds != 1 {
		t.Errorf("record %+v", got)
	}
}
