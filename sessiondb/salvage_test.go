package sessiondb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// lossy is a store whose -wal holds what its file does not, and is then lost: rows, a new session, a compaction, a title,
// an end, usage. It gives the transcripts as they were.
func lossy(t *testing.T) (path string, old, young Lease, want map[string]string) {
	t.Helper()
	s, _ := testStore(t)
	path = s.file.Path()
	old = conversation(t, s)
	say(t, s, old, "one", "two", "three")
	must(t, s.AddUsage(t.Context(), UsageDelta{Session: old.Session, Model: "m", Counts: Counts{Calls: 2, Prompt: 10}}))
	must(t, s.WaitIndexed(t.Context()))
	if res, err := s.file.Checkpoint(t.Context()); err != nil || res.Done != res.Log {
		t.Fatal(res, err)
	}
	rows := say(t, s, old, "four", "five")
	kept, err := s.Transcript(t.Context(), old.Session)
	must(t, err)
	comp, err := s.AcquireCompaction(t.Context(), old.Session, self(t), 0)
	must(t, err)
	plan := []CompactedRow{{New: NewMessage{Role: "assistant", Content: "SUMMARY", Kind: KindSummary}}, {Keep: rows[1].ID}}
	if _, err := s.ArchiveAndCompact(t.Context(), Compaction{Lease: comp, Seen: See(kept), Rows: plan}); err != nil {
		t.Fatal(err)
	}
	must(t, s.SetTitle(t.Context(), old.Session, "a title"))
	must(t, s.AddUsage(t.Context(), UsageDelta{Session: old.Session, Model: "m", Counts: Counts{Calls: 1, Prompt: 7}}))
	made, err := s.CreateSession(t.Context(), NewSession{Key: "young", Prompt: "be young"})
	must(t, err)
	young, err = s.AcquireTurn(t.Context(), made.ID, self(t), 0)
	must(t, err)
	say(t, s, young, "first", "second")
	must(t, s.PutResponse(t.Context(), Response{ID: "resp_1", Session: made.ID, Owner: "k", Status: ResponseInProgress, CreatedAt: time.Now()}))
	newRun(t, s, made.ID, "run_1")
	_, err = s.AppendRun(t.Context(), "run_1", RunChange{Status: RunRunning, Turn: "t"}, []RunEvent{{Name: "run.started", Body: []byte(`{}`)}})
	must(t, err)
	want = map[string]string{old.Session: picture(t, s, old.Session), young.Session: picture(t, s, young.Session)}

	must(t, os.Remove(path+"-wal"))
	if _, err := s.Append(t.Context(), old, []NewMessage{{Role: "user", Content: "spooled", UID: "spooled"}}); !errors.Is(err, ErrSpooled) {
		t.Fatal(err)
	}
	must(t, s.Release(t.Context(), old))
	must(t, s.Close())
	return path, old, young, want
}

// picture is everything about the rows of a session.
func picture(t *testing.T, s *Store, session string) string {
	t.Helper()
	rows, err := s.Messages(t.Context(), session, MessageFilter{IncludeInactive: true})
	must(t, err)
	out := ""
	for _, m := range rows {
		out += fmt.Sprintf("%d %s %d %s %s %t %t\n", m.ID, m.UID, m.OriginID, m.Content, m.Kind, m.Active, m.Compacted)
	}
	return out
}

