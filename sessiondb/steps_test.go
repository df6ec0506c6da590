package sessiondb

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gatewayd/internal/peer"
	"gatewayd/internal/sqlite"
	"gatewayd/internal/sqlite/steps"
)

// work is something that a process does to a store, and that a test ends before each of its statements in turn.
type work struct {
	name    string
	prepare func(t *testing.T, s *Store)                       // what the file holds before
	begin   func(ctx context.Context, s *Store) (Lease, error) // in the process, before the statements that count; may be nil
	do      func(ctx context.Context, s *Store, l Lease) error // in the process; nil: the opening itself
	whole   bool                                               // one transaction: the file is as before or as after, never between
	between func(t *testing.T, path string)                    // what holds wherever it was cut, beyond integrity and counters
	must    []string                                           // beginnings of statements that it has to be cut before
	strides []int                                              // every so many steps in turn, where they repeat; none is every one, as in a whole run
	calls   bool                                               // cut before each system call that changes a file instead of each statement
	journal string                                             // mode of the file; "": what the program chooses
	copies  bool                                               // keep a copy before an upgrade, as the daemon does
}

// stepRows makes some twenty steps of a long deletion. Each has the same few statements, so that strides of seven and six in
// turn come to every one of them.
const stepRows = 100

var whole = flag.Bool("all", false, "kill before each step of every work (make whole)")

// childSteps does the work that the environment names and stops for good before its n-th step, saying which one. It
// holds the locks it has then, until it is killed.
func childSteps() {
	n, err := strconv.ParseInt(os.Getenv("SESSIONDB_STEP"), 10, 64)
	w, found := findWork(os.Getenv("SESSIONDB_SESSION"))
	if err != nil || !found {
		childFail(fmt.Errorf("no such work: %v", err))
	}
	say := func(what string) {
		if n > 0 {
			fmt.Println("at", what)
		}
	}
	stop := &steps.Stop{}
	if w.calls {
		if stop, err = steps.BeforeCall(n, say); err != nil {
			childFail(err)
		}
	} else {
		stop = steps.Before(n, say)
	}
	if w.do == nil {
		stop.Arm()
	}
	s := childStore()
	s.pace = func(int, time.Duration) int { return stepRows } // on a busy machine the steps, and with them the statements, are others each time
	if w.do != nil {
		ctx := context.Background()
		var l Lease
		if w.begin != nil {
			if l, err = w.begin(ctx, s); err != nil {
				childFail(err)
			}
		}
		stop.Arm()
		if err := w.do(ctx, s, l); err != nil {
			childFail(err)
		}
	}
	fmt.Println("done")
	select {}
}

func childFail(err error) {
	fmt.Println("error", err)
	os.Exit(1)
}

func findWork(name string) (work, bool) {
	i := slices.IndexFunc(killable, func(w work) bool { return w.name == name })
	if i < 0 {
		return work{}, false
	}
	return killable[i], true
}

// turnOf takes the turn lease of the session that the works are done to.
func turnOf(ctx context.Context, s *Store) (Lease, error) {
	h, err := SelfHolder("child")
	if err != nil {
		return Lease{}, err
	}
	return s.TryTurn(ctx, "s", h, 0)
}

// A process that is killed before any statement of what it does leaves a sound file. What is one transaction is done or
// not done; what comes in pieces is finished by whoever does it again, with the same result.
func TestKilledBeforeEachStatement(t *testing.T) {
	if raceEnabled {
		t.Skip("hundreds of processes, each with one goroutine that matters: NOT killed under the race detector")
	}
	for _, w := range killable {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			base := t.TempDir()
			if w.prepare != nil {
				s, _ := openWith(t, Options{Path: filepath.Join(base, "state.db"), Journal: sqlite.JournalConfig{Mode: w.journal}})
				w.prepare(t, s)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			w.killAtEach(t, base)
		})
	}
}

