package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gatewayd/internal/sqlite"
	"gatewayd/internal/vigil"
	"gatewayd/kanban"
)

// witness is a worker that nobody else may work beside: for as long as any process of its tree lives it holds the lock of
// its card, and it writes down when it began and ended.
const witness = `exec 9>>"$0/$1.lock"; flock -n 9 || echo "overlap $1 $2 $$" >> "$0/journal"; ` +
	`echo "start $1 $2 $$" >> "$0/journal"; sleep "$3"; echo "end $1 $2 $$" >> "$0/journal"`

// rivals are daemons of several homes on one root.
type rivals struct {
	t       *testing.T
	root    string
	journal string
	homes   []string
	daemons []*daemon
	board   *kanban.Board
}

func newRivals(t *testing.T, n int) *rivals {
	t.Helper()
	if _, err := exec.LookPath("flock"); err != nil {
		t.Skip("flock is not installed: two daemons on one root are NOT tested")
	}
	r := &rivals{t: t, root: t.TempDir(), journal: t.TempDir()}
	lane := func(seconds string) string {
		return fmt.Sprintf("{argv: [sh, -c, %q, %q, '{task}', '{run}', %q]}", witness, r.journal, seconds)
	}
	for range n {
		r.homes = append(r.homes, newHome(t, fmt.Sprintf("model: {provider: offline}\nrespawn: {limit: 0}\nkanban:\n  root: %q\n  interval: 1s\n  crash_grace: 1s\n  max_in_progress: 6\n"+
			"  lanes:\n    quick: %s\n    slow: %s\n", r.root, lane("0.2"), lane("2"))))
	}
	r.board = figureBoard(t, filepath.Join(r.root, "kanban.db"))
	for _, home := range r.homes {
		r.daemons = append(r.daemons, start(t, home))
	}
	return r
}

func (r *rivals) create(lane string, n int) {
	r.t.Helper()
	for range n {
		if _, err := r.board.Create(r.t.Context(), kanban.NewTask{Title: "a card", Assignee: lane}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// until asks again until the answer is yes. Daemons may end meanwhile: that is what is tried here.
func (r *rivals) until(what string, is func() bool) {
	r.t.Helper()
	limit := 3 * patience
	if *whole {
		limit = 20 * patience
	}
	if !vigil.Until(limit, nil, is) {
		r.t.Fatalf("not within %v: %s", limit, what)
	}
}

// leader is which of the daemons dispatches.
func (r *rivals) leader() (at int) {
	r.t.Helper()
	r.until("one of the daemons leads", func() bool {
		holder, _ := kanban.LockHolder(filepath.Join(r.root, "kanban", ".dispatcher.lock"))
		for i, d := range r.daemons {
			if d != nil && d.child.PID() == holder.PID {
				at = i
				return true
			}
		}
		return false
	})
	return at
}

func (r *rivals) count(sql string) (n int) {
	r.t.Helper()
	err := r.board.File().Read(context.Background(), func(c *sqlite.Conn) error {
		_, err := c.Row(sql, nil, &n)
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

// audit reads from the journal who worked on what.
func (r *rivals) audit() (starts, ends map[string]int) {
	r.t.Helper()
	raw, err := os.ReadFile(filepath.Join(r.journal, "journal"))
	if err != nil {
		r.t.Fatal(err)
	}
	starts, ends = map[string]int{}, map[string]int{}
	for line := range strings.Lines(string(raw)) {
		switch words := strings.Fields(line); words[0] {
		case "overlap":
			r.t.Errorf("two workers at once: %s", line)
		case "start":
			starts[words[1]]++
		case "end":
			ends[words[1]]++
		}
	}
	return starts, ends
}

// The leader is killed again and again while its workers work, and the other daemon takes over: the workers go on, their
// claims are kept, and how they ended is written down by whoever leads then. No card is run twice, let alone at once.
func TestTwoDaemonsOnOneRootRunEachCardOnceHoweverOftenTheLeaderIsKilled(t *testing.T) {
	t.Parallel()
	r := newRivals(t, 2)
	kills, quick, slow := 3, 10, 8
	if *whole {
		kills, quick, slow = 12, 60, 40
	}
	r.create("slow", slow)
	r.create("quick", quick)
	for range kills {
		at := r.leader()
		r.until("a worker of the leader is under way", func() bool {
			return r.count("SELECT count(*) FROM task_runs WHERE ended_at IS NULL") > 0 || r.count("SELECT count(*) FROM tasks WHERE status <> 'done'") == 0
		})
		d := r.daemons[at]
		r.daemons[at] = nil
		if err := d.child.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		d.end()
		r.leader()
		r.daemons[at] = start(t, d.home)
	}
	r.until("every card is done", func() bool { return r.count("SELECT count(*) FROM tasks WHERE status <> 'done'") == 0 })
	r.until("the end of every worker is accounted for", func() bool { return r.count("SELECT count(*) FROM gw_runs WHERE settled_at IS NULL") == 0 })
	for _, d := range r.daemons {
		d.stop()
	}
	starts, ends := r.audit()
	if len(starts) != quick+slow {
		t.Errorf("%d cards were worked on, there are %d", len(starts), quick+slow)
	}
	for card, n := range starts {
		if n != 1 || ends[card] != 1 {
			t.Errorf("card %s was begun %d times and finished %d times", card, n, ends[card])
		}
	}
	for what, sql := range map[string]string{
		"run that is open":        "SELECT count(*) FROM task_runs WHERE ended_at IS NULL",
		"run that was not well":   "SELECT count(*) FROM task_runs WHERE outcome NOT IN ('completed', 'reclaimed')",
		"card completed twice":    "SELECT count(*) FROM (SELECT task_id FROM task_events WHERE kind = 'completed' GROUP BY task_id HAVING count(*) > 1)",
		"failure that is counted": "SELECT count(*) FROM tasks WHERE consecutive_failures > 0",
	} {
		if n := r.count(sql); n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
	t.Logf("%d kills, %d runs for %d cards", kills, r.count("SELECT count(*) FROM task_runs"), quick+slow)
}