func TestALostLogComesBackAtTheNextOpen(t *testing.T) {
	path, old, young, want := lossy(t)
	s, log := healed(t, path)
	rows, err := s.Transcript(t.Context(), old.Session)
	must(t, err)
	equal(t, "transcript", strings.Join(contents(rows), " "), "SUMMARY five spooled")
	last := rows[len(rows)-1]
	equal(t, "rows of the old session", picture(t, s, old.Session), want[old.Session]+
		fmt.Sprintf("%d spooled %d spooled spooled true false\n", last.ID, last.OriginID))
	equal(t, "rows of the young session", picture(t, s, young.Session), want[young.Session])
	one, err := s.SessionByKey(t.Context(), "young")
	must(t, err)
	prompt, err := s.Prompt(t.Context(), one.PromptHash)
	must(t, err)
	equal(t, "young session", fmt.Sprintf("%t %d %s", one.ID == young.Session, one.MessageCount, prompt), "true 2 be young")
	titled, err := s.Session(t.Context(), old.Session)
	must(t, err)
	equal(t, "old session", fmt.Sprint(titled.Title+" ", titled.MessageCount), "a title 3")
	usage, err := s.Usage(t.Context(), old.Session)
	must(t, err)
	equal(t, "usage", fmt.Sprint(usage.Total.Calls, usage.Total.Prompt), "3 17")
	equal(t, "log", log.count("lost write-ahead log salvaged"), 1)
	equal(t, "folds", number(t, s, `SELECT count(*) FROM folds`), 1)
	_, err = s.Response(t.Context(), "k", "resp_1")
	must(t, err)
	events, err := s.RunEvents(t.Context(), "run_1", 0, 9)
	must(t, err)
	equal(t, "events of the run", len(events), 1)
	must(t, s.WaitIndexed(t.Context()))
	checkIndexes(t, s)
	audit, err := Verify(t.Context(), s, VerifyOptions{})
	must(t, err)
	for _, f := range audit.Findings {
		if f.Code != "roles_do_not_alternate" && f.Code != "turn_cut_off" { // as these rows were written
			t.Errorf("audit: %v", f)
		}
	}
	h := s.Health()
	if h.State != StateOK || len(h.Captures) != 1 || !h.Captures[0].Salvaged || h.Trouble() != "" {
		t.Errorf("health: %+v", h)
	}

	captures, err := sqlite.Captures(path)
	must(t, err)
	before := number(t, s, `SELECT total_changes()`)
	for _, dry := range []bool{true, false} {
		out, err := s.Salvage(t.Context(), captures[0], dry)
		must(t, err)
		equal(t, "again", fmt.Sprint(out.Sessions, out.Messages, out.Changed, out.Usage, out.Prompts), "0 0 0 0 0")
	}
	equal(t, "changes", number(t, s, `SELECT total_changes()`), before)
	if left, _ := filepath.Glob(captures[0].Dir + "/scratch*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// What was said after the loss stays as it is, and what was lost comes behind it, once, live, and in its own order.
func TestASessionThatWentOnKeepsItsOwnAndGetsWhatItLost(t *testing.T) {
	path, old, young, _ := lossy(t)
	s, _ := openStore(t, path) // without healing
	l, err := s.AcquireTurn(t.Context(), old.Session, self(t), 0)
	must(t, err)
	say(t, s, l, "newer")
	captures, err := sqlite.Captures(path)
	must(t, err)
	busy, err := s.Salvage(t.Context(), captures[0], false)
	must(t, err)
	equal(t, "while a turn runs", fmt.Sprint(busy.Busy, busy.Done, busy.Sessions), fmt.Sprint([]string{old.Session}, false, 1))
	must(t, s.Release(t.Context(), l))
	dry, err := s.Salvage(t.Context(), captures[0], true)
	must(t, err)
	out, err := s.Salvage(t.Context(), captures[0], false)
	must(t, err)
	equal(t, "salvaged", fmt.Sprint(out.Messages, out.Parted, out.Done, dry.Messages, dry.Done), fmt.Sprint(4, []string{old.Session}, true, 4, false))
	rows, err := s.Transcript(t.Context(), old.Session)
	must(t, err)
	equal(t, "transcript", strings.Join(contents(rows), " "), "one two three spooled newer four five")
	equal(t, "young", number(t, s, `SELECT count(*) FROM messages WHERE session_id = ?`, young.Session), 2)
	shown, err := s.Messages(t.Context(), old.Session, MessageFilter{IncludeCompacted: true})
	must(t, err)
	equal(t, "shown", strings.Join(contents(shown), " "), "one two three spooled newer four five")
	must(t, s.WaitIndexed(t.Context()))
	checkIndexes(t, s)
}

// After a replaced main file nobody decides by himself.
func TestAReplacedFileIsNotSalvagedWithoutAPerson(t *testing.T) {
	s, _ := testStore(t)
	path := s.file.Path()
	l := conversation(t, s)
	say(t, s, l, "in the old file")
	damages["replaced"](t, s)
	must(t, os.Remove(path+"-wal"))
	if _, err := s.Append(t.Context(), l, []NewMessage{{Role: "user", Content: "spooled"}}); !errors.Is(err, ErrSpooled) {
		t.Fatal(err)
	}
	must(t, s.Close())
	again, _ := healed(t, path)
	equal(t, "rows", number(t, again, `SELECT count(*) FROM messages WHERE content = 'in the old file'`), 0)
	rows, err := again.Transcript(t.Context(), l.Session)
	must(t, err)
	equal(t, "the spooled row is back, in a session made anew", strings.Join(contents(rows), " "), "spooled")
}

// Whoever happens to open the store may be gone a moment later; the next one writes into it.
func TestWhatWasLostComesBackAlsoWhenTheOpenerStopsWaiting(t *testing.T) {
	path, _, young, want := lossy(t)
	s, log := openStore(t, path)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	s.heal(gone)
	if got := picture(t, s, young.Session); got != want[young.Session] {
		t.Errorf("the session is\n%s\nwant\n%s\n%s", got, want[young.Session], log.text())
	}
}

// A capture that is not what its manifest says, or has no database, is refused in words, and nothing changes.
func TestACaptureThatCannotBeSalvagedSaysWhy(t *testing.T) {
	path, _, _, _ := lossy(t)
	captures, err := sqlite.Captures(path)
	must(t, err)
	c := captures[0]
	s, _ := openStore(t, path)
	before := number(t, s, `SELECT count(*) FROM messages`)
	large := c
	large.Manifest.Main.Mode = sqlite.MainHeaderOnly
	for name, bad := range map[string]sqlite.Capture{"no copy": large, "gone": {Dir: c.Dir + "-gone"}} {
		if _, err := s.Salvage(t.Context(), bad, false); problem.KindOf(err) == problem.Internal || !strings.Contains(err.Error(), bad.Dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, os.WriteFile(filepath.Join(c.Dir, "state.db-wal"), []byte("rotten"), 0o600))
	if _, err := s.Salvage(t.Context(), c, false); !problem.Is(err, problem.Damaged) {
		t.Errorf("rotten: %v", err)
	}
	equal(t, "rows", number(t, s, `SELECT count(*) FROM messages`), before)
	if c.Salvaged() {
		t.Error("it is marked as salvaged")
	}
}
