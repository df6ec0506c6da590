package kanban

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// loseIndexRows takes the entries of an index away behind SQLite's back, as two writers that lost their locks do.
func loseIndexRows(t *testing.T, path string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is needed to damage an index")
	}
	script := `
import sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("PRAGMA writable_schema=ON")
sql = c.execute("SELECT sql FROM sqlite_schema WHERE name='idx_tasks_status'").fetchone()[0]
c.execute("UPDATE sqlite_schema SET sql = sql || ' WHERE 0' WHERE name='idx_tasks_status'")
c.close()
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("REINDEX idx_tasks_status")
c.execute("PRAGMA writable_schema=ON")
c.execute("UPDATE sqlite_schema SET sql = ? WHERE name='idx_tasks_status'", (sql,))
c.close()
c = sqlite3.connect(sys.argv[1])
print(c.execute("PRAGMA integrity_check").fetchall())
`
	out, err := exec.Command(python, "-c", script, path).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "missing from index") && !strings.Contains(string(out), "wrong # of entries") {
		t.Fatalf("%v: %s", err, out)
	}
}

func damagedIndex(t *testing.T) (path, card string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "kanban.db")
	b, err := Open(t.Context(), Options{Path: path, Create: true})
	if err != nil {
		t.Fatal(err)
	}
	card = b.make(t, NewTask{}).ID
	if _, err := b.file.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	loseIndexRows(t, path)
	return path, card
}

func TestAnIndexThatLostItsRowsIsMadeAnewAtOpenAfterACopy(t *testing.T) {
	path, card := damagedIndex(t)
	damaged := fileBytes(t, path)
	var log strings.Builder
	b := openBoard(t, Options{Path: path, Heal: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	list, err := b.List(t.Context(), Filter{Status: StatusReady})
	if err != nil || len(list) != 1 || list[0].ID != card {
		t.Errorf("ready: %+v, %v", list, err)
	}
	copies, err := forensicCopies(path)
	if err != nil || len(copies) != 1 || fileBytes(t, copies[0]) != damaged {
		t.Errorf("copies %v, %v", copies, err)
	}
	if strings.Count(log.String(), "were made anew") != 1 {
		t.Errorf("log: %s", log.String())
	}
}

// A process that has the file open would go on with pages that are no longer there.
func TestAnIndexIsNotMadeAnewBesideAHolder(t *testing.T) {
	path, _ := damagedIndex(t)
	holder := exec.Command("python3", "-c", "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT * FROM tasks').fetchall(); print('up', flush=True); sys.stdin.read()", path)
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close(); _ = holder.Wait() }()
	if _, err := out.Read(make([]byte, 2)); err != nil {
		t.Fatal(err)
	}
	before := fileBytes(t, path)
	b, err := Open(t.Context(), Options{Path: path, Heal: true})
	if err == nil {
		_ = b.Close()
	}
	if !errors.Is(err, ErrCorruptBoard) || !strings.Contains(err.Error(), "stop what has it open") || !strings.Contains(err.Error(), "python3") {
		t.Errorf("%v", err)
	}
	if fileBytes(t, path) != before {
		t.Error("the file was written beside a holder")
	}
	if _, err := os.Stat(path + ".repair-scratch"); err == nil {
		t.Error("a scratch copy was left")
	}
}

func TestABoardThatWasFoundWholeIsCheckedAgainOnceItChanged(t *testing.T) {
	path, card := damagedIndex(t)
	opts := Options{Path: path, Slug: DefaultSlug, Heal: true, Whole: filepath.Join(t.TempDir(), "notes"), Log: slog.New(slog.DiscardHandler)}
	noteOf(opts).keep() // a lie, which shows whether it is read through
	ready := func() (n int) {
		b, err := Open(t.Context(), opts)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		list, err := b.List(t.Context(), Filter{Status: StatusReady})
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if copies, err := forensicCopies(path); ready() != 0 || err != nil || len(copies) != 0 {
		t.Fatalf("a content that is noted as whole was read through again: %v, %v", copies, err)
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(path, later, later); err != nil {
		t.Fatal(err)
	}
	if n := ready(); n != 1 {
		t.Errorf("%d ready cards once the file has changed, want %s", n, card)
	}
	if noteOf(opts).holds() {
		t.Error("the note speaks of what was there before it was mended")
	}
	if ready(); !noteOf(opts).holds() {
		t.Error("a board that was found whole is not noted")
	}
	if b := openBoard(t, opts); b.make(t, NewTask{}).ID == "" || noteOf(opts).holds() {
		t.Error("a board that was written since is noted as whole")
	}
}

// Without a place for notes each open looks.
func TestANoteThatCannotBeKeptCostsOnlyTheNextCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kanban.db")
	openBoard(t, Options{Path: path, Create: true})
	file := filepath.Join(t.TempDir(), "a file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", filepath.Join(file, "notes")} {
		opts := Options{Path: path, Slug: DefaultSlug, Heal: true, Whole: dir}
		if openBoard(t, opts); noteOf(opts).holds() {
			t.Errorf("%q: a note that is nowhere holds", dir)
		}
	}
}
