package sessiondb

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/problem"
)

// thirdSchema makes the file one of version 3, with a run and a known request as that release would have written them.
func thirdSchema(t *testing.T, s *Store) {
	t.Helper()
	exchanges(2)(t, s)
	err := bare(t, s.File().Path()).Exec(`DROP TRIGGER messages_changed; DROP TRIGGER messages_removed; ALTER TABLE sessions DROP COLUMN version; DROP TABLE run_events; DROP TABLE responses; DROP INDEX runs_recent; DROP INDEX runs_session;
ALTER TABLE runs DROP COLUMN owner; ALTER TABLE runs DROP COLUMN uid; ALTER TABLE runs DROP COLUMN response; ALTER TABLE runs DROP COLUMN model; ALTER TABLE runs DROP COLUMN forgotten;
ALTER TABLE idempotency DROP COLUMN headers; ALTER TABLE idempotency DROP COLUMN session_id; ALTER TABLE idempotency DROP COLUMN uid; ALTER TABLE idempotency DROP COLUMN holder;
INSERT INTO idempotency(scope, key, request, created_at, expires_at) VALUES('a', 'k', 'r', 1, 2);
INSERT INTO runs(id, session_id, status, created_at, ended_at) VALUES('run_old', 's', 'completed', 1000000, 2000000); PRAGMA user_version = 3`)
	if err != nil {
		t.Fatal(err)
	}
}

// A store of the release before is taken over with everything in it.
func TestAStoreOfVersionThreeIsTakenOver(t *testing.T) {
	s, _ := testStore(t)
	thirdSchema(t, s)
	path := s.File().Path()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, _ = openStore(t, path)
	defer s.Close()
	equal(t, "version", number(t, s, `PRAGMA user_version`), schemaVersion)
	equal(t, "messages", number(t, s, `SELECT count(*) FROM messages`), 8)
	equal(t, "runs", number(t, s, `SELECT count(*) FROM runs WHERE id = 'run_old' AND owner = '' AND forgotten = 0`), 1)
	equal(t, "known requests", number(t, s, `SELECT count(*) FROM idempotency WHERE holder = ''`), 1)
	if _, err := s.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	equal(t, "runs of a deleted session", number(t, s, `SELECT count(*) FROM runs`), 0)
}

// newRun is an open run of a session, whose message is not accepted any more.
func newRun(t *testing.T, s *Store, session, id string) {
	t.Helper()
	w := Waiting{UID: id + "-asked", Session: session, Mode: InboxTurn, Source: "api", Content: "x"}
	_, err := s.Accept(t.Context(), w, 99, &NewRun{Run: Run{ID: id, Session: session, Owner: "k", UID: w.UID, Status: RunQueued, CreatedAt: time.Now()}})
	must(t, err)
	_, err = s.Withdraw(t.Context(), w.UID)
	must(t, err)
}

// A run's events are numbered without gaps, it has one end, and nothing comes after that.
func TestARunEndsOnce(t *testing.T) {
	s, _ := testStore(t)
	exchanges(1)(t, s)
	newRun(t, s, "s", "run_1")
	for i := range 3 {
		out, err := s.AppendRun(t.Context(), "run_1", RunChange{Status: RunRunning, Turn: "t"}, []RunEvent{{Name: "a", Body: []byte(`{}`)}, {Name: "b", Body: []byte(`{}`)}})
		must(t, err)
		equal(t, "numbers", out[1].Seq, int64(2*i+2))
	}
	end := RunChange{Status: RunCompleted, Result: []byte(`{"output":"x"}`), Ended: true}
	_, err := s.AppendRun(t.Context(), "run_1", end, []RunEvent{{Name: "run.completed", Body: []byte(`{}`)}})
	must(t, err)
	for _, again := range []RunChange{end, {Status: RunFailed, Ended: true}, {}} {
		if _, err := s.AppendRun(t.Context(), "run_1", again, []RunEvent{{Name: "late", Body: []byte(`{}`)}}); !errors.Is(err, ErrRunEnded) {
			t.Errorf("%+v after its end: %v", again, err)
		}
	}
	run, err := s.Run(t.Context(), "run_1")
	must(t, err)
	equal(t, "run", fmt.Sprint(run.Status, run.Turn, run.EndedAt != nil, run.StartedAt != nil), "completedttrue true")
	events, err := s.RunEvents(t.Context(), "run_1", 4, 100)
	must(t, err)
	equal(t, "events behind the fourth", len(events), 3)
}

