package sessiondb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/problem"
)

// converse appends a question, a call, its result and an answer, named after tag.
func converse(t testing.TB, s *Store, l Lease, tag string) []Message {
	t.Helper()
	rows, err := s.Append(t.Context(), l, []NewMessage{
		{Role: "user", Content: tag + "Q"},
		{Role: "assistant", ToolCalls: []byte(`[{"id":"` + tag + `","function":{"name":"terminal","arguments":"{}"}}]`)},
		{Role: "tool", Content: tag + "T", ToolCallID: tag, ToolName: "terminal"},
		{Role: "assistant", Content: tag + "A", FinishReason: "stop"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func compacting(t testing.TB, s *Store, session string) Lease {
	t.Helper()
	l, err := s.AcquireCompaction(t.Context(), session, self(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func transcript(t testing.TB, s *Store, session string) []Message {
	t.Helper()
	rows, err := s.Transcript(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func summary(text string) CompactedRow {
	return CompactedRow{New: NewMessage{Role: "assistant", Content: text, Kind: KindSummary}}
}

// here is the plan of "compress here n".
func here(l Lease, rows []Message, n int) Compaction {
	c := Compaction{Lease: l, Seen: See(rows), Rows: []CompactedRow{summary("SUMMARY")}}
	_, tail := KeepLast(rows, n)
	for _, m := range tail {
		c.Rows = append(c.Rows, CompactedRow{Keep: m.ID})
	}
	return c
}

func states(t testing.TB, s *Store, content string) string {
	t.Helper()
	return fmt.Sprint(number(t, s, `SELECT count(*) FROM messages WHERE content = ? AND active = 1`, content), " live ",
		number(t, s, `SELECT count(*) FROM messages WHERE content = ? AND compacted = 1`, content), " folded ",
		number(t, s, `SELECT count(*) FROM messages WHERE content = ? AND active = 0 AND compacted = 0`, content), " superseded")
}

func short(rows []Message) string {
	out := []string{}
	for _, m := range rows {
		text := m.Content
		if text == "" {
			text = "call"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// What was folded stays readable, tool rows included; what was kept is live exactly once; what came while the summary
// was written goes on behind it; the counter is right; no row is gone.
func TestCompactionFoldsKeepsAndCarriesOn(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	for _, tag := range []string{"1", "2", "3"} {
		converse(t, s, l, tag)
	}
	c := compacting(t, s, l.Session)
	plan := here(c, transcript(t, s, l.Session), 1)
	converse(t, s, l, "4") // during the summary
	got, err := s.ArchiveAndCompact(t.Context(), plan)
	if err != nil {
		t.Fatal(err)
	}
	rows := transcript(t, s, l.Session)
	equal(t, "live", short(rows), "SUMMARY 3Q call 3T 3A 4Q call 4T 4A")
	equal(t, "done", got, Compacted{Summary: rows[0].ID, Folded: 8, Kept: 4, Late: 4, Active: 9})
	for content, want := range map[string]string{
		"1Q": "0 live 1 folded 0 superseded", "2T": "0 live 1 folded 0 superseded", "2A": "0 live 1 folded 0 superseded",
		"3T": "1 live 0 folded 1 superseded", "4T": "1 live 0 folded 1 superseded", "SUMMARY": "1 live 0 folded 0 superseded",
	} {
		equal(t, content, states(t, s, content), want)
	}
	one, _ := s.Session(t.Context(), l.Session)
	equal(t, "counter", one.MessageCount, 9)
	equal(t, "rows in all", number(t, s, `SELECT count(*) FROM messages`), 16+1+8)
	equal(t, "uids", number(t, s, `SELECT count(DISTINCT uid) FROM messages`), 25)
	shown, err := s.Messages(t.Context(), l.Session, MessageFilter{IncludeCompacted: true})
	equal(t, "shown", fmt.Sprint(short(shown), err), "1Q call 1T 1A 2Q call 2T 2A 3Q call 3T 3A 4Q call 4T 4A SUMMARY<nil>")
	absorbed, err := s.Absorbed(t.Context(), rows[0])
	equal(t, "absorbed", fmt.Sprint(len(absorbed), err), "8 <nil>")
	for text, want := range map[string]int{"1T": 1, "3T": 1, "4A": 1, "SUMMARY": 1} {
		equal(t, "hits of "+text, len(search(t, s, Query{Text: text})), want)
	}
	say(t, s, l, "goes on")
	equal(t, "live", short(transcript(t, s, l.Session)), "SUMMARY 3Q call 3T 3A 4Q call 4T 4A goes on")
}

// A copy is its original in everything but its place and its name.
func TestCopiesAreTheirOriginals(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	converse(t, s, l, "1")
	kept, err := s.Append(t.Context(), l, []NewMessage{{
		TurnID: "turn", Role: "assistant", Content: "text", Wire: "wire", ToolCalls: []byte(`[]`), ToolCallID: "c", ToolName: "n", Effect: "e",
		FinishReason: "stop", Reasoning: "because", Kind: "closing", CreatedAt: time.Unix(1_700_000_000, 123_456_000),
	}})
	if err != nil {
		t.Fatal(err)
	}
	plan := Compaction{Lease: compacting(t, s, l.Session), Seen: See(transcript(t, s, l.Session)), Rows: []CompactedRow{summary("S"), {Keep: kept[0].ID}}}
	if _, err := s.ArchiveAndCompact(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	got := transcript(t, s, l.Session)[1]
	if got.ID <= kept[0].ID || got.UID == kept[0].UID || got.OriginID != kept[0].ID {
		t.Errorf("the copy's names: %+v", got)
	}
	want := kept[0]
	want.ID, want.UID = got.ID, got.UID
	equal(t, "copy", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
}

// Covered ids fold those rows alone: the beginning stays where it is and the rest goes on behind the marker, also when the
// same is done again and again.
func TestRollingCompactionFoldsWhatItCovers(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	for _, tag := range []string{"1", "2", "3", "4"} {
		converse(t, s, l, tag)
	}
	before := number(t, s, `SELECT count(*) FROM messages`)
	for round, want := range []string{"1Q M0 2Q call 2T 2A 3Q call 3T 3A 4Q call 4T 4A", "1Q M0 2Q M1 3Q call 3T 3A 4Q call 4T 4A", "1Q M0 2Q M1 3Q M2 4Q call 4T 4A"} {
		rows := transcript(t, s, l.Session)
		at := Exchanges(rows)[round]
		c := compacting(t, s, l.Session)
		plan := Compaction{Lease: c, Seen: See(rows), Covered: idsOf(rows[at+1 : at+4]), Rows: []CompactedRow{summary(fmt.Sprint("M", round))}}
		for _, m := range rows[at+4:] {
			plan.Rows = append(plan.Rows, CompactedRow{Keep: m.ID})
		}
		if _, err := s.ArchiveAndCompact(t.Context(), plan); err != nil {
			t.Fatal(err)
		}
		if err := s.Release(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		equal(t, "live", short(transcript(t, s, l.Session)), want)
		now := number(t, s, `SELECT count(*) FROM messages`)
		if now < before {
			t.Errorf("%d rows became %d", before, now)
		}
		before = now
	}
	shown, _ := s.Messages(t.Context(), l.Session, MessageFilter{IncludeCompacted: true})
	equal(t, "shown", short(shown), "1Q call 1T 1A 2Q call 2T 2A 3Q call 3T 3A 4Q call 4T 4A M0 M1 M2")
}

// A plan made on rows that have changed since, by another compaction or a repair, changes nothing.
func TestStalePlanIsRefused(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	rows := append(converse(t, s, l, "1"), converse(t, s, l, "2")...)
	c := compacting(t, s, l.Session)
	plan := here(c, rows, 1)
	if _, err := s.ArchiveAndCompact(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ArchiveAndCompact(t.Context(), plan); !errors.Is(err, ErrStalePlan) || problem.KindOf(err) != problem.Conflict {
		t.Errorf("the same plan again: %v", err)
	}
	plan = here(c, transcript(t, s, l.Session), 1)
	now := transcript(t, s, l.Session)[1]
	neutral := "changed"
	if err := s.Repair(t.Context(), l, []RowRepair{{ID: now.ID, OldDigest: now.Digest(), Content: &neutral}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ArchiveAndCompact(t.Context(), plan); !errors.Is(err, ErrStalePlan) {
		t.Errorf("after a repair: %v", err)
	}
	equal(t, "live", short(transcript(t, s, l.Session)), "SUMMARY changed call 2T 2A")
}

// Only the holder of the compaction lease commits, and only in a conversation that goes on.
func TestCompactionProvesItsLease(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	rows := append(converse(t, s, l, "1"), converse(t, s, l, "2")...)
	lost := compacting(t, s, l.Session)
	write(t, s, `UPDATE leases SET expires_at = 1000000 + unixepoch() * 1000000 - 2000000 WHERE kind = 'compaction'`)
	if _, err := s.ArchiveAndCompact(t.Context(), here(lost, rows, 1)); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("with a lease that ran out: %v", err)
	}
	held := compacting(t, s, l.Session)
	for what, lease := range map[string]Lease{"lost": lost, "turn": l} {
		if _, err := s.ArchiveAndCompact(t.Context(), here(lease, rows, 1)); !errors.Is(err, ErrLeaseLost) {
			t.Errorf("with a %s lease: %v", what, err)
		}
	}
	if _, err := s.EndSession(t.Context(), l.Session, EndClosed); err != nil {
		t.Fatal(err)
	}
	if _, err := s.ArchiveAndCompact(t.Context(), here(held, rows, 1)); !errors.Is(err, ErrSessionEnded) {
		t.Errorf("of a closed session: %v", err)
	}
	one, _ := s.Session(t.Context(), l.Session)
	equal(t, "end", one.EndReason, EndClosed)
	equal(t, "rows", number(t, s, `SELECT count(*) FROM messages WHERE active = 1`), 8)
}

// A plan that would lose a row's place, or part a call from its result, is refused with a word that says which.
func TestPlansThatLoseSomethingAreRefused(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	rows := append(converse(t, s, l, "1"), converse(t, s, l, "2")...)
	c := compacting(t, s, l.Session)
	keep := func(places ...int) (out []CompactedRow) {
		for _, i := range places {
			out = append(out, CompactedRow{Keep: rows[i].ID})
		}
		return append(out, summary("S"))
	}
	for name, plan := range map[string]struct {
		rows    []CompactedRow
		covered []int64
		says    string
	}{
		"nothing left":     {nil, nil, "leaves nothing"},
		"folds nothing":    {keep(0, 1, 2, 3, 4, 5, 6, 7), nil, "folds nothing"},
		"not live":         {[]CompactedRow{{Keep: 999}}, nil, "not live"},
		"folds a stranger": {keep(), append(idsOf(rows), 999), "not live"},
		"twice":            {keep(4, 4), nil, "twice or out of order"},
		"out of order":     {keep(5, 4), nil, "twice or out of order"},
		"kept and folded":  {keep(7), []int64{rows[7].ID}, "both keeps and folds"},
		"no place":         {keep(), []int64{rows[3].ID}, "no place"},
		"result alone":     {keep(2, 4, 5, 6, 7), nil, "parts the call"},
		"call alone":       {keep(1, 4, 5, 6, 7), nil, "parts the call"},
	} {
		_, err := s.ArchiveAndCompact(t.Context(), Compaction{Lease: c, Seen: See(rows), Rows: plan.rows, Covered: plan.covered})
		if problem.KindOf(err) != problem.Invalid || !strings.Contains(fmt.Sprint(err), plan.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	equal(t, "live", short(transcript(t, s, l.Session)), "1Q call 1T 1A 2Q call 2T 2A")
	equal(t, "rows", number(t, s, `SELECT count(*) FROM messages`), 8)
}

// Models that name every call alike are compacted beside a turn whose call has no result yet.
func TestCallsOfOneNameArePairedInTheirOrder(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	rows := append(converse(t, s, l, "same"), converse(t, s, l, "same")...)
	c := compacting(t, s, l.Session)
	if _, err := s.Append(t.Context(), l, []NewMessage{{Role: "user", Content: "next"}, {Role: "assistant", ToolCalls: rows[1].ToolCalls}}); err != nil {
		t.Fatal(err)
	}
	plan := here(c, rows, 1)
	parted := plan
	parted.Rows = append([]CompactedRow{{Keep: rows[1].ID}}, plan.Rows...)
	if _, err := s.ArchiveAndCompact(t.Context(), parted); problem.KindOf(err) != problem.Invalid {
		t.Errorf("a call alone, whose name another pair has: %v", err)
	}
	if _, err := s.ArchiveAndCompact(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	equal(t, "live", short(transcript(t, s, l.Session)), "SUMMARY sameQ call sameT sameA next call")
}

// What is sent in place of several rows is neither shown nor found, and is no history once it is replaced.
func TestModelOnlyRowsAreSentAlone(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	converse(t, s, l, "1")
	converse(t, s, l, "2")
	c := compacting(t, s, l.Session)
	joined := CompactedRow{New: NewMessage{Role: "user", Content: "1Q and 2Q", Kind: KindModelOnly}}
	if _, err := s.ArchiveAndCompact(t.Context(), Compaction{Lease: c, Seen: See(transcript(t, s, l.Session)), Rows: []CompactedRow{summary("S"), joined}}); err != nil {
		t.Fatal(err)
	}
	equal(t, "live", short(transcript(t, s, l.Session)), "S 1Q and 2Q")
	equal(t, "hits", len(search(t, s, Query{Text: "2Q"})), 1)
	shown, _ := s.Messages(t.Context(), l.Session, MessageFilter{IncludeCompacted: true})
	equal(t, "shown", short(shown), "1Q call 1T 1A 2Q call 2T 2A S")
	if _, err := s.ArchiveAndCompact(t.Context(), Compaction{Lease: c, Seen: See(transcript(t, s, l.Session)), Rows: []CompactedRow{summary("S2")}}); err != nil {
		t.Fatal(err)
	}
	equal(t, "joined row", states(t, s, "1Q and 2Q"), "0 live 0 folded 1 superseded")
}

func TestExchangesBeginWithAPerson(t *testing.T) {
	rows := []Message{
		{Role: "assistant", Kind: KindSummary},
		{Role: "user", Content: "1"},
		{Role: "assistant"},
		{Role: "user", Kind: KindSteer},
		{Role: "assistant"},
		{Role: "user", Kind: "history"},
		{Role: "user", Kind: KindModelOnly},
		{Role: "assistant"},
	}
	equal(t, "starts", Exchanges(rows), []int{1, 5})
	for n, want := range map[int]int{0: 8, 1: 5, 2: 1, 9: 1} {
		head, tail := KeepLast(rows, n)
		equal(t, fmt.Sprint("head before the last ", n), len(head), want)
		equal(t, "together", len(head)+len(tail), len(rows))
	}
}

// What a compaction learned of its failures outlives the store.
func TestCompactionStateIsKept(t *testing.T) {
	path := t.TempDir() + "/state.db"
	s, _ := openStore(t, path)
	l := conversation(t, s)
	c := compacting(t, s, l.Session)
	want := CompactionState{Failures: 2, Strikes: 1, RetryAt: time.Now().Add(time.Minute).Truncate(time.Microsecond).UTC(), LastError: "overloaded", Exchanges: map[string]int{"u": 3}}
	if err := s.SetCompactionState(t.Context(), c, want); err != nil {
		t.Fatal(err)
	}
	if err := s.SetCompactionState(t.Context(), l, want); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("by a turn: %v", err)
	}
	s.Close()
	s, _ = openStore(t, path)
	got, err := s.CompactionState(t.Context(), l.Session)
	if err != nil {
		t.Fatal(err)
	}
	want.UpdatedAt = got.UpdatedAt
	equal(t, "state", got, want)
	none, err := s.CompactionState(t.Context(), "nobody")
	equal(t, "of nobody", fmt.Sprint(none, err), fmt.Sprint(CompactionState{}, nil))
}

// A second compaction waits a little and gives up, and says that it is a compaction it waited for.
func TestCompactionWaitsForAnotherAShortTime(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	compacting(t, s, l.Session)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.AcquireCompaction(ctx, l.Session, self(t), 0)
	if !errors.Is(err, ErrLeaseHeld) || !strings.Contains(err.Error(), "being compacted") {
		t.Errorf("while another compacts: %v", err)
	}
	say(t, s, l, "beside it") // and nobody who appends waits
}
