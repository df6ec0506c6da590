package registry

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gatewayd/internal/peer"
	"gatewayd/internal/sqlite"
)

// holderPath makes this test binary a process that holds a database open until its input ends.
const holderPath = "GATEWAYD_TEST_REGISTRY_HOLDS"

func holdMain() bool {
	path := os.Getenv(holderPath)
	if path == "" {
		return false
	}
	f, err := openRows(context.Background(), path)
	fmt.Println(err)
	if err == nil {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = f.Close()
	}
	return true
}

func openRows(ctx context.Context, path string) (*sqlite.File, error) {
	return sqlite.Open(ctx, sqlite.Options{
		Path: path, Create: true,
		Stale: func(c *sqlite.Conn) (bool, error) {
			found, err := c.Row("SELECT 1 FROM sqlite_schema WHERE name = 'rows'", nil, new(int))
			return !found, err
		},
		Migrate: func(tx *sqlite.Tx) error { return tx.Script("CREATE TABLE rows (uid TEXT NOT NULL UNIQUE) STRICT") },
	})
}

// hold starts such a process and gives the way to end it, once.
func hold(t *testing.T, path string) (end func()) {
	t.Helper()
	p := peer.Self(t, holderPath+"="+path)
	p.Want("<nil>")
	return func() { _ = p.End() }
}

func put(ctx context.Context, f *sqlite.File, uid string) error {
	return f.Write(ctx, sqlite.Op{Label: "put", Do: func(tx *sqlite.Tx) error {
		_, err := tx.Exec("INSERT INTO rows VALUES (?)", uid)
		return err
	}})
}

func rowsOf(t *testing.T, f *sqlite.File) (all []string) {
	t.Helper()
	err := f.Read(t.Context(), func(c *sqlite.Conn) error {
		all = nil
		for row, err := range c.Query("SELECT uid FROM rows") {
			if err != nil {
				return err
			}
			all = append(all, row.Text(0))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Real files, a real other process, and a writer that never stops: it goes on by itself once nobody holds what was
// lost, and every row that was acknowledged is in the file or in a capture.
func TestAWriterThroughAKeepGoesOnAfterItsFilesWereLost(t *testing.T) {
	t.Parallel()
	for _, held := range []bool{false, true} {
		t.Run(fmt.Sprintf("held by another process: %t", held), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "rows.db")
			r := New(Options{})
			keep := For(r, openRows).Keep(path)
			run, stop := context.WithCancel(t.Context())
			done := goDo(func() { _ = r.Run(run) })
			defer func() { stop(); <-done }()

			acked := []string{}
			write := func(wait time.Duration) error {
				ctx, cancel := context.WithTimeout(t.Context(), wait)
				defer cancel()
				ref, err := keep.Acquire(ctx)
				if err != nil {
					return err
				}
				defer ref.Release()
				f, _ := ref.Handle()
				uid := fmt.Sprint("row ", len(acked))
				if err := put(ctx, f, uid); err != nil {
					return err
				}
				acked = append(acked, uid)
				return nil
			}
			for range 20 {
				if err := write(time.Minute); err != nil {
					t.Fatal(err)
				}
			}
			letGo := func() {}
			if held {
				letGo = hold(t, path)
			}
			if err := os.Remove(path + "-wal"); err != nil {
				t.Fatal(err)
			}
			if err := write(time.Minute); sqlite.ClassOf(err) != sqlite.LostWAL {
				t.Fatalf("the write into the lost file: %v", err)
			}
			if held {
				wantParts(t, write(4*time.Second), path, "cannot be opened again yet", "process ")
				letGo()
			}
			if err := write(time.Minute); err != nil {
				t.Fatal(err)
			}
			all, err := sqlite.Captures(path)
			if err != nil || len(all) == 0 {
				t.Fatalf("captures: %v, %v", all, err)
			}
			ref, err := keep.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			f, _ := ref.Handle()
			found := rowsOf(t, f)
			ref.Release()
			for _, c := range all {
				whole, err := sqlite.ReplayCapture(t.Context(), c, t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				g, err := openRows(t.Context(), whole)
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, rowsOf(t, g)...)
				_ = g.Close()
			}
			for _, uid := range acked {
				if !slices.Contains(found, uid) {
					t.Errorf("%s was acknowledged and is in no file", uid)
				}
			}
		})
	}
}