// A run that shows without end keeps its newest events and says how many are gone.
func TestARunKeepsABoundedNumberOfEvents(t *testing.T) {
	s, _ := testStore(t)
	exchanges(1)(t, s)
	newRun(t, s, "s", "run_1")
	batch := make([]RunEvent, 500)
	for i := range batch {
		batch[i] = RunEvent{Name: "message.delta", Body: []byte(`{}`)}
	}
	for range (MaxRunEvents + runTrim) / len(batch) {
		_, err := s.AppendRun(t.Context(), "run_1", RunChange{}, batch)
		must(t, err)
	}
	run, err := s.Run(t.Context(), "run_1")
	must(t, err)
	equal(t, "forgotten", run.Forgotten, int64(runTrim))
	first, err := s.RunEvents(t.Context(), "run_1", 0, 1)
	must(t, err)
	equal(t, "first that is left", first[0].Seq, run.Forgotten+1)
	equal(t, "kept", number(t, s, `SELECT count(*) FROM run_events`) < MaxRunEvents+runTrim, true)
}

// Runs and responses pass by age and by number, open runs do not, and what was said stays.
func TestRunsAndResponsesPass(t *testing.T) {
	s, _ := testStore(t)
	exchanges(1)(t, s)
	for i := range 4 {
		id := fmt.Sprint(i)
		newRun(t, s, "s", "run_"+id)
		must(t, s.PutResponse(t.Context(), Response{ID: "resp_" + id, Session: "s", Status: ResponseInProgress, CreatedAt: time.Now().Add(time.Duration(i) * time.Second)}))
		if i > 0 {
			_, err := s.AppendRun(t.Context(), "run_"+id, RunChange{Status: RunCompleted, Ended: true}, []RunEvent{{Name: "e", Body: []byte(`{}`)}})
			must(t, err)
		}
	}
	write(t, s, `UPDATE runs SET created_at = created_at + rowid, ended_at = 5 WHERE id = 'run_1'`)
	gone, err := s.KeepRuns(t.Context(), time.Hour, 1)
	must(t, err)
	equal(t, "runs gone", gone, 2)
	equal(t, "open run", number(t, s, `SELECT count(*) FROM runs WHERE id = 'run_0'`), 1)
	equal(t, "events", number(t, s, `SELECT count(*) FROM run_events`), 1)
	gone, err = s.KeepResponses(t.Context(), time.Hour, 1)
	must(t, err)
	equal(t, "responses gone", gone, 3)
	equal(t, "left", number(t, s, `SELECT count(*) FROM responses WHERE id = 'resp_3'`), 1)
	equal(t, "rows", number(t, s, `SELECT count(*) FROM messages`), 4)
}

// Two answers to one response never share a session: the second is told to branch, and so is one behind which something else was said.
func TestOnlyOneResponseGoesOnInASession(t *testing.T) {
	s, _ := testStore(t)
	exchanges(1)(t, s)
	last := number(t, s, `SELECT max(id) FROM messages`)
	first := Response{ID: "resp_1", Session: "s", Owner: "k", Status: ResponseInProgress, CreatedAt: time.Now()}
	must(t, s.PutResponse(t.Context(), first))
	must(t, s.EndResponse(t.Context(), Response{ID: "resp_1", Status: ResponseCompleted, Turn: "t", Row: last}))
	must(t, s.EndResponse(t.Context(), Response{ID: "resp_1", Status: ResponseFailed, Turn: "t", Row: last}))
	first, err := s.Response(t.Context(), "k", "resp_1")
	must(t, err)
	equal(t, "status", first.Status, ResponseCompleted)
	for i, want := range []bool{true, false} {
		ok, err := s.ContinueResponse(t.Context(), Response{ID: fmt.Sprint("resp_2", i), Session: "s", Owner: "k", Previous: "resp_1", Status: ResponseInProgress, CreatedAt: time.Now()}, first)
		must(t, err)
		equal(t, "takes the place", ok, want)
	}
	must(t, s.DeleteResponse(t.Context(), "k", "resp_20"))
	l, err := s.AcquireTurn(t.Context(), "s", self(t), 0)
	must(t, err)
	say(t, s, l, "something else")
	ok, err := s.ContinueResponse(t.Context(), Response{ID: "resp_3", Session: "s", Owner: "k", Previous: "resp_1", Status: ResponseInProgress, CreatedAt: time.Now()}, first)
	must(t, err)
	equal(t, "behind what somebody said", ok, false)
}

