package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

func TestABackupThatDoesNotFitIsRefusedBeforeItBegins(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "backups")
	o := Options{Path: filepath.Join(t.TempDir(), "a.db"), Create: true}
	o.seams.free = func(string) (int64, error) { return 1 << 20, nil }
	f, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = f.Backup(t.Context(), BackupOptions{Dir: dir})
	if !problem.Is(err, problem.Full) || !strings.Contains(err.Error(), "backup directory "+dir) || !strings.Contains(err.Error(), "backup.dir") {
		t.Errorf("it does not say what is full and what helps: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

func TestABackupDirectoryThatIsNoneIsNamed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "backups")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "a.db"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, err = f.Backup(t.Context(), BackupOptions{Dir: dir})
	if !problem.Is(err, problem.Denied) || !strings.Contains(err.Error(), "backup directory "+dir+" is no directory") {
		t.Errorf("%v", err)
	}
}

// Files that rows name go with them, are checked with them, and come back with them.
func TestFilesOfABackupAreCheckedAndComeBack(t *testing.T) {
	home := t.TempDir()
	files, dir := filepath.Join(home, "attachments"), filepath.Join(home, "backups")
	kept := filepath.Join(files, "t_1", "plan.txt")
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, []byte("the plan"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.Context(), Options{Path: filepath.Join(home, "a.db"), Create: true})
	if err != nil {
		t.Fatal(err)
	}
	o := BackupOptions{Dir: dir, Keep: 1, Files: files}
	first, err := f.Backup(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	second, err := f.Backup(t.Context(), o)
	if err != nil || len(second.Manifest.Files) != 1 {
		t.Fatalf("%+v, %v", second, err)
	}
	if _, err := os.Stat(first.Dir); err == nil {
		t.Error("the older one, with its files, is still there")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(files); err != nil {
		t.Fatal(err)
	}
	restore := RestoreOptions{Backup: second.Dir, Path: filepath.Join(home, "a.db"), Files: files}
	if _, err := Restore(t.Context(), restore); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(kept); err != nil || string(text) != "the plan" {
		t.Errorf("%q, %v", text, err)
	}
	if err := os.WriteFile(filepath.Join(second.Dir, "files", "t_1", "plan.txt"), []byte("another!"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), restore); !problem.Is(err, problem.Damaged) {
		t.Errorf("a backup with another file in it: %v", err)
	}
}
