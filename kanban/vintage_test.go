package kanban

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/sqlite"
)

// Files as programs of each vintage make them, written down by hand: columns in their old order, rows in each state, and
// things that this package has never heard of.

const vintageRest = `
CREATE TABLE task_links (parent_id TEXT NOT NULL, child_id TEXT NOT NULL, PRIMARY KEY (parent_id, child_id));
CREATE TABLE task_comments (id INTEGER PRIMARY KEY AUTOINCREMENT, task_id TEXT NOT NULL, author TEXT NOT NULL, body TEXT NOT NULL, created_at INTEGER NOT NULL);
CREATE TABLE task_runs (id INTEGER PRIMARY KEY AUTOINCREMENT, task_id TEXT NOT NULL, profile TEXT, step_key TEXT, status TEXT NOT NULL, claim_lock TEXT,
  claim_expires INTEGER, worker_pid INTEGER, max_runtime_seconds INTEGER, last_heartbeat_at INTEGER, started_at INTEGER NOT NULL, ended_at INTEGER,
  outcome TEXT, summary TEXT, metadata TEXT, error TEXT);
CREATE TABLE kanban_notify_subs (task_id TEXT NOT NULL, platform TEXT NOT NULL, chat_id TEXT NOT NULL, thread_id TEXT NOT NULL DEFAULT '', user_id TEXT,
  notifier_profile TEXT, created_at INTEGER NOT NULL, last_event_id INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (task_id, platform, chat_id, thread_id));
CREATE TABLE recipe_steps (id INTEGER PRIMARY KEY, text TEXT);
INSERT INTO recipe_steps VALUES (1, 'of a fork');
INSERT INTO task_links VALUES ('t_0000000a', 't_0000000b');
INSERT INTO kanban_notify_subs (task_id, platform, chat_id, created_at) VALUES ('t_0000000a', 'telegram', '1', 1), ('t_0000000a', 'tui', '2', 1);
`

const vintageEvents = `
CREATE TABLE task_events (id INTEGER PRIMARY KEY AUTOINCREMENT, task_id TEXT NOT NULL, run_id INTEGER, kind TEXT NOT NULL, payload TEXT, created_at INTEGER NOT NULL);
INSERT INTO task_events (task_id, kind, payload, created_at) VALUES ('t_0000000a', 'created', NULL, 1), ('t_0000000b', 'created', NULL, 1),
  ('t_0000000c', 'created', NULL, 1), ('t_0000000a', 'from_the_future', '{"x": 1}', 2), ('t_0000000a', 'ready', NULL, 3),
  ('t_0000000a', 'priority', '{"priority": 3}', 4), ('t_0000000a', 'spawn_auto_blocked', NULL, 5);
`

const vintageM = `
CREATE TABLE tasks (id TEXT PRIMARY KEY, title TEXT NOT NULL, body TEXT, assignee TEXT, status TEXT NOT NULL, priority INTEGER DEFAULT 0, created_by TEXT,
  created_at INTEGER NOT NULL, started_at INTEGER, completed_at INTEGER, workspace_kind TEXT NOT NULL DEFAULT 'scratch', workspace_path TEXT,
  claim_lock TEXT, claim_expires INTEGER, tenant TEXT, result TEXT, idempotency_key TEXT, consecutive_failures INTEGER NOT NULL DEFAULT 0,
  worker_pid INTEGER, last_failure_error TEXT, max_runtime_seconds INTEGER, last_heartbeat_at INTEGER, current_run_id INTEGER,
  workflow_template_id TEXT, current_step_key TEXT, skills TEXT, max_retries INTEGER, worker_scope TEXT DEFAULT 'fork');
CREATE INDEX idx_of_a_fork ON tasks(worker_scope);
INSERT INTO tasks (id, title, status, created_at, assignee) VALUES ('t_0000000a', 'ünïcode', 'ready', 1, 'dev'), ('t_0000000b', 'child', 'todo', 1, 'dev');
INSERT INTO tasks (id, title, status, created_at, started_at, claim_lock, claim_expires, worker_pid, assignee)
  VALUES ('t_0000000c', 'before runs', 'running', 1, 77, 'elsewhere:1', 99, 4242, 'dev');
INSERT INTO tasks (id, title, status, created_at) VALUES ('t_0000000d', 'strange', 'from_the_future', '2026-05-01T10:00:00');
` + vintageRest + vintageEvents

