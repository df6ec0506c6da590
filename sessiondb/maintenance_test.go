package sessiondb

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// ground is what an operation of maintenance is tried on: a file, a handle of this process on it (nil where nobody has
// it open), and a backup that was made of it before.
type ground struct {
	path   string
	store  *Store
	backup string
}

// withStore runs an operation through the handle there is, or through one of its own.
func (g ground) withStore(ctx context.Context, do func(*Store) error) error {
	if g.store != nil {
		return do(g.store)
	}
	s, err := Open(ctx, Options{Path: g.path, Existing: true})
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}

// maintenance is the list: how each operation is run. One without a row here fails the tests below.
var maintenance = map[sqlite.Operation]func(ctx context.Context, g ground) error{
	sqlite.OpCheckpoint: func(ctx context.Context, g ground) error {
		return g.withStore(ctx, func(s *Store) error { _, err := s.file.Checkpoint(ctx); return err })
	},
	sqlite.OpVacuum: func(ctx context.Context, g ground) error {
		return g.withStore(ctx, func(s *Store) error { _, err := s.file.Vacuum(ctx); return err })
	},
	sqlite.OpOptimize: func(ctx context.Context, g ground) error {
		return g.withStore(ctx, func(s *Store) error { return s.file.Optimize(ctx) })
	},
	sqlite.OpRebuild: func(ctx context.Context, g ground) error {
		return g.withStore(ctx, func(s *Store) error { _, _, err := s.step(ctx, words); return err })
	},
	sqlite.OpPrune: func(ctx context.Context, g ground) error {
		return g.withStore(ctx, func(s *Store) error { _, err := s.Prune(ctx, PruneOptions{}); return err })
	},
	sqlite.OpBackup: func(ctx context.Context, g ground) error {
		return g.withStore(ctx, func(s *Store) error { _, err := s.Backup(ctx, filepath.Dir(g.backup), 0); return err })
	},
	sqlite.OpSnapshot: func(ctx context.Context, g ground) error {
		return g.withStore(ctx, func(s *Store) error {
			return s.file.Snapshot(ctx, filepath.Join(filepath.Dir(g.backup), "snapshot.db"), counted...)
		})
	},
	sqlite.OpRepair: func(ctx context.Context, g ground) error {
		_, err := sqlite.Repair(ctx, RepairOptions(g.path, nil))
		return err
	},
	sqlite.OpRestore: func(ctx context.Context, g ground) error {
		_, err := sqlite.Restore(ctx, sqlite.RestoreOptions{Backup: g.backup, Path: g.path, Label: "state.db"})
		return err
	},
	sqlite.OpJournalChange: func(ctx context.Context, g ground) error {
		_, err := sqlite.SetJournalMode(ctx, g.path, "state.db", "delete")
		return err
	},
	sqlite.OpMigration: func(ctx context.Context, g ground) error {
		return ground{path: g.path}.withStore(ctx, func(*Store) error { return nil })
	},
}

// alone are the operations that nobody may be beside.
var alone = map[sqlite.Operation]bool{
	sqlite.OpVacuum: true, sqlite.OpRestore: true, sqlite.OpJournalChange: true,
}

func eachOperation(t *testing.T, do func(t *testing.T, what sqlite.Operation, run func(context.Context, ground) error)) {
	t.Helper()
	for _, what := range sqlite.Operations {
		run := maintenance[what]
		if run == nil {
			t.Errorf("%s has no row in the list", what)
			continue
		}
		t.Run(string(what), func(t *testing.T) { do(t, what, run) })
	}
	if len(maintenance) != len(sqlite.Operations) {
		t.Errorf("%d rows for %d operations", len(maintenance), len(sqlite.Operations))
	}
}

// conversed is a store with conversations, closed, and a backup of it.
func conversed(t *testing.T) ground {
	t.Helper()
	dir := t.TempDir()
	g := ground{path: filepath.Join(dir, "state.db")}
	s, _ := openStore(t, g.path)
	exchanges(20)(t, s)
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	b, err := s.Backup(t.Context(), filepath.Join(dir, "backups"), 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	g.backup = b.Dir
	return g
}

// readable counts the messages that can be read row by row, and says what an integrity check finds first.
func readable(t *testing.T, path string) (n int64, verdict string) {
	t.Helper()
	if err := sqlite.ClearDamage(path); err != nil { // to be looked at all the same
		t.Fatal(err)
	}
	f, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Label: "state.db", Journal: sqlite.JournalConfig{Mode: "delete"}})
	if err != nil {
		return 0, err.Error()
	}
	defer f.Close()
	err = f.Read(t.Context(), func(c *sqlite.Conn) error {
		if _, err := c.Row(`SELECT count(*) FROM messages NOT INDEXED`, nil, &n); err != nil {
			return err
		}
		_, err := c.Row(`PRAGMA integrity_check(1)`, nil, &verdict)
		return err
	})
	if err != nil {
		verdict = err.Error()
	}
	return n, verdict
}

