package sessiondb

import (
	"os"
	"path/filepath"
	"testing"

	"gatewayd/internal/sqlite"
)

func TestAnotherStoreCopiedOverAnOpenOneIsNoticed(t *testing.T) {
	dir := t.TempDir()
	s, _ := openStore(t, filepath.Join(dir, "state.db"))
	mine := conversation(t, s)
	say(t, s, mine, "mine")
	if _, err := s.File().Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	other, _ := openStore(t, filepath.Join(dir, "other.db"))
	say(t, other, conversation(t, other), "of the other")
	if _, err := other.File().Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	other.Close()
	data, err := os.ReadFile(filepath.Join(dir, "other.db"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.File().Path(), data, 0o600); err != nil {
		t.Fatal(err)
	}
	err = s.File().Write(t.Context(), sqlite.Op{Label: "after", Do: func(*sqlite.Tx) error { return nil }})
	if sqlite.ClassOf(err) != sqlite.Overwritten || s.File().Reason() != sqlite.ReasonReplaced {
		t.Errorf("got %v, reason %q", err, s.File().Reason())
	}
}

func TestAStoreWithTheMarkOfTheFirstReleasesKeepsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, _ := openStore(t, path)
	s.Close()
	if err := bare(t, path).Exec(`PRAGMA application_id = 0x67777364`); err != nil {
		t.Fatal(err)
	}
	s, _ = openStore(t, path)
	say(t, s, conversation(t, s), "hello")
	equal(t, "mark", number(t, s, `SELECT application_id FROM pragma_application_id`), 0x67777364)
}
