package sessiondb

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// However many ask at once, a key leads to one session, and asking again gives the same.
func TestRacingAskersAgreeOnOneSession(t *testing.T) {
	s, _ := testStore(t)
	for round := range 5 {
		key := fmt.Sprintf("agent:main:%d", round)
		ids, made := make([]string, 8), make([]bool, 8)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				got, fresh, err := s.Resolve(t.Context(), NewSession{Key: key, Source: "test"})
				if err != nil {
					t.Error(err)
				}
				ids[i], made[i] = got.ID, fresh
			})
		}
		all.Wait()
		fresh := 0
		for i := range ids {
			equal(t, "session", ids[i], ids[0])
			if made[i] {
				fresh++
			}
		}
		equal(t, "made", fresh, 1)
		again, err := s.CreateSession(t.Context(), NewSession{Key: key})
		equal(t, "asked again", fmt.Sprint(again.ID, err), ids[0]+"<nil>")
		routed, err := s.SessionByKey(t.Context(), key)
		equal(t, "by key", fmt.Sprint(routed.ID, err), ids[0]+"<nil>")
	}
	equal(t, "sessions", number(t, s, `SELECT count(*) FROM sessions`), 5)
}

// After a boundary a key begins a new conversation; a session that a person closed stays the key's and can be reopened.
func TestEndsAndTheirRoutes(t *testing.T) {
	s, _ := testStore(t)
	first, _ := s.CreateSession(t.Context(), NewSession{Key: "k"})
	for i, want := range []bool{true, false} {
		stamped, err := s.EndSession(t.Context(), first.ID, []string{"session_reset", EndClosed}[i])
		equal(t, "stamped", fmt.Sprint(stamped, err), fmt.Sprint(want, error(nil)))
	}
	got, _ := s.Session(t.Context(), first.ID)
	equal(t, "first stamp", got.EndReason, "session_reset")
	equal(t, "generation", number(t, s, `SELECT generation FROM routes`), 1)

	second, err := s.CreateSession(t.Context(), NewSession{Key: "k"})
	if err != nil || second.ID == first.ID {
		t.Fatalf("after a boundary: %s, %v", second.ID, err)
	}
	l, _ := s.AcquireTurn(t.Context(), second.ID, self(t), 0)
	s.EndSession(t.Context(), second.ID, EndClosed)
	if same, _ := s.CreateSession(t.Context(), NewSession{Key: "k"}); same.ID != second.ID || same.EndedAt == nil {
		t.Errorf("a closed session lost its key: %+v", same)
	}
	reopened, err := s.ReopenIfExplicitlyClosed(t.Context(), l, "test")
	equal(t, "reopened", fmt.Sprint(reopened, err), "true <nil>")
	say(t, s, l, "goes on")
	if _, err := s.EndSession(t.Context(), "nobody", EndClosed); !errors.Is(err, ErrSessionMissing) {
		t.Errorf("ending nobody: %v", err)
	}
}

// Reopening undoes a person's close and nothing else.
func TestReopenLeavesOtherEndsAlone(t *testing.T) {
	s, _ := testStore(t)
	for _, reason := range append([]string{EndCompression, "idle_timeout"}, boundaryReasons...) {
		l := conversation(t, s)
		s.EndSession(t.Context(), l.Session, reason)
		reopened, err := s.ReopenIfExplicitlyClosed(t.Context(), l, "test")
		equal(t, reason, fmt.Sprint(reopened, err), "false <nil>")
	}
	l := conversation(t, s)
	s.EndSession(t.Context(), l.Session, EndClosed)
	if _, err := s.CreateSession(t.Context(), NewSession{Parent: l.Session}); err != nil {
		t.Fatal(err)
	}
	reopened, err := s.ReopenIfExplicitlyClosed(t.Context(), l, "test")
	equal(t, "with a continuation", fmt.Sprint(reopened, err), "false <nil>")

	l = conversation(t, s)
	s.EndSession(t.Context(), l.Session, EndClosed)
	s.Release(t.Context(), l)
	if _, err := s.ReopenIfExplicitlyClosed(t.Context(), l, "test"); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("without the lease: %v", err)
	}
	if _, err := s.ReopenIfExplicitlyClosed(t.Context(), compacting(t, s, l.Session), "test"); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("by a compaction: %v", err)
	}
}

