package kanban

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// plant makes a database as another program does, in a directory of its own.
func plant(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kanban.db")
	db, err := sqlite.OpenBare(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Exec(script), db.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// everything is what lies in a directory, with its content.
func everything(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, e := range entries {
		fmt.Fprintf(&out, "%s %x\n", e.Name(), sha256.Sum256([]byte(fileBytes(t, filepath.Join(dir, e.Name())))))
	}
	return out.String()
}

// A database of another program keeps every byte, its journal mode included, and nothing appears beside it.
func TestForeignDatabaseIsRefusedAndNotTouched(t *testing.T) {
	const rollback = "PRAGMA journal_mode = DELETE;"
	for script, why := range map[string]string{
		"CREATE TABLE notes(text); INSERT INTO notes VALUES ('mine')":                                     "none called tasks",
		"CREATE TABLE tasks(id INTEGER PRIMARY KEY, name TEXT)":                                           "tasks has no column title",
		"CREATE TABLE tasks(id INTEGER PRIMARY KEY, title TEXT, status TEXT, created_at INTEGER)":         `of type "INTEGER"`,
		vintageM + "DROP TABLE task_comments; CREATE TABLE task_comments(id INTEGER PRIMARY KEY, n TEXT)": "task_comments has no column task_id",
		"CREATE VIRTUAL TABLE words USING fts5(w)":                                                        "none called tasks",
	} {
		for _, create := range []bool{false, true} {
			path := plant(t, rollback+script)
			before := everything(t, filepath.Dir(path))
			_, err := Open(t.Context(), Options{Path: path, Create: create})
			if !errors.Is(err, ErrForeign) || !problem.Is(err, problem.Damaged) || !strings.Contains(err.Error(), why) ||

				!strings.HasPrefix(err.Error(), "board default (") || !strings.Contains(err.Error(), "left as it is; move it away") {
				t.Errorf("create %v: %v", create, err)
			}
			if after := everything(t, filepath.Dir(path)); after != before {
				t.Errorf("%s: before:\n%safter:\n%s", why, before, after)
			}
		}
	}
}

// A board that some program left in rollback mode is taken, and goes on in WAL.
func TestBoardInRollbackModeIsTaken(t *testing.T) {
	b := openBoard(t, Options{Path: plant(t, "PRAGMA journal_mode = DELETE;"+vintageJ)})
	if got := b.file.Journal().Mode; got != "wal" || b.get(t, "t_0000000a").Title != "ünïcode" {
		t.Errorf("journal mode %s", got)
	}
}
