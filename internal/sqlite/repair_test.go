package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

const searchSchema = `CREATE VIRTUAL TABLE found USING fts5(body, content='rows', content_rowid='id');`

// repairOptions know the test's file: one table with somebody's rows, and a search index over it.
func repairOptions(path string) RepairOptions {
	return RepairOptions{
		Path: path, Label: "test.db", Tables: []string{"rows"},
		RebuildIndex: func(tx *Tx) error { return tx.Script("INSERT INTO found(found) VALUES('rebuild')") },
		RecreateIndex: func(tx *Tx) error {
			return tx.Script(`PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 'found'; PRAGMA writable_schema = RESET;
DROP TABLE IF EXISTS found_data; DROP TABLE IF EXISTS found_idx; DROP TABLE IF EXISTS found_docsize; DROP TABLE IF EXISTS found_config; PRAGMA writable_schema = ON;` + searchSchema)
		},
		Probe: func(tx *Tx) error {
			_, err := tx.Exec("INSERT INTO rows (uid, body) VALUES ('probe', 'probe')")
			for _, e := range tx.Query("SELECT rowid FROM found WHERE found MATCH 'word'") {
				err = errors.Join(err, e)
			}
			return err
		},
	}
}

const madeRows = 3000

// damageable is a closed database with rows and a search index, all of it in the main file.
func damageable(t testing.TB, mode string) string {
	t.Helper()
	o := testOptions(t)
	o.Journal.Mode = mode
	o.Migrate = func(tx *Tx) error { return tx.Script(testSchema + searchSchema + "PRAGMA user_version=1;") }
	f := mustOpen(t, o)
	mustWrite(t, f, Op{Label: "fill", Do: func(tx *Tx) error {
		return tx.Script(fmt.Sprintf(`INSERT INTO rows (uid, session, body) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < %d)
SELECT 'uid ' || i, 's' || (i %% 7), 'word ' || i || hex(zeroblob(60)) FROM n; INSERT INTO found(found) VALUES('rebuild')`, madeRows))
	}})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	execBare(t, o.Path, "")
	return o.Path
}

// pageOf gives a leaf of a table or index of a file that nobody has open.
func pageOf(t testing.TB, path, name string) int64 {
	t.Helper()
	o := Options{Path: path, Label: "test.db", Journal: JournalConfig{Mode: "delete"}}
	f, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return leafOf(t, f, name)
}