func (w work) killAtEach(t *testing.T, base string) {
	path := copyStore(t, base)
	before := state(t, path)
	w.cutBefore(t, path, 0)
	if w.between != nil {
		w.between(t, path)
	}
	after := state(t, path)
	var states, cut []string
	strides := w.strides
	if *whole || len(strides) == 0 {
		strides = []int{1}
	}
	for n := 1; ; n += strides[len(cut)%len(strides)] {
		path := copyStore(t, base)
		said := w.cutBefore(t, path, n)
		if said == "done" {
			break
		}
		got := state(t, path)
		states, cut = append(states, got), append(cut, said)
		if w.between != nil {
			w.between(t, path)
		}
		w.again(t, path, got == before)
		if now := state(t, path); now != after {
			t.Errorf("killed before %q and done again, the file is not as if it had never been killed:\n%s", said, now)
		}
	}
	t.Logf("%s was cut before %d steps", w.name, len(cut))
	w.judge(t, cut, states, before, after)
}

// cutBefore runs the work in a process that is killed before its n-th step, or after its last one ("done"); n 0 means
// after its last one.
func (w work) cutBefore(t *testing.T, path string, n int) string {
	t.Helper()
	env := []string{"SESSIONDB_STEP=" + strconv.Itoa(n)}
	if w.copies {
		env = append(env, "SESSIONDB_BACKUPS="+copiesOf(path))
	}
	c := startChild(t, "steps", path, w.name, env...)
	said := c.Next()
	c.Kill()
	if at, ok := strings.CutPrefix(said, "at "); ok {
		return at
	}
	if said != "done" && w.calls && n == 0 {
		t.Skipf("a kill between system calls is NOT tested: %s", said)
	}
	if said != "done" {
		t.Fatalf("before step %d: %s", n, said)
	}
	return said
}

// again opens the file, as the next process does, checks that it is sound, and does what is still to be done.
func (w work) again(t *testing.T, path string, undone bool) {
	t.Helper()
	s, _ := openStore(t, path)
	defer s.Close()
	sound(t, s)
	if w.do == nil || w.whole && !undone {
		return
	}
	var l Lease
	var err error
	if w.begin != nil {
		l, err = w.begin(t.Context(), s) // the dead process' lease is taken at once
	}
	if err == nil {
		err = w.do(t.Context(), s, l)
	}
	if err != nil {
		t.Errorf("the next process: %v", err)
	}
	sound(t, s)
}

