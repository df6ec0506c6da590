package sessiondb

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

// fingerprint is everything that a reader of the files can see of them.
func fingerprint(t *testing.T, path string) string {
	t.Helper()
	out := ""
	for _, name := range []string{path, path + "-wal"} {
		data, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		info, _ := os.Stat(name)
		if info != nil {
			out += fmt.Sprintf("%s %d %s %x\n", filepath.Base(name), len(data), info.ModTime(), sha256.Sum256(data))
		}
	}
	return out
}

func TestOpeningACurrentFileWritesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, _ := openStore(t, path)
	l := conversation(t, s)
	say(t, s, l, "a", "b")
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Close()
	for range 2 {
		before := fingerprint(t, path)
		again, _ := openStore(t, path)
		if rows, err := again.Transcript(t.Context(), l.Session); err != nil || len(rows) != 2 {
			t.Fatal(rows, err)
		}
		if hits, err := again.Search(t.Context(), Query{Text: "a"}); err != nil || len(hits) != 1 {
			t.Fatal(hits, err)
		}
		again.Close()
		equal(t, "files", fingerprint(t, path), before)
	}
}

// A file that is not ours, or no database, is refused with its name, and not a byte of it changes.
func TestFilesThatAreNotOursAreLeftAlone(t *testing.T) {
	cases := map[string]struct {
		plant func(t *testing.T, path string)
		kind  problem.Kind
		cause error
		says  string
	}{
		"foreign": {func(t *testing.T, path string) {
			if err := bare(t, path).Exec(`CREATE TABLE songs(id); INSERT INTO songs VALUES(1); PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
				t.Fatal(err)
			}
		}, problem.Damaged, ErrForeignFile, "database of another program"},
		"foreign by its mark": {func(t *testing.T, path string) {
			if err := bare(t, path).Exec(`PRAGMA application_id = 5; PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
				t.Fatal(err)
			}
		}, problem.Damaged, ErrForeignFile, "database of another program"},
		"foreign in rollback mode": {func(t *testing.T, path string) {
			if err := bare(t, path).Exec(`PRAGMA journal_mode = DELETE; CREATE TABLE songs(id); INSERT INTO songs VALUES(1)`); err != nil {
				t.Fatal(err)
			}
		}, problem.Damaged, ErrForeignFile, "database of another program"},
		"truncated": {func(t *testing.T, path string) {
			s, _ := openStore(t, path)
			say(t, s, conversation(t, s), strings.Repeat("x", 100000))
			s.Close()
			if err := os.Truncate(path, 20000); err != nil {
				t.Fatal(err)
			}
			os.WriteFile(path+"-wal", nil, 0o600) // with its frames the file would be whole again
		}, problem.Damaged, nil, ""},
		"garbage": {func(t *testing.T, path string) {
			os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600)
		}, problem.Damaged, nil, "not a database"},
		"directory": {func(t *testing.T, path string) { os.Mkdir(path, 0o700) }, "", nil, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			c.plant(t, path)
			before := ""
			if name != "directory" {
				before = fingerprint(t, path)
			}
			s, err := Open(t.Context(), Options{Path: path, Log: slog.New(slog.DiscardHandler)})
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			if c.kind != "" {
				equal(t, "kind", problem.KindOf(err), c.kind)
			}
			if c.cause != nil && !errors.Is(err, c.cause) {
				t.Errorf("cause: %v", err)
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("message: %v", err)
			}
			if name != "directory" {
				equal(t, "files", fingerprint(t, path), before)
			}
		})
	}
}

// A zero-length file without a history is a new one.
func TestEmptyFileBecomesAStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := openStore(t, path)
	say(t, s, conversation(t, s), "a")
	os.WriteFile(path+"2", nil, 0o600)
	os.WriteFile(path+"2-wal", []byte("rows that were not checkpointed"), 0o600)
	if s, err := Open(t.Context(), Options{Path: path + "2", Log: slog.New(slog.DiscardHandler)}); err == nil {
		s.Close()
		t.Error("a zero-length file beside its -wal was taken for a new one")
	}
}

// The schema is what the design says it is: STRICT everywhere, and made in one piece.
func TestSchemaIsStrict(t *testing.T) {
	s, _ := testStore(t)
	equal(t, "loose tables", number(t, s, `SELECT count(*) FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND strict = 0 AND name NOT LIKE 'sqlite_%'`), 0)
	for _, table := range strings.Fields("prompts sessions messages usage leases runs run_events responses idempotency deliveries routes meta") {
		equal(t, table, number(t, s, `SELECT count(*) FROM pragma_table_list WHERE name = ?`, table), 1)
	}
	equal(t, "version", number(t, s, `PRAGMA user_version`), schemaVersion)
	db := bare(t, s.file.Path())
	if err := db.Exec(`INSERT INTO sessions(id, opened_at, last_active) VALUES('x', 'yesterday', 1)`); err == nil {
		t.Error("text where a time belongs")
	}
}
