package kanban

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gatewayd/internal/sqlite"
	"gatewayd/internal/sqlite/steps"
)

const stepVar = "KANBAN_TEST_STEP"

// boardWork is one transaction on a board, which a test cuts before each of its statements in turn.
type boardWork struct {
	prepare func(t *testing.T) string                 // makes the file
	do      func(ctx context.Context, b *Board) error // nil: the opening itself
	must    []string                                  // beginnings of statements that it has to be cut before
	stride  int                                       // cut before every so many statements, where the run is not whole; 0 = each
}

var boardWorks = map[string]boardWork{
	"create": {
		prepare: func(t *testing.T) string { return filepath.Join(t.TempDir(), "kanban.db") },
		must:    []string{"CREATE TABLE IF NOT EXISTS tasks", "CREATE INDEX"}, stride: 3,
	},
	"migrate": {
		prepare: func(t *testing.T) string { return writeVintage(t, vintageOld) },
		must: []string{
			"ALTER TABLE tasks ADD", "ALTER TABLE task_events RENAME", "INSERT INTO task_events", "DROP TABLE task_events_legacy", "UPDATE task_events",
		}, stride: 3,
	},
	"claim": {prepare: oneCard, do: claimCard, must: []string{"UPDATE tasks", "INSERT INTO task_runs", "INSERT INTO task_events"}},
	"complete": {
		prepare: func(t *testing.T) string {
			path := oneCard(t)
			b := openBoard(t, Options{Path: path})
			defer b.Close()
			b.mustClaim(t, b.scalar(t, `SELECT id FROM tasks`))
			return path
		},
		do: completeCard, must: []string{"UPDATE tasks", "UPDATE task_runs", "INSERT INTO task_events"},
	},
}

func allWorks() map[string]boardWork {
	all := verbWorks()
	maps.Copy(all, boardWorks)
	return all
}

func oneCard(t *testing.T) string {
	t.Helper()
	b := newBoard(t)
	defer b.Close()
	b.make(t, NewTask{Title: "one", Assignee: "dev"})
	return b.Path()
}

func claimCard(ctx context.Context, b *Board) error {
	id, err := onlyCard(ctx, b)
	if err == nil {
		_, err = b.Claim(ctx, id, Claimer{})
	}
	return err
}

func completeCard(ctx context.Context, b *Board) error {
	id, err := onlyCard(ctx, b)
	if err == nil {
		err = b.Complete(ctx, id, Completion{Summary: "done"})
	}
	return err
}

func onlyCard(ctx context.Context, b *Board) (id string, err error) {
	err = b.file.Read(ctx, func(c *sqlite.Conn) error {
		_, err := c.Row(`SELECT id FROM tasks ORDER BY rowid LIMIT 1`, nil, &id)
		return err
	})
	return id, err
}

// playSteps does a work, says what its n-th statement is, and goes no further.
func playSteps() int {
	n, _ := strconv.ParseInt(os.Getenv(stepVar), 10, 64)
	w := allWorks()[os.Getenv(cardVar)]
	stop := steps.Before(n, func(sql string) { fmt.Println("at", sql) })
	if w.do == nil {
		stop.Arm()
	}
	ctx := context.Background()
	b, err := Open(ctx, Options{Path: os.Getenv(fileVar), Create: w.do == nil})
	if err == nil && w.do != nil {
		stop.Arm()
		err = w.do(ctx, b)
	}
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("done")
	select {}
}

