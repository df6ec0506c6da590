package kanban

import (
	"context"
	"fmt"
	"strings"

	"gatewayd/internal/sqlite"
)

// A board that leaves its machine, or comes from another one, carries nothing that is only true where it was: no claims, no
// sessions, no subscriptions, and of our own tables, which hold what the daemon is about to do, only the times of scheduled
// cards: they are what the cards say.
const (
	scrubTasks = `UPDATE tasks SET status = CASE status WHEN 'running' THEN 'ready' ELSE status END, claim_lock = NULL, claim_expires = NULL,
    worker_pid = NULL, worker_started_at = NULL, current_run_id = NULL, last_heartbeat_at = NULL, session_id = NULL, project_id = NULL,
    consecutive_failures = 0`
	scrubRuns = `UPDATE task_runs SET status = 'released', outcome = 'reclaimed', ended_at = ? WHERE ended_at IS NULL`
	scrubPids = `UPDATE task_runs SET claim_lock = NULL, claim_expires = NULL, worker_pid = NULL, worker_started_at = NULL`
	scrubSubs = `DELETE FROM kanban_notify_subs`

	selectOwnTables = `SELECT name FROM sqlite_schema WHERE type = 'table' AND name LIKE 'gw\_%' ESCAPE '\' AND name <> 'gw_schedules'`
	selectPrograms  = `SELECT name FROM sqlite_schema WHERE type IN ('trigger', 'view')`
)

func (b *Board) scrub(ctx context.Context) error {
	return b.write(ctx, "scrub board", func(t *txn) error { return t.scrub() })
}

func (t *txn) scrub() error {
	for what, sql := range map[string]string{"scrub cards": scrubTasks, "scrub claims": scrubPids, "scrub subscriptions": scrubSubs} {
		if _, err := t.run(what, sql); err != nil {
			return err
		}
	}
	if _, err := t.run("close runs", scrubRuns, t.now); err != nil {
		return err
	}
	own, err := texts(t.Conn, selectOwnTables)
	if err != nil {
		return err
	}
	for _, name := range own {
		if _, err := t.run("scrub "+name, `DELETE FROM "`+strings.ReplaceAll(name, `"`, `""`)+`"`); err != nil {
			return err
		}
	}
	return nil
}

// count gives the number of rows of the tables that people care about.
func (b *Board) count(ctx context.Context) (map[string]int64, error) {
	counts := map[string]int64{}
	err := b.read(ctx, func(c *sqlite.Conn) error {
		for _, name := range append([]string{"task_attachments"}, counted...) {
			var n int64
			if _, err := c.Row("SELECT count(*) FROM "+name, nil, &n); err != nil {
				return fmt.Errorf("count rows: %w", err)
			}
			counts[strings.TrimPrefix(name, "task_")] = n
		}
		return nil
	})
	return counts, err
}

// storedFile is what a row says of an attachment's file.
type storedFile struct {
	id         int64
	task, path string
}

const selectAllAttachments = `SELECT id, task_id, stored_path FROM task_attachments ORDER BY id`

func (b *Board) allAttachments(ctx context.Context) ([]storedFile, error) {
	var list []storedFile
	err := b.read(ctx, func(c *sqlite.Conn) (err error) {
		list, err = collect(c, func(row *sqlite.Row) storedFile { return storedFile{row.Int(0), row.Text(1), row.Text(2)} }, selectAllAttachments)
		return err
	})
	return list, err
}
