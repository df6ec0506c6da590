package kanban

import (
	"errors"
	"os/exec"
	"strings"
	"testing"
)

// pythonReturns is what the original does with a board that it finds at its start, with the sqlite3 of Python: it makes what it misses,
// table by table and index by index as it knows them, reads its own columns, and writes a row of each table in them. What it knows it
// takes from the file as it was before anybody else had it.
const pythonReturns = `
import sqlite3, sys
then_path, now_path = sys.argv[1:3]
then, now = sqlite3.connect(then_path), sqlite3.connect(now_path, timeout=20, isolation_level=None)
assert now.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
mine = [(k, n, s) for k, n, s in then.execute("SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%' ORDER BY type DESC")]
for kind, name, sql in mine:
    for word in ("CREATE TABLE ", "CREATE UNIQUE INDEX ", "CREATE INDEX "):
        if sql.startswith(word):
            now.execute(word + "IF NOT EXISTS " + sql[len(word):].replace("IF NOT EXISTS ", "", 1))
wrote = 0
for kind, table, sql in mine:
    if kind != "table":
        continue
    cols = then.execute("SELECT name, type, pk FROM pragma_table_info(?) ORDER BY cid", (table,)).fetchall()
    there = {n for n, in now.execute("SELECT name FROM pragma_table_info(?)", (table,))}
    for name, kind, pk in cols: # what its migration adds
        if name not in there:
            now.execute('ALTER TABLE "%s" ADD COLUMN "%s" %s' % (table, name, kind))
    names = ", ".join('"%s"' % n for n, _, _ in cols)
    before = then.execute('SELECT count(*) FROM "%s"' % table).fetchone()[0]
    rows = now.execute('SELECT %s FROM "%s" ORDER BY rowid' % (names, table)).fetchall()
    assert len(rows) >= before, (table, before, len(rows))
    if not rows:
        continue
    row = list(rows[0])
    for i, (name, kind, pk) in enumerate(cols):
        if pk and kind.upper() == "INTEGER" and len([1 for c in cols if c[2]]) == 1:
            row[i] = None
        elif pk == max(c[2] for c in cols):
            row[i] = "t_0badcafe"
        elif name in ("claim_lock", "claim_expires", "worker_pid", "current_run_id", "idempotency_key", "ended_at"):
            row[i] = None
        if table == "tasks" and name == "status":
            row[i] = "ready"
        if name == "title":
            row[i] = "by the original, again"
        if table == "task_runs" and name in ("ended_at", "started_at"):
            row[i] = 9
        if table == "task_runs" and name == "outcome":
            row[i] = "completed"
    now.execute("BEGIN IMMEDIATE")
    now.execute('INSERT INTO "%s" (%s) VALUES (%s)' % (table, names, ", ".join("?" * len(row))), row)
    now.execute("COMMIT")
    wrote += 1
now.execute("BEGIN IMMEDIATE")
now.execute("INSERT INTO task_events (task_id, kind, payload, created_at) VALUES ('t_0badcafe', 'created', NULL, 9)")
now.execute("UPDATE tasks SET status = 'todo' WHERE id = 't_0badcafe'")
now.execute("UPDATE tasks SET status = 'ready' WHERE id = 't_0badcafe'")
now.execute("COMMIT")
assert now.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
assert now.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
now.close()
print("wrote", wrote)
`

// A board goes back to the program that it came from: gatewayd opened it, worked through all of its cards and let it go; then the
// original starts on it, finds all that it knows, and writes a row of each of its tables; and gatewayd goes on with what that wrote.
func TestTheOriginalGoesOnWithABoardThatWasUsedHere(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed: the way back to a program in Python is NOT tested")
	}
	for _, f := range fixtures() {
		t.Run(f.file, func(t *testing.T) {
			then, path := fixture(t, f.file), fixture(t, f.file)
			b := openBoard(t, Options{Path: path})
			workThrough(t, b)
			useAll(t, b)
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(python, "-c", pythonReturns, then, path).CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), "wrote ") || strings.TrimSpace(string(out)) < "wrote 5" {
				t.Fatalf("the original: %v\n%s", err, out)
			}
			again := openBoard(t, Options{Path: path})
			if got := again.get(t, "t_0badcafe"); got.Title != "by the original, again" || got.Status != StatusReady {
				t.Errorf("its card: %+v", got)
			}
			run := again.mustClaim(t, "t_0badcafe")
			if err := again.Complete(t.Context(), "t_0badcafe", Completion{Run: &run, Summary: "s"}); err != nil {
				t.Error(err)
			}
			if got := again.scalar(t, `PRAGMA integrity_check`); got != "ok" {
				t.Error(got)
			}
		})
	}
}

// useAll does what only gatewayd does with a board, so that its own tables have rows.
func useAll(t *testing.T, b *Board) {
	t.Helper()
	ctx, id := t.Context(), b.make(t, NewTask{Title: "ours", Assignee: "dev"}).ID
	_, said := b.Comment(ctx, id, "me", "a word")
	_, told := b.Subscribe(ctx, NewSubscription{Task: id, Target: "command", Address: "tell"})
	_, timed := b.Schedule(ctx, id, Schedule{Rule: "0 9 * * 1"})
	if err := errors.Join(said, told, timed, b.Pause(ctx, Pause{Mode: PauseStarts, Reason: "so"})); err != nil {
		t.Error(err)
	}
}
