package kanban

import (
	"os/exec"
	"testing"
	"time"
)

// peerReads is what a Python program makes of a board: it knows the old columns and words, and compares payloads as text.
const peerReads = `
import json, sqlite3, sys
db = sqlite3.connect(sys.argv[1]); db.row_factory = sqlite3.Row
known = {'triage', 'todo', 'scheduled', 'ready', 'running', 'blocked', 'review', 'done', 'archived'}
for t in db.execute('SELECT * FROM tasks'):
    assert t['status'] in known, dict(t)
    assert t['title'] and isinstance(t['created_at'], int), dict(t)
    assert (t['status'] == 'running') == (t['claim_lock'] is not None) == (t['current_run_id'] is not None), dict(t)
    if t['skills'] is not None: assert isinstance(json.loads(t['skills']), list)
for r in db.execute('SELECT * FROM task_runs'):
    assert (r['ended_at'] is None) == (r['outcome'] is None) == (r['status'] == 'running'), dict(r)
n = 0
for table, column in (('task_events', 'payload'), ('task_runs', 'metadata')):
    for (text,) in db.execute(f'SELECT {column} FROM {table} WHERE {column} IS NOT NULL'):
        value = json.loads(text)
        assert isinstance(value, dict) and value, text
        assert json.dumps(value, ensure_ascii=False) == text, text
        n += 1
assert n > 20, n
assert db.execute('PRAGMA user_version').fetchone()[0] == 0
assert not db.execute("SELECT 1 FROM sqlite_schema WHERE type IN ('trigger', 'view')").fetchall()
db.execute("INSERT INTO tasks (id, title, status, created_at) VALUES ('t_0badcafe', 'from a peer', 'scheduled', 1)")
db.execute("UPDATE tasks SET status = 'ready' WHERE title = 'unblocked by a peer'")
db.execute("INSERT INTO task_events (task_id, kind, created_at) SELECT id, 'unblocked', 1 FROM tasks WHERE title = 'unblocked by a peer'")
db.commit()
`

func TestAPythonProgramReadsWhatEveryVerbWrites(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 is installed: what a Python program makes of the rows is not tested")
	}
	b := newBoard(t)
	for _, from := range Statuses() {
		for _, to := range Moves(from) {
			if from == StatusTodo && to == StatusReady {
				continue
			}
			if _, err := b.Move(t.Context(), b.inStatus(t, from), to, Movement{Reason: "für \"dich\" \n 🙂", Actor: "ann"}); err != nil {
				t.Fatalf("%s to %s: %v", from, to, err)
			}
		}
	}
	pattern, idea, peers := b.make(t, NewTask{}).ID, b.make(t, NewTask{Triage: true}).ID, b.make(t, NewTask{Title: "unblocked by a peer"}).ID
	b.mustSchedule(t, pattern, Schedule{Rule: "@hourly", Zone: "Europe/Berlin"})
	b.mustSchedule(t, peers, Schedule{Due: time.Now().Add(time.Minute)})
	if _, err := b.Decompose(t.Context(), idea, Decomposition{Children: []NewTask{{Title: "part", Skills: []string{"a"}}}}); err != nil {
		t.Fatal(err)
	}
	if err := b.SetModel(t.Context(), pattern, ModelChoice{Model: new("m")}); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(python, "-c", peerReads, b.Path()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	woken, _ := b.mustWake(t, time.Now().Add(2*time.Hour))
	if len(woken) != 1 || woken[0] == peers {
		t.Errorf("beside a peer woke %v", woken)
	}
	b.wantStatus(t, "t_0badcafe", StatusScheduled)
	if timers, err := b.Timers(t.Context()); err != nil || len(timers) != 1 {
		t.Errorf("timers: %+v, %v", timers, err)
	}
}