// What another key made does not exist.
func TestResponsesAreTheirOwners(t *testing.T) {
	s, _ := testStore(t)
	exchanges(1)(t, s)
	must(t, s.PutResponse(t.Context(), Response{ID: "resp_1", Session: "s", Owner: "k", Status: ResponseInProgress, CreatedAt: time.Now()}))
	if _, err := s.Response(t.Context(), "other", "resp_1"); !problem.Is(err, problem.NotFound) {
		t.Errorf("read: %v", err)
	}
	if err := s.DeleteResponse(t.Context(), "other", "resp_1"); !problem.Is(err, problem.NotFound) {
		t.Errorf("deleted: %v", err)
	}
}

// A fork has what was said up to its row, also where a compaction came since, and its own life from there.
func TestAForkBeginsWithWhatWasSaid(t *testing.T) {
	s, _ := testStore(t)
	exchanges(3)(t, s)
	rows, err := s.Transcript(t.Context(), "s")
	must(t, err)
	check := func(when string, upTo int64, want int) {
		t.Helper()
		fork, err := s.Fork(t.Context(), "s", upTo, NewSession{})
		must(t, err)
		got, err := s.Transcript(t.Context(), fork.ID)
		must(t, err)
		equal(t, when, strings.Join(contents(got), "|"), strings.Join(contents(rows[:want]), "|"))
		equal(t, when+", parent and count", fmt.Sprint(fork.Parent, fork.MessageCount), fmt.Sprint("s", want))
		equal(t, when+", calls", string(got[1].ToolCalls), string(rows[1].ToolCalls))
	}
	check("whole", 0, 12)
	check("in the middle", rows[7].ID, 8)
	l, err := foldingOf(t.Context(), s)
	must(t, err)
	must(t, foldFirst(t.Context(), s, l))
	check("in the middle, after a compaction", rows[7].ID, 8)
	must(t, s.Release(t.Context(), l))
	if _, err := s.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Found(t.Context(), NewSession{ID: "x"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Found(t.Context(), NewSession{ID: "x"}, nil); !problem.Is(err, problem.Conflict) {
		t.Errorf("twice: %v", err)
	}
}

// A person's words about a session hold: archived, pinned, ended and opened again.
func TestAPersonSetsWhatASessionIs(t *testing.T) {
	s, _ := testStore(t)
	exchanges(1)(t, s)
	yes, no := true, false
	must(t, s.SetFlags(t.Context(), "s", SessionFlags{Archived: &yes, Pinned: &yes}))
	must(t, s.SetFlags(t.Context(), "s", SessionFlags{Pinned: &no}))
	_, err := s.EndSession(t.Context(), "s", EndClosed)
	must(t, err)
	must(t, s.Reopen(t.Context(), "s"))
	one, err := s.Session(t.Context(), "s")
	must(t, err)
	equal(t, "session", fmt.Sprint(one.Archived, one.Pinned, one.EndedAt), "true false <nil>")
	_, err = s.EndSession(t.Context(), "s", EndCompression)
	must(t, err)
	if err := s.Reopen(t.Context(), "s"); !problem.Is(err, problem.Conflict) {
		t.Errorf("what a compaction continued was opened: %v", err)
	}
	if err := s.SetFlags(t.Context(), "nobody", SessionFlags{Pinned: &yes}); !errors.Is(err, ErrSessionMissing) {
		t.Errorf("flags of nobody: %v", err)
	}
}
