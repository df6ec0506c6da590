package sessiondb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// newerStore is a store as a gatewayd of a later year would have left it: another version, a column and a table that
// nobody here knows, a trigger that needs a function of its own, and the title under another name.
func newerStore(t *testing.T, journal string) (path, session string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "state.db")
	s, _ := openStore(t, path)
	l := conversation(t, s)
	say(t, s, l, "apples and pears", "second")
	must(t, s.WaitIndexed(t.Context()))
	must(t, s.Release(t.Context(), l))
	must(t, s.Close())
	db := bare(t, path)
	must(t, db.Exec(`ALTER TABLE messages ADD COLUMN mood TEXT;
CREATE TABLE dreams(id INTEGER PRIMARY KEY, text TEXT) STRICT;
CREATE TRIGGER messages_mood AFTER INSERT ON messages BEGIN UPDATE messages SET mood = of_a_later_year(new.content) WHERE id = new.id; END;
PRAGMA user_version = 77;`))
	if journal == "delete" {
		must(t, db.Exec(`PRAGMA journal_mode = DELETE`))
	}
	must(t, db.Close())
	return path, l.Session
}

func TestANewerStoreIsReadAndNeverWritten(t *testing.T) {
	for _, journal := range []string{"wal", "delete"} {
		t.Run(journal, func(t *testing.T) {
			path, session := newerStore(t, journal)
			before := fingerprint(t, path)
			s, log := openWith(t, Options{Path: path, Heal: true})
			if !s.ReadOnly() || log.count("store is only read") != 1 {
				t.Errorf("read-only: %t, log: %s", s.ReadOnly(), log.text())
			}
			ctx := t.Context()
			rows, err := s.Transcript(ctx, session)
			must(t, err)
			equal(t, "rows", len(rows), 2)
			list, err := s.Sessions(ctx, ListFilter{})
			must(t, err)
			equal(t, "sessions", len(list), 1)
			hits, err := s.Search(ctx, Query{Text: "pears"})
			must(t, err)
			equal(t, "hits", len(hits), 1)
			l := Lease{Session: session, Kind: Turn, Token: "t"}
			for name, write := range map[string]func() error{
				"append":  func() error { _, err := s.Append(ctx, l, []NewMessage{{Role: "user", Content: "x"}}); return err },
				"session": func() error { _, err := s.CreateSession(ctx, NewSession{}); return err },
				"lease":   func() error { _, err := s.TryTurn(ctx, session, self(t), 0); return err },
				"release": func() error { return s.Release(ctx, l) },
				"title":   func() error { return s.SetTitle(ctx, session, "x") },
				"usage":   func() error { return s.AddUsage(ctx, UsageDelta{Session: session}) },
				"index":   func() error { return s.WaitIndexed(ctx) },
				"replay":  func() error { _, err := s.Replay(ctx, true); return err },
				"ask":     s.Writable,
			} {
				err := write()
				if !errors.Is(err, ErrReadOnly) || !problem.Is(err, problem.Config) {
					t.Errorf("%s: %v", name, err)
				}
				if err != nil && !strings.Contains(err.Error(), "version 77") || !strings.Contains(err.Error(), fmt.Sprintf("up to %d", schemaVersion)) {
					t.Errorf("%s does not name both versions: %v", name, err)
				}
			}
			equal(t, "health", s.Health().State, StateReadOnly)
			indexing, stop := context.WithTimeout(ctx, time.Millisecond)
			defer stop()
			must(t, s.RunIndexer(indexing))
			if res, err := s.file.Checkpoint(ctx); err == nil {
				t.Errorf("it was checkpointed: %+v", res)
			}
			must(t, s.Close())
			equal(t, "files", fingerprint(t, path), before)
			if _, err := os.Stat(path + ".spool"); err == nil {
				t.Error("rows of a store that is only read were spooled")
			}
		})
	}
}

// What a newer file calls otherwise is an explained error, and nothing else is disturbed.
func TestAColumnThatIsGoneIsAnExplainedError(t *testing.T) {
	path, session := newerStore(t, "wal")
	db := bare(t, path)
	must(t, db.Exec(`ALTER TABLE sessions RENAME COLUMN title TO caption; DROP TABLE messages_fts; DROP TABLE messages_tri`))
	must(t, db.Close())
	s, _ := openStore(t, path)
	_, err := s.Session(t.Context(), session)
	if !problem.Is(err, problem.Config) || !strings.Contains(err.Error(), "title") || !strings.Contains(err.Error(), "newer gatewayd") {
		t.Errorf("session: %v", err)
	}
	rows, err := s.Transcript(t.Context(), session)
	must(t, err)
	equal(t, "rows", len(rows), 2)
	if err := s.file.Quarantine(); sqlite.ClassOf(err) != sqlite.ReadOnly {
		t.Errorf("quarantine: %v", err)
	}
}

// A store that is current is opened, read and closed beside a process in the middle of a long write: nothing of it is
// written, so no lock is needed.
func TestASteadyStateOpenNeedsNoLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, _ := openStore(t, path)
	l := conversation(t, s)
	say(t, s, l, "a")
	must(t, s.Close())
	writer := bare(t, path)
	must(t, writer.Exec(`BEGIN IMMEDIATE`))
	before := fingerprint(t, path)
	for range 2 {
		began := time.Now()
		again, _ := openWith(t, Options{Path: path, Heal: true})
		rows, err := again.Transcript(t.Context(), l.Session)
		must(t, err)
		equal(t, "rows", len(rows), 1)
		must(t, again.Close())
		if took := time.Since(began); took > 900*time.Millisecond {
			t.Errorf("the open waited %s for the lock of another", took)
		}
	}
	equal(t, "files", fingerprint(t, path), before)
	must(t, writer.Exec(`ROLLBACK`))
}
