package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

// spills is a statement that no memory of a connection is large enough for.
const spills = `SELECT count(*) FROM (WITH RECURSIVE n(i) AS (VALUES(1) UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
	SELECT hex(randomblob(200)) AS b FROM n ORDER BY b LIMIT 19000)`

func spill(t *testing.T, f *File) (rows int, err error) {
	t.Helper()
	err = f.Read(t.Context(), func(c *Conn) error {
		_, err := c.Row(spills, nil, &rows)
		return err
	})
	return rows, err
}

// The directory of temporary files goes while a database is open: who needs one is told which and what to do, and everybody else goes on.
func TestAMissingDirectoryOfTemporaryFilesIsNamed(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	t.Setenv("TMPDIR", gone)
	t.Setenv("SQLITE_TMPDIR", "")
	o := testOptions(t)
	f := mustOpen(t, o)
	_, err := spill(t, f)
	if !problem.Is(err, problem.Unavailable) || !strings.Contains(err.Error(), "none can be made in "+gone) || !strings.Contains(err.Error(), "set TMPDIR") {
		t.Fatalf("a statement that needs one: %v", err)
	}
	if err := f.Write(t.Context(), insert("after")); err != nil {
		t.Errorf("the next row: %v", err)
	}
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	if n, err := spill(t, f); n != 19000 || err != nil {
		t.Errorf("with the directory made again: %d rows, %v", n, err)
	}
	t.Setenv("TMPDIR", filepath.Join(gone, "still"))
	t.Setenv("SQLITE_TMPDIR", filepath.Dir(o.Path)) // what config sets where there is no other
	before := namesIn(t, filepath.Dir(o.Path))
	if n, err := spill(t, f); n != 19000 || err != nil {
		t.Errorf("beside the database: %d rows, %v", n, err)
	}
	if after := namesIn(t, filepath.Dir(o.Path)); after != before {
		t.Errorf("something was left there: %s, before %s", after, before)
	}
}

func namesIn(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(names, "\n")
}
