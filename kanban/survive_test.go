package kanban

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// sinceStep are the columns of each table by the step of the migration that adds them; 0 has always been there. They are
// written down from the format's description, not from this package's schema.
var sinceStep = map[string][]struct {
	step int
	decl string
}{
	"tasks": {
		{0, "id TEXT PRIMARY KEY"},
		{0, "title TEXT NOT NULL"},
		{0, "status TEXT NOT NULL"},
		{0, "created_at INTEGER NOT NULL"},
		{1, "body TEXT"},
		{1, "assignee TEXT"},
		{1, "priority INTEGER DEFAULT 0"},
		{1, "created_by TEXT"},
		{1, "started_at INTEGER"},
		{1, "completed_at INTEGER"},
		{1, "workspace_kind TEXT NOT NULL DEFAULT 'scratch'"},
		{1, "workspace_path TEXT"},
		{1, "claim_lock TEXT"},
		{1, "claim_expires INTEGER"},
		{2, "tenant TEXT"},
		{2, "result TEXT"},
		{2, "branch_name TEXT"},
		{2, "project_id TEXT"},
		{2, "idempotency_key TEXT"},
		{3, "consecutive_failures INTEGER NOT NULL DEFAULT 0"},
		{3, "last_failure_error TEXT"},
		{3, "worker_pid INTEGER"},
		{4, "max_runtime_seconds INTEGER"},
		{4, "last_heartbeat_at INTEGER"},
		{4, "current_run_id INTEGER"},
		{4, "workflow_template_id TEXT"},
		{4, "current_step_key TEXT"},
		{4, "skills TEXT"},
		{4, "max_retries INTEGER"},
		{4, "model_override TEXT"},
		{4, "provider_override TEXT"},
		{4, "reasoning_effort TEXT"},
		{4, "goal_mode INTEGER NOT NULL DEFAULT 0"},
		{4, "goal_max_turns INTEGER"},
		{4, "completion_contract TEXT"},
		{4, "session_id TEXT"},
		{4, "block_kind TEXT"},
		{4, "block_recurrences INTEGER NOT NULL DEFAULT 0"},
		{4, "worker_started_at INTEGER"},
	},
	"task_links":    {{0, "parent_id TEXT NOT NULL"}, {0, "child_id TEXT NOT NULL"}},
	"task_comments": {{0, "id ID"}, {0, "task_id TEXT NOT NULL"}, {0, "author TEXT NOT NULL"}, {0, "body TEXT NOT NULL"}, {0, "created_at INTEGER NOT NULL"}},
	"task_events": {
		{0, "id ID"}, {0, "task_id TEXT NOT NULL"}, {5, "run_id INTEGER"}, {0, "kind TEXT NOT NULL"}, {0, "payload TEXT"}, {0, "created_at INTEGER NOT NULL"},
	},
	"task_runs": {
		{0, "id ID"},
		{0, "task_id TEXT NOT NULL"},
		{0, "profile TEXT"},
		{0, "step_key TEXT"},
		{0, "status TEXT NOT NULL"},
		{0, "claim_lock TEXT"},
		{0, "claim_expires INTEGER"},
		{0, "worker_pid INTEGER"},
		{7, "worker_started_at INTEGER"},
		{0, "max_runtime_seconds INTEGER"},
		{0, "last_heartbeat_at INTEGER"},
		{0, "started_at INTEGER NOT NULL"},
		{0, "ended_at INTEGER"},
		{0, "outcome TEXT"},
		{0, "summary TEXT"},
		{0, "metadata TEXT"},
		{0, "error TEXT"},
	},
	"kanban_notify_subs": {
		{0, "task_id TEXT NOT NULL"},
		{0, "platform TEXT NOT NULL"},
		{0, "chat_id TEXT NOT NULL"},
		{0, "thread_id TEXT NOT NULL DEFAULT ''"},
		{0, "user_id TEXT"},
		{6, "user_id_alt TEXT"},
		{6, "chat_type TEXT"},
		{6, "notifier_profile TEXT"},
		{6, "delivery_mode TEXT NOT NULL DEFAULT 'notify'"},
		{6, "notify_progress INTEGER NOT NULL DEFAULT 0"},
		{6, "delivery_metadata TEXT"},
		{0, "created_at INTEGER NOT NULL"},
		{0, "last_event_id CURSOR"},
		{6, "last_ping_event_id INTEGER NOT NULL DEFAULT 0"},
	},
}

