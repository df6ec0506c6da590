package sessiondb

import (
	"context"
	"fmt"
	"log/slog"

	"gatewayd/internal/sqlite"
)

// counted are the tables whose rows somebody said: a backup counts them, and a repair may not lose one that can be read.
var counted = []string{"sessions", "messages"}

// BackupOptions say what of a state.db a backup counts.
func BackupOptions(dir string, keep int) sqlite.BackupOptions {
	return sqlite.BackupOptions{Dir: dir, Keep: keep, Tables: counted}
}

// Backup makes one verified backup beside the running daemon and keeps so many; 0 is sqlite.DefaultKeep.
// Small files that belong to it are copied along.
func (s *Store) Backup(ctx context.Context, dir string, keep int, beside ...string) (sqlite.Backup, error) {
	o := BackupOptions(dir, keep)
	o.Beside = beside
	return s.file.Backup(ctx, o)
}

// RepairOptions tell sqlite.Repair what a state.db is. The search indexes are made empty where they cannot be filled
// from what they hold; the indexer of the next daemon fills them.
func RepairOptions(path string, log *slog.Logger) sqlite.RepairOptions {
	return sqlite.RepairOptions{
		Path: path, Label: "state.db", Tables: counted, Log: log,
		Known:         func(c *sqlite.Conn) error { _, err := stale(c, path, SchemaVersion); return err },
		RebuildIndex:  func(tx *sqlite.Tx) error { return onIndexes(tx, index.rebuildSQL) },
		RecreateIndex: recreateAll,
		Probe:         probe,
		Settle:        recountAll,
	}
}

func recreateAll(tx *sqlite.Tx) error {
	for _, ix := range indexes {
		if err := ix.recreate(tx); err != nil {
			return err
		}
	}
	return nil
}

func onIndexes(tx *sqlite.Tx, sql func(index) string) error {
	for _, ix := range indexes {
		if err := tx.Script(sql(ix)); err != nil {
			return fmt.Errorf("search index %s: %w", ix.table, err)
		}
	}
	return nil
}

func (ix index) rebuildSQL() string {
	return fmt.Sprintf(`INSERT INTO %[1]s(%[1]s) VALUES('rebuild')`, ix.table)
}

func (ix index) probeSQL() string {
	return fmt.Sprintf(`INSERT INTO %[1]s(rowid, content) VALUES((SELECT max(id) FROM messages), 'probe'); SELECT count(*) FROM %[1]s WHERE %[1]s MATCH '"probe"'`, ix.table)
}

// probe appends to a conversation of its own and searches it, as a turn would. It is rolled back.
func probe(tx *sqlite.Tx) error {
	err := tx.Script(`INSERT INTO sessions(id, opened_at, last_active) VALUES('repair probe', 1, 1);
INSERT INTO messages(uid, session_id, origin_id, role, content, created_at) VALUES('repair probe', 'repair probe', 0, 'user', 'probe', 1)`)
	if err != nil {
		return fmt.Errorf("append to the mended copy: %w", err)
	}
	return onIndexes(tx, index.probeSQL)
}
