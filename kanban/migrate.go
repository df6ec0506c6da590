package kanban

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"gatewayd/internal/sqlite"
)

// layout is what a file really has: declared types by table and column, and the names of its indexes.
type layout struct {
	types   map[string]map[string]string
	indexes map[string]bool
}

const (
	selectColumns = `SELECT s.name, c.name, c.type FROM sqlite_schema s JOIN pragma_table_info(s.name) c
WHERE s.type = 'table' AND s.sql NOT LIKE 'CREATE VIRTUAL%'` // those need modules that we do not have
	selectIndexes = `SELECT name FROM sqlite_schema WHERE type = 'index'`
	selectLostRun = `SELECT 1 FROM tasks WHERE status = 'running' AND current_run_id IS NULL LIMIT 1`
)

func readLayout(c *sqlite.Conn) (layout, error) {
	l := layout{types: map[string]map[string]string{}, indexes: map[string]bool{}}
	for row, err := range c.Query(selectColumns) {
		if err != nil {
			return l, fmt.Errorf("read schema: %w", err)
		}
		name := row.Text(0)
		if l.types[name] == nil {
			l.types[name] = map[string]string{}
		}
		l.types[name][row.Text(1)] = row.Text(2)
	}
	for row, err := range c.Query(selectIndexes) {
		if err != nil {
			return l, fmt.Errorf("read schema: %w", err)
		}
		l.indexes[row.Text(0)] = true
	}
	return l, nil
}

// foreign says why the file cannot be a board of any vintage, or nothing. What an ALTER cannot add must be there: a
// migration that began would fail, after the file was changed.
func (l layout) foreign() string {
	if !l.empty() && l.types[tasksTable.name] == nil {
		return "it has tables, but none called " + tasksTable.name
	}
	for _, t := range schemaTables() {
		for _, c := range t.columns {
			if l.types[t.name] != nil && !c.addable() && !l.has(t.name, c.name) {
				return "its table " + t.name + " has no column " + c.name
			}
		}
	}
	if id := l.types[tasksTable.name]["id"]; !l.empty() && !strings.EqualFold(id, "TEXT") {
		return "the ids of its tasks are of type " + quote(id)
	}
	return ""
}

func (l layout) empty() bool { return len(l.types) == 0 }

func (l layout) has(table, column string) bool {
	_, ok := l.types[table][column]
	return ok
}

// drifted: the declared type of the table's cursor is not INTEGER, as in some early files.
func (l layout) drifted(t table) bool {
	return t.cursor != "" && l.has(t.name, t.cursor) && !strings.EqualFold(l.types[t.name][t.cursor], "INTEGER")
}

// current reports whether nothing is to be done to the schema.
func (l layout) current() bool {
	for _, t := range schemaTables() {
		if l.drifted(t) {
			return false
		}
		for _, c := range t.columns {
			if !l.has(t.name, c.name) {
				return false
			}
		}
	}
	for _, i := range schemaIndexes() {
		if !l.indexes[i.name] {
			return false
		}
	}
	return true
}

// schemaStale reads whether the file needs migrate. A board that is current costs three reads and no write.
func schemaStale(c *sqlite.Conn) (layout, bool, error) {
	l, err := readLayout(c)
	if err != nil || l.foreign() != "" || !l.current() {
		return l, true, err
	}
	var one int64
	lost, err := c.Row(selectLostRun, nil, &one)
	if err != nil {
		return l, true, fmt.Errorf("read schema: %w", err)
	}
	return l, lost, nil
}

// migrate brings a file of any vintage, or an empty one, to the newest format. It runs in one IMMEDIATE transaction and
// is driven by what is there, so running it twice, or in eight processes at once, does nothing more. Columns, tables and
// indexes it does not know stay.
func migrate(tx *sqlite.Tx) error {
	l, err := readLayout(tx.Conn)
	if err != nil {
		return err
	}
	if why := l.foreign(); why != "" {
		return fmt.Errorf("%w: %s", ErrForeign, why)
	}
	for _, step := range []func(*sqlite.Tx, layout) error{
		createTables, addColumns, renameColumns, wakeOldSubscriptions, rebuildDrifted, createIndexes, adoptLostRuns, renameEvents,
	} {
		if err := step(tx, l); err != nil {
			return fmt.Errorf("migrate board: %w", err)
		}
	}
	return nil
}

