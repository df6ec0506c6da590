package sessiondb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/sqlite"
)

// killable is everything that changes a store and can be cut anywhere.
var killable = []work{
	{name: "open", whole: true, must: []string{"CREATE TABLE messages", "CREATE VIRTUAL TABLE messages_tri", "PRAGMA user_version = "}},
	{name: "migrate", prepare: firstSchema, whole: true, must: []string{"CREATE INDEX messages_shown", "CREATE TABLE folds", "CREATE TABLE inbox", "CREATE TABLE run_events", "CREATE TRIGGER messages_changed", "PRAGMA user_version = "}},
	{name: "migrate from 2", prepare: schemaOf(2), whole: true, must: []string{"ALTER TABLE sessions ADD COLUMN settings", "CREATE TABLE inbox", "CREATE TABLE run_events", "CREATE TRIGGER messages_changed", "PRAGMA user_version = "}},
	{name: "migrate from 3", strides: []int{3}, prepare: schemaOf(3), whole: true},
	{name: "migrate from 4", prepare: schemaOf(4), whole: true, must: []string{"CREATE TRIGGER messages_changed", "PRAGMA user_version = "}},
	{name: "migrate from 4 with a copy, by call", calls: true, copies: true, strides: []int{7, 6}, prepare: schemaOf(4), whole: true, between: copiesAreWhole},
	{name: "append", prepare: exchanges(2), begin: turnOf, do: appendThree, whole: true, must: []string{"INSERT INTO messages", "UPDATE sessions"}},
	{name: "begin turn", prepare: acceptedOne, begin: turnOf, do: beginAccepted, whole: true, must: []string{"INSERT INTO messages", "DELETE FROM inbox", "INSERT OR REPLACE INTO turns"}},
	{name: "accept run", prepare: acceptedOne, do: acceptRun, whole: true, must: []string{"INSERT INTO inbox", "DELETE FROM turns", "INSERT INTO runs", "INSERT INTO run_events"}},
	{name: "repair", prepare: exchanges(2), begin: turnOf, do: repairLast, whole: true, must: []string{"UPDATE messages", "INSERT INTO messages"}},
	{name: "compact", prepare: indexedExchanges, begin: foldingOf, do: foldFirst, whole: true, must: []string{"UPDATE messages SET active", "INSERT INTO messages", "INSERT INTO folds", "UPDATE sessions SET message_count"}},
	{name: "rewind", prepare: indexedExchanges, begin: turnOf, do: takeBackTwo, whole: true, must: []string{"UPDATE messages SET active", "UPDATE sessions SET rewind_count"}},
	{name: "delete", prepare: indexedExchanges, do: deleteIt, whole: true, must: []string{"INSERT INTO messages_fts(messages_fts", "DELETE FROM messages", "DELETE FROM sessions"}},
	{name: "compact, by call", calls: true, prepare: indexedExchanges, begin: foldingOf, do: foldFirst, whole: true, must: []string{"pwrite state.db-wal", "fdatasync state.db-wal"}},
	{name: "compact, rollback journal", journal: "delete", prepare: indexedExchanges, begin: foldingOf, do: foldFirst, whole: true, must: []string{"UPDATE messages SET active", "INSERT INTO folds"}},
	{name: "compact, rollback journal, by call", calls: true, strides: []int{2}, journal: "delete", prepare: indexedExchanges, begin: foldingOf, do: foldFirst, whole: true, must: []string{"pwrite state.db-journal", "pwrite state.db"}},
	{name: "prune", strides: []int{7, 6}, prepare: longEnded, do: pruneAll, between: noHalfSession, must: []string{"DELETE FROM messages"}},
	{name: "import hermes", strides: []int{7}, prepare: theirConversations, do: bringTheirs, between: noRowTwice, must: []string{"INSERT INTO messages"}},
	{name: "import file", strides: []int{2}, prepare: movedOut, do: takeIn, whole: true, must: []string{"INSERT INTO messages"}},
	{name: "index", prepare: exchanges(12), do: indexAll, between: indexParity, must: []string{"UPDATE meta", "INSERT INTO messages_fts(rowid"}},
	{name: "rebuild", prepare: staleExchanges, do: indexAll, between: indexParity, must: []string{"DROP TABLE IF EXISTS messages_fts", "CREATE VIRTUAL TABLE messages_fts"}},
}

// exchanges fills the session "s" with questions and answers.
func exchanges(n int) func(t *testing.T, s *Store) {
	return func(t *testing.T, s *Store) { t.Helper(); fillSession(t, s, "s", 0, n) }
}