// sound is what holds for every store at any time.
func sound(t *testing.T, s *Store) {
	t.Helper()
	checkIndexes(t, s)
	equal(t, "wrong counters", number(t, s, `SELECT count(*) FROM sessions WHERE message_count <> (SELECT count(*) FROM messages WHERE session_id = sessions.id AND active = 1) AND end_reason IS NOT '`+EndDeleted+`'`), 0)
	equal(t, "rows of no session", number(t, s, `SELECT count(*) FROM messages WHERE session_id NOT IN (SELECT id FROM sessions)`), 0)
	err := s.file.Read(t.Context(), func(c *sqlite.Conn) error {
		lookAnew(c)
		var verdict string
		_, err := c.Row(`PRAGMA integrity_check`, nil, &verdict)
		equal(t, "integrity", verdict, "ok")
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// judge compares what was found with what there was and what there should be, and sees that the test tested.
func (w work) judge(t *testing.T, cut, states []string, before, after string) {
	t.Helper()
	if before == after {
		t.Error("the work changes nothing")
	}
	changed := false
	for i, got := range states {
		if w.whole && got != before && got != after {
			t.Errorf("killed before %q, the file is neither as before nor as after:\n%s", cut[i], got)
		}
		if changed && got == before {
			t.Errorf("killed before %q, the file is as before again", cut[i])
		}
		changed = changed || got != before
	}
	must := w.must
	if !w.calls {
		must = append([]string{"BEGIN IMMEDIATE", "COMMIT"}, must...)
	}
	for _, start := range must {
		if !slices.ContainsFunc(cut, func(sql string) bool { return strings.HasPrefix(sql, start) }) {
			t.Errorf("it was never cut before %q", start)
		}
	}
}

// A second process that opens the file while the first one makes its schema waits, and finishes what a killed one left.
func TestSecondOpenerFinishesAKilledMigration(t *testing.T) {
	for _, start := range []string{"CREATE TABLE messages", "CREATE VIRTUAL TABLE messages_tri", "COMMIT"} {
		t.Run(start, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "state.db")
			opening, _ := findWork("open")
			var first *peer.Process
			for n := 1; first == nil; n++ {
				c := startChild(t, "steps", path, opening.name, "SESSIONDB_STEP="+strconv.Itoa(n))
				if said := c.Next(); strings.HasPrefix(said, "at "+start) {
					first = c
				} else if c.Kill(); said == "done" {
					t.Fatalf("nothing begins with %q", start)
				}
			}
			second := startChild(t, "wait", path, "")
			equal(t, "second process", second.Next(), "begins")
			first.Kill()
			equal(t, "second process", second.Next(), "open")
			second.Kill()
			s, _ := openStore(t, path)
			sound(t, s)
		})
	}
}

// childWait says when it asks for the write lock, and when it has the store open.
func childWait() {
	var said atomic.Bool
	steps.Each(func(sql string) {
		if strings.HasPrefix(sql, "BEGIN IMMEDIATE") && !said.Swap(true) {
			fmt.Println("begins")
		}
	})
	childStore()
	fmt.Println("open")
	select {}
}

// copyStore makes a copy of a closed store and gives its path.
func copyStore(t *testing.T, base string) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join(base, "state.db*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, from := range files {
		if strings.HasSuffix(from, "-shm") {
			continue // made anew from the -wal
		}
		src, err := os.Open(from)
		if err != nil {
			t.Fatal(err)
		}
		dst, err := os.Create(filepath.Join(dir, filepath.Base(from)))
		if err == nil {
			_, err = io.Copy(dst, src)
		}
		if src.Close(); err != nil {
			t.Fatal(err)
		}
		if err := dst.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "state.db")
}

// stateQueries is what the file says, without times and made-up names.
var stateQueries = []string{
	`SELECT 'sessions', id, message_count, rewind_count, coalesce(end_reason, '') FROM sessions ORDER BY id`,
	`SELECT 'messages', id, session_id, origin_id, role, content, coalesce(kind, ''), active, compacted FROM messages ORDER BY id`,
	`SELECT 'turns', session_id, turn_id FROM turns ORDER BY session_id`,
	`SELECT 'inbox', uid, session_id, content FROM inbox ORDER BY id`,
	`SELECT 'runs', id, status, (SELECT count(*) FROM run_events e WHERE e.run_id = runs.id) FROM runs ORDER BY id`,
	`SELECT 'folds', summary, session_id, json_array_length(absorbed) FROM folds ORDER BY summary`,
	`SELECT 'meta', k, iif(k LIKE 'deleted:%', '', v) FROM meta ORDER BY k`, // a deletion's mark holds its time
	`SELECT 'documents', (SELECT count(*) FROM messages_fts_docsize), (SELECT count(*) FROM messages_tri_docsize)`,
}

// state reads a file as a foreign program does, so that looking repairs and migrates nothing.
func state(t *testing.T, path string) string {
	t.Helper()
	db, err := sqlite.OpenBare(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var out strings.Builder
	ask := func(sql string) {
		st, _, err := db.Prepare(sql)
		if err != nil {
			fmt.Fprintln(&out, err) // a schema that is only half there
			return
		}
		defer st.Close()
		for st.Step() {
			for i := range st.ColumnCount() {
				out.WriteString(st.ColumnText(i) + " ")
			}
			out.WriteByte('\n')
		}
		if err := st.Err(); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	ask(`SELECT 'schema', (SELECT count(*) FROM sqlite_schema), user_version FROM pragma_user_version`)
	if !strings.HasPrefix(out.String(), "schema 0 ") {
		for _, sql := range stateQueries {
			ask(sql)
		}
	}
	return out.String()
}