const vintageJ = `
CREATE TABLE tasks (id TEXT PRIMARY KEY, title TEXT NOT NULL, body TEXT, assignee TEXT, status TEXT NOT NULL, priority INTEGER DEFAULT 0, created_by TEXT,
  created_at INTEGER NOT NULL, started_at INTEGER, completed_at INTEGER, workspace_kind TEXT NOT NULL DEFAULT 'scratch', workspace_path TEXT,
  branch_name TEXT, project_id TEXT, claim_lock TEXT, claim_expires INTEGER, tenant TEXT, result TEXT, idempotency_key TEXT,
  consecutive_failures INTEGER NOT NULL DEFAULT 0, worker_pid INTEGER, last_failure_error TEXT, max_runtime_seconds INTEGER,
  last_heartbeat_at INTEGER, current_run_id INTEGER, workflow_template_id TEXT, current_step_key TEXT, skills TEXT, model_override TEXT,
  max_retries INTEGER, goal_mode INTEGER NOT NULL DEFAULT 0, goal_max_turns INTEGER, session_id TEXT, block_kind TEXT,
  block_recurrences INTEGER NOT NULL DEFAULT 0, worker_scope TEXT DEFAULT 'fork');
CREATE TABLE task_attachments (id INTEGER PRIMARY KEY AUTOINCREMENT, task_id TEXT NOT NULL, filename TEXT NOT NULL, stored_path TEXT NOT NULL,
  content_type TEXT, size INTEGER NOT NULL DEFAULT 0, uploaded_by TEXT, created_at INTEGER NOT NULL);
INSERT INTO tasks (id, title, status, created_at, assignee) VALUES ('t_0000000a', 'ünïcode', 'ready', 1, 'dev'), ('t_0000000b', 'child', 'todo', 1, 'dev');
INSERT INTO tasks (id, title, status, created_at, started_at, claim_lock, claim_expires, worker_pid, assignee)
  VALUES ('t_0000000c', 'before runs', 'running', 1, 77, 'elsewhere:1', 99, 4242, 'dev');
INSERT INTO tasks (id, title, status, created_at) VALUES ('t_0000000d', 'strange', 'from_the_future', '2026-05-01T10:00:00');
` + vintageRest + vintageEvents

// vintageOld is older than [M]: no runs, failures under their first names, ids declared TEXT.
const vintageOld = `
CREATE TABLE tasks (id TEXT PRIMARY KEY, title TEXT NOT NULL, status TEXT NOT NULL, created_at INTEGER NOT NULL, assignee TEXT,
  spawn_failures INTEGER DEFAULT 0, last_spawn_error TEXT, worker_scope TEXT DEFAULT 'fork');
CREATE TABLE task_events (id TEXT PRIMARY KEY, task_id TEXT NOT NULL, kind TEXT NOT NULL, payload TEXT, created_at INTEGER NOT NULL, shade TEXT NOT NULL DEFAULT 'blue');
CREATE INDEX idx_shade ON task_events(shade);
CREATE TABLE kanban_notify_subs (task_id TEXT NOT NULL, platform TEXT NOT NULL, chat_id TEXT NOT NULL, thread_id TEXT NOT NULL DEFAULT '',
  created_at INTEGER NOT NULL, last_event_id TEXT NOT NULL DEFAULT '0', PRIMARY KEY (task_id, platform, chat_id, thread_id));
INSERT INTO tasks (id, title, status, created_at, assignee, spawn_failures, last_spawn_error) VALUES ('t_0000000a', 'ünïcode', 'ready', 1, 'dev', 1, 'boom'),
  ('t_0000000b', 'child', 'todo', 1, 'dev', 0, NULL), ('t_0000000c', 'before runs', 'running', 1, 'dev', 0, NULL),
  ('t_0000000d', 'strange', 'from_the_future', '2026-05-01T10:00:00', NULL, 0, NULL);
INSERT INTO task_events VALUES ('7', 't_0000000a', 'created', NULL, 1, 'red'), ('e-uuid', 't_0000000a', 'from_the_future', '{"x": 1}', 2, 'blue'),
  ('8', 't_0000000b', 'ready', NULL, 3, 'blue'), ('007', 't_0000000b', 'created', NULL, 3, 'blue');
INSERT INTO kanban_notify_subs VALUES ('t_0000000a', 'telegram', '1', '', 1, 'e-uuid'), ('t_0000000a', 'tui', '2', '', 1, '7');
`

func vintages() map[string]string {
	return map[string]string{"M": vintageM, "J": vintageJ, "old": vintageOld}
}

// writeVintage makes the file without this package's own schema.
func writeVintage(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kanban.db")
	f, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Create: true, TornCheck: true})
	if err != nil {
		t.Fatal(err)
	}
	err = f.Write(t.Context(), sqlite.Op{Label: "vintage", Do: func(tx *sqlite.Tx) error { return tx.Script(script) }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Checkpoint(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// dump is the schema and every row of a file, as text.
func (b *Board) dump(t *testing.T) string {
	t.Helper()
	out, err := b.rows(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// rows is the schema and every row.
func (b *Board) rows(ctx context.Context) (out string, err error) {
	err = b.file.Read(ctx, func(c *sqlite.Conn) error {
		var text strings.Builder
		tables, err := texts(c, `SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name`)
		if err != nil {
			return err
		}
		schema, err := texts(c, `SELECT type || ' ' || name || ' ' || COALESCE(sql, '') FROM sqlite_schema ORDER BY 1`)
		if err != nil {
			return err
		}
		for _, s := range schema {
			text.WriteString(s + "\n")
		}
		for _, name := range tables {
			for row, err := range c.Query(`SELECT * FROM ` + quoteName(name) + ` ORDER BY 1, 2`) {
				if err != nil {
					return err
				}
				text.WriteString(name + ":")
				for i := range row.Columns() {
					text.WriteString(" " + row.Text(i) + "|")
				}
				text.WriteByte('\n')
			}
		}
		out = text.String()
		return nil
	})
	return out, err
}

func fileBytes(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}
