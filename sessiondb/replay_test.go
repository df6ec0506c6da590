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

	"gatewayd/internal/sqlite"
)

// healed opens the store the way the daemon does.
func healed(t testing.TB, path string) (*Store, *logged) {
	t.Helper()
	return openWith(t, Options{Path: path, Heal: true})
}

// lostTurn says "before" in a new session, loses the -wal, and lets the turn end: what it says from then on is spooled.
func lostTurn(t *testing.T, s *Store, texts ...string) Lease {
	t.Helper()
	l := conversation(t, s)
	say(t, s, l, "before")
	if _, err := s.file.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, os.Remove(s.file.Path()+"-wal"))
	for _, text := range texts {
		if _, err := s.Append(t.Context(), l, []NewMessage{{Role: "user", Content: text}, {Role: "assistant", Content: text + "!", Kind: "closing"}}); !errors.Is(err, ErrSpooled) {
			t.Fatal(err)
		}
	}
	must(t, s.Release(t.Context(), l))
	return l
}

func TestReplayBringsSpooledRowsBackOnceAndInOrder(t *testing.T) {
	s, _ := testStore(t)
	path := s.file.Path()
	l := lostTurn(t, s, "one", "two", "three")
	must(t, s.Close())
	saved, err := os.ReadFile(s.spool.file(spoolOpen))
	must(t, err)

	again, _ := healed(t, path)
	want := "before one one! two two! three three!"
	check := func() {
		t.Helper()
		rows, err := again.Transcript(t.Context(), l.Session)
		must(t, err)
		equal(t, "transcript", strings.Join(contents(rows), " "), want)
	}
	check()
	rows, _ := again.Transcript(t.Context(), l.Session)
	equal(t, "kinds", rows[1].Kind+" "+rows[2].Kind, KindSpooled+" closing")
	if rows[1].CreatedAt.After(rows[6].CreatedAt) {
		t.Error("replayed rows lost their time")
	}
	equal(t, "spool", spoolCount(t, again).Rows, 0)
	equal(t, "counter", number(t, again, `SELECT message_count FROM sessions WHERE id = ?`, l.Session), 7)
	if _, err := again.TryTurn(t.Context(), l.Session, self(t), 0); err != nil {
		t.Errorf("the lease of the turn that ended holds up the next one: %v", err)
	}

	must(t, os.WriteFile(again.spool.file(spoolOpen), saved, 0o600)) // as if the replay had been killed before it removed the file
	out, err := again.Replay(t.Context(), false)
	must(t, err)
	equal(t, "second replay", fmt.Sprint(out.Stored, out.Already, len(out.Kept)), "0 6 0")
	check()
	checkIndexes(t, again)
}

// A replay that fails has not thrown away what it read.
func TestASpoolFileOutlivesAReplayThatFails(t *testing.T) {
	s, _ := testStore(t)
	path := s.file.Path()
	lostTurn(t, s, "one", "two")
	must(t, s.Close())
	again, _ := openStore(t, path)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := again.Replay(gone, false); err == nil {
		t.Fatal("a replay without time did not fail")
	}
	equal(t, "rows that wait", spoolCount(t, again).Rows, 4)
	out, err := again.Replay(t.Context(), false)
	must(t, err)
	equal(t, "stored", out.Stored, 4)
}