// A process that is killed before any statement of what it does to a board leaves the board as it was or as it should be,
// and the next one finishes what is to be done.
func TestBoardIsOldOrNewWhereverItsWriterIsKilled(t *testing.T) {
	if raceEnabled {
		t.Skip("hundreds of processes, each with one goroutine that matters: NOT killed under the race detector")
	}
	for name, w := range allWorks() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := w.prepare(t)
			before := boardState(t, path)
			cutBefore(t, name, path, 0)
			after := boardState(t, path)
			if before == after {
				t.Fatal("it changes nothing")
			}
			var cut []string
			stride := max(1, w.stride)
			if *whole {
				stride = 1
			}
			for n := 1; ; n += stride {
				path := w.prepare(t)
				said := cutBefore(t, name, path, n)
				if said == "done" {
					break
				}
				cut = append(cut, said)
				got := boardState(t, path)
				if got != before && got != after {
					t.Errorf("killed before %q, the board is neither old nor new:\n%s", said, got)
				}
				w.finish(t, path, got != after)
				if got := boardState(t, path); got != after {
					t.Errorf("killed before %q and done again:\n%s\nwant\n%s", said, got, after)
				}
			}
			t.Logf("cut before %d statements", len(cut))
			if stride > 1 {
				return
			}
			for _, start := range append([]string{"BEGIN IMMEDIATE", "COMMIT"}, w.must...) {
				if !slices.ContainsFunc(cut, func(sql string) bool { return strings.HasPrefix(sql, start) }) {
					t.Errorf("it was never cut before %q", start)
				}
			}
		})
	}
}

func (w boardWork) finish(t *testing.T, path string, undone bool) {
	t.Helper()
	b := openBoard(t, Options{Path: path, Create: w.do == nil})
	defer b.Close()
	if w.do != nil && undone {
		if err := w.do(t.Context(), b); err != nil {
			t.Error(err)
		}
	}
	if got := b.scalar(t, `PRAGMA integrity_check`); got != "ok" {
		t.Errorf("integrity_check: %s", got)
	}
}

// cutBefore kills the process that does the work before its n-th statement, or after its last one ("done").
func cutBefore(t *testing.T, name, path string, n int) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"=steps", fileVar+"="+path, cardVar+"="+name, stepVar+"="+strconv.Itoa(n))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	cmd.Process.Kill()
	cmd.Wait()
	said := lines.Text()
	if at, ok := strings.CutPrefix(said, "at "); ok {
		return at
	}
	if said != "done" {
		t.Fatalf("before statement %d: %q", n, said)
	}
	return said
}

const noTables = "no tables"

// boardState is the schema and what the cards went through, without times and made-up ids, read as a foreign program does.
func boardState(t *testing.T, path string) string {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		return noTables
	}
	db, err := sqlite.OpenBare(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var out strings.Builder
	ask := func(sql string) {
		st, _, err := db.Prepare(sql)
		if err != nil {
			fmt.Fprintf(&out, "%s: %v\n", sql, err) // a column that an old file has not
			return
		}
		defer st.Close()
		for st.Step() {
			for i := range st.ColumnCount() {
				out.WriteString(st.ColumnText(i) + " ")
			}
			out.WriteByte('\n')
		}
	}
	ask(`SELECT type, name, sql FROM sqlite_schema ORDER BY type, name`)
	if out.Len() == 0 {
		return noTables
	}
	ask(`SELECT title, status, consecutive_failures, current_run_id FROM tasks ORDER BY rowid`)
	ask(`SELECT body, assignee, priority, model_override, reasoning_effort, created_by IS NULL, completed_at IS NULL FROM tasks ORDER BY rowid`)
	ask(`SELECT p.title, c.title FROM task_links l JOIN tasks p ON p.id = l.parent_id JOIN tasks c ON c.id = l.child_id ORDER BY 1, 2`)
	ask(`SELECT author FROM task_comments ORDER BY id`)
	ask(`SELECT rule, due_at > strftime('%s') + 5400, last_copy IS NULL, missed FROM gw_schedules`)
	ask(`SELECT run_id, reason, to_status, assignee FROM gw_stops ORDER BY run_id`)
	ask(`SELECT run_id, settled_at IS NULL FROM gw_runs ORDER BY run_id`)
	ask(`SELECT id, typeof(id), kind FROM task_events ORDER BY rowid`)
	ask(`SELECT id, status, outcome, summary FROM task_runs ORDER BY id`)
	ask(`SELECT chat_id, last_event_id, typeof(last_event_id), delivery_mode FROM kanban_notify_subs ORDER BY chat_id`)
	return out.String()
}