// Only the host to whom the key still leads reopens: one that began anew elsewhere has no business with the old session.
func TestReopenIsForTheHostThatStillRoutes(t *testing.T) {
	s, _ := testStore(t)
	made, err := s.CreateSession(t.Context(), NewSession{Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.TryTurn(t.Context(), made.ID, self(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.EndSession(t.Context(), made.ID, EndClosed)
	other := conversation(t, s)
	write(t, s, `UPDATE routes SET session_id = ? WHERE key = 'k'`, other.Session)
	reopened, err := s.ReopenIfExplicitlyClosed(t.Context(), l, "test")
	equal(t, "after the key moved on", fmt.Sprint(reopened, err), "false <nil>")
	write(t, s, `UPDATE routes SET session_id = ? WHERE key = 'k'`, made.ID)
	reopened, err = s.ReopenIfExplicitlyClosed(t.Context(), l, "test")
	equal(t, "while it routes", fmt.Sprint(reopened, err), "true <nil>")
}

// Of many who end a session at once one stamps it, and its stamp stays.
func TestTheFirstEndStampWins(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	reasons := []string{EndClosed, "session_reset", "idle_timeout", EndCompression, "daily", "agent_close"}
	won := make(chan string, len(reasons))
	var all sync.WaitGroup
	for _, reason := range reasons {
		all.Go(func() {
			if stamped, err := s.EndSession(t.Context(), l.Session, reason); err != nil {
				t.Error(err)
			} else if stamped {
				won <- reason
			}
		})
	}
	all.Wait()
	equal(t, "stamps", len(won), 1)
	one, _ := s.Session(t.Context(), l.Session)
	equal(t, "reason", one.EndReason, <-won)
}

func TestSessionNamesAreChecked(t *testing.T) {
	s, _ := testStore(t)
	for _, bad := range []string{"a/b", `a\b`, "a\x00b", "a\nb", strings.Repeat("x", 257), "\xff"} {
		if _, err := s.CreateSession(t.Context(), NewSession{ID: bad}); err == nil {
			t.Errorf("id %q was accepted", bad)
		}
		if _, err := s.CreateSession(t.Context(), NewSession{Key: bad}); err == nil {
			t.Errorf("key %q was accepted", bad)
		}
	}
	one, err := s.CreateSession(t.Context(), NewSession{ID: "agent:main", Title: "t", Prompt: "be kind"})
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.CreateSession(t.Context(), NewSession{ID: "agent:main", Title: "other"})
	equal(t, "same id", fmt.Sprint(again.Title, err), "t<nil>")
	body, err := s.Prompt(t.Context(), one.PromptHash)
	equal(t, "prompt", fmt.Sprint(body, err), "be kind<nil>")
	if err := s.SetTitle(t.Context(), one.ID, "new"); err != nil {
		t.Fatal(err)
	}
	again, _ = s.Session(t.Context(), one.ID)
	equal(t, "title", again.Title, "new")
	if err := s.SetTitle(t.Context(), "nobody", "x"); !errors.Is(err, ErrSessionMissing) {
		t.Error(err)
	}
}

func TestListFiltersAndPages(t *testing.T) {
	s, _ := testStore(t)
	ids := map[string]string{}
	for _, n := range []NewSession{{Title: "a", Source: "cli"}, {Title: "b", Source: "api"}, {Title: "hidden", Source: "api", Hidden: true}, {Title: "c", Source: "api"}} {
		one, err := s.CreateSession(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		ids[n.Title] = one.ID
	}
	l, _ := s.AcquireTurn(t.Context(), ids["b"], self(t), 0)
	say(t, s, l, "  the first\nquestion ")
	s.EndSession(t.Context(), ids["c"], EndClosed)
	titles := func(f ListFilter) string {
		t.Helper()
		got, err := s.Sessions(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		out := ""
		for _, one := range got {
			out += one.Title + " "
		}
		return out
	}
	equal(t, "all", titles(ListFilter{}), "b c a ")
	equal(t, "hidden", titles(ListFilter{IncludeHidden: true}), "b c hidden a ")
	equal(t, "source", titles(ListFilter{Sources: []string{"cli", "none"}}), "a ")
	equal(t, "open", titles(ListFilter{OpenOnly: true}), "b a ")
	equal(t, "not empty", titles(ListFilter{NonEmpty: true}), "b ")
	equal(t, "limit", titles(ListFilter{Limit: 2}), "b c ")
	page, _ := s.Sessions(t.Context(), ListFilter{Limit: 2})
	equal(t, "next page", titles(ListFilter{BeforeActive: page[1].LastActive, BeforeID: page[1].ID}), "a ")
	equal(t, "preview", page[0].Preview, "the first question")
	equal(t, "at most", len(titles(ListFilter{Limit: 1 << 40})), len("b c a "))
}

// A time that is none costs neither the list nor the session: it is shown at its last row's place, with one warning.
func TestAbsurdStoredTimesAreSkipped(t *testing.T) {
	s, log := testStore(t)
	good, odd := conversation(t, s), conversation(t, s)
	say(t, s, good, "x")
	rows := say(t, s, odd, "1", "2")
	unstrict(t, s, `UPDATE sessions SET last_active = 'yesterday', opened_at = 9e18 WHERE id = '`+odd.Session+`'`,
		fmt.Sprintf(`UPDATE messages SET created_at = 'soon' WHERE id = %d`, rows[1].ID))
	for range 3 {
		got, err := s.Sessions(t.Context(), ListFilter{})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || got[0].ID != odd.Session || !got[0].LastActive.Equal(rows[0].CreatedAt) || !got[0].OpenedAt.IsZero() {
			t.Errorf("list: %+v", got)
		}
		read, err := s.Transcript(t.Context(), odd.Session)
		if err != nil {
			t.Fatal(err)
		}
		if len(read) != 2 || !read[1].CreatedAt.IsZero() || !read[0].CreatedAt.Equal(rows[0].CreatedAt) {
			t.Errorf("rows: %+v", read)
		}
	}
	equal(t, "warnings", log.count("level=WARN"), 2)
	say(t, s, odd, "3")
	got, _ := s.Session(t.Context(), odd.Session)
	if got.LastActive.Before(time.Now().Add(-time.Minute)) {
		t.Errorf("last_active did not heal: %s", got.LastActive)
	}
}

// unstrict plants what STRICT forbids, as an older or foreign writer could have.
func unstrict(t *testing.T, s *Store, sqls ...string) {
	t.Helper()
	db := bare(t, s.file.Path())
	script := `PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', ')') WHERE name IN ('sessions', 'messages'); PRAGMA writable_schema = RESET;`
	if err := db.Exec(script); err != nil {
		t.Fatal(err)
	}
	for _, sql := range sqls {
		if err := db.Exec(sql); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUsageSumsAreExact(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	want := Counts{}
	for i := range int64(20) {
		d := UsageDelta{Session: l.Session, Model: fmt.Sprint("m", i%2), Provider: "p", Counts: Counts{Calls: 1, Prompt: i * 1000, Completion: i, Cached: i * 3, Reasoning: 1}}
		if i%5 == 0 {
			d.Task = "compaction"
		}
		if err := s.AddUsage(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		want = want.plus(d.Counts)
	}
	got, err := s.Usage(t.Context(), l.Session)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "total", got.Total, want)
	equal(t, "models", len(got.Models), 4)
	equal(t, "last used", got.Models[0].Model, "m1")
	if err := s.AddUsage(t.Context(), UsageDelta{Session: "nobody"}); !errors.Is(err, ErrSessionMissing) {
		t.Error(err)
	}
}

func TestARowsCostIsCountedOnceOrNotAtAll(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	row := NewMessage{UID: "a1", Role: "assistant", Content: "x", Spent: &UsageDelta{
		Session: l.Session, Model: "m", Provider: "p", Counts: Counts{Prompt: 10}, Request: &Asked{Session: l.Session, Model: "m", Row: 7},
	}}
	_, err := s.Append(t.Context(), l, []NewMessage{row})
	must(t, err)
	if _, err := s.Append(t.Context(), l, []NewMessage{row}); err == nil {
		t.Error("a uid was stored twice")
	}
	must(t, s.Release(t.Context(), l))
	row.UID = "a2"
	if _, err := s.Append(t.Context(), l, []NewMessage{row}); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("%v", err)
	}
	got, err := s.Usage(t.Context(), l.Session)
	must(t, err)
	equal(t, "counted", got.Total, Counts{Calls: 1, Prompt: 10})
	last, found, err := s.LastRequest(t.Context(), l.Session)
	if err != nil || !found || last.Row != 7 {
		t.Errorf("%+v, %v, %v", last, found, err)
	}
}

// Models used within one microsecond, or under a clock that goes backwards, keep the order in which they were used.
func TestTheLastModelIsTheLastOneUsed(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) { // time stands still in here
		s, _ := openStore(t, dir+"/state.db")
		l := conversation(t, s)
		for i := range 20 {
			model := fmt.Sprint("m", (i*7)%5)
			if err := s.AddUsage(t.Context(), UsageDelta{Session: l.Session, Model: model, Provider: "p"}); err != nil {
				t.Fatal(err)
			}
			if i == 9 {
				write(t, s, `UPDATE usage SET last_at = last_at + 1000000000`) // the clock was ahead by 1,000 s
			}
			got, err := s.Usage(t.Context(), l.Session)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, fmt.Sprint("last used after ", i), got.Models[0].Model, model)
		}
	})
}
