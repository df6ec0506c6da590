package sessiondb

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// wholeTurn is a whole turn with a tool in it.
func wholeTurn(t testing.TB, s *Store, l Lease, n int) []Message {
	t.Helper()
	call := fmt.Sprintf("c%d", n)
	out, err := s.Append(t.Context(), l, []NewMessage{
		{Role: "user", Content: fmt.Sprintf("question %d", n)},
		{Role: "assistant", ToolCalls: []byte(`[{"id":"` + call + `","type":"function","function":{"name":"t","arguments":"{}"}}]`)},
		{Role: "tool", ToolCallID: call, ToolName: "t", Content: "result"},
		{Role: "assistant", Content: "answer"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func verified(t testing.TB, s *Store, o VerifyOptions) Audit {
	t.Helper()
	got, err := Verify(t.Context(), s, o)
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	return got
}

// codes are the findings by code and level, each once.
func codes(a Audit) string {
	seen := map[string]bool{}
	for _, f := range a.Findings {
		seen[string(f.Level)+":"+f.Code] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), " ")
}

func TestVerifyFindsNothingInASoundStore(t *testing.T) {
	s, _ := testStore(t)
	for range 3 {
		l := conversation(t, s)
		wholeTurn(t, s, l, 1)
		wholeTurn(t, s, l, 2)
		if err := s.Release(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := verified(t, s, VerifyOptions{Deep: true})
	equal(t, "audit", fmt.Sprint(got.OK(), got.Sessions, got.Messages, got.Live, got.Running, got.Findings), "true 3 24 24 [] []")
}

// A turn that is being written is no damage, and one that was cut off is mended by the next message.
func TestVerifyTellsARunningTurnFromDamage(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	rows := wholeTurn(t, s, l, 1)
	if _, err := s.Append(t.Context(), l, []NewMessage{{Role: "user", Content: "more"}, {
		Role: "assistant", ToolCalls: []byte(`[{"id":"x","type":"function","function":{"name":"t","arguments":"{}"}}]`),
	}}); err != nil {
		t.Fatal(err)
	}
	got := verified(t, s, VerifyOptions{})
	equal(t, "findings of a running turn", codes(got), "")
	if len(got.Running) != 1 || got.Running[0].Session != l.Session || got.Running[0].Kind != Turn {
		t.Errorf("running: %+v", got.Running)
	}
	write(t, s, `UPDATE leases SET expires_at = 1`)
	got = verified(t, s, VerifyOptions{})
	equal(t, "findings of a turn that was cut off", codes(got), "notice:lease_left notice:turn_cut_off")
	if !got.OK() {
		t.Error("a turn that was cut off counts as damage")
	}
	write(t, s, `UPDATE messages SET active = 0 WHERE id = ?`, rows[2].ID) // in the middle it is damage, running or not
	write(t, s, `UPDATE sessions SET message_count = 5`)
	equal(t, "findings of a lost result", codes(verified(t, s, VerifyOptions{})),
		"damage:call_unanswered notice:answer_in_parts notice:lease_left notice:turn_cut_off")
}

// What was said into a turn stands behind a result, and that is sound.
func TestVerifyTakesWhatWasSaidIntoATurn(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	rows := []NewMessage{{Role: "user", Content: "look"}}
	for _, kind := range []string{KindSteer, KindResumed} {
		id := "of-" + kind
		rows = append(rows,
			NewMessage{Role: "assistant", ToolCalls: []byte(`[{"id":"` + id + `","type":"function","function":{"name":"t","arguments":"{}"}}]`)},
			NewMessage{Role: "tool", ToolCallID: id, Content: "found"}, NewMessage{Role: "user", Content: "go on", Kind: kind})
	}
	rows = append(rows, NewMessage{Role: "user", Content: "and on", Kind: KindSteer}, NewMessage{Role: "assistant", Content: "done"})
	if _, err := s.Append(t.Context(), l, rows); err != nil {
		t.Fatal(err)
	}
	equal(t, "findings", codes(verified(t, s, VerifyOptions{})), "")
}

func TestVerifyNamesEachDamage(t *testing.T) {
	const first = `(SELECT min(id) FROM messages)`
	for _, c := range []struct{ name, sql, want string }{
		{"counter", `UPDATE sessions SET message_count = 99`, "damage:counter_wrong"},
		{"last active", `UPDATE sessions SET last_active = 1000000`, "damage:last_active_behind"},
		{"half deleted", `UPDATE sessions SET message_count = 99, ended_at = 5, end_reason = 'deleted'`, "notice:deletion_unfinished"},
		{"absurd time", `UPDATE messages SET created_at = -5 WHERE id = ` + first, "notice:time_absurd"},
		{"preview", `UPDATE sessions SET preview = ''`, "damage:preview_wrong"},
		{"long preview", `UPDATE sessions SET preview = printf('%.*c', 200, 'x')`, "damage:preview_wrong"},
		{
			"call answered twice", `UPDATE messages SET role = 'tool', tool_call_id = 'c1', origin_id = id WHERE id = 4`,
			"damage:call_answered_twice damage:index_differs damage:roles_do_not_alternate",
		},
		{"result without call", `UPDATE messages SET tool_call_id = 'other' WHERE id = 3`, "damage:call_unanswered damage:result_without_call"},
		{"unreadable calls", `UPDATE messages SET tool_calls = '{' WHERE id = 2`, "damage:calls_unreadable damage:result_without_call"},
		{"same id in two calls", `UPDATE messages SET tool_calls = '[{"id":"c1"},{"id":"c1"}]' WHERE id = 2`, "damage:call_id_twice"},
		{"user after user", `UPDATE messages SET role = 'user' WHERE id = 4`, "damage:roles_do_not_alternate"},
		{"both flags", `UPDATE messages SET active = 1, compacted = 1 WHERE id = 1`, "damage:counter_wrong damage:row_state damage:structure"},
		{"origin missing", `UPDATE messages SET origin_id = 0 WHERE id = 1`, "damage:origin_missing"},
		{"origin later", `UPDATE messages SET origin_id = 3 WHERE id = 1`, "damage:live_twice damage:origin_after"},
		{"live twice", `UPDATE messages SET origin_id = 1 WHERE id = 5`, "damage:live_twice"},
		{"result of a folded call lost", `UPDATE messages SET active = 0, compacted = (id <> 3) WHERE id < 5`, "damage:counter_wrong damage:result_hidden"},
		{"orphan", `DELETE FROM sessions`, "damage:orphan_leases damage:orphan_messages"},
		{"parent circle", `UPDATE sessions SET parent = id`, "damage:parent_circle"},
		{"mark ahead", `UPDATE meta SET v = 1000 WHERE k = 'fts_mark'`, "damage:index_mark_ahead"},
		{"mark behind", `UPDATE meta SET v = 2 WHERE k = 'fts_mark'`, "damage:index_differs"},
		{"stale index", `INSERT INTO meta(k, v) VALUES('tri_stale', 1)`, "notice:index_stale"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := testStore(t)
			l := conversation(t, s)
			wholeTurn(t, s, l, 1)
			wholeTurn(t, s, l, 2)
			if err := s.WaitIndexed(t.Context()); err != nil {
				t.Fatal(err)
			}
			broken(t, s.File().Path(), c.sql)
			got := verified(t, s, VerifyOptions{})
			equal(t, "findings", codes(got), c.want)
			equal(t, "sound", got.OK(), !strings.Contains(c.want, "damage"))
		})
	}
}

// broken changes the file as a program that knows no rules would.
func broken(t *testing.T, path string, statements ...string) {
	t.Helper()
	c, err := sqlite.OpenBare(path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, sql := range append([]string{`PRAGMA ignore_check_constraints = ON`, `PRAGMA foreign_keys = OFF`}, statements...) {
		if err := c.Exec(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

func TestVerifySeesALiveTwin(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	wholeTurn(t, s, l, 1)
	wholeTurn(t, s, l, 2)
	write(t, s, `UPDATE messages SET origin_id = 1 WHERE id = 5`)
	equal(t, "findings", codes(verified(t, s, VerifyOptions{RowsOnly: true})), "damage:live_twice")
}

func TestVerifyOfOneSessionLooksAtNothingElse(t *testing.T) {
	s, _ := testStore(t)
	one, two := conversation(t, s), conversation(t, s)
	wholeTurn(t, s, one, 1)
	wholeTurn(t, s, two, 2)
	write(t, s, `UPDATE sessions SET message_count = 99 WHERE id = ?`, one.Session)
	equal(t, "the sound one", codes(verified(t, s, VerifyOptions{Sessions: []string{two.Session}})), "")
	equal(t, "the other", codes(verified(t, s, VerifyOptions{Sessions: []string{one.Session}})), "damage:counter_wrong")
	if _, err := Verify(t.Context(), s, VerifyOptions{Sessions: []string{"nobody"}}); !problem.Is(err, problem.NotFound) {
		t.Errorf("an unknown session: %v", err)
	}
}

func TestVerifyCountsFindingsBeyondTheBound(t *testing.T) {
	s, _ := testStore(t)
	for range 5 {
		wholeTurn(t, s, conversation(t, s), 1)
	}
	write(t, s, `UPDATE sessions SET message_count = 99`)
	got := verified(t, s, VerifyOptions{MaxFindings: 2})
	equal(t, "findings, more, damaged", fmt.Sprint(len(got.Findings), got.More, got.Damaged), "2 3 5")
}

func TestVerifyFindsDamagedPages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, _ := openStore(t, path)
	l := conversation(t, s)
	for n := range 50 {
		wholeTurn(t, s, l, n)
	}
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	root := number(t, s, `SELECT rootpage FROM sqlite_schema WHERE name = 'messages_by_session'`)
	broken(t, path, `PRAGMA wal_checkpoint(TRUNCATE)`)
	raw, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	if _, err := raw.WriteAt(bytes.Repeat([]byte{0xA5}, 2048), (root-1)*4096); err != nil {
		t.Fatal(err)
	}
	other, err := Open(t.Context(), Options{Path: path, Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	got := verified(t, other, VerifyOptions{})
	if !strings.Contains(codes(got), "damage:structure") || got.OK() {
		t.Errorf("findings: %s", codes(got))
	}
}

// Whatever rows there are, the audit ends, and rows that a gateway would write are found sound.
func TestAuditIsTotal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newAudit("s", false, func(Finding) {})
		for i := range rapid.IntRange(0, 30).Draw(t, "rows") {
			a.add(auditRow{
				id: int64(i + 1), origin: rapid.Int64Range(-1, 40).Draw(t, "origin"),
				active: rapid.Int64Range(0, 2).Draw(t, "active"), compacted: rapid.Int64Range(0, 2).Draw(t, "compacted"),
				at: rapid.Int64().Draw(t, "at"), uid: rapid.StringN(0, 2, 2).Draw(t, "uid"),
				role:    rapid.SampledFrom([]string{"user", "assistant", "tool", "system", "?"}).Draw(t, "role"),
				calls:   rapid.SampledFrom([]string{"", "[]", "{", `"x"`, `[{"id":"a"}]`, `[{"id":"a"},{"id":"a"}]`, "null"}).Draw(t, "calls"),
				answers: rapid.SampledFrom([]string{"", "a"}).Draw(t, "answers"),
			})
		}
		a.end()
	})
}
