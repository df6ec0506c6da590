package sessiondb

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// rowsOfFirst are rows as the first version knew them, one of each table that a person would miss, with times, blobs and text
// that a careless copy would change.
const rowsOfFirst = `
INSERT INTO prompts VALUES('p', 'you are ünïcode', 1);
INSERT INTO sessions(id, key, source, title, model, prompt_hash, parent, cwd, opened_at, ended_at, end_reason, archived, message_count, rewind_count, last_active, preview)
VALUES('s', 'api:a', 'api', 'a title', 'm', 'p', NULL, '/w', 1000001, NULL, NULL, 0, 3, 1, 2000002, 'TKQ asked'),
      ('child', NULL, 'cli', '', '', NULL, 's', '', 1000003, 1000004, 'deleted', 2, 0, 0, 1000004, '');
INSERT INTO messages(id, uid, session_id, turn_id, origin_id, role, content, wire, tool_calls, tool_call_id, tool_name, effect, finish_reason, reasoning, kind, active, compacted, created_at)
VALUES(7, 'u7', 's', 't', 7, 'user', 'TKQ asked ' || char(0x65e5, 0x672c), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1, 0, 1000005),
      (8, 'u8', 's', 't', 8, 'assistant', '', 'bytes as sent', '[{"id":"c"}]', NULL, NULL, NULL, 'tool_calls', 'thought', NULL, 1, 0, 1000006),
      (9, 'u9', 's', 't', 9, 'tool', 'TKT found', NULL, NULL, 'c', 'terminal', 'effect', NULL, NULL, NULL, 1, 0, 1000007),
      (10, 'u10', 's', 't', 10, 'user', 'folded', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 1, 1000008);
INSERT INTO usage VALUES('s', 'm', 'p', '', 1, 2, 3, 4, 5, 6, 'ref', 7, 8);
INSERT INTO runs(id, session_id, turn_id, status, created_at) VALUES('r', 's', 't', 'queued', 1);
INSERT INTO idempotency(scope, key, request, status, response, created_at, expires_at) VALUES('a', 'k', 'q', 200, 'answer', 1, 9000000000000000);
INSERT INTO deliveries(uid, session_id, channel, target, payload, created_at) VALUES('d', 's', 'c', 't', 'p', 1);
INSERT INTO routes VALUES('api:a', 's', 3, 1);
`

// storeOf makes a real store of an earlier version, by the steps that made it then.
func storeOf(t *testing.T, version int64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.db")
	file, err := sqlite.Open(t.Context(), sqlite.Options{
		Path: path, Label: "state.db", Create: true,
		Stale: func(c *sqlite.Conn) (bool, error) { return stale(c, path, version) },
		Migrate: func(tx *sqlite.Tx) error {
			if err := migrate(tx, 1); err != nil {
				return err
			}
			if err := tx.Script(rowsOfFirst); err != nil {
				return err
			}
			return migrate(tx, version)
		},
	})
	must(t, err)
	must(t, file.Close())
	return path
}

// columnsAt gives the columns of each table of a file that a program wrote rows to.
func columnsAt(t *testing.T, path string) map[string][]string {
	t.Helper()
	columns := map[string][]string{}
	for _, line := range ask(t, path, `SELECT s.name, c.name FROM sqlite_schema s JOIN pragma_table_info(s.name) c
WHERE s.type = 'table' AND s.name NOT LIKE 'messages\__%' ESCAPE '\' AND s.name NOT LIKE 'sqlite%' ORDER BY s.name, c.cid`) {
		table, column, _ := strings.Cut(line, "|")
		columns[table] = append(columns[table], `"`+column+`"`)
	}
	return columns
}

// rowsAt is every row of those columns, byte for byte.
func rowsAt(t *testing.T, path string, columns map[string][]string) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for table, names := range columns {
		cells := make([]string, len(names))
		for i, name := range names {
			cells[i] = "quote(" + name + ")"
		}
		rows[table] = ask(t, path, `SELECT `+strings.Join(cells, ` || '|' || `)+` FROM "`+table+`" ORDER BY 1`)
	}
	return rows
}

