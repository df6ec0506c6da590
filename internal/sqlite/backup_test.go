package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/problem"
)

func backupOptions(t testing.TB) BackupOptions {
	return BackupOptions{Dir: filepath.Join(t.TempDir(), "backups"), Tables: []string{"rows"}}
}

func mustBackup(t testing.TB, f *File, o BackupOptions) Backup {
	t.Helper()
	b, err := f.Backup(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Check(); err != nil {
		t.Fatal(err)
	}
	return b
}

// A backup is one moment of a database that others write, whole and verified, in either journal mode, and each writer
// goes on meanwhile.
func TestABackupBesideWritersIsWholeAndOfOneMoment(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			o := testOptions(t)
			o.Journal.Mode = mode
			f := mustOpen(t, o)
			for range 8 {
				mustWrite(t, f, fill(1000))
			}
			ctx, stop := context.WithCancel(t.Context())
			var during []time.Duration
			done := make(chan struct{})
			go func() {
				defer close(done)
				for i := 0; ctx.Err() == nil; i++ {
					at := time.Now()
					mustWrite(t, f, insert(fmt.Sprint("beside ", i)))
					during = append(during, time.Since(at))
				}
			}()
			bo := backupOptions(t)
			b := mustBackup(t, f, bo)
			stop()
			<-done
			if n := b.Manifest.Counts["rows"]; n < 8000 || n > 8000+int64(len(during)) {
				t.Errorf("%d rows in the copy", n)
			}
			slices.Sort(during)
			t.Logf("%d appends beside the backup of %d bytes in %d ms: p50 %s, p99 %s, max %s", len(during), b.Manifest.Bytes,
				b.Manifest.TookMS, during[len(during)/2], during[len(during)*99/100], during[len(during)-1])
			again, err := BackupFile(t.Context(), f.Path(), "test.db", bo) // as another process does
			if err != nil || again.Manifest.Counts["rows"] != 8000+int64(len(during)) {
				t.Errorf("second backup: %v, %v", again.Manifest.Counts, err)
			}
		})
	}
}

// A damaged database is refused, and what is in the directory already stays the newest.
// The rows of everybody wait until the handle that lost its file is closed, and a copy of gigabytes takes minutes.
func TestACopyUnderWayEndsWhenTheHandleIsLost(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert(strings.Repeat("x", 4*copyStep*4096)))
	c, err := f.connect(roleReader)
	if err != nil {
		t.Fatal(err)
	}
	defer f.drop(c)
	f.halt(&f.loss, LostWAL, f.walPath)
	if err := f.copyTo(t.Context(), c, filepath.Join(t.TempDir(), "copy"), 0); ClassOf(err) != LostWAL {
		t.Errorf("the copy went on: %v", err)
	}
}

func TestADamagedDatabaseGetsNoBackupThatIsCalledGood(t *testing.T) {
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			o := testOptions(t)
			o.Journal.Mode = mode
			f := mustOpen(t, o)
			mustWrite(t, f, fill(2000))
			bo := backupOptions(t)
			good := mustBackup(t, f, bo)
			if _, err := f.Checkpoint(t.Context()); err != nil {
				t.Fatal(err)
			}
			scribble(t, f.Path(), leafOf(t, f, "rows"))
			_, err := f.Backup(t.Context(), bo)
			if ClassOf(err) != Corrupt || !problem.Is(err, problem.Damaged) {
				t.Errorf("backup of a damaged file: %v", err)
			}
			all, err := Backups(bo.Dir)
			if err != nil || len(all) != 1 || all[0].Dir != good.Dir {
				t.Errorf("backups: %v, %v", all, err)
			}
			if left, _ := os.ReadDir(bo.Dir); len(left) != 1 {
				t.Errorf("the directory holds %v", left)
			}
		})
	}
}

