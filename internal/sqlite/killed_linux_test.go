package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gatewayd/internal/sqlite/steps"
)

const (
	callsJob  = "GATEWAYD_TEST_SQLITE_CALLS"
	callsPath = "GATEWAYD_TEST_SQLITE_CALLS_PATH"
	callsAt   = "GATEWAYD_TEST_SQLITE_CALLS_AT"
)

// killed is something that is done to the files of a database, mostly without SQLite, and that a test cuts before each
// system call that changes one.
type killed struct {
	prepare func(t *testing.T, path string)
	do      func(ctx context.Context, path string, arm func()) error // in the process
	check   func(t *testing.T, path string, done bool)               // what the kill left, and that it can be done again
	must    []string                                                 // calls that it has to be cut before
}

const killedRows = 200

var killedJobs = map[string]killed{
	"capture": {prepare: sound, do: loseAndCapture, check: capturesAreWhole, must: []string{"create manifest.json", "rename test.db" + captureWord, "fsync"}},
	"backup": {
		prepare: sound, check: backupsAreWhole, must: []string{"create manifest.json", "rename ", "pwrite "},
		do: func(ctx context.Context, path string, arm func()) error { arm(); return backUp(ctx, path) },
	},
	"restore": {
		prepare: backedUp, check: oldOrRestored, must: []string{"rename test.db"},
		do: func(ctx context.Context, path string, arm func()) error { arm(); return restoreIt(ctx, path) },
	},
	"repair": {
		prepare: damaged, check: mendable, must: []string{"pwrite test.db-wal", "fdatasync test.db", "unlink test.db.repair-scratch"},
		do: func(ctx context.Context, path string, arm func()) error {
			arm()
			_, err := Repair(ctx, repairOptions(path))
			return err
		},
	},
	"repair in rollback mode": {
		prepare: damagedInRollback, check: mendable, must: []string{"pwrite test.db-journal", "unlink test.db-journal", "pwrite test.db"},
		do: func(ctx context.Context, path string, arm func()) error {
			arm()
			_, err := Repair(ctx, repairOptions(path))
			return err
		},
	},
	"journal change": {
		prepare: sound, check: rowsStay, must: []string{"unlink test.db-wal", "pwrite test.db"},
		do: func(ctx context.Context, path string, arm func()) error {
			arm()
			_, err := SetJournalMode(ctx, path, "test.db", "delete")
			return err
		},
	},
}

// callsMain does a job and stands before the n-th call, or says all of them when n is 0.
func callsMain() bool {
	job, ok := killedJobs[os.Getenv(callsJob)]
	if !ok {
		return false
	}
	n, _ := strconv.ParseInt(os.Getenv(callsAt), 10, 64)
	stop, err := steps.BeforeCall(n, func(call string) { fmt.Println("at", call) })
	if err == nil {
		err = job.do(context.Background(), os.Getenv(callsPath), stop.Arm)
	} else {
		err = fmt.Errorf("no steps: %w", err)
	}
	fmt.Println("done", err)
	select {}
}

// Whatever call a process is killed before: nothing has a name that does not hold all of what the name says, the database
// is as it was or as it should be, and the next process does what is left to do.
func TestKilledBeforeAnyCall(t *testing.T) {
	for name, job := range killedJobs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			job.prepare(t, filepath.Join(base, "test.db"))
			calls, path := job.kill(t, name, base, 0)
			if last := calls[len(calls)-1]; strings.HasPrefix(last, "done no steps") {
				t.Skipf("NOT tested here: %s", last)
			} else if last != "done <nil>" {
				t.Fatal(last)
			}
			job.check(t, path, true)
			picked := pick(calls[:len(calls)-1])
			for _, n := range picked {
				said, path := job.kill(t, name, base, n)
				done := said[0] == "done <nil>" // the last calls are not in every run
				if !done && !strings.HasPrefix(said[0], "at ") {
					t.Fatalf("before call %d: %q", n, said)
				}
				job.check(t, path, done)
				if t.Failed() {
					t.Fatalf("killed before call %d of %d: %s", n, len(calls)-1, said[0])
				}
			}
			t.Logf("cut before %d of %d calls", len(picked), len(calls)-1)
			for _, start := range job.must {
				if !strings.Contains(strings.Join(calls, "\n"), "at "+start) {
					t.Errorf("it never came to %q:\n%s", start, strings.Join(calls, "\n"))
				}
			}
		})
	}
}

// pick takes each different call once, the last time it comes, and some of all that there are.
func pick(calls []string) (picked []int) {
	const some = 10
	last := map[string]int{}
	for i, call := range calls {
		last[call] = i
	}
	for i, call := range calls {
		if last[call] == i || i%(len(calls)/some+1) == 0 {
			picked = append(picked, i+1)
		}
	}
	return picked
}

// kill runs the job on a copy of base in a process that is killed before its n-th call, or when it is done, and gives
// what it said.
func (j killed) kill(t *testing.T, name, base string, n int) (said []string, path string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "test.db")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), callsJob+"="+name, callsPath+"="+path, callsAt+"="+strconv.Itoa(n))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said = append(said, lines.Text())
		if n > 0 || strings.HasPrefix(lines.Text(), "done") {
			break
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	if len(said) == 0 {
		t.Fatal("the process said nothing")
	}
	return said, path
}

