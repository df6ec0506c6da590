package sqlite

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// cli finds the stock command line tool, which stands for every foreign process.
func cli(t testing.TB) string {
	path, err := exec.LookPath("sqlite3")
	if err != nil {
		t.Skip("NOT TESTED: no sqlite3 command is installed, so nothing foreign can share the file")
	}
	return path
}

func runCLI(t testing.TB, tool, db string, sql ...string) string {
	t.Helper()
	out, err := exec.Command(tool, append([]string{"-batch", db}, sql...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("sqlite3 %q: %v\n%s", sql, err, out)
	}
	return strings.TrimSpace(string(out))
}

// strayOpenClose is what a header probe, a chmod helper or a plugin does somewhere in the process.
func strayOpenClose(t testing.TB, path string) {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		file, err := os.OpenFile(path+suffix, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		file.Close()
	}
}

// With POSIX locks the stray close would drop the locks, the foreign process would delete the -wal as the last
// one out, and the rows below would go into a nameless inode.
func TestAStrayOpenAndCloseDoesNotCostTheWALBesideAForeignProcess(t *testing.T) {
	tool := cli(t)
	o := testOptions(t)
	f := mustOpen(t, o)
	mustWrite(t, f, insert("before"))
	wal, _ := statInode(o.Path + "-wal")

	strayOpenClose(t, f.Path())
	if got := runCLI(t, tool, f.Path(), "SELECT count(*) FROM rows"); got != "1" {
		t.Fatalf("the foreign process counts %s rows", got)
	}
	if now, _ := statInode(o.Path + "-wal"); now != wal {
		t.Fatalf("-wal was replaced: %v, was %v", now, wal)
	}
	for i := range 20 {
		mustWrite(t, f, insert(fmt.Sprint("after", i)))
	}
	if got := runCLI(t, tool, f.Path(), "SELECT count(*) FROM rows"); got != "21" {
		t.Fatalf("the foreign process counts %s rows, want 21", got)
	}
	if got := runCLI(t, tool, f.Path(), "PRAGMA integrity_check"); got != "ok" {
		t.Fatalf("integrity_check: %s", got)
	}
}

// deletedFiles lists descriptors of this process on deleted files of a directory.
func deletedFiles(t testing.TB, dir string) []string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("NOT TESTED: /proc/self/fd cannot be read: ", err)
	}
	var found []string
	for _, e := range entries {
		target, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if strings.HasPrefix(target, dir) && strings.HasSuffix(target, " (deleted)") {
			found = append(found, target)
		}
	}
	return found
}

func TestTwentyOpenersOfOneNewFileSeeNoErrorAndDeleteNothing(t *testing.T) {
	t.Parallel()
	for round := range 3 {
		o := testOptions(t)
		o.Path = filepath.Join(t.TempDir(), "fresh.db")
		var start, wg sync.WaitGroup
		start.Add(1)
		for i := range 20 {
			wg.Go(func() {
				start.Wait()
				for again := range 3 {
					f, err := Open(context.Background(), o)
					if err != nil {
						t.Errorf("open: %v", err)
						return
					}
					if err := f.Write(context.Background(), insert(fmt.Sprint(i, "-", again))); err != nil {
						t.Errorf("write: %v", err)
					}
					if gone := deletedFiles(t, filepath.Dir(o.Path)); len(gone) > 0 {
						t.Errorf("deleted while open: %v", gone)
					}
					if err := f.Close(); err != nil {
						t.Errorf("close: %v", err)
					}
				}
			})
		}
		start.Done()
		wg.Wait()
		f := mustOpen(t, o)
		if n := count(t, f); n != 60 {
			t.Errorf("round %d: rows = %d, want 60", round, n)
		}
		if gone := deletedFiles(t, filepath.Dir(o.Path)); len(gone) > 0 {
			t.Errorf("deleted files still open: %v", gone)
		}
		f.Close()
	}
}

func TestForeignWritersAndOursLoseNothing(t *testing.T) {
	t.Parallel()
	tool := cli(t)
	for _, mode := range []string{"wal", "delete"} {
		t.Run(mode, func(t *testing.T) {
			o := testOptions(t)
			o.Journal.Mode = mode
			o.AutoCheckpoint = 100
			f := mustOpen(t, o)
			const each = 30
			var wg sync.WaitGroup
			wg.Go(func() {
				for i := range each {
					runCLI(t, tool, f.Path(), ".timeout 30000", fmt.Sprintf("INSERT INTO rows (uid) VALUES ('cli%d')", i))
				}
			})
			for w := range 3 {
				wg.Go(func() {
					for i := range each {
						if err := f.Write(context.Background(), insert(fmt.Sprint("go", w, "-", i))); err != nil {
							t.Errorf("write: %v", err)
						}
					}
				})
			}
			wg.Wait()
			if n := count(t, f); n != 4*each {
				t.Errorf("rows = %d, want %d", n, 4*each)
			}
			if got := runCLI(t, tool, f.Path(), "PRAGMA integrity_check"); got != "ok" {
				t.Errorf("integrity_check: %s", got)
			}
		})
	}
}