var tableKeys = map[string]string{"task_links": ", PRIMARY KEY (parent_id, child_id)", "kanban_notify_subs": ", PRIMARY KEY (task_id, platform, chat_id, thread_id)"}

const lastStep = 10 // the rebuild of tables whose ids were declared TEXT

// vintageBefore is a file as it was before that step of the migration and those after it, with what nobody knows in each
// table: a column, a status, an event.
func vintageBefore(step int) string {
	drifted := step <= lastStep
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sinceStep)) {
		var columns []string
		for _, c := range sinceStep[name] {
			if c.step < step {
				columns = append(columns, c.decl)
			}
		}
		if name == "tasks" && step <= 3 {
			columns = append(columns, "spawn_failures INTEGER DEFAULT 0", "last_spawn_error TEXT")
		}
		columns = append(columns, "fork_x BLOB DEFAULT x'00ff80'")
		fmt.Fprintf(&out, "CREATE TABLE %s (%s%s);\n", name, strings.Join(columns, ", "), tableKeys[name])
	}
	id, cursor := "INTEGER PRIMARY KEY AUTOINCREMENT", "INTEGER NOT NULL DEFAULT 0"
	if drifted {
		id, cursor = "TEXT PRIMARY KEY", "TEXT NOT NULL DEFAULT '0'"
	}
	script := strings.NewReplacer("id ID", "id "+id, "CURSOR", cursor).Replace(out.String())
	return script + `CREATE TABLE fork_recipes (id INTEGER PRIMARY KEY, body BLOB); INSERT INTO fork_recipes VALUES (1, x'00fffe01');
CREATE INDEX fork_index ON tasks(fork_x);
INSERT INTO tasks (id, title, status, created_at) VALUES ('t_0000000a', 'ünïcode', 'ready', 1), ('t_0000000b', 'child', 'todo', 1),
  ('t_0000000c', 'before runs', 'running', 1), ('t_0000000d', 'strange' || x'ff', 'from_the_future', 1), ('t_0000000e', 'another', 'ready', 2);
INSERT INTO task_links (parent_id, child_id) VALUES ('t_0000000a', 't_0000000b');
INSERT INTO task_comments (id, task_id, author, body, created_at) VALUES (1, 't_0000000a', 'me', 'ünïcode ✓' || x'fe', 1);
INSERT INTO task_events (id, task_id, kind, payload, created_at) VALUES (1, 't_0000000a', 'created', NULL, 1), (2, 't_0000000b', 'created', NULL, 1),
  (3, 't_0000000c', 'created', NULL, 1), (4, 't_0000000d', 'created', NULL, 1), (5, 't_0000000e', 'created', NULL, 1),
  (6, 't_0000000a', 'from_the_future', '{"x":1,"y" : 2}', 2), (7, 't_0000000a', 'ready', NULL, 3);
INSERT INTO kanban_notify_subs (task_id, platform, chat_id, created_at, last_event_id) VALUES ('t_0000000a', 'telegram', '1', 1, 3), ('t_0000000a', 'tui', '2', 1, 0);
`
}

// steps is every vintage: before each step, and the newest.
func vintageSteps() map[string]string {
	all := map[string]string{"the newest": vintageBefore(lastStep + 1)}
	for step := 1; step <= lastStep; step++ {
		all[fmt.Sprintf("before step %d", step)] = vintageBefore(step)
	}
	return all
}

