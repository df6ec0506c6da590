package sessiondb

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"gatewayd/internal/sqlite"
)

// strange is a row as a foreign hand could have written it.
type strange struct {
	role, calls, content string
	at                   int64
}

// stranger writes rows past the checks of the tables, all in one transaction.
type stranger struct{ rows [][]any }

func (p *stranger) row(sql string, args ...any) { p.rows = append(p.rows, append([]any{sql}, args...)) }

func (p *stranger) write(t testing.TB, s *Store) {
	t.Helper()
	err := s.file.Write(t.Context(), sqlite.Op{Label: "plant", Do: func(tx *sqlite.Tx) error {
		if _, err := tx.Exec(`PRAGMA ignore_check_constraints = 1`); err != nil {
			return err
		}
		for _, r := range p.rows {
			if _, err := tx.Exec(r[0].(string), r[1:]...); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func (p *stranger) message(session, turn string, m strange) {
	p.row(`INSERT INTO messages(uid, session_id, turn_id, origin_id, role, content, tool_calls, tool_name, created_at)
 VALUES(?, ?, ?, (SELECT coalesce(max(seq), 0) + 1 FROM sqlite_sequence WHERE name = 'messages'), ?, ?, ?, 'terminal', ?)`,
		newUID(time.Now()), session, turn, m.role, m.content, null(m.calls), m.at)
}

func windowAround(now time.Time) Window {
	return Window{Since: now.Add(-24 * time.Hour), Until: now.Add(time.Hour)}
}

func TestInsightsCountEachTurnToolAndTokenOfTheWindow(t *testing.T) {
	s, _ := testStore(t)
	session := conversation(t, s).Session
	now := time.Now()
	at := now.UnixMicro()
	rows := &stranger{}
	for i, m := range []strange{
		{role: "user", content: "go", at: at - 9e6},
		{role: "assistant", calls: `[{"id":"a"},{"id":"b"}]`, at: at - 8e6},
		{role: "tool", content: "fine", at: at - 6e6},
		{role: "tool", content: "error: no such file", at: at - 5e6},
		{role: "assistant", content: "done", at: at - 4e6},
		{role: "user", content: "long ago", at: at - 90*24*3600*1e6},
	} {
		rows.message(session, fmt.Sprint("turn", i/5), m)
	}
	rows.write(t, s)
	for _, d := range []UsageDelta{
		{Session: session, Model: "dear", Counts: Counts{Prompt: 2_000_000, Cached: 1_000_000, Completion: 1_000_000}},
		{Session: session, Model: "unheard-of", Counts: Counts{Prompt: 10}},
	} {
		if err := s.AddUsage(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	w := windowAround(now)
	w.Price = func(model string) (Price, bool) {
		return Price{Input: 3, Output: 15, Cached: 0.5, CacheWrite: -1}, model == "dear"
	}
	got, err := s.Insights(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	want := Insights{
		Sessions: 1, Turns: 1, Messages: 5, Roles: map[string]int64{"user": 1, "assistant": 2, "tool": 2}, Sources: []Named{{"test", 1}},
		Tools: []ToolUse{{Tool: "terminal", Calls: 2, Failed: 1, Timed: 2, Seconds: 5}},
		Cost:  Cost{Known: 3 + 0.5 + 15, Unpriced: []string{"unheard-of"}}, Odd: []Odd{},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Insights{}, "Since", "Until", "Models", "Tokens", "Days")); diff != "" {
		t.Error(diff)
	}
	if len(got.Models) != 2 || got.Models[0].Cost != nil || got.Models[1].Cost == nil || got.Tokens.Prompt != 2_000_010 {
		t.Errorf("models %+v, tokens %+v", got.Models, got.Tokens)
	}
}

// A fork begins with copies; they were said once, and are what is left once the session they came from is deleted.
func TestInsightsCountWhatAForkTookOnce(t *testing.T) {
	s, _ := testStore(t)
	exchanges(3)(t, s)
	count := func(when string, turns, messages, calls int64) {
		t.Helper()
		got, err := s.Insights(t.Context(), windowAround(time.Now()))
		must(t, err)
		have := Insights{Turns: got.Turns, Messages: got.Messages, Tools: []ToolUse{{Calls: got.Tools[0].Calls}}}
		if diff := cmp.Diff(Insights{Turns: turns, Messages: messages, Tools: []ToolUse{{Calls: calls}}}, have); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	speak := func(session string) {
		t.Helper()
		l, err := s.AcquireTurn(t.Context(), session, self(t), 0)
		must(t, err)
		_, err = s.Append(t.Context(), l, []NewMessage{{Role: "user", Content: "more", TurnID: "in " + session}})
		must(t, err)
		must(t, s.Release(t.Context(), l))
	}
	speak("s")
	const turns, messages, calls = 1, 13, 3
	count("before", turns, messages, calls)
	fork, err := s.Fork(t.Context(), "s", 0, NewSession{})
	must(t, err)
	_, err = s.Fork(t.Context(), fork.ID, 0, NewSession{})
	must(t, err)
	count("forked twice", turns, messages, calls)
	speak(fork.ID)
	count("with a turn of its own", turns+1, messages+1, calls)
	_, err = s.Delete(t.Context(), "s")
	must(t, err)
	count("without the first", turns+1, messages+1, calls)
}

// Whatever rows somebody strange: those that make sense are counted, the others named, and no row is both or neither.
func TestInsightsNameOddRowsAndCountTheOthers(t *testing.T) {
	s, _ := testStore(t)
	session := conversation(t, s).Session
	rapid.Check(t, func(t2 *rapid.T) {
		now := time.Now()
		times := map[string]int64{"now": now.UnixMicro(), "zero": 0, "negative": -5, "absurd": maxStamp + 1, "future": now.Add(48 * time.Hour).UnixMicro()}
		rows := &stranger{}
		rows.row(`DELETE FROM messages`)
		rows.row(`DELETE FROM usage`)
		var total, odd, odder int64
		for range rapid.IntRange(1, 12).Draw(t2, "rows") {
			when := rapid.SampledFrom([]string{"now", "now", "zero", "negative", "absurd", "future"}).Draw(t2, "time")
			role := rapid.SampledFrom([]string{"user", "assistant", "tool", "oracle", ""}).Draw(t2, "role")
			calls := rapid.SampledFrom([]string{"", `[{"id":"a"}]`, `[{"id"`, "\x00"}).Draw(t2, "calls")
			rows.message(session, "t", strange{role: role, calls: calls, at: times[when]})
			total++
			if when != "now" || role == "oracle" || role == "" || calls == `[{"id"` || calls == "\x00" {
				odd++
			}
		}
		for i, n := range rapid.SliceOfN(rapid.SampledFrom([]int64{7, -1, tokensMost + 1}), 0, 4).Draw(t2, "usage") {
			rows.row(`INSERT INTO usage(session_id, model, provider, prompt, last_ref, first_at, last_at) VALUES(?, ?, '', ?, '', ?, ?)`,
				session, fmt.Sprint("m", i), n, now.UnixMicro(), now.UnixMicro())
			if n != 7 {
				odder++
			}
		}
		rows.write(t, s)
		w := windowAround(now)
		w.Until = now.Add(30 * 24 * time.Hour)
		got, err := s.Insights(t.Context(), w)
		if err != nil {
			t2.Fatal(err)
		}
		named := int64(0)
		for _, o := range got.Odd {
			if o.Example == "" {
				t2.Errorf("%s has no example", o.What)
			}
			named += o.Count
		}
		if got.Messages != total-odd || named != odd+odder || got.Tokens.Prompt < 0 || got.Tokens.Prompt > 28 {
			t2.Errorf("%d of %d messages, %d odd (want %d and %d, %d), tokens %d", got.Messages, total, named, total-odd, odd, odder, got.Tokens.Prompt)
		}
	})
}

func TestAWindowOfDaysBeginsAtALocalMidnight(t *testing.T) {
	zone := time.FixedZone("east", 5*3600)
	now := time.Date(2026, 3, 1, 2, 0, 0, 0, zone)
	since, until := WindowOf(2, time.Time{}, time.Time{}, now)
	if want := time.Date(2026, 2, 28, 0, 0, 0, 0, zone); !since.Equal(want) || !until.After(now) {
		t.Errorf("%s to %s", since, until)
	}
}
