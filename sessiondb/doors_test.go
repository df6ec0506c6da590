package sessiondb

import "testing"

// thirdSchema makes the file one of version 3, with a run and a known request as that release would have written them.
func thirdSchema(t *testing.T, s *Store) {
	t.Helper()
	exchanges(2)(t, s)
	err := bare(t, s.File().Path()).Exec(`DROP TABLE run_events; DROP TABLE responses; DROP INDEX runs_recent; DROP INDEX runs_session;
ALTER TABLE runs DROP COLUMN owner; ALTER TABLE runs DROP COLUMN uid; ALTER TABLE runs DROP COLUMN response; ALTER TABLE runs DROP COLUMN model; ALTER TABLE runs DROP COLUMN forgotten;
ALTER TABLE idempotency DROP COLUMN headers; ALTER TABLE idempotency DROP COLUMN session_id; ALTER TABLE idempotency DROP COLUMN uid; ALTER TABLE idempotency DROP COLUMN holder;
INSERT INTO idempotency(scope, key, request, created_at, expires_at) VALUES('a', 'k', 'r', 1, 2);
INSERT INTO runs(id, session_id, status, created_at, ended_at) VALUES('run_old', 's', 'completed', 1000000, 2000000); PRAGMA user_version = 3`)
	if err != nil {
		t.Fatal(err)
	}
}

// A store of the release before is taken over with everything in it.
func TestAStoreOfVersionThreeIsTakenOver(t *testing.T) {
	s, _ := testStore(t)
	thirdSchema(t, s)
	path := s.File().Path()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, _ = openStore(t, path)
	defer s.Close()
	equal(t, "version", number(t, s, `PRAGMA user_version`), schemaVersion)
	equal(t, "messages", number(t, s, `SELECT count(*) FROM messages`), 8)
	equal(t, "runs", number(t, s, `SELECT count(*) FROM runs WHERE id = 'run_old' AND owner = '' AND forgotten = 0`), 1)
	equal(t, "known requests", number(t, s, `SELECT count(*) FROM idempotency WHERE holder = ''`), 1)
	if _, err := s.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	equal(t, "runs of a deleted session", number(t, s, `SELECT count(*) FROM runs`), 0)
}