// fillSession makes a session of the exchanges from one number up to another.
func fillSession(t *testing.T, s *Store, id string, from, to int) {
	t.Helper()
	if _, err := s.CreateSession(t.Context(), NewSession{ID: id}); err != nil {
		t.Fatal(err)
	}
	l, err := s.AcquireTurn(t.Context(), id, self(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	var rows []NewMessage
	for i := from; i < to; i++ {
		rows = append(rows, exchange(i)...)
	}
	if _, err := s.Append(t.Context(), l, rows); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
}

func exchange(i int) []NewMessage {
	return []NewMessage{
		{Role: "user", Content: fmt.Sprintf("TK%dQ asked", i)},
		{Role: "assistant", Content: "looking", ToolCalls: []byte(fmt.Sprintf(`[{"id":"c%d","function":{"name":"terminal","arguments":"{}"}}]`, i))},
		{Role: "tool", Content: fmt.Sprintf("TK%dT found", i), ToolCallID: fmt.Sprintf("c%d", i)},
		{Role: "assistant", Content: fmt.Sprintf("TK%dA answered %s", i, strings.Repeat("and so on ", 40))},
	}
}

// firstSchema makes the file one of version 1.
func firstSchema(t *testing.T, s *Store) {
	t.Helper()
	exchanges(3)(t, s)
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := bare(t, s.File().Path()).Exec(`DROP TRIGGER messages_changed; DROP TRIGGER messages_removed; ALTER TABLE sessions DROP COLUMN version; DROP INDEX messages_shown; DROP TABLE folds; DROP TABLE compactions;
ALTER TABLE sessions DROP COLUMN settings; DROP TABLE turns; DROP TABLE inbox; DROP TABLE approvals; DROP TABLE grants; DROP TABLE requests;
DROP TABLE run_events; DROP TABLE responses; DROP INDEX runs_recent; DROP INDEX runs_session;
ALTER TABLE runs DROP COLUMN owner; ALTER TABLE runs DROP COLUMN uid; ALTER TABLE runs DROP COLUMN response; ALTER TABLE runs DROP COLUMN model; ALTER TABLE runs DROP COLUMN forgotten;
ALTER TABLE idempotency DROP COLUMN headers; ALTER TABLE idempotency DROP COLUMN session_id; ALTER TABLE idempotency DROP COLUMN uid; ALTER TABLE idempotency DROP COLUMN holder; PRAGMA user_version = 1`)
	if err != nil {
		t.Fatal(err)
	}
}

// schemaOf makes the file one of a version, by the steps that made it then.
func schemaOf(version int64) func(t *testing.T, s *Store) {
	return func(t *testing.T, s *Store) {
		t.Helper()
		firstSchema(t, s)
		err := s.file.Write(t.Context(), sqlite.Op{Label: "migrate", Do: func(tx *sqlite.Tx) error {
			if _, err := tx.Row(`SELECT count(*) FROM sqlite_schema`, nil, new(int64)); err != nil { // it was changed by another connection
				return err
			}
			return migrate(tx, version)
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// copiesOf is where the copies from before upgrades are kept.
func copiesOf(path string) string { return filepath.Join(filepath.Dir(path), "backups") }

// copiesAreWhole: what has the name of a copy is the store from before the upgrade, wherever its maker was killed, and once the store is
// another one there is such a copy.
func copiesAreWhole(t *testing.T, path string) {
	t.Helper()
	made, err := sqlite.Backups(copiesOf(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, b := range made {
		if got := strings.Join(ask(t, b.File(), `SELECT (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM messages), (SELECT * FROM pragma_integrity_check)`), ""); got != "4|12|ok" {
			t.Errorf("a copy is %s", got)
		}
	}
	if upgraded := ask(t, path, `PRAGMA user_version`)[0] != "4"; upgraded && len(made) == 0 {
		t.Error("the store is another one, and there is no copy from before")
	}
}

func indexedExchanges(t *testing.T, s *Store) {
	t.Helper()
	exchanges(4)(t, s)
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func foldingOf(ctx context.Context, s *Store) (Lease, error) {
	h, err := SelfHolder("child")
	if err != nil {
		return Lease{}, err
	}
	return s.AcquireCompaction(ctx, "s", h, 0)
}

// foldFirst puts a summary in the place of what followed the first question.
func foldFirst(ctx context.Context, s *Store, l Lease) error {
	rows, err := s.Transcript(ctx, "s")
	if err != nil {
		return err
	}
	plan := []CompactedRow{{Keep: rows[0].ID}, {New: NewMessage{Role: "assistant", Content: "SUMMARY", Kind: KindSummary}}}
	for _, m := range rows[4:] {
		plan = append(plan, CompactedRow{Keep: m.ID})
	}
	_, err = s.ArchiveAndCompact(ctx, Compaction{Lease: l, Seen: See(rows), Rows: plan})
	return err
}

// longEnded are two old conversations, one of more rows than go at once, and a young one.
func longEnded(t *testing.T, s *Store) {
	t.Helper()
	fillSession(t, s, "small", 1, 3)
	fillSession(t, s, "large", 3, 5+deleteMost/4)
	fillSession(t, s, "young", 7, 8)
	for _, id := range []string{"small", "large"} {
		if _, err := s.EndSession(t.Context(), id, EndClosed); err != nil {
			t.Fatal(err)
		}
	}
	write(t, s, `UPDATE sessions SET last_active = 1000000, ended_at = 1000000 WHERE id <> 'young'`)
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func pruneAll(ctx context.Context, s *Store, _ Lease) error {
	_, err := s.Prune(ctx, PruneOptions{})
	return err
}

// noHalfSession: what is only partly deleted is seen by nobody.
func noHalfSession(t *testing.T, path string) {
	t.Helper()
	s, _ := openStore(t, path)
	defer s.Close()
	list, err := s.Sessions(t.Context(), ListFilter{IncludeArchived: true})
	if err != nil {
		t.Fatal(err)
	}
	whole := map[string]int64{"small": 8, "large": 4 * (2 + deleteMost/4), "young": 4}
	for _, one := range list {
		if n := number(t, s, `SELECT count(*) FROM messages WHERE session_id = ?`, one.ID); n != whole[one.ID] || one.MessageCount != n {
			t.Errorf("%s is shown with %d rows of %d, and counts %d", one.ID, n, whole[one.ID], one.MessageCount)
		}
	}
}

func appendThree(ctx context.Context, s *Store, l Lease) error {
	_, err := s.Append(ctx, l, exchange(99))
	return err
}

// acceptedOne has a message that waits.
func acceptedOne(t *testing.T, s *Store) {
	t.Helper()
	exchanges(2)(t, s)
	if _, err := s.Accept(t.Context(), Waiting{UID: "waits", Session: "s", Mode: InboxTurn, Source: "api", Content: "says so"}, 9, nil); err != nil {
		t.Fatal(err)
	}
}

// acceptRun accepts a message that a run answers.
func acceptRun(ctx context.Context, s *Store, _ Lease) error {
	run := NewRun{Run: Run{ID: "run_1", Session: "s", Owner: "k", UID: "asked", Status: RunQueued}, First: RunEvent{Name: "run.queued", Body: []byte(`{}`)}}
	_, err := s.Accept(ctx, Waiting{UID: "asked", Session: "s", Mode: InboxTurn, Source: "api", Content: "says so"}, 9, &run)
	return err
}

// beginAccepted begins the turn of the message that waits.
func beginAccepted(ctx context.Context, s *Store, l Lease) error {
	_, err := s.Begin(ctx, l, Pending{Turn: "t9", UserUID: "waits", Source: "api", Detached: true}, []NewMessage{{UID: "waits", Role: "user", Content: "says so"}})
	return err
}

// repairLast changes a row, takes one out and adds one, as a resume does.
func repairLast(ctx context.Context, s *Store, l Lease) error {
	rows, err := s.Transcript(ctx, "s")
	if err != nil {
		return err
	}
	last, text := rows[len(rows)-1], "withdrawn"
	return s.Repair(ctx, l, []RowRepair{
		{ID: rows[0].ID, OldDigest: rows[0].Digest(), Wire: &text, Content: &text},
		{ID: last.ID, OldDigest: last.Digest(), Drop: true},
		{Insert: &NewMessage{Role: "assistant", Content: "cut off"}},
	})
}

func indexAll(ctx context.Context, s *Store, _ Lease) error { return s.WaitIndexed(ctx) }

func staleExchanges(t *testing.T, s *Store) {
	t.Helper()
	exchanges(12)(t, s)
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range indexes {
		if err := s.markStale(t.Context(), i, errors.New("test")); err != nil {
			t.Fatal(err)
		}
	}
}

// indexParity: wherever it was cut, an index that is in use holds exactly the rows below its mark.
func indexParity(t *testing.T, path string) {
	t.Helper()
	s, _ := openStore(t, path)
	defer s.Close()
	checkIndexes(t, s)
	hits, err := s.Search(t.Context(), Query{Text: "TK7A"})
	if err != nil || len(hits) != 1 {
		t.Errorf("%d hits: %v", len(hits), err)
	}
}
