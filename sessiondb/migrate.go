package sessiondb

import (
	"errors"
	"fmt"

	"gatewayd/internal/mutation"
	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// migrations[i] takes a file from version i to i+1. All that are due run in one IMMEDIATE transaction, so a kill
// leaves the old schema or the new one.
var migrations = []func(*sqlite.Tx) error{createSchema, addFolds, addTurns, addDoors, addVersions}

// stale says whether a migration is due, by reads alone. It refuses what must not be touched.
func stale(c *sqlite.Conn, path string, known int64) (bool, error) {
	var version, app, objects int64
	if _, err := c.Row(`PRAGMA user_version`, nil, &version); err != nil {
		return false, fmt.Errorf("read schema version: %w", err)
	}
	if _, err := c.Row(`PRAGMA application_id`, nil, &app); err != nil {
		return false, fmt.Errorf("read application id: %w", err)
	}
	if ours(app) && version > 0 {
		return version < known, readNewer(path, version, known)
	}
	if _, err := c.Row(`SELECT count(*) FROM sqlite_schema`, nil, &objects); err != nil {
		return false, fmt.Errorf("count schema objects: %w", err)
	}
	if app != 0 || version != 0 || objects != 0 {
		return false, errForeign(path)
	}
	return true, nil
}

// readNewer lets a file of a newer gatewayd be read and nothing more: what its triggers, columns and indexes need of a
// writer, this one cannot know.
func readNewer(path string, version, known int64) error {
	if version <= known || mutation.On("newer-schema-written") {
		return nil
	}
	return sqlite.AsReadOnly(&problem.Error{
		Kind: problem.Config, Thing: fmt.Sprintf("state.db (%s)", path),
		What:   fmt.Sprintf("has schema version %d, this gatewayd knows up to %d", version, known),
		Fate:   "it is only read; nothing was written",
		Remedy: "run the newer gatewayd that wrote it, or go back to the copy from before the upgrade (`gatewayd backup list`, `gatewayd restore`)",
		Err:    mark{errors.Join(ErrReadOnly, ErrNewerSchema)},
	})
}

func errForeign(path string) error {
	return &problem.Error{
		Kind: problem.Damaged, Thing: fmt.Sprintf("state.db (%s)", path), What: "is a database of another program",
		Fate: "the file was left as it is", Remedy: "move it away, or start with another --home",
		Err: mark{ErrForeignFile},
	}
}

func migrate(tx *sqlite.Tx, known int64) error {
	var version int64
	if _, err := tx.Row(`PRAGMA user_version`, nil, &version); err != nil {
		return fmt.Errorf("read schema version: %w", err)
	}
	if version == 0 {
		if err := tx.Script(fmt.Sprintf(`PRAGMA application_id = %d`, newApplicationID())); err != nil {
			return fmt.Errorf("mark the file as ours: %w", err)
		}
	}
	for v := version; v < known; v++ {
		if err := migrations[v](tx); err != nil {
			return fmt.Errorf("migrate state.db to version %d: %w", v+1, err)
		}
	}
	return tx.Script(fmt.Sprintf(`PRAGMA user_version = %d`, known))
}

func createSchema(tx *sqlite.Tx) error {
	if err := tx.Script(schemaTables); err != nil {
		return err
	}
	for _, ix := range indexes {
		if err := ix.create(tx); err != nil {
			return err
		}
	}
	return nil
}
