package kanban

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

func columnsOf(t *testing.T, b *Board, table string) []string {
	t.Helper()
	var names []string
	err := b.file.Read(t.Context(), func(c *sqlite.Conn) (err error) {
		names, err = texts(c, `SELECT name FROM pragma_table_info(?) ORDER BY cid`, table)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestFreshFileHasTheNewestOrder(t *testing.T) {
	b := newBoard(t)
	want := strings.Fields(`id title body assignee status priority created_by created_at started_at completed_at workspace_kind workspace_path
		branch_name project_id claim_lock claim_expires tenant result idempotency_key consecutive_failures worker_pid worker_started_at
		last_failure_error max_runtime_seconds last_heartbeat_at current_run_id workflow_template_id current_step_key skills model_override
		provider_override reasoning_effort max_retries goal_mode goal_max_turns session_id block_kind block_recurrences completion_contract`)
	if got := columnsOf(t, b, "tasks"); !slices.Equal(got, want) {
		t.Errorf("tasks has %v", got)
	}
	if ddl := b.scalar(t, `SELECT sql FROM sqlite_schema WHERE name = 'tasks'`); !strings.HasSuffix(ddl, "completion_contract TEXT)") {
		t.Errorf("completion_contract was not added by ALTER: …%s", ddl[len(ddl)-60:])
	}
	for _, name := range strings.Fields(`idx_tasks_assignee_status idx_tasks_status idx_tasks_tenant idx_tasks_idempotency idx_tasks_session_id idx_links_child
		idx_links_parent idx_comments_task idx_events_task idx_events_run idx_runs_task idx_runs_status idx_attachments_task idx_notify_task`) {
		if b.scalar(t, `SELECT name FROM sqlite_schema WHERE type = 'index' AND name = ?`, name) != name {
			t.Errorf("index %s is missing", name)
		}
	}
	for _, q := range []string{`PRAGMA user_version`, `SELECT COUNT(*) FROM sqlite_schema WHERE type IN ('trigger', 'view') OR sql LIKE '%UNIQUE%' AND name NOT LIKE 'gw%'`} {
		if got := b.scalar(t, q); got != "0" {
			t.Errorf("%s = %s", q, got)
		}
	}
	for _, own := range strings.Fields(b.scalar(t, `SELECT group_concat(name, ' ') FROM sqlite_schema WHERE name LIKE '%keeper%' OR name LIKE 'gw%'`)) {
		if !strings.HasPrefix(own, "gw_") {
			t.Errorf("%s is ours and is not prefixed", own)
		}
	}
}

func TestBoardConnectionsAreSafe(t *testing.T) {
	b := newBoard(t)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "secure_delete": "1", "cell_size_check": "1", "wal_autocheckpoint": "100"} {
		got := ""
		err := b.file.Write(t.Context(), sqlite.Op{Label: "test", Do: func(tx *sqlite.Tx) error {
			_, err := tx.Row("PRAGMA "+pragma, nil, &got)
			return err
		}})
		if err != nil || got != want {
			t.Errorf("PRAGMA %s = %s, %v; want %s", pragma, got, err, want)
		}
	}
}

func TestEveryVintageMigratesOnceAndKeepsWhatItHad(t *testing.T) {
	for name, script := range vintages() {
		t.Run(name, func(t *testing.T) {
			path := writeVintage(t, script)
			b := openBoard(t, Options{Path: path})
			first := b.dump(t)
			for _, c := range tasksTable.columns {
				if !slices.Contains(columnsOf(t, b, "tasks"), c.name) {
					t.Errorf("column %s is missing", c.name)
				}
			}
			if got := b.scalar(t, `SELECT worker_scope FROM tasks WHERE id = 't_0000000a'`); got != "fork" {
				t.Errorf("a fork's column holds %q", got)
			}
			checkVintageRows(t, b)
			again := openBoard(t, Options{Path: path})
			if second := again.dump(t); second != first {
				t.Errorf("the second open changed the file:\n%s\n---\n%s", first, second)
			}
			checkLifecycle(t, again)
		})
	}
}

func checkVintageRows(t *testing.T, b *Board) {
	t.Helper()
	lost := b.get(t, "t_0000000c")
	runs := b.runs(t, "t_0000000c")
	if len(runs) != 1 || !runs[0].Open() || lost.CurrentRunID != runs[0].ID || runs[0].Profile != "dev" {
		t.Errorf("the running card of the time before runs has %+v, current %d", runs, lost.CurrentRunID)
	}
	strange := b.get(t, "t_0000000d")
	if strange.Status != "from_the_future" || strange.CreatedAt != time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC).Unix() {
		t.Errorf("strange card: %s, created %d", strange.Status, strange.CreatedAt)
	}
	if kinds := b.scalar(t, `SELECT group_concat(kind, ' ') FROM (SELECT kind FROM task_events ORDER BY created_at)`); !strings.Contains(kinds, "from_the_future") ||
		!strings.Contains(kinds, "promoted") || strings.Contains(kinds, " ready") || strings.Contains(kinds, "spawn_auto_blocked") {
		t.Errorf("event kinds: %s", kinds)
	}
	if got := b.scalar(t, `SELECT group_concat(delivery_mode, ' ') FROM (SELECT delivery_mode FROM kanban_notify_subs ORDER BY chat_id)`); got != "notify+wake notify" {
		t.Errorf("delivery modes: %s", got)
	}
}

// checkLifecycle runs a card of an old file through its life.
func checkLifecycle(t *testing.T, b *Board) {
	t.Helper()
	run := b.mustClaim(t, "t_0000000a")
	if err := b.Complete(t.Context(), "t_0000000a", Completion{Run: &run, Summary: "done"}); err != nil {
		t.Error(err)
	}
	b.wantStatus(t, "t_0000000a", StatusDone)
	if got := b.scalar(t, `SELECT worker_scope FROM tasks WHERE id = 't_0000000a'`); got != "fork" {
		t.Errorf("after its life a fork's column holds %q", got)
	}
	b.make(t, NewTask{Title: "new in an old file"})
}

func TestForksTableAndIndexSurvive(t *testing.T) {
	b := openBoard(t, Options{Path: writeVintage(t, vintageM)})
	if got := b.scalar(t, `SELECT text FROM recipe_steps`); got != "of a fork" {
		t.Errorf("a fork's table holds %q", got)
	}
	if got := b.scalar(t, `SELECT name FROM sqlite_schema WHERE name = 'idx_of_a_fork'`); got == "" {
		t.Error("a fork's index is gone")
	}
}

func TestDriftedTablesAreRebuiltWithTheirExtras(t *testing.T) {
	b := openBoard(t, Options{Path: writeVintage(t, vintageOld)})
	if got := b.scalar(t, `SELECT group_concat(id || ':' || typeof(id) || ':' || kind || ':' || shade, ' ') FROM (SELECT * FROM task_events ORDER BY id)`); got !=
		"7:integer:created:red 8:integer:promoted:blue 9:integer:from_the_future:blue 10:integer:created:blue" {
		t.Errorf("events: %s", got)
	}
	if got := b.scalar(t, `SELECT group_concat(last_event_id || typeof(last_event_id), ' ') FROM (SELECT * FROM kanban_notify_subs ORDER BY chat_id)`); got != "0integer 7integer" {
		t.Errorf("cursors: %s", got)
	}
	if b.scalar(t, `SELECT name FROM sqlite_schema WHERE name = 'idx_shade'`) == "" {
		t.Error("the index of a fork on a rebuilt table is gone")
	}
	if got := b.scalar(t, `SELECT COUNT(*) FROM sqlite_schema WHERE name LIKE '%legacy%'`); got != "0" {
		t.Error("a legacy table was left behind")
	}
	if card := b.get(t, "t_0000000a"); card.ConsecutiveFailures != 1 || card.LastFailureError != "boom" {
		t.Errorf("failures under their old names: %d, %q", card.ConsecutiveFailures, card.LastFailureError)
	}
	if got := b.scalar(t, `SELECT spawn_failures FROM tasks WHERE id = 't_0000000a'`); got != "1" {
		t.Errorf("the old column holds %q", got)
	}
	// A later migration does not take the old column's word again.
	b.sql(t, `UPDATE tasks SET consecutive_failures = 0`)
	b.sql(t, `DROP INDEX idx_tasks_tenant`)
	if got := openBoard(t, Options{Path: b.Path()}).get(t, "t_0000000a").ConsecutiveFailures; got != 0 {
		t.Errorf("a second migration copied %d failures again", got)
	}
}

func TestEightProcessesMigrateOneFile(t *testing.T) {
	for name, script := range vintages() {
		t.Run(name, func(t *testing.T) {
			path := writeVintage(t, script)
			for _, said := range together(t, 8, "open", path, "") {
				if said != "" {
					t.Error(said)
				}
			}
			alone := openBoard(t, Options{Path: writeVintage(t, script)})
			b := openBoard(t, Options{Path: path})
			if mine, theirs := alone.dump(t), b.dump(t); name != "old" && mine != theirs {
				t.Errorf("eight processes made another file than one:\n%s\n---\n%s", theirs, mine)
			}
			if got := b.scalar(t, `PRAGMA integrity_check`); got != "ok" {
				t.Errorf("integrity_check: %s", got)
			}
		})
	}
}

func TestEightProcessesCreateOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sub", "kanban.db")
	for _, said := range together(t, 8, "create", path, "") {
		if said != "" {
			t.Error(said)
		}
	}
	b := openBoard(t, Options{Path: path})
	if got := b.scalar(t, `PRAGMA integrity_check`); got != "ok" {
		t.Errorf("integrity_check: %s", got)
	}
	checkFresh := newBoard(t).scalar(t, `SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_schema ORDER BY name)`)
	if got := b.scalar(t, `SELECT group_concat(sql, ';') FROM (SELECT sql FROM sqlite_schema ORDER BY name)`); got != checkFresh {
		t.Error("the file differs from one made alone")
	}
}

