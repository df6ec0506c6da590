package sqlite

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// counted lists a directory as CopiesIn does and counts the manifests that are read.
func counted(t *testing.T, dir string) (Copies, *int) {
	t.Helper()
	c, err := CopiesIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	n := new(int)
	c.read = func(dir string) (Backup, error) {
		*n++
		return ReadBackup(dir)
	}
	c.all = sync.OnceValue(c.readAll)
	return c, n
}

// Each scrape and each status asks for it, and a home with a hundred boards has hundreds of manifests.
func TestTheNewestBackupIsFoundByReadingItAlone(t *testing.T) {
	t.Parallel()
	o, bo := testOptions(t), backupOptions(t)
	o.Label = "board a"
	f := mustOpen(t, o)
	for range 3 {
		mustBackup(t, f, bo)
	}
	want := mustBackup(t, f, bo)
	beside := testOptions(t)
	beside.Label = "board a-b" // whose names begin alike
	mustBackup(t, mustOpen(t, beside), bo)
	up := bo
	up.upgrade = true
	upgrade := mustBackup(t, f, up)
	c, read := counted(t, bo.Dir)
	if b, ok := c.Scheduled(f.Path(), o.Label); !ok || b.Dir != want.Dir {
		t.Errorf("of the rounds it is %s, want %s", b.Dir, want.Dir)
	}
	if *read > 2 { // the upgrade's may come first
		t.Errorf("%d manifests were read", *read)
	}
	if err := os.Rename(upgrade.Dir, filepath.Join(bo.Dir, "board-a-before-upgrade-29991231-000000")); err != nil {
		t.Fatal(err)
	}
	c, read = counted(t, bo.Dir)
	if b, ok := c.Of(f.Path(), o.Label); !ok || !b.Manifest.Upgrade || *read != 1 {
		t.Errorf("of all it is %s, after %d manifests", b.Dir, *read)
	}
}

func TestABackupThatAPersonRenamedIsFoundWhereNoOtherIs(t *testing.T) {
	t.Parallel()
	f, bo := mustOpen(t, testOptions(t)), backupOptions(t)
	b := mustBackup(t, f, bo)
	mine := filepath.Join(bo.Dir, "before the holidays")
	if err := os.Rename(b.Dir, mine); err != nil {
		t.Fatal(err)
	}
	c, _ := counted(t, bo.Dir)
	if got, ok := c.Scheduled(f.Path(), "test.db"); !ok || got.Dir != mine {
		t.Errorf("found %q", got.Dir)
	}
}

// A home is moved with all that is in it, and its databases are not those of another home that keeps its backups in the
// same place.
func TestBackupsThatMovedWithTheirHomeAreStillThoseOfItsDatabases(t *testing.T) {
	t.Parallel()
	old, moved := filepath.Join(t.TempDir(), "old"), filepath.Join(t.TempDir(), "new")
	board := filepath.Join("kanban", "boards", "x", "kanban.db")
	if err := os.MkdirAll(filepath.Join(old, filepath.Dir(board)), 0o700); err != nil {
		t.Fatal(err)
	}
	o := testOptions(t)
	o.Path, o.Label = filepath.Join(old, board), "board x"
	f := mustOpen(t, o)
	bo := backupOptions(t)
	bo.Dir = filepath.Join(old, "backups")
	b := mustBackup(t, f, bo)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(old, moved); err != nil {
		t.Fatal(err)
	}
	c, err := CopiesIn(filepath.Join(moved, "backups"))
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := c.Scheduled(filepath.Join(moved, board), "board x"); !ok || got.Manifest.SHA256 != b.Manifest.SHA256 {
		t.Error("the backup of a board that moved is not known")
	}
	for path, label := range map[string]string{
		filepath.Join(moved, board):                                   "board y",
		filepath.Join(moved, "kanban", "boards", "y", "kanban.db"):    "board x",
		filepath.Join(filepath.Dir(moved), "other", board):            "board x",
		filepath.Join(t.TempDir(), "kanban", "boards", "x/kanban.db"): "board x",
	} {
		if got, ok := c.Of(path, label); ok {
			t.Errorf("%s is said to have the backup %s", path, got.Dir)
		}
	}
}