// The rules of a session hold for what comes back: one that is gone is made anew, one that has ended keeps its end, one
// that somebody holds is left to them. Nothing is dropped.
func TestReplayFollowsTheRulesOfASession(t *testing.T) {
	s, _ := testStore(t)
	path := s.file.Path()
	must(t, s.spool.make())
	put := func(session spooledSession, token string, texts ...string) {
		t.Helper()
		rows := make([]spooledRow, len(texts))
		for i, text := range texts {
			rows[i] = spooledRow{UID: newUID(time.Now()), Role: "user", Content: text, CreatedAt: time.Now()}
		}
		must(t, s.spool.put(t.Context(), &spooled{At: time.Now(), Session: session, Token: token, Rows: rows}))
	}
	held := conversation(t, s)
	ended, err := s.CreateSession(t.Context(), NewSession{})
	must(t, err)
	_, err = s.EndSession(t.Context(), ended.ID, EndClosed)
	must(t, err)
	put(spooledSession{ID: "gone", Key: "k", Title: "a title", Prompt: "be brief", Source: "api", Parent: "gone too"}, "t", "first", "second")
	put(spooledSession{ID: ended.ID}, "t", "too late")
	put(spooledSession{ID: held.Session}, "another token", "must wait")
	put(spooledSession{ID: held.Session}, held.Token, "behind it")
	file, err := os.OpenFile(s.spool.file(spoolOpen), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = file.WriteString(`{"sum":"00","record":{"rotten":true}}` + "\n")
	must(t, errors.Join(err, file.Close()))

	out, err := s.Replay(t.Context(), false)
	must(t, err)
	equal(t, "replayed", fmt.Sprint(out.Stored, out.Waiting, len(out.Kept)), "2 2 2")
	made, err := s.SessionByKey(t.Context(), "k")
	must(t, err)
	prompt, err := s.Prompt(t.Context(), made.PromptHash)
	must(t, err)
	equal(t, "made anew", fmt.Sprintf("%s/%s/%s/%d/%s/%s", made.ID, made.Title, made.Source, made.MessageCount, made.Parent, prompt), "gone/a title/api/2//be brief")
	if !strings.Contains(out.Kept[0].Reason, "has ended") || !strings.Contains(out.Kept[1].Reason, "checksum") {
		t.Errorf("reasons: %+v", out.Kept)
	}
	state := spoolCount(t, s)
	equal(t, "left", fmt.Sprint(state.Kept, state.Rows >= 2), "2 true")

	must(t, s.Release(t.Context(), held))
	next, err := s.TryTurn(t.Context(), held.Session, self(t), 0) // the next turn begins with what had to wait
	must(t, err)
	must(t, s.Release(t.Context(), next))
	rows, err := s.Transcript(t.Context(), held.Session)
	must(t, err)
	equal(t, "after the holder left", strings.Join(contents(rows), ","), "must wait,behind it")
	equal(t, "kept once", fmt.Sprint(spoolCount(t, s).Kept, spoolCount(t, s).Rows), "2 0")

	write(t, s, `UPDATE sessions SET ended_at = NULL, end_reason = NULL WHERE id = ?`, ended.ID)
	last, err := s.Replay(t.Context(), true)
	must(t, err)
	equal(t, "kept ones tried again", fmt.Sprint(last.Stored, len(last.Kept)), "1 1")
	equal(t, "still kept", spoolCount(t, s).Kept, 1)
	if _, err := os.Stat(path + ".spool"); err != nil {
		t.Error(err)
	}
}

// A turn does not begin, and does not go on, before what was said earlier in it is stored.
func TestATurnWaitsForWhatWasSaidBeforeIt(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	r := &spooled{At: time.Now(), Session: spooledSession{ID: l.Session}, Token: l.Token, Rows: []spooledRow{{UID: "early", Role: "user", Content: "early"}}}
	must(t, s.spool.put(t.Context(), r))
	say(t, s, l, "late")
	r.Rows[0].UID, r.Rows[0].Content = "later", "later"
	must(t, s.spool.put(t.Context(), r))
	must(t, s.Release(t.Context(), l))
	if _, err := s.TryTurn(t.Context(), l.Session, self(t), 0); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Transcript(t.Context(), l.Session)
	must(t, err)
	equal(t, "order", strings.Join(contents(rows), " "), "early late later")
}

// Processes that replay the same spool at once, and are killed at it, store each row once and in its order.
func TestAReplayThatIsKilledIsBegunAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, _ := openStore(t, path)
	made, err := s.CreateSession(t.Context(), NewSession{ID: "s"})
	must(t, err)
	const batches = 1500
	s.spool.flush = func(*os.File) error { return nil } // only the replay is at stake
	for i := range batches {
		must(t, s.spool.put(t.Context(), &spooled{At: time.Now(), Session: spooledSession{ID: made.ID}, Rows: []spooledRow{
			{UID: fmt.Sprintf("u%05da", i), Role: "user", Content: fmt.Sprintf("%05d asked", i), CreatedAt: time.Now()},
			{UID: fmt.Sprintf("u%05db", i), Role: "assistant", Content: fmt.Sprintf("%05d said", i), CreatedAt: time.Now()},
		}}))
	}
	killed := 0
	for _, at := range []int64{1, 500, 1400, 2500} {
		a, b := startChild(t, "replay", path, ""), startChild(t, "replay", path, "")
		for number(t, s, `SELECT count(*) FROM messages`) < at && t.Context().Err() == nil {
		}
		a.Kill()
		b.Kill()
		if n := number(t, s, `SELECT count(*) FROM messages`); n < 2*batches {
			killed++
		}
	}
	if killed == 0 {
		t.Error("no kill came in the middle of a replay: the test proves nothing")
	}
	_, err = s.Replay(t.Context(), false)
	must(t, err)
	equal(t, "rows", number(t, s, `SELECT count(*) FROM messages`), 2*batches)
	equal(t, "out of order", number(t, s, `SELECT count(*) FROM messages a JOIN messages b ON b.id > a.id WHERE b.content < a.content AND b.id = a.id + 1 AND a.role = 'assistant'`), 0)
	equal(t, "left in the spool", spoolCount(t, s).Rows, 0)
}

// After a COMMIT of unknown fate a batch that only ends leases is looked for by these.
func TestABatchOfReleasesIsInWhenItsLeasesAreGone(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	batch := []*spooled{{Session: spooledSession{ID: l.Session}, Token: l.Token, Release: true}}
	isIn := func() (in bool) {
		t.Helper()
		must(t, s.file.Read(t.Context(), func(c *sqlite.Conn) (err error) {
			in, err = (&replay{s: s}).isIn(c, batch, make([]fate, 1))
			return err
		}))
		return in
	}
	equal(t, "while the lease is there", isIn(), false)
	must(t, s.Release(t.Context(), l))
	equal(t, "when it is gone", isIn(), true)
}
