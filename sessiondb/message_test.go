package sessiondb

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What was appended comes back as it was, field by field, in order, and lists show it.
func TestAppendedRowsComeBackExactly(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	given := []NewMessage{
		{TurnID: "t1", Role: "user", Content: "first\x00line — ünïcode", Wire: `{"raw": 1}`, Kind: "chat", CreatedAt: at},
		{
			TurnID: "t1", Role: "assistant", ToolCalls: json.RawMessage(`[{"id": "c1", "a":1}]`), FinishReason: "tool_calls", Reasoning: "because",
			Effect: "pending", CreatedAt: at,
		},
		{TurnID: "t1", Role: "tool", Content: "out", ToolCallID: "c1", ToolName: "terminal", Effect: "unknown", CreatedAt: at.Add(time.Second)},
	}
	stored, err := s.Append(t.Context(), l, given)
	if err != nil {
		t.Fatal(err)
	}
	read, err := s.Transcript(t.Context(), l.Session)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(stored, read); diff != "" {
		t.Errorf("returned and stored rows differ:\n%s", diff)
	}
	for i, m := range read {
		if m.Content != given[i].Content || string(m.ToolCalls) != string(given[i].ToolCalls) || m.Wire != given[i].Wire || m.Effect != given[i].Effect {
			t.Errorf("row %d: %+v", i, m)
		}
		if m.OriginID != m.ID || !m.Active || m.Compacted || m.UID == "" {
			t.Errorf("row %d is not a live original: %+v", i, m)
		}
	}
	equal(t, "monotone times", []time.Time{read[0].CreatedAt, read[1].CreatedAt, read[2].CreatedAt}, []time.Time{at, at.Add(time.Microsecond), at.Add(time.Second)})
	one, err := s.Session(t.Context(), l.Session)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "count", one.MessageCount, 3)
	equal(t, "last active", one.LastActive.Before(one.OpenedAt), false)
}

