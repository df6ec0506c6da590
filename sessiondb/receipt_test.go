package sessiondb

import (
	"errors"
	"math"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

// acknowledged is converse under a turn's id, with its receipt.
func acknowledged(t *testing.T, s *Store, l Lease, turn string) ([]Message, Receipt) {
	t.Helper()
	rows, err := s.Append(t.Context(), l, []NewMessage{
		{TurnID: turn, Role: "user", Content: turn + "Q", Wire: "[ann] " + turn + "Q"},
		{TurnID: turn, Role: "assistant", ToolCalls: []byte(`[{"id":"` + turn + `","function":{"name":"terminal","arguments":"{}"}}]`)},
		{TurnID: turn, Role: "tool", Content: turn + "T", ToolCallID: turn, ToolName: "terminal"},
		{TurnID: turn, Role: "assistant", Content: turn + "A", FinishReason: "stop"},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Receipt(t.Context(), l.Session, turn, rows[0].ID, rows[3].ID)
	if err != nil {
		t.Fatal(err)
	}
	if whole, err := s.Receipt(t.Context(), l.Session, turn, 0, math.MaxInt64); err != nil || whole != r {
		t.Fatalf("asked for without its first row it is %v, %v, not %v", whole, err, r)
	}
	return rows, r
}

func proof(t *testing.T, s *Store, r Receipt) Proof {
	t.Helper()
	p, err := s.Check(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A receipt is proved by the rows alone: after a compaction that folds them, after a rewind that takes them back, and after rows that
// came later in the same turn.
func TestAReceiptIsProvedByTheRows(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	_, first := acknowledged(t, s, l, "turn_1")
	_, second := acknowledged(t, s, l, "turn_2")
	if _, err := s.Append(t.Context(), l, []NewMessage{{TurnID: "turn_2", Role: "assistant", Content: "closed later"}}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []Receipt{first, second} {
		again, err := ParseReceipt(r.String())
		if p := proof(t, s, again); err != nil || !p.Proven || p.Rows != 4 || p.Live != 4 {
			t.Errorf("%s: %+v %v", r, p, err)
		}
	}
	if _, err := s.ArchiveAndCompact(t.Context(), here(compacting(t, s, l.Session), transcript(t, s, l.Session), 1)); err != nil {
		t.Fatal(err)
	}
	if p := proof(t, s, first); !p.Proven || p.Folded != 4 || !strings.Contains(p.What, "folded into a summary") {
		t.Errorf("after a compaction: %+v", p)
	}
	if p := proof(t, s, second); !p.Proven || p.Rows != 4 { // its originals were replaced by copies
		t.Errorf("after a compaction that copied it: %+v", p)
	}
	_, third := acknowledged(t, s, l, "turn_3")
	if _, err := s.RewindTurns(t.Context(), l, -1); err != nil {
		t.Fatal(err)
	}
	if p := proof(t, s, third); !p.Proven || p.Taken != 4 || !strings.Contains(p.What, "no part of the conversation any more") {
		t.Errorf("after a rewind: %+v", p)
	}
}

// What was not acknowledged so is not proved: a changed row, one that is missing, another turn's digest, another session.
func TestAReceiptOfOtherRowsIsNotProved(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	rows, first := acknowledged(t, s, l, "turn_1")
	_, second := acknowledged(t, s, l, "turn_2")
	for what, r := range map[string]Receipt{
		"another digest":  {l.Session, "turn_1", first.Row, second.Digest},
		"an earlier row":  {l.Session, "turn_1", first.Row - 1, first.Digest},
		"a later row":     {l.Session, "turn_1", first.Row + 1, first.Digest},
		"an unknown turn": {l.Session, "turn_9", first.Row, first.Digest},
	} {
		if p := proof(t, s, r); p.Proven || p.What == "" {
			t.Errorf("%s: %+v", what, p)
		}
	}
	for _, sql := range []string{`content = 'other'`, `wire = 'other'`, `role = 'system'`, `tool_calls = '[]'`, `finish_reason = 'x'`, `tool_name = 'x'`} {
		for _, row := range rows {
			write(t, s, `CREATE TEMP TABLE kept AS SELECT * FROM messages WHERE id = ?`, row.ID)
			write(t, s, `UPDATE messages SET `+sql+` WHERE id = ?`, row.ID)
			if p := proof(t, s, first); p.Proven {
				t.Errorf("row %d with %s is proved", row.ID, sql)
			}
			write(t, s, `UPDATE messages SET (content, wire, role, tool_calls, finish_reason, tool_name) = (SELECT content, wire, role, tool_calls, finish_reason, tool_name FROM kept) WHERE id = ?`, row.ID)
			write(t, s, `DROP TABLE kept`)
		}
	}
	if p := proof(t, s, first); !p.Proven {
		t.Errorf("put back it is not proved: %+v", p)
	}
	write(t, s, `DELETE FROM messages WHERE id = ?`, rows[2].ID)
	if p := proof(t, s, first); p.Proven || p.Rows != 3 || !strings.Contains(p.What, "not the ones") {
		t.Errorf("with a row gone: %+v", p)
	}
	if _, err := s.Check(t.Context(), Receipt{"nowhere", "turn_1", 1, first.Digest}); !errors.Is(err, ErrSessionMissing) {
		t.Errorf("a session that is not here: %v", err)
	}
	for _, text := range []string{"", "session=s", "session=s; turn=t; row=x; digest=sha-256:0", "session=s; turn=t; row=1; digest=md5:0", first.String() + "; more=1"} {
		if _, err := ParseReceipt(text); problem.KindOf(err) != problem.Invalid {
			t.Errorf("%q is read: %v", text, err)
		}
	}
}