// Beside a process that appends, each operation does its work or says that the file is in use, and every row that the
// other process was told of is there.
func TestEachMaintenanceBesideALiveWriterLosesNothing(t *testing.T) {
	g := conversed(t)
	before, _ := readable(t, g.path)
	writer := startChild(t, "append", g.path, "")
	acked := int64(0)
	more := func(t *testing.T) {
		for range 5 {
			if line := writer.Next(); len(line) < 3 || line[:3] != "ack" {
				t.Fatalf("the writer said %q", line)
			}
			acked++
		}
	}
	more(t)
	s, _ := openStore(t, g.path)
	g.store = s
	eachOperation(t, func(t *testing.T, what sqlite.Operation, run func(context.Context, ground) error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := run(ctx, g)
		if alone[what] && sqlite.ClassOf(err) != sqlite.Busy {
			t.Errorf("it did not refuse: %v", err)
		}
		if err != nil && sqlite.ClassOf(err) != sqlite.Busy && !errors.Is(err, errDeferred) {
			t.Errorf("%v", err)
		}
		more(t)
	})
	writer.Kill()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n, verdict := readable(t, g.path); n < before+2*acked || verdict != "ok" {
		t.Errorf("%d messages where %d were acknowledged; integrity %s", n, before+2*acked, verdict)
	}
}

// A handle in quarantine is refused everything, and the damaged file keeps its every byte.
func TestEachMaintenanceRefusesAHandleInQuarantine(t *testing.T) {
	g := conversed(t)
	s, _ := openStore(t, g.path)
	if _, err := s.file.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	spoil(t, g.path, number(t, s, `SELECT rootpage FROM sqlite_schema WHERE name = 'messages_by_session'`))
	s.DropIdle()
	err := s.file.Read(t.Context(), func(c *sqlite.Conn) error {
		for _, err := range c.Query(`PRAGMA integrity_check`) {
			if err != nil {
				return err
			}
		}
		return nil
	})
	if s.file.Reason() != sqlite.ReasonCorrupt {
		t.Fatalf("the damage was not noticed: %v", err)
	}
	g.store = s
	before, err := os.ReadFile(g.path)
	if err != nil {
		t.Fatal(err)
	}
	eachOperation(t, func(t *testing.T, what sqlite.Operation, run func(context.Context, ground) error) {
		err := run(t.Context(), g)
		if what == sqlite.OpPrune && err == nil {
			return // nothing is old, so nothing was asked of the file
		}
		if class := sqlite.ClassOf(err); class != sqlite.Corrupt && class != sqlite.Busy || problem.KindOf(err) == problem.Internal {
			t.Errorf("%v", err)
		}
		if now, err := os.ReadFile(g.path); err != nil || string(now) != string(before) {
			t.Errorf("the file was changed (%v)", err)
		}
	})
}

// On a damaged file that nobody has open an operation refuses, finds nothing to do, or mends it: what can be read is
// never less than before.
func TestEachMaintenanceLeavesADamagedFileNoWorse(t *testing.T) {
	whole := conversed(t)
	s, _ := openStore(t, whole.path)
	page := number(t, s, `SELECT rootpage FROM sqlite_schema WHERE name = 'messages_by_session'`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	eachOperation(t, func(t *testing.T, what sqlite.Operation, run func(context.Context, ground) error) {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(filepath.Dir(whole.path))); err != nil {
			t.Fatal(err)
		}
		g := ground{path: filepath.Join(dir, "state.db"), backup: filepath.Join(dir, "backups", filepath.Base(whole.backup))}
		if err := os.Remove(g.path + "-wal"); err != nil && !errors.Is(err, os.ErrNotExist) { // all of it is in the database
			t.Fatal(err)
		}
		spoil(t, g.path, page)
		before, _ := readable(t, g.path)
		err := run(t.Context(), g)
		if class := sqlite.ClassOf(err); err != nil && class != sqlite.Corrupt && class != sqlite.Busy {
			t.Errorf("%v", err)
		}
		after, verdict := readable(t, g.path)
		if after < before || before == 0 {
			t.Errorf("%d messages can be read of %d", after, before)
		}
		if mends := what == sqlite.OpRepair || what == sqlite.OpRestore; mends != (verdict == "ok") {
			t.Errorf("integrity %q, %v", verdict, err)
		}
		if made, _ := sqlite.Backups(filepath.Dir(g.backup)); len(made) != 1 {
			t.Errorf("%d backups", len(made))
		}
		if _, err := os.Lstat(filepath.Join(filepath.Dir(g.backup), "snapshot.db")); err == nil {
			t.Error("a snapshot was made of it")
		}
	})
}

// spoil overwrites a page on the disk.
func spoil(t *testing.T, path string, page int64) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	junk := make([]byte, 4096)
	for i := range junk {
		junk[i] = 0xA5
	}
	_, err = file.WriteAt(junk, (page-1)*4096)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
}