func integrityOf(t testing.TB, path string) (rows int, verdict string) {
	t.Helper()
	f, err := Open(t.Context(), Options{Path: path, Journal: JournalConfig{Mode: "delete"}})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = f.Read(t.Context(), func(c *Conn) error {
		if _, err := c.Row("SELECT count(*) FROM rows NOT INDEXED", nil, &rows); err != nil {
			return err
		}
		faults, err := c.faults()
		verdict = strings.Join(faults, "; ")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows, verdict
}

func TestRepairMendsEachKindOfDamageInPlaceAndKeepsWhatCanBeRead(t *testing.T) {
	t.Parallel()
	for i, tc := range []struct {
		name, strategy string
		damage         func(t *testing.T, path string)
		least          int // rows that must be left
	}{
		{"an index that misses a row", "reindex", func(t *testing.T, path string) {
			execBare(t, path, `PRAGMA writable_schema=ON; CREATE TABLE kept AS SELECT * FROM sqlite_schema WHERE name = 'rows_session';
DELETE FROM sqlite_schema WHERE name = 'rows_session'; PRAGMA writable_schema=RESET;
DELETE FROM rows WHERE id = 7; PRAGMA writable_schema=ON; INSERT INTO sqlite_schema SELECT * FROM kept; PRAGMA writable_schema=RESET; DROP TABLE kept`)
		}, madeRows - 1},
		{"an index page", "make indexes anew", func(t *testing.T, path string) { scribble(t, path, pageOf(t, path, "rows_session")) }, madeRows},
		{"a page of the search index", "rebuild search index", func(t *testing.T, path string) {
			execBare(t, path, "UPDATE found_data SET block = zeroblob(20) WHERE id > 10")
		}, madeRows},
		{"the search index beyond its own repair", "drop and rebuild search index", func(t *testing.T, path string) {
			scribble(t, path, pageOf(t, path, "found_data"))
		}, madeRows},
		{"a page of rows", "copy what can be read", func(t *testing.T, path string) { scribble(t, path, pageOf(t, path, "rows")) }, madeRows - 60},
		{"a missing tail of the search index", "drop and rebuild search index", func(t *testing.T, path string) {
			if err := os.Truncate(path, size(t, path)-6*4096); err != nil {
				t.Fatal(err)
			}
		}, madeRows},
		{"a missing half", "copy what can be read", func(t *testing.T, path string) {
			if err := os.Truncate(path, size(t, path)/2/4096*4096); err != nil {
				t.Fatal(err)
			}
		}, madeRows / 4},
		{"a duplicate schema row", "drop duplicate schema rows", func(t *testing.T, path string) {
			execBare(t, path, `PRAGMA writable_schema=ON; INSERT INTO sqlite_schema SELECT type, name, tbl_name, rootpage, sql FROM sqlite_schema WHERE name = 'rows_session'`)
		}, madeRows},
	} {
		modes := []string{"wal", "delete"}
		if tc.least == madeRows { // what is mended is the same in either; what is written back where is not
			modes = modes[i%2:][:1]
		}
		for _, mode := range modes {
			t.Run(tc.name+"/"+mode, func(t *testing.T) {
				t.Parallel()
				path := damageable(t, mode)
				tc.damage(t, path)
				before, _ := statInode(path)
				r, err := Repair(t.Context(), repairOptions(path))
				if err != nil || r.Outcome != Repaired || r.Strategy != tc.strategy {
					t.Fatalf("%+v\n%v", r, err)
				}
				if after, _ := statInode(path); after != before {
					t.Error("another file lies there now")
				}
				rows, verdict := integrityOf(t, path)
				if verdict != "" || rows < tc.least || int64(rows) < r.Before["rows"] || r.Journal != mode {
					t.Errorf("%d rows of %d readable, journal %s, integrity %q", rows, r.Before["rows"], r.Journal, verdict)
				}
				again, err := Repair(t.Context(), repairOptions(path))
				if err != nil || again.Outcome != AlreadyHealthy {
					t.Errorf("a second repair: %+v, %v", again, err)
				}
			})
		}
	}
}

// execBare changes a file past this package, as a bug or another program would.
func execBare(t testing.TB, path, sql string) {
	t.Helper()
	db := rawConn(t, path)
	if err := errors.Join(db.Exec(sql), db.Exec("PRAGMA wal_checkpoint(TRUNCATE)"), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestARepairThatFailsLeavesTheFileAndIsTriedThreeTimes(t *testing.T) {
	t.Parallel()
	path := damageable(t, "delete")
	scribble(t, path, pageOf(t, path, "rows"))
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	o := repairOptions(path)
	o.Probe = func(*Tx) error { return classify(Corrupt, "never good enough") }
	for try := range repairTries + 1 {
		r, err := Repair(t.Context(), o)
		if ClassOf(err) != Corrupt || !problem.Is(err, problem.Damaged) {
			t.Errorf("try %d: %v", try, err)
		}
		if try == repairTries && !strings.Contains(err.Error(), "3 times") {
			t.Errorf("fourth try: %v", err)
		}
		if try < repairTries && (len(r.Tried) != 6 || r.Backup == "") {
			t.Errorf("try %d: %+v", try, r)
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the file was changed (%v)", err)
	}
	copies, err := malformedCopies(path)
	if err != nil || len(copies) != 1 {
		t.Errorf("copies of one damage: %v, %v", copies, err)
	}
	if kept, err := os.ReadFile(copies[0]); err != nil || !bytes.Equal(kept, before) {
		t.Errorf("the copy is another file (%v)", err)
	}
	if left, _ := filepath.Glob(path + ".repair-scratch*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What a repair may lose is decided by what could be read, never by what it wishes for.
func TestARepairThatWouldLoseReadableRowsIsNotPromoted(t *testing.T) {
	t.Parallel()
	path := damageable(t, "wal")
	execBare(t, path, "UPDATE found_data SET block = zeroblob(20) WHERE id > 10")
	o := repairOptions(path)
	o.RebuildIndex = func(tx *Tx) error { return tx.Script("DELETE FROM rows WHERE id > 10") }
	before, _, err := rawDigest(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Repair(t.Context(), o); ClassOf(err) != Corrupt || !strings.Contains(err.Error(), "would be left") {
		t.Errorf("%v", err)
	}
	if after, _, _ := rawDigest(path); after != before {
		t.Error("the file was changed")
	}
}

func TestRepairRefusesAFileThatAnybodyHolds(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"wal", "delete"} {
		path := damageable(t, mode)
		scribble(t, path, pageOf(t, path, "rows_session"))
		release := holdOpen(t, path)
		_, err := Repair(t.Context(), repairOptions(path))
		if ClassOf(err) != Busy || !problem.Is(err, problem.Busy) {
			t.Errorf("held by a process: %v", err)
		}
		release()
		peer := rawConn(t, path)
		if err := peer.Exec("SELECT 1 FROM rows LIMIT 1"); err != nil {
			t.Fatal(err)
		}
		if _, err := Repair(t.Context(), repairOptions(path)); ClassOf(err) != Busy {
			t.Errorf("held by this process: %v", err)
		}
		peer.Close()
		if r, err := Repair(t.Context(), repairOptions(path)); err != nil || r.Outcome != Repaired {
			t.Errorf("held by nobody: %+v, %v", r, err)
		}
	}
}

func TestARemedyIsAWholeCommandLine(t *testing.T) {
	t.Parallel()
	for label, want := range map[string]string{
		"state.db": "`gatewayd repair state`", "board default": "`gatewayd repair board default`", "": "`gatewayd repair`", "Hermes state.db": "`gatewayd repair`",
	} {
		f := &File{opts: Options{Label: label}}
		err := f.explain(classify(Corrupt, "noise"), "it was left as it is")
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "`gatewayd backup list`") {
			t.Errorf("%q: %v", label, err)
		}
	}
	err := (&File{}).refuse(Missing, problem.NotFound, "is empty", PutBack, nil)
	if strings.Contains(err.Error(), string(Missing)) || ClassOf(err) != Missing {
		t.Errorf("a refusal that has said everything: %v", err)
	}
}

func TestRepairOfWhatIsNoDatabaseSaysWhatToDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"text": strings.Repeat("not a database ", 600), "empty": ""} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Repair(context.Background(), repairOptions(path)); err == nil || !strings.Contains(err.Error(), "gatewayd restore") {
			t.Errorf("%s: %v", name, err)
		}
		if now, _ := os.ReadFile(path); string(now) != content {
			t.Errorf("%s was changed", name)
		}
	}
	if _, err := Repair(context.Background(), repairOptions(filepath.Join(dir, "none"))); !problem.Is(err, problem.NotFound) {
		t.Errorf("missing: %v", err)
	}
}