// sound is a closed database with rows, some of them in the -wal alone.
func sound(t *testing.T, path string) {
	t.Helper()
	o := testOptions(t)
	o.Path = path
	o.Migrate = func(tx *Tx) error { return tx.Script(testSchema + searchSchema + "PRAGMA user_version=1;") }
	f, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	addRows(t, f, 1, killedRows)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func addRows(t *testing.T, f *File, from, to int) {
	t.Helper()
	mustWrite(t, f, Op{Label: "fill", Do: func(tx *Tx) error {
		return tx.Script(fmt.Sprintf(`INSERT INTO rows (uid, session, body) WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i+1 FROM n WHERE i < %d)
SELECT 'uid ' || i, 's' || (i %% 7), 'word ' || i || hex(zeroblob(60)) FROM n; INSERT INTO found(found) VALUES('rebuild')`, from, to))
	}})
}

func damaged(t *testing.T, path string) {
	t.Helper()
	sound(t, path)
	execBare(t, path, "")
	scribble(t, path, pageOf(t, path, "rows_session"))
	execBare(t, path, "")
}

func damagedInRollback(t *testing.T, path string) {
	t.Helper()
	sound(t, path)
	if _, err := SetJournalMode(t.Context(), path, "test.db", "delete"); err != nil {
		t.Fatal(err)
	}
	scribble(t, path, pageOf(t, path, "rows_session"))
}

func mendable(t *testing.T, path string, done bool) {
	t.Helper()
	r, err := Repair(t.Context(), repairOptions(path))
	if err != nil || done && r.Outcome != AlreadyHealthy {
		t.Errorf("the next repair: %+v, %v", r, err)
	}
	rowsStay(t, path, done)
	if left, _ := filepath.Glob(path + ".repair-scratch*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func rowsStay(t *testing.T, path string, _ bool) {
	t.Helper()
	if rows, verdict := integrityOf(t, path); rows != killedRows || verdict != "" {
		t.Errorf("%d rows, integrity %q", rows, verdict)
	}
}

func backups(path string) string { return filepath.Join(filepath.Dir(path), "backups") }

func backUp(ctx context.Context, path string) error {
	_, err := BackupFile(ctx, path, "test.db", BackupOptions{Dir: backups(path), Tables: []string{"rows"}})
	return err
}

// backupsAreWhole: what has a name is whole, the next backup is made, and nothing is left of the one that was cut.
func backupsAreWhole(t *testing.T, path string, done bool) {
	t.Helper()
	if err := os.MkdirAll(backups(path), 0o700); err != nil {
		t.Fatal(err)
	}
	made, err := Backups(backups(path))
	if err != nil || done && len(made) != 1 {
		t.Errorf("%d backups: %v", len(made), err)
	}
	if err := backUp(t.Context(), path); err != nil {
		t.Errorf("the next backup: %v", err)
	}
	again, err := Backups(backups(path))
	if err != nil || len(again) != len(made)+1 {
		t.Errorf("%d backups after %d: %v", len(again), len(made), err)
	}
	for _, b := range again {
		if err := b.Check(); err != nil || b.Manifest.Counts["rows"] != killedRows {
			t.Errorf("%s: %d rows, %v", b.Dir, b.Manifest.Counts["rows"], err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(backups(path), stageMark+"*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	rowsStay(t, path, done)
}

// backedUp is a backup, and a database that went on after it.
func backedUp(t *testing.T, path string) {
	t.Helper()
	sound(t, path)
	if err := backUp(t.Context(), path); err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.Context(), Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	addRows(t, f, killedRows+1, killedRows+50)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func restoreIt(ctx context.Context, path string) error {
	made, err := Backups(backups(path))
	if err == nil {
		_, err = Restore(ctx, RestoreOptions{Backup: made[0].Dir, Path: path, Label: "test.db"})
	}
	return err
}

func oldOrRestored(t *testing.T, path string, done bool) {
	t.Helper()
	rows, verdict := integrityOf(t, path)
	if rows != killedRows && (rows != killedRows+50 || done) || verdict != "" {
		t.Errorf("%d rows, integrity %q", rows, verdict)
	}
	if err := restoreIt(t.Context(), path); err != nil {
		t.Errorf("the next restore: %v", err)
	}
	rowsStay(t, path, done)
}

// loseAndCapture writes rows that only the -wal has, loses it, and captures what is still open.
func loseAndCapture(ctx context.Context, path string, arm func()) error {
	f, err := Open(ctx, Options{Path: path, Label: "test.db"})
	if err != nil {
		return err
	}
	for i := range 3 {
		if err := f.Write(ctx, insert(fmt.Sprintf("late %d", i))); err != nil {
			return err
		}
	}
	if err := os.Remove(path + "-wal"); err != nil {
		return err
	}
	arm()
	_, err = f.Capture(ctx)
	return err
}

// capturesAreWhole: a capture that has its name holds every row that was acknowledged.
func capturesAreWhole(t *testing.T, path string, done bool) {
	t.Helper()
	made, err := Captures(path)
	if err != nil || done && len(made) != 1 {
		t.Errorf("%d captures: %v", len(made), err)
	}
	named := 0
	all, _ := filepath.Glob(path + captureWord + "*")
	for _, dir := range all {
		if !strings.HasSuffix(dir, partialSuffix) {
			named++
		}
	}
	if named != len(made) {
		t.Errorf("%d captures have a name, %d are whole: %v", named, len(made), all)
	}
	for _, c := range made {
		copied, err := ReplayCapture(t.Context(), c, t.TempDir())
		if err != nil {
			t.Errorf("replay %s: %v", c.Dir, err)
			continue
		}
		if rows, verdict := integrityOf(t, copied); rows != killedRows+3 || verdict != "" {
			t.Errorf("the capture has %d rows, integrity %q", rows, verdict)
		}
	}
}