func TestBackupsAreBoundedAndNothingOfOthersIsRemoved(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	bo := backupOptions(t)
	bo.Keep = 2
	strangers := filepath.Join(bo.Dir, "test.db-8000101-000000")
	if err := errors.Join(os.MkdirAll(strangers, 0o700), os.WriteFile(filepath.Join(strangers, "manifest.json"), []byte(`{"format":"other"}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	var made []string
	for i := range 5 {
		mustWrite(t, f, insert(fmt.Sprint(i)))
		made = append(made, mustBackup(t, f, bo).Dir)
	}
	all, err := Backups(bo.Dir)
	if err != nil || len(all) != 2 || all[0].Dir != made[4] || all[1].Dir != made[3] {
		t.Errorf("kept %d of %v: %v", len(all), made, err)
	}
	if _, err := os.Stat(filepath.Join(strangers, "manifest.json")); err != nil {
		t.Error("a stranger's directory was touched")
	}
}

func TestWhatAKilledBackupLeftIsClearedAwayByTheNext(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	bo := backupOptions(t)
	if err := os.MkdirAll(filepath.Join(bo.Dir, stageMark+"1", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	mustBackup(t, f, bo)
	if left, _ := os.ReadDir(bo.Dir); len(left) != 1 {
		t.Errorf("the directory holds %v", left)
	}
}

func TestASnapshotHasItsNameOnlyWhenItIsWhole(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, fill(100))
	to := filepath.Join(t.TempDir(), "copy.db")
	if err := f.Snapshot(t.Context(), to, "rows"); err != nil {
		t.Fatal(err)
	}
	found, err := checkSealed(to, []string{"rows"})
	if err != nil || found.counts["rows"] != 100 {
		t.Errorf("%v, %v", found, err)
	}
	if err := f.Snapshot(t.Context(), to, "rows"); !problem.Is(err, problem.Conflict) {
		t.Errorf("over an existing file: %v", err)
	}
}

// scribble overwrites the middle of a page on the disk, past SQLite.
func scribble(t testing.TB, path string, page int64) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	junk := make([]byte, 4096)
	for i := range junk {
		junk[i] = 0xA5
	}
	if _, err := file.WriteAt(junk, (page-1)*4096); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// leafOf gives a page in the middle of a table or an index: a later one than its root, found by what SQLite itself
// complains of when it is missing.
func leafOf(t testing.TB, f *File, name string) int64 {
	t.Helper()
	var root int64
	err := f.Read(t.Context(), func(c *Conn) error {
		_, err := c.Row("SELECT rootpage FROM sqlite_schema WHERE name = ?", []any{name}, &root)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	return childPage(raw, root)
}

// childPage follows the middle pointer of an interior page down to a leaf.
func childPage(raw []byte, page int64) int64 {
	for {
		at := (page - 1) * 4096
		head := at
		if page == 1 {
			head += 100
		}
		if kind := raw[head]; kind != 2 && kind != 5 {
			return page
		}
		cells := int64(raw[head+3])<<8 | int64(raw[head+4])
		slot := head + 12 + cells/2*2
		cell := at + (int64(raw[slot])<<8 | int64(raw[slot+1]))
		page = int64(raw[cell])<<24 | int64(raw[cell+1])<<16 | int64(raw[cell+2])<<8 | int64(raw[cell+3])
	}
}

// A database that is cut to nothing is a loss where a backup of it lies elsewhere, too: opened as new it would be backed
// up, and its empty backups would take the place of the good ones.
func TestAnEmptiedDatabaseWithABackupElsewhereIsNotTakenForNew(t *testing.T) {
	t.Parallel()
	empty := func(t *testing.T) (Options, BackupOptions, Backup) {
		o, bo := testOptions(t), backupOptions(t)
		f := mustOpen(t, o)
		mustWrite(t, f, insert("kept"))
		b := mustBackup(t, f, bo)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		for _, suffix := range []string{"-wal", "-shm"} {
			_ = os.Remove(o.Path + suffix)
		}
		if err := os.Truncate(o.Path, 0); err != nil {
			t.Fatal(err)
		}
		return o, bo, b
	}
	t.Run("known", func(t *testing.T) {
		o, bo, b := empty(t)
		o.Backups = bo.Dir
		_, err := Open(t.Context(), o)
		if ClassOf(err) != Corrupt || !strings.Contains(err.Error(), "gatewayd restore "+b.Dir) {
			t.Fatalf("opened as new: %v", err)
		}
		if info, err := os.Stat(o.Path); err != nil || info.Size() != 0 {
			t.Errorf("the file was touched: %v, %v", info, err)
		}
		if err := b.Check(); err != nil {
			t.Error(err)
		}
	})
	t.Run("of another database", func(t *testing.T) {
		_, bo, _ := empty(t)
		o := testOptions(t)
		o.Backups = bo.Dir
		if err := os.WriteFile(o.Path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		mustOpen(t, o)
	})
}
