package sessiondb

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// What comes in lies beside the store, so that it is copied with it.
func theirFile(s *Store) string { return s.File().Path() + ".hermes" }
func fileOf(s *Store) string    { return s.File().Path() + ".jsonl" }

// theirConversations are two, the first one of more messages than one transaction takes.
func theirConversations(t *testing.T, s *Store) {
	t.Helper()
	path := hermesFile(t, 31)
	hermesDo(t, path, `INSERT INTO sessions(id, source, started_at, ended_at, end_reason, model, input_tokens) VALUES('one', 'cli', 1.7e9, 1.7e9 + 900, 'done', 'm', 5), ('two', 'cli', 1.7e9, NULL, NULL, 'm', 0)`,
		`WITH RECURSIVE n(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM n WHERE i < 203) INSERT INTO messages(session_id, role, content, timestamp)
 SELECT CASE WHEN i < 202 THEN 'one' ELSE 'two' END, CASE i % 2 WHEN 0 THEN 'user' ELSE 'assistant' END, 'said ' || i, 1.7e9 + i FROM n`,
		`PRAGMA wal_checkpoint(TRUNCATE)`)
	raw, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(theirFile(s), raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func bringTheirs(ctx context.Context, s *Store, _ Lease) error {
	_, err := ImportHermes(ctx, s, HermesOptions{Path: theirFile(s)})
	return err
}

// noRowTwice: rows come in their order and once, as many as came.
func noRowTwice(t *testing.T, path string) {
	t.Helper()
	s, _ := openStore(t, path)
	defer s.Close()
	got := contents(transcript(t, s, "one"))
	for i, text := range got {
		if want := fmt.Sprint("said ", i); text != want {
			t.Fatalf("row %d is %q, want %q", i, text, want)
		}
	}
	soundAfter(t, s)
}

// movedOut leaves a file of conversations beside an empty store.
func movedOut(t *testing.T, s *Store) {
	t.Helper()
	if err := os.WriteFile(fileOf(s), []byte(exported(t, richStore(t), ExportOptions{})), 0o600); err != nil {
		t.Fatal(err)
	}
}

func takeIn(ctx context.Context, s *Store, _ Lease) error {
	_, err := Import(ctx, s, fileOf(s), ImportOptions{})
	return err
}