// ask reads as a foreign program does.
func ask(t *testing.T, path, sql string) (out []string) {
	t.Helper()
	db, err := sqlite.OpenBare(path)
	must(t, err)
	defer db.Close()
	st, _, err := db.Prepare(sql)
	must(t, err)
	defer st.Close()
	for st.Step() {
		cells := make([]string, st.ColumnCount())
		for i := range cells {
			cells[i] = st.ColumnText(i)
		}
		out = append(out, strings.Join(cells, "|"))
	}
	must(t, st.Err())
	return out
}

func TestEveryEarlierVersionIsUpgradedWithItsRowsAsTheyWere(t *testing.T) {
	for version := int64(1); version <= schemaVersion; version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			path := storeOf(t, version)
			columns := columnsAt(t, path)
			delete(columns, "meta") // what the indexer remembers
			before := rowsAt(t, path, columns)
			if len(before["messages"]) != 4 || len(before["sessions"]) != 2 {
				t.Fatalf("the old store holds %v", before)
			}
			s, _ := openStore(t, path)
			equal(t, "version", number(t, s, `PRAGMA user_version`), schemaVersion)
			for table, want := range before {
				if got := rowsAt(t, path, columns)[table]; strings.Join(got, "\n") != strings.Join(want, "\n") {
					t.Errorf("%s was\n%s\nand is\n%s", table, strings.Join(want, "\n"), strings.Join(got, "\n"))
				}
			}
			must(t, s.WaitIndexed(t.Context()))
			l, err := s.AcquireTurn(t.Context(), "s", self(t), 0)
			must(t, err)
			say(t, s, l, "and it goes on")
			sound(t, s)
		})
	}
}

// There is no way back from a newer schema but the copy from before it: it is made by itself, under a name that says the
// version, it is whole, and an older program restores it and goes on.
func TestAnUpgradeIsUndoneWithTheCopyThatItKept(t *testing.T) {
	const old = schemaVersion - 1
	path := storeOf(t, old)
	columns := columnsAt(t, path)
	delete(columns, "meta")
	before := rowsAt(t, path, columns)
	backups := filepath.Join(filepath.Dir(path), "backups")

	s, _ := openWith(t, Options{Path: path, Backups: backups})
	_, err := s.CreateSession(t.Context(), NewSession{ID: "after the upgrade"})
	must(t, err)
	newer, err := s.Backup(t.Context(), backups, 1)
	must(t, err)
	must(t, s.Close())
	made, err := sqlite.Backups(backups)
	must(t, err)
	if len(made) != 2 {
		t.Fatalf("%d copies: %+v", len(made), made)
	}
	kept := made[1]
	if m := kept.Manifest; !strings.HasPrefix(filepath.Base(kept.Dir), fmt.Sprintf("state.db-schema-%d-", old)) || !m.Upgrade || m.UserVersion != old {
		t.Fatalf("the copy from before the upgrade is %s, %+v", kept.Dir, m)
	}

	// The older program says what is the matter, changes nothing, and does not take the newer copy either.
	files := fingerprint(t, path)
	older, _ := openWith(t, Options{Path: path, Backups: backups, known: old})
	_, err = older.CreateSession(t.Context(), NewSession{})
	if !errors.Is(err, ErrNewerSchema) || !strings.Contains(err.Error(), fmt.Sprintf("version %d", schemaVersion)) || !strings.Contains(err.Error(), fmt.Sprintf("up to %d", old)) {
		t.Errorf("it does not name both versions: %v", err)
	}
	must(t, older.Close())
	restore := sqlite.RestoreOptions{Backup: newer.Dir, Path: path, Label: "state.db", Newest: old}
	if _, err := sqlite.Restore(t.Context(), restore); !problem.Is(err, problem.Config) || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("a newer copy: %v", err)
	}
	equal(t, "files", fingerprint(t, path), files)

	restore.Backup = kept.Dir
	_, err = sqlite.Restore(t.Context(), restore)
	must(t, err)
	if got := rowsAt(t, path, columns); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("the rows were\n%v\nand are\n%v", before, got)
	}
	older, _ = openWith(t, Options{Path: path, Backups: backups, known: old})
	must(t, older.Writable())
	equal(t, "version", number(t, older, `PRAGMA user_version`), old)
	must(t, older.Close())
}
