package sessiondb

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"gatewayd/internal/sqlite"
)

// longHistory is a session of n rows: folded ones, folded copies of superseded ones, and at the end some live copies and
// live rows, as years of compactions leave them. Beside it lies another session with a row in between each.
func longHistory(t testing.TB, s *Store, n int) (session string, shown []string) {
	t.Helper()
	l, other := conversation(t, s), conversation(t, s)
	var batch, noise []NewMessage
	for i := range n {
		batch = append(batch, NewMessage{Role: "user", Content: fmt.Sprint("row ", i)})
		noise = append(noise, NewMessage{Role: "user", Content: "elsewhere"})
		shown = append(shown, batch[len(batch)-1].Content)
		if len(batch) == 500 || i == n-1 {
			for lease, rows := range map[Lease][]NewMessage{l: batch, other: noise} {
				if _, err := s.Append(t.Context(), lease, rows); err != nil {
					t.Fatal(err)
				}
			}
			batch, noise = nil, nil
			c := compacting(t, s, l.Session)
			rows := transcript(t, s, l.Session)
			if i < n-1 { // the last 500 stay live rows at their first place
				plan := Compaction{Lease: c, Seen: See(rows), Rows: []CompactedRow{{New: NewMessage{Role: "user", Content: "joined", Kind: KindModelOnly}}}}
				for _, m := range rows[max(1, len(rows)-100):] {
					plan.Rows = append(plan.Rows, CompactedRow{Keep: m.ID})
				}
				if _, err := s.ArchiveAndCompact(t.Context(), plan); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Release(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	return l.Session, shown
}

// A page costs what is on it, at the beginning, in the middle and at the end of a long history, and no more in a session
// that is ten times as long. Counted in steps of SQLite's machine, so the machine's mood does not matter.
func TestAPageCostsWhatIsOnIt(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	session := map[int]string{}
	for _, n := range []int{2_000, 20_000} {
		session[n], _ = longHistory(t, s, n)
	}
	cost := func(n int, f MessageFilter) (steps int64) {
		t.Helper()
		err := s.file.Read(t.Context(), func(c *sqlite.Conn) (err error) {
			steps, err = c.Cost(func() error {
				rows, err := s.page(c, session[n], f)
				if err == nil && len(rows) != f.Limit {
					err = fmt.Errorf("%d rows", len(rows))
				}
				return err
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return steps
	}
	for name, f := range map[string]MessageFilter{"live": {}, "shown": {IncludeCompacted: true}, "all": {IncludeInactive: true}} {
		f.Limit = 50
		for place, move := range map[string]func(n int, f MessageFilter) MessageFilter{
			"start":    func(_ int, f MessageFilter) MessageFilter { return f },
			"middle":   func(n int, f MessageFilter) MessageFilter { f.After = middle(t, s, session[n], f); return f },
			"backward": func(n int, f MessageFilter) MessageFilter { f.Before = middle(t, s, session[n], f); return f },
			"end":      func(_ int, f MessageFilter) MessageFilter { f.Latest = true; return f },
		} {
			small, large := cost(2_000, move(2_000, f)), cost(20_000, move(20_000, f))
			t.Logf("%s, %s: %d and %d steps", name, place, small, large)
			if large > small+small/10 || large > 6000 {
				t.Errorf("a page of 50, %s at the %s: %d steps in a session of 2,000 rows, %d in one of 20,000", name, place, small, large)
			}
		}
	}
}

// middle is the place of the row in the middle of what the filter shows.
func middle(t *testing.T, s *Store, session string, f MessageFilter) int64 {
	t.Helper()
	f.Limit = 0
	rows, err := s.Messages(t.Context(), session, f)
	if err != nil {
		t.Fatal(err)
	}
	if m := rows[len(rows)/2]; f.IncludeCompacted {
		return m.OriginID
	} else {
		return m.ID
	}
}

// Pages read forward and backward, of any size, are the history: each logical message once, in the order of first rows.
func TestPagesAreTheHistory(t *testing.T) {
	s, _ := testStore(t)
	session, want := longHistory(t, s, 1_700)
	for _, size := range []int{1_700, 400, 33} {
		var forward, backward []string
		f := MessageFilter{IncludeCompacted: true, Limit: size}
		for {
			rows, err := s.Messages(t.Context(), session, f)
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) == 0 {
				break
			}
			forward, f.After = append(forward, contents(rows)...), rows[len(rows)-1].OriginID
		}
		f = MessageFilter{IncludeCompacted: true, Limit: size, Latest: true}
		for {
			rows, err := s.Messages(t.Context(), session, f)
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) == 0 {
				break
			}
			backward, f.Before = append(contents(rows), backward...), rows[0].OriginID
		}
		for direction, got := range map[string][]string{"forward": forward, "backward": backward} {
			if !slices.Equal(got, want) {
				t.Errorf("pages of %d %s: %d rows, want %d in order", size, direction, len(got), len(want))
			}
		}
	}
}

// An ordinary append pays nothing for the pages of histories: it has no entry in their index.
func TestAppendsDoNotTouchTheHistoryIndex(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	converse(t, s, l, "1")
	entries := `SELECT count(*) FROM messages INDEXED BY messages_shown WHERE compacted = 1 OR (active = 1 AND origin_id <> id)`
	equal(t, "entries", number(t, s, entries), 0)
	if _, err := s.ArchiveAndCompact(t.Context(), here(compacting(t, s, l.Session), append(transcript(t, s, l.Session), converse(t, s, l, "2")...), 1)); err != nil {
		t.Fatal(err)
	}
	equal(t, "entries of folded rows and copies", number(t, s, entries), 8)
}

// What is read to be shown tells what was said and where it stands, and nothing that is between the store and the model.
func TestDisplayReadsLeakNothingInternal(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	_, err := s.Append(t.Context(), l, []NewMessage{{
		TurnID: "turn", Role: "assistant", Content: "text", Wire: "wire", ToolCalls: []byte(`[]`), ToolCallID: "c", ToolName: "n", Effect: "e",
		FinishReason: "stop", Reasoning: "because", Kind: "closing",
	}})
	if err != nil {
		t.Fatal(err)
	}
	const told = "active compacted content created_at effect finish_reason id kind origin_id reasoning role session_id tool_call_id tool_calls tool_name turn_id uid"
	for name, f := range map[string]MessageFilter{"live": {}, "shown": {IncludeCompacted: true}, "latest": {IncludeCompacted: true, Latest: true}} {
		rows, err := s.Messages(t.Context(), l.Session, f)
		if err != nil || len(rows) != 1 {
			t.Fatal(rows, err)
		}
		text, _ := json.Marshal(rows[0])
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		equal(t, name, strings.Join(slices.Sorted(maps.Keys(fields)), " "), told)
	}
	rows, _ := s.Messages(t.Context(), l.Session, MessageFilter{IncludeInactive: true})
	equal(t, "inspected", rows[0].Wire, "wire")
}