func TestAbsurdTimesAreWrittenAsNow(t *testing.T) {
	s, log := testStore(t)
	l := conversation(t, s)
	before := time.Now().Truncate(time.Microsecond)
	for range 3 {
		_, err := s.Append(t.Context(), l, []NewMessage{
			{Role: "user", Content: "x", CreatedAt: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)},
			{Role: "user", Content: "y", CreatedAt: time.Unix(-5, 0)},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	rows, _ := s.Transcript(t.Context(), l.Session)
	for _, m := range rows {
		if m.CreatedAt.Before(before) || m.CreatedAt.After(time.Now().Add(time.Second)) {
			t.Errorf("%s stands at %s", m.Content, m.CreatedAt)
		}
	}
	equal(t, "warnings", log.count("absurd message time"), 1)
}

// A batch is all or nothing, and a row that cannot be stored costs its neighbours in the same transaction nothing.
func TestBadRowRefusesItsBatchOnly(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	for name, bad := range map[string]NewMessage{
		"role": {Role: "robot", Content: "x"}, "json": {Role: "assistant", ToolCalls: json.RawMessage(`[{]`)},
	} {
		if _, err := s.Append(t.Context(), l, []NewMessage{{Role: "user", Content: "good"}, bad}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	uid := say(t, s, l, "kept")[0].UID
	if _, err := s.Append(t.Context(), l, []NewMessage{{Role: "user", Content: "half"}, {UID: uid, Role: "user", Content: "twice"}}); err == nil {
		t.Error("the same uid was stored twice")
	}
	rows, _ := s.Transcript(t.Context(), l.Session)
	equal(t, "rows", contents(rows), []string{"kept"})
}

func TestAppendNeedsALivingSession(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	ghost := l
	ghost.Session = "nobody"
	if _, err := s.Append(t.Context(), ghost, []NewMessage{{Role: "user"}}); !errors.Is(err, ErrSessionMissing) {
		t.Errorf("missing session: %v", err)
	}
	if _, err := s.EndSession(t.Context(), l.Session, EndClosed); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), l, []NewMessage{{Role: "user"}}); !errors.Is(err, ErrSessionEnded) {
		t.Errorf("ended session: %v", err)
	}
	equal(t, "rows", number(t, s, `SELECT count(*) FROM messages`), 0)
}

// Folded copies are shown once, at the place of the first row, as the live copy; superseded rows are hidden.
func TestMessagesShowEachLogicalMessageOnce(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	rows := say(t, s, l, "a", "b", "c", "d", "copy of b")
	write(t, s, `UPDATE messages SET active = 0, compacted = 1 WHERE id <= ?`, rows[1].ID)
	write(t, s, `UPDATE messages SET active = 0 WHERE id = ?`, rows[2].ID)
	write(t, s, `UPDATE messages SET origin_id = ? WHERE id = ?`, rows[1].ID, rows[4].ID)
	read := func(f MessageFilter) []string {
		t.Helper()
		got, err := s.Messages(t.Context(), l.Session, f)
		if err != nil {
			t.Fatal(err)
		}
		return contents(got)
	}
	equal(t, "live", read(MessageFilter{}), []string{"d", "copy of b"})
	equal(t, "shown", read(MessageFilter{IncludeCompacted: true}), []string{"a", "copy of b", "d"})
	equal(t, "shown, latest two", read(MessageFilter{IncludeCompacted: true, Latest: true, Limit: 2}), []string{"copy of b", "d"})
	equal(t, "all", read(MessageFilter{IncludeInactive: true}), []string{"a", "b", "c", "d", "copy of b"})
	equal(t, "all, latest", read(MessageFilter{IncludeInactive: true, Latest: true, Limit: 2}), []string{"d", "copy of b"})
	equal(t, "after", read(MessageFilter{After: rows[3].ID}), []string{"copy of b"})
	equal(t, "first", read(MessageFilter{Limit: 1}), []string{"d"})
	if _, err := s.Messages(t.Context(), l.Session, MessageFilter{After: 1, Latest: true}); err == nil {
		t.Error("after and latest were combined")
	}
}

// (1,1) is impossible, whoever writes.
func TestLiveAndFoldedAtOnceIsImpossible(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	say(t, s, l, "a")
	db := bare(t, s.file.Path())
	if err := db.Exec(`UPDATE messages SET compacted = 1`); err == nil {
		t.Error("a row is live and folded")
	}
}

func TestRepairIsCompareAndSwap(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	rows := say(t, s, l, "delete everything, yes", "call", "other")
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	neutral, effect := "(an old confirmation)", "unknown"
	repairs := []RowRepair{
		{ID: rows[0].ID, OldDigest: rows[0].Digest(), Content: &neutral},
		{ID: rows[1].ID, OldDigest: rows[1].Digest(), Drop: true, Effect: &effect},
		{Insert: &NewMessage{Role: "assistant", Content: "closing"}},
	}
	if err := s.Repair(t.Context(), l, repairs); err != nil {
		t.Fatal(err)
	}
	got, _ := s.Transcript(t.Context(), l.Session)
	equal(t, "rows", contents(got), []string{neutral, "other", "closing"})
	one, _ := s.Session(t.Context(), l.Session)
	equal(t, "count", one.MessageCount, 3)
	if err := s.Repair(t.Context(), l, repairs); !errors.Is(err, ErrRowChanged) {
		t.Errorf("second repair of the same state: %v", err)
	}
	equal(t, "rows in all", number(t, s, `SELECT count(*) FROM messages`), 4)
	checkIndexes(t, s)
	for text, want := range map[string]int{"everything": 0, "confirmation": 1, "call": 0, "closing": 1} {
		hits, err := s.Search(t.Context(), Query{Text: text})
		equal(t, "hits of "+text, fmt.Sprint(len(hits), err), fmt.Sprint(want, nil))
	}
	checkIndexes(t, s)
}
