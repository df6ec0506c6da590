package sessiondb

import (
	"fmt"

	"gatewayd/internal/sqlite"
)

// A deleted session leaves its id behind, so that a spool or a capture of before does not bring it back. The latest
// tombstones stay; an id is made anew only by whoever asks for it by name.
const (
	tombstone      = "deleted:" // the key in meta is this and the id, the value is when, in µs
	mostTombstones = 10_000

	selectTombstones = ` FROM meta WHERE k >= 'deleted:' AND k < 'deleted;'`
)

// bury leaves a tombstone for each session of a JSON list.
func bury(tx *sqlite.Tx, list string, now int64) error {
	if _, err := tx.Exec(`INSERT OR REPLACE INTO meta(k, v) SELECT '`+tombstone+`' || value, ?2 FROM json_each(?1)`, list, now); err != nil {
		return fmt.Errorf("remember deleted sessions: %w", err)
	}
	var n int64
	if _, err := tx.Row(`SELECT count(*)`+selectTombstones, nil, &n); err != nil || n <= mostTombstones {
		return err
	}
	_, err := tx.Exec(`DELETE FROM meta WHERE k IN (SELECT k`+selectTombstones+` ORDER BY v LIMIT ?)`, n-mostTombstones)
	return err
}

// buried reports that a session was deleted.
func buried(c *sqlite.Conn, id string) (bool, error) {
	return exists(c, `SELECT 1 FROM meta WHERE k = ?`, tombstone+id)
}

// unbury forgets that a session of this id was deleted, because there is one again.
func unbury(tx *sqlite.Tx, id string) error {
	_, err := tx.Exec(`DELETE FROM meta WHERE k = ?`, tombstone+id)
	return err
}
