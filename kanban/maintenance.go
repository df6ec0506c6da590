package kanban

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"gatewayd/internal/sqlite"
)

// counted are the tables that a backup counts and of which a repair may not lose a row that can be read.
var counted = []string{"tasks", "task_runs", "task_events", "task_links", "task_comments"}

// MetaPath is the absolute path of a board's board.json, whether it exists or not.
func (r *Root) MetaPath(slug Slug) string { return filepath.Join(r.dir, boardDir(slug), "board.json") }

// BackupOptions say what of a board a backup counts and takes along.
func (r *Root) BackupOptions(slug Slug, dir string, keep int) sqlite.BackupOptions {
	return sqlite.BackupOptions{Dir: dir, Keep: keep, Tables: counted, Beside: []string{r.MetaPath(slug)}, Files: r.AttachmentsDir(slug)}
}

// Backup makes one verified backup of the board beside whoever works on it.
func (b *Board) Backup(ctx context.Context, o sqlite.BackupOptions) (sqlite.Backup, error) {
	return b.file.Backup(ctx, o)
}

// BoardLabel is how a board is called in a backup's manifest and in what people read.
func BoardLabel(slug Slug) string { return "board " + string(slug) }

// RepairOptions tell sqlite.Repair what a board is. Before anything is tried a forensic copy is made as the dispatcher
// makes them, so that the two know each other's.
func RepairOptions(slug Slug, path string, log *slog.Logger) sqlite.RepairOptions {
	return sqlite.RepairOptions{
		Path: path, Label: BoardLabel(slug), Tables: counted, Log: log, Forensic: BackupCorrupt, Probe: probe,
		Known: func(c *sqlite.Conn) error {
			l, _, err := schemaStale(c)
			if err == nil && l.foreign() != "" {
				err = foreignBoard(slug, path, l.foreign())
			}
			return err
		},
	}
}

// probe writes a card and an event as a worker would. It is rolled back.
func probe(tx *sqlite.Tx) error {
	err := tx.Script(`INSERT INTO tasks(id, title, status, created_at) VALUES('repair probe', 'probe', 'todo', 1);
INSERT INTO task_events(task_id, kind, created_at) VALUES('repair probe', 'probe', 1)`)
	if err != nil {
		return fmt.Errorf("write to the mended copy: %w", err)
	}
	return nil
}
