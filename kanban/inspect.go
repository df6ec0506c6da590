package kanban

import (
	"errors"
	"fmt"
	"os"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// needsInit reports that no tables can be in the file yet, so that its first openers should queue up before SQLite touches
// it. Whether a file may be made there at all is decided by internal/sqlite.
func needsInit(opts Options) bool {
	st, err := os.Stat(opts.Path)
	return opts.Create && (os.IsNotExist(err) || err == nil && st.Size() == 0)
}

// explain gives a file's trouble the type and the advice of a board: errors of SQLite by their code, our own by themselves.
func (b *Board) explain(err error) error { return explain(b.slug, b.path, err) }

func explain(slug Slug, path string, err error) error {
	if err == nil || errors.Is(err, ErrCorruptBoard) || errors.Is(err, ErrNotFound) || sqlite.IsCommitted(err) {
		return err
	}
	switch sqlite.ClassOf(err) {
	case sqlite.Corrupt, sqlite.NotADatabase:
		return corruptBoard(slug, path, err)
	case sqlite.Missing:
		return missingBoard(slug, path)
	}
	return err
}

func boardThing(slug Slug, path string) string { return fmt.Sprintf("board %s (%s)", slug, path) }

func createHint(slug Slug) string {
	return "create it with `gatewayd kanban boards create " + string(slug) + "`"
}

func missingBoard(slug Slug, path string) error {
	what := "does not exist"
	if to, err := os.Readlink(path); err == nil && isMissing(path) {
		return noBoard(slug, path, "is a symbolic link to "+to+", which does not exist", "put the file back where it points, or remove the link")
	}
	if _, err := os.Lstat(path); err == nil {
		what = "is an empty file"
	}
	return noBoard(slug, path, what, createHint(slug))
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return os.IsNotExist(err)
}

// emptyBoard: SQLite calls it a database, but nobody has made a board of it. Only a file without a byte counts as new.
func emptyBoard(slug Slug, path string) error {
	return &problem.Error{
		Kind: problem.NotFound, Thing: boardThing(slug, path), What: "has no tables", Fate: "nothing was created",
		Remedy: "move it away with its -wal and -shm, then " + createHint(slug), Err: mark{errNoTables},
	}
}

var errNoTables = fmt.Errorf("no tables: %w", ErrNotFound)

func noBoard(slug Slug, path, what, remedy string) error {
	return &problem.Error{
		Kind: problem.NotFound, Thing: boardThing(slug, path), What: what, Fate: "nothing was created",
		Remedy: remedy, Err: mark{ErrNotFound},
	}
}

func existingBoard(slug Slug, path string) error {
	return &problem.Error{
		Kind: problem.Conflict, Thing: boardThing(slug, path), What: "exists already",
		Fate: "it was left as it is", Err: mark{ErrConflict},
	}
}

func foreignBoard(slug Slug, path, why string) error {
	return &problem.Error{
		Kind: problem.Damaged, Thing: boardThing(slug, path), What: ErrForeign.Error() + ": " + why, Fate: "it was left as it is",
		Remedy: "move it away, or name the right file", Err: mark{ErrForeign},
	}
}