func TestSteadyStateOpenWritesNothing(t *testing.T) {
	path := writeVintage(t, vintageJ)
	b := openBoard(t, Options{Path: path})
	if _, err := b.file.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path + ".init.lock"); err != nil {
		t.Fatal(err)
	}
	main, wal := fileBytes(t, path), fileBytes(t, path+"-wal")
	again := openBoard(t, Options{Path: path})
	if _, err := again.List(t.Context(), Filter{}); err != nil {
		t.Fatal(err)
	}
	if fileBytes(t, path) != main || fileBytes(t, path+"-wal") != wal {
		t.Error("opening a current board wrote to it")
	}
	if _, err := os.Stat(path + ".init.lock"); err == nil {
		t.Error("opening a current board took the first-open lock")
	}
}

func TestFirstOpenWaitsForHermesThenGoesOn(t *testing.T) {
	path := writeVintage(t, vintageJ)
	lock, err := tryLock(path + ".init.lock")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		b, err := Open(t.Context(), Options{Path: path})
		if err == nil {
			err = b.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("the open did not wait for the first-open lock: %v", err)
	case <-time.After(4 * initLockPoll):
	}
	lock.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestMissingAndEmptyFilesAreNotCreated(t *testing.T) {
	dir := t.TempDir()
	missing, empty, noTables := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db"), writeVintage(t, "CREATE TABLE x (y); DROP TABLE x;")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{missing, empty, noTables} {
		_, err := Open(t.Context(), Options{Path: path, Slug: "work"})
		if !problem.Is(err, problem.NotFound) || !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "gatewayd kanban boards create work") {
			t.Errorf("open %s: %v", filepath.Base(path), err)
		}
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("a missing board was created by looking")
	}
	if st, _ := os.Stat(empty); st.Size() != 0 {
		t.Error("an empty board was filled by looking")
	}
	for _, path := range []string{missing, empty, noTables} {
		openBoard(t, Options{Path: path, Create: true}).make(t, NewTask{})
	}
}