// stranger is what a file holds that this package does not know, byte for byte: the fork's columns by row, its table, its
// index, the card and the event of the future.
func (b *Board) stranger(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, sql := range []string{
		`SELECT 'tasks', id, hex(fork_x) FROM tasks WHERE id IN ('t_0000000a', 't_0000000b', 't_0000000c', 't_0000000d', 't_0000000e') ORDER BY id`,
		`SELECT 'comments', hex(body), hex(fork_x) FROM task_comments WHERE id = 1`,
		`SELECT 'events', id, kind || COALESCE(payload, '') || hex(fork_x) FROM task_events WHERE id <= 7 ORDER BY id`,
		`SELECT 'links', parent_id, hex(fork_x) FROM task_links WHERE child_id = 't_0000000b' ORDER BY 2`,
		`SELECT 'subs', chat_id, hex(fork_x) FROM kanban_notify_subs WHERE task_id = 't_0000000a' ORDER BY 2`,
		`SELECT 'recipes', id, hex(body) FROM fork_recipes`,
		`SELECT 'index', name, sql FROM sqlite_schema WHERE name LIKE 'fork%' ORDER BY name`,
		`SELECT 'card', hex(title), status FROM tasks WHERE id = 't_0000000d'`,
	} {
		err := b.file.Read(t.Context(), func(c *sqlite.Conn) error {
			for row, err := range c.Query(sql) {
				if err != nil {
					return err
				}
				fmt.Fprintln(&out, row.Text(0), row.Text(1), row.Text(2))
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	return out.String()
}

// Files from before each step of the migration come to the newest format, twice without a change, and what nobody knows
// lives through every verb byte for byte.
func TestEveryStepOfTheMigrationKeepsWhatNobodyKnowsThroughAWholeLife(t *testing.T) {
	for name, script := range vintageSteps() {
		t.Run(name, func(t *testing.T) {
			path := writeVintage(t, script)
			b := openBoard(t, Options{Path: path})
			first, known := b.dump(t), b.stranger(t)
			if !strings.Contains(known, "tasks t_0000000a 00FF80") || !strings.Contains(known, "events 6 from_the_future{\"x\":1,\"y\" : 2}00FF80") || !strings.Contains(known, "events 7 promoted") {
				t.Errorf("after the migration:\n%s", known)
			}
			for table, columns := range sinceStep {
				have := columnsOf(t, b, table)
				for _, c := range columns {
					if column, _, _ := strings.Cut(c.decl, " "); !slices.Contains(have, column) {
						t.Errorf("%s has no %s", table, column)
					}
				}
			}
			again := openBoard(t, Options{Path: path})
			if second := again.dump(t); second != first {
				t.Errorf("the second open changed the file:\n%s\n---\n%s", first, second)
			}
			wholeLife(t, again)
			if after := again.stranger(t); after != known {
				t.Errorf("after a whole life:\n%s\nbefore it:\n%s", after, known)
			}
			if got := again.scalar(t, `PRAGMA integrity_check`); got != "ok" {
				t.Errorf("integrity_check: %s", got)
			}
		})
	}
}

// wholeLife takes the cards through every verb there is.
func wholeLife(t *testing.T, b *Board) {
	t.Helper()
	ctx := t.Context()
	try := func(verb string, err error) {
		t.Helper()
		if err != nil && !problem.Is(err, problem.Unavailable) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	const a, child, lost, e = "t_0000000a", "t_0000000b", "t_0000000c", "t_0000000e"
	run := b.mustClaim(t, a)
	try("spawned", b.Spawned(ctx, a, run, 42, "x:1|2", "k"))
	try("heartbeat", b.Heartbeat(ctx, a, run, "note", 0))
	try("workspace", b.SetWorkspace(ctx, a, run, "/x", ""))
	_, err := b.Comment(ctx, a, "me", "words")
	try("comment", err)
	try("block", b.Block(ctx, a, Block{Run: &run, Reason: "r", Kind: BlockNeedsInput}))
	try("unblock", b.Unblock(ctx, a, ""))
	run = b.mustClaim(t, a)
	_, err = b.EndRun(ctx, End{Task: a, Run: run, Outcome: OutcomeReclaimed, Error: "x"})
	try("end", err)
	try("review", b.RequestReview(ctx, a, Review{Summary: "look"}))
	if b.get(t, a).Status == StatusReview {
		claim, err := b.Claim(ctx, a, Claimer{Review: true})
		try("claim review", err)
		try("changes", b.RequestChanges(ctx, a, &claim.Run.ID, "more"))
	}
	run = b.mustClaim(t, a)
	try("complete", b.Complete(ctx, a, Completion{Run: &run, Summary: "done", Metadata: map[string]any{"k": "ü"}}))
	_, err = b.Promote(ctx)
	try("promote", err)
	b.wantStatus(t, child, StatusReady)
	title := "renamed"
	try("edit", b.Edit(ctx, e, Edit{Title: &title}))
	try("assign", b.Assign(ctx, e, "dev"))
	try("model", b.SetModel(ctx, e, ModelChoice{Model: &title}))
	try("link", b.Link(ctx, child, e))
	try("unlink", b.Unlink(ctx, child, e))
	_, err = b.Schedule(ctx, e, Schedule{Reason: "later"})
	try("schedule", err)
	_, err = b.Move(ctx, child, StatusTodo, Movement{Reason: "r", Actor: "me"})
	try("move", err)
	if open := b.get(t, lost); open.CurrentRunID != 0 {
		_, err = b.EndRun(ctx, End{Task: lost, Run: open.CurrentRunID, Outcome: OutcomeCrashed, Error: "x", Count: true})
		try("crash", err)
	}
	try("block again", b.Block(ctx, child, Block{Reason: "r"}))
	try("promote by hand", b.PromoteByHand(ctx, child, "r", "me", true))
	idea := b.make(t, NewTask{Title: "idea", Triage: true}).ID
	words := "specified"
	try("specify", b.Specify(ctx, idea, Specification{Body: &words, Author: "me"}))
	whole := b.make(t, NewTask{Title: "whole", Triage: true}).ID
	_, err = b.Decompose(ctx, whole, Decomposition{Children: []NewTask{{Title: "part", Assignee: "dev"}}, Author: "me"})
	try("decompose", err)
	b.mustClaim(t, child)
	_, err = b.Reclaim(ctx, child, "r", "me")
	try("reclaim", err)
	_, err = b.Reassign(ctx, child, "ops", "r", "me", true)
	try("reassign", err)
	_, err = b.Terminate(ctx, b.mustClaim(t, child), "r", "me")
	try("terminate", err)
	_, _, err = b.WakeDue(ctx, time.Now())
	try("wake", err)
	try("archive", b.Archive(ctx, e))
	try("archive", b.Archive(ctx, idea))
	_, err = b.Purge(ctx, idea)
	try("purge", err)
	_, err = b.Delete(ctx, whole)
	try("delete", err)
	b.invariants(t)
}

// Eight processes at once migrate a file of any vintage to what one alone makes of it.
func TestEightProcessesMigrateAFileFromBeforeEachStep(t *testing.T) {
	all := vintageSteps()
	for name, script := range all {
		if !*whole && name != "before step 1" && name != "the newest" {
			continue
		}
		t.Run(name, func(t *testing.T) { eightMigrate(t, func(t *testing.T) string { return writeVintage(t, script) }) })
	}
	for _, f := range fixtures() {
		t.Run(f.file, func(t *testing.T) { eightMigrate(t, func(t *testing.T) string { return fixture(t, f.file) }) })
	}
}

func eightMigrate(t *testing.T, prepare func(t *testing.T) string) {
	t.Helper()
	path := prepare(t)
	for _, said := range together(t, 8, "open", path, "") {
		if said != "" {
			t.Error(said)
		}
	}
	alone, b := openBoard(t, Options{Path: prepare(t)}), openBoard(t, Options{Path: path})
	const schema = `SELECT group_concat(name || sql, ';') FROM (SELECT name, sql FROM sqlite_schema ORDER BY name)`
	if mine, theirs := alone.scalar(t, schema), b.scalar(t, schema); mine != theirs {
		t.Errorf("eight processes made another schema than one:\n%s\n---\n%s", theirs, mine)
	}
	if got := b.scalar(t, `PRAGMA integrity_check`); got != "ok" {
		t.Errorf("integrity_check: %s", got)
	}
	again := b.dump(t)
	if second := openBoard(t, Options{Path: path}).dump(t); second != again {
		t.Error("one more open changed the file")
	}
}
