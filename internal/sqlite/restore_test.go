package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

// restorable is a closed database and a backup of it that lacks its last rows.
func restorable(t testing.TB, mode string) (path string, b Backup) {
	t.Helper()
	path = damageable(t, mode)
	b, err := BackupFile(t.Context(), path, "test.db", backupOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.Context(), Options{Path: path, Journal: JournalConfig{Mode: mode}})
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range []string{"late 1", "late 2"} {
		mustWrite(t, f, insert(uid))
	}
	f.writer.wrote = false // no checkpoint: the late rows are in the -wal alone
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path, b
}

func replacedBy(t testing.TB, path string) []string {
	t.Helper()
	dirs, err := filepath.Glob(path + ".replaced-*")
	if err != nil {
		t.Fatal(err)
	}
	return dirs
}

func TestADryRestoreSaysWhatWouldBeLostAndChangesNothing(t *testing.T) {
	t.Parallel()
	path, b := restorable(t, "wal")
	before, _, err := rawDigest(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Restore(t.Context(), RestoreOptions{Backup: b.Dir, Path: path, DryRun: true})
	if err != nil || r.Lost["rows"] != 2 || r.Now["rows"] != madeRows+2 || r.Then["rows"] != madeRows || r.Held != "" {
		t.Errorf("%+v, %v", r, err)
	}
	release := holdOpen(t, path)
	r, err = Restore(t.Context(), RestoreOptions{Backup: b.Dir, Path: path, DryRun: true})
	if err != nil || !strings.Contains(r.Held, "sh") {
		t.Errorf("while it is held: %+v, %v", r, err)
	}
	release()
	if after, _, _ := rawDigest(path); after != before || len(replacedBy(t, path)) != 0 {
		t.Error("something was changed")
	}
}

func TestARestoreRefusesAFileThatAnybodyHoldsAndABackupThatIsDamaged(t *testing.T) {
	t.Parallel()
	path, b := restorable(t, "delete")
	before, _, _ := rawDigest(path)
	release := holdOpen(t, path)
	if _, err := Restore(t.Context(), RestoreOptions{Backup: b.Dir, Path: path}); ClassOf(err) != Busy || !problem.Is(err, problem.Busy) {
		t.Errorf("held: %v", err)
	}
	release()
	scribble(t, b.File(), 3)
	if _, err := Restore(t.Context(), RestoreOptions{Backup: b.Dir, Path: path}); ClassOf(err) != Corrupt || !problem.Is(err, problem.Damaged) {
		t.Errorf("damaged backup: %v", err)
	}
	if after, _, _ := rawDigest(path); after != before {
		t.Error("the file was changed")
	}
}

// A restore takes the rows of the backup and keeps those that it replaces, the ones in the -wal too.
func TestARestoreKeepsTheWholeFileThatItReplaces(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"wal", "delete"} {
		path, b := restorable(t, mode)
		r, err := Restore(t.Context(), RestoreOptions{Backup: b.Dir, Path: path})
		if err != nil || r.Lost["rows"] != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		if rows, verdict := integrityOf(t, path); rows != madeRows || verdict != "" {
			t.Errorf("%s: %d rows, integrity %q", mode, rows, verdict)
		}
		if rows, _ := integrityOf(t, filepath.Join(r.Aside, filepath.Base(path))); rows != madeRows+2 {
			t.Errorf("%s: %d rows in the replaced file", mode, rows)
		}
		if _, err := os.Stat(path + ".restoring"); err == nil {
			t.Error("the stage was left behind")
		}
	}
}

func TestARestoreOverADamagedOrMissingFileKeepsWhatWasThere(t *testing.T) {
	t.Parallel()
	path, b := restorable(t, "delete")
	if err := os.WriteFile(path, []byte(strings.Repeat("noise", 5000)), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Restore(t.Context(), RestoreOptions{Backup: b.Dir, Path: path})
	if err != nil || r.Trouble == "" {
		t.Fatalf("%+v, %v", r, err)
	}
	if kept, err := os.ReadFile(filepath.Join(r.Aside, filepath.Base(path))); err != nil || !strings.HasPrefix(string(kept), "noise") {
		t.Errorf("what was there is gone: %v", err)
	}
	if rows, verdict := integrityOf(t, path); rows != madeRows || verdict != "" {
		t.Errorf("%d rows, integrity %q", rows, verdict)
	}
	elsewhere := filepath.Join(t.TempDir(), "deep", "new.db")
	if _, err := Restore(t.Context(), RestoreOptions{Backup: b.Dir, Path: elsewhere}); err != nil {
		t.Fatal(err)
	}
	if rows, _ := integrityOf(t, elsewhere); rows != madeRows {
		t.Errorf("%d rows in a new place", rows)
	}
}

func TestTheJournalModeChangesOnlyOffline(t *testing.T) {
	t.Parallel()
	path := damageable(t, "wal")
	f, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, f, insert("late"))
	if _, err := SetJournalMode(t.Context(), path, "test.db", "delete"); ClassOf(err) != Busy {
		t.Errorf("beside a handle: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ to, from string }{{"delete", "wal"}, {"delete", "delete"}, {"wal", "delete"}} {
		c, err := SetJournalMode(t.Context(), path, "test.db", step.to)
		if err != nil || c.From != step.from || c.To != step.to {
			t.Errorf("%+v: %+v, %v", step, c, err)
		}
		if err := (&File{path: path}).headerSays(step.to); err != nil {
			t.Error(err)
		}
		if rows, verdict := integrityOf(t, path); rows != madeRows+1 || verdict != "" {
			t.Errorf("%d rows, integrity %q", rows, verdict)
		}
		execBare(t, path, "") // integrityOf opened it
	}
	scribble(t, path, 4)
	before, _, _ := rawDigest(path)
	if _, err := SetJournalMode(t.Context(), path, "test.db", "delete"); ClassOf(err) != Corrupt {
		t.Errorf("a damaged file: %v", err)
	}
	if after, _, _ := rawDigest(path); after != before {
		t.Error("a damaged file was changed")
	}
}

// Half a file under the right name would stay for good: the next restore leaves alone what is there.
func TestASmallFileComesBackWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "saved.json"), filepath.Join(dir, "board", "board.json")
	if err := os.Mkdir(from, 0o700); err != nil { // it opens and cannot be read: the copy ends in its middle
		t.Fatal(err)
	}
	if err := restoreBeside(from, to); err == nil {
		t.Fatal("what cannot be read was restored")
	}
	if left, _ := filepath.Glob(to + "*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.Remove(from); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{from: "{\"name\": \"whole\"}", to + partialMark: "{\"na"} { // the half of a restore that was killed
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := restoreBeside(from, to); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(to); err != nil || string(got) != "{\"name\": \"whole\"}" {
		t.Errorf("%q, %v", got, err)
	}
	if left, _ := filepath.Glob(to + "?*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