// ErrForeign is the cause when a file is a database, and no board.
var ErrForeign = errors.New("is a database of something else")

func apply(tx *sqlite.Tx, sql string, args ...any) error {
	if _, err := tx.Exec(sql, args...); err != nil {
		return fmt.Errorf("%s: %w", firstLine(sql, 60), err)
	}
	return nil
}

func createTables(tx *sqlite.Tx, l layout) error {
	for _, t := range schemaTables() {
		if l.types[t.name] != nil {
			continue
		}
		if err := apply(tx, t.createSQL()); err != nil {
			return err
		}
	}
	return nil
}

func addColumns(tx *sqlite.Tx, l layout) error {
	for _, t := range schemaTables() {
		for _, c := range t.columns {
			if l.types[t.name] == nil && !c.late || l.has(t.name, c.name) {
				continue
			}
			if err := apply(tx, t.alterSQL(c)); err != nil && !strings.Contains(err.Error(), "duplicate column name") {
				return err
			}
		}
	}
	return nil
}

// renameColumns copies what older files keep under another name. The old column stays, for older programs.
func renameColumns(tx *sqlite.Tx, l layout) error {
	for _, r := range []struct{ from, to, sql string }{
		{"spawn_failures", "consecutive_failures", `UPDATE tasks SET consecutive_failures = COALESCE(spawn_failures, 0) WHERE spawn_failures IS NOT NULL`},
		{"last_spawn_error", "last_failure_error", `UPDATE tasks SET last_failure_error = last_spawn_error WHERE last_spawn_error IS NOT NULL`},
	} {
		if !l.has("tasks", r.from) || l.has("tasks", r.to) {
			continue
		}
		if err := apply(tx, r.sql); err != nil {
			return err
		}
	}
	return nil
}

// wakeOldSubscriptions: before there was a delivery mode, a subscription also woke the chat's session.
func wakeOldSubscriptions(tx *sqlite.Tx, l layout) error {
	if l.types[subsTable.name] == nil || l.has(subsTable.name, "delivery_mode") {
		return nil
	}
	return apply(tx, `UPDATE kanban_notify_subs SET delivery_mode = 'notify+wake' WHERE platform <> 'tui'`)
}

func createIndexes(tx *sqlite.Tx, _ layout) error {
	for _, i := range schemaIndexes() {
		if err := apply(tx, i.createSQL()); err != nil {
			return err
		}
	}
	return nil
}

const (
	selectLostRuns = `SELECT id FROM tasks WHERE status = 'running' AND current_run_id IS NULL`
	insertLostRun  = `INSERT INTO task_runs (task_id, profile, step_key, status, claim_lock, claim_expires, worker_pid, worker_started_at,
    max_runtime_seconds, last_heartbeat_at, started_at)
SELECT id, assignee, current_step_key, 'running', claim_lock, claim_expires, worker_pid, worker_started_at,
    max_runtime_seconds, last_heartbeat_at, COALESCE(started_at, ?) FROM tasks WHERE id = ?`
	adoptLostRun = `UPDATE tasks SET current_run_id = ? WHERE id = ? AND current_run_id IS NULL`
)

// adoptLostRuns gives each running card of the time before runs an open run, so that it can end like any other.
func adoptLostRuns(tx *sqlite.Tx, _ layout) error {
	ids, err := texts(tx.Conn, selectLostRuns)
	if err != nil {
		return err
	}
	for _, id := range ids {
		res, err := tx.Exec(insertLostRun, time.Now().Unix(), id)
		if err != nil {
			return err
		}
		if err := apply(tx, adoptLostRun, res.LastID, id); err != nil {
			return err
		}
	}
	return nil
}

func renameEvents(tx *sqlite.Tx, l layout) error {
	if l.types[eventsTable.name] == nil {
		return nil
	}
	return apply(tx, `UPDATE task_events SET kind = CASE kind WHEN 'ready' THEN 'promoted' WHEN 'priority' THEN 'reprioritized' ELSE 'gave_up' END
WHERE kind IN ('ready', 'priority', 'spawn_auto_blocked')`)
}

// texts reads one column of text.
func texts(c *sqlite.Conn, sql string, args ...any) ([]string, error) {
	var list []string
	for row, err := range c.Query(sql, args...) {
		if err != nil {
			return nil, err
		}
		list = append(list, row.Text(0))
	}
	return list, nil
}
