package sessiondb

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"gatewayd/internal/problem"
)

func exported(t testing.TB, s *Store, o ExportOptions) string {
	t.Helper()
	var b bytes.Buffer
	if _, err := Export(t.Context(), s, &b, o); err != nil {
		t.Fatalf("export: %v", err)
	}
	return b.String()
}

func saved(t testing.TB, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "conversations.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func taken(t testing.TB, s *Store, text string) Moved {
	t.Helper()
	got, err := Import(t.Context(), s, saved(t, text), ImportOptions{})
	if err != nil {
		t.Fatalf("import: %v", err)
	}
	return got
}

// richStore is a store with everything that a conversation can have.
func richStore(t testing.TB) *Store {
	t.Helper()
	s, _ := testStore(t)
	ctx := t.Context()
	parent, err := s.CreateSession(ctx, NewSession{ID: "z-parent", Key: "chat:1", Source: "api", Title: "Töne & <Tags>", Model: "m", Prompt: "be good", Cwd: "/a b"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.TryTurn(ctx, parent.ID, self(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, tag := range []string{"1", "2", "3"} {
		converse(t, s, l, tag)
	}
	if _, err := s.Append(ctx, l, []NewMessage{
		{TurnID: "turn", Role: "user", Content: "数据库\x00迁移 \u2028", Wire: "[kind] 数据库"},
		{TurnID: "turn", Role: "assistant", ToolCalls: []byte(`[ {"id": "q",  "function":{"name":"t","arguments":"{\"a\":1.0}"}} ]`), Reasoning: "hm", Effect: "possible"},
		{TurnID: "turn", Role: "tool", ToolCallID: "q", ToolName: "t", Content: "", Effect: "unknown"},
		{TurnID: "turn", Role: "assistant", Content: "cut off", FinishReason: "interrupted", Kind: "closing"},
	}); err != nil {
		t.Fatal(err)
	}
	c := compacting(t, s, parent.ID)
	if _, err := s.ArchiveAndCompact(ctx, here(c, transcript(t, s, parent.ID), 2)); err != nil {
		t.Fatal(err)
	}
	for _, held := range []Lease{c, l} {
		if err := s.Release(ctx, held); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddUsage(ctx, UsageDelta{Session: parent.ID, Model: "m", Provider: "p", Counts: Counts{Prompt: 10, Completion: 3}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EndSession(ctx, parent.ID, EndCompression); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateSession(ctx, NewSession{ID: "a-child", Parent: parent.ID, Prompt: "be good", Hidden: true}); err != nil {
		t.Fatal(err)
	}
	wholeTurn(t, s, conversation(t, s), 1)
	write(t, s, `UPDATE sessions SET archived = 2, pinned = 1, rewind_count = 3 WHERE id = 'a-child'`)
	return s
}

// What is moved to an empty store is, moved on, the same bytes: flags, origins, folds, usage, prompts, parents and all.
func TestExportImportExportIsTheSameBytes(t *testing.T) {
	first := exported(t, richStore(t), ExportOptions{})
	for _, part := range []string{`"compacted":true`, `"origin":`, `"fold":`, `"usage":`, `"prompt":{`, `"parent":"z-parent"`, `"kind":"summary"`, `\u0000`, `<Tags>`} {
		if !strings.Contains(first, part) {
			t.Errorf("the export has no %s", part)
		}
	}
	s, _ := testStore(t)
	conversation(t, s) // so that rows get other numbers
	got := taken(t, s, first)
	equal(t, "moved", fmt.Sprint(got.New, got.Skipped, got.Notes), "3 0 []")
	ids := []string{}
	for _, o := range got.Sessions {
		ids = append(ids, o.Session)
	}
	if second := exported(t, s, ExportOptions{Sessions: ids}); second != first {
		t.Errorf("the second export differs:\n%s\n---\n%s", first, second)
	}
	again := taken(t, s, first)
	equal(t, "again", fmt.Sprint(again.New, again.Added, again.Skipped), "0 0 0")
	equal(t, "routes and leases of what was moved", number(t, s, `SELECT count(*) FROM routes`)+number(t, s, `SELECT count(*) FROM leases`), 1)
	soundAfter(t, s)
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkIndexes(t, s)
}

func TestExportOfALineageJoinsItsSegments(t *testing.T) {
	s := richStore(t)
	got := exported(t, s, ExportOptions{Sessions: []string{"a-child"}, Lineage: true})
	parent, child := strings.Index(got, `"session":{"id":"z-parent"`), strings.Index(got, `"session":{"id":"a-child"`)
	if parent < 0 || child < parent || strings.Count(got, `"session":{`) != 2 {
		t.Errorf("lineage: %s", got)
	}
	if alone := exported(t, s, ExportOptions{Sessions: []string{"a-child"}}); strings.Count(alone, `"session":{`) != 1 {
		t.Errorf("alone: %s", alone)
	}
	var b bytes.Buffer
	if _, err := Export(t.Context(), s, &b, ExportOptions{Sessions: []string{"nobody"}}); !errors.Is(err, ErrSessionMissing) || b.Len() > 0 {
		t.Errorf("an unknown session: %v, %q", err, b.String())
	}
	if _, err := Export(t.Context(), s, &b, ExportOptions{MaxMessages: 3}); !problem.Is(err, problem.Invalid) || !strings.Contains(err.Error(), "more than 3 messages") {
		t.Errorf("beyond the bound: %v", err)
	}
}

const (
	head = `{"gatewayd":{"format":"sessions","version":1}}` + "\n"
	sess = `{"session":{"id":"s","opened_at":1700000000000000}}` + "\n"
)

func msg(fields string) string { return `{"message":{` + fields + `}}` + "\n" }
func end(sessions, messages int) string {
	return fmt.Sprintf(`{"end":{"sessions":%d,"messages":%d}}`+"\n", sessions, messages)
}

// A file that is wrong anywhere is refused whole, by line and field, and nothing of it is stored.
func TestImportRefusesAFileWhole(t *testing.T) {
	ok := msg(`"uid":"u1","role":"user","content":"hello","active":true`)
	for _, c := range []struct{ name, text, says string }{
		{"empty", "", "line 0 is the last one"},
		{"no header", sess, "line 1 must be"},
		{"newer", `{"gatewayd":{"format":"sessions","version":2}}`, "line 1 field gatewayd says"},
		{"cut off", head + sess + ok, "line 3 is the last one"},
		{"not JSON", head + "{", "line 2 is no JSON object"},
		{"two objects", head + `{"end":{"sessions":0,"messages":0}} {}`, "line 2 holds more than one"},
		{"unknown field", head + `{"session":{"id":"s","colour":1}}`, `line 2 has the unknown field "colour"`},
		{"wrong type", head + `{"session":{"id":7}}`, "line 2 field session.id cannot be a JSON number"},
		{"bad UTF-8", head + sess + msg("\"uid\":\"u\",\"role\":\"user\",\"content\":\"\xff\""), "line 3 is no UTF-8"},
		{"slash in the id", head + `{"session":{"id":"../x"}}`, "line 2 field session.id"},
		{"session twice", head + sess + sess, "line 3 field session.id"},
		{"ended without reason", head + `{"session":{"id":"s","ended_at":5}}`, "line 2 fields session.ended_at"},
		{"prompt unknown", head + `{"session":{"id":"s","prompt":"x"}}`, "line 2 field session.prompt"},
		{"prompt digest", head + `{"prompt":{"hash":"x","body":"y"}}`, "line 2 field prompt.hash"},
		{"message alone", head + ok, "line 2 comes before the session"},
		{"uid twice", head + sess + ok + ok, "line 4 field message.uid"},
		{"role", head + sess + msg(`"uid":"u","role":"narrator","content":""`), "line 3 field message.role"},
		{"both flags", head + sess + msg(`"uid":"u","role":"user","content":"","active":true,"compacted":true`), "line 3 fields message.active"},
		{"origin unknown", head + sess + msg(`"uid":"u","role":"user","content":"","origin":"v"`), "line 3 field message.origin"},
		{"live twice", head + sess + ok + msg(`"uid":"u2","origin":"u1","role":"user","content":"hello","active":true`), "line 4 field message.active"},
		{"calls", head + sess + msg(`"uid":"u","role":"assistant","content":"","tool_calls":"["`), "line 3 field message.tool_calls"},
		{"time", head + sess + msg(`"uid":"u","role":"user","content":"","created_at":-1`), "line 3 field message.created_at"},
		{"fold of nothing", head + sess + `{"fold":{"summary":"u","absorbed":[]}}`, "line 3 field fold.summary"},
		{"usage twice", head + sess + `{"usage":{"model":"m","last_ref":""}}` + "\n" + `{"usage":{"model":"m","last_ref":""}}`, "line 4 field usage.model"},
		{"counts", head + sess + ok + end(1, 2), "line 4 says 1 sessions and 2 messages"},
		{"after the end", head + sess + ok + end(1, 1) + sess, "line 5 comes after the end"},
		{"error late", head + sess + ok + `{"session":{"id":"t"}}` + "\n" + msg(`"uid":"u9","role":"?","content":""`), "line 5 field message.role"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _ := testStore(t)
			path := saved(t, c.text)
			_, err := Import(t.Context(), s, path, ImportOptions{})
			if !problem.Is(err, problem.Invalid) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("want %q, got %v", c.says, err)
			}
			equal(t, "stored", number(t, s, `SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM messages) + (SELECT count(*) FROM prompts)`), 0)
		})
	}
}

func TestImportHasLimitsThatCanBeLifted(t *testing.T) {
	var b strings.Builder
	b.WriteString(head + sess)
	for i := range 10_001 {
		fmt.Fprintf(&b, `{"message":{"uid":"u%d","role":"user","content":"x","compacted":true}}`+"\n", i)
	}
	b.WriteString(end(1, 10_001))
	s, _ := testStore(t)
	path := saved(t, b.String())
	if _, err := Import(t.Context(), s, path, ImportOptions{}); !problem.Is(err, problem.Invalid) || !strings.Contains(err.Error(), "beyond 10000 messages in one session") {
		t.Fatalf("limited: %v", err)
	}
	got, err := Import(t.Context(), s, path, ImportOptions{Unlimited: true})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "unlimited", moved(got), "1 sessions, 1 new, 10001 added, 0 present, 0 skipped")
}

// A longer export of the same conversation continues it; one that went another way, or goes on now, is left as it is.
func TestImportContinuesButNeverOverwrites(t *testing.T) {
	text := func(n int) string {
		var b strings.Builder
		b.WriteString(head + `{"session":{"id":"s","title":"theirs","opened_at":1700000000000000}}` + "\n")
		for i := range n {
			b.WriteString(msg(fmt.Sprintf(`"uid":"u%d","role":"%s","content":"%d","active":true`, i, []string{"user", "assistant"}[i%2], i)))
		}
		return b.String() + end(1, n)
	}
	s, _ := testStore(t)
	equal(t, "two", moved(taken(t, s, text(2))), "1 sessions, 1 new, 2 added, 0 present, 0 skipped")
	write(t, s, `UPDATE sessions SET title = 'ours'`)
	equal(t, "four", moved(taken(t, s, text(4))), "1 sessions, 0 new, 2 added, 2 present, 0 skipped")
	equal(t, "fewer", moved(taken(t, s, text(2))), "1 sessions, 0 new, 0 added, 2 present, 0 skipped")
	equal(t, "title", number(t, s, `SELECT count(*) FROM sessions WHERE title = 'ours' AND message_count = 4`), 1)
	l, err := s.TryTurn(t.Context(), "s", self(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	got := taken(t, s, text(6))
	equal(t, "beside a turn", moved(got)+" "+got.Sessions[0].Reason[:13], "1 sessions, 0 new, 0 added, 4 present, 2 skipped a turn runs i")
	say(t, s, l, "said here")
	if err := s.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	got = taken(t, s, text(6))
	equal(t, "after it went on", moved(got)+" "+got.Sessions[0].Reason, "1 sessions, 0 new, 0 added, 4 present, 2 skipped it went another way here")
	equal(t, "live", short(transcript(t, s, "s")), "0 1 2 3 said here")
	other := strings.ReplaceAll(text(2), `"id":"s"`, `"id":"t"`)
	got = taken(t, s, other)
	equal(t, "under another name", moved(got)+" "+got.Sessions[0].Reason, "1 sessions, 0 new, 0 added, 0 present, 2 skipped a row of it is here in another session")
	soundAfter(t, s, "roles_do_not_alternate")
}

func TestImportOfAFileDryRunWritesNothing(t *testing.T) {
	path := saved(t, exported(t, richStore(t), ExportOptions{}))
	s, _ := testStore(t)
	before := dump(t, s)
	for _, store := range []*Store{s, nil} {
		got, err := Import(t.Context(), store, path, ImportOptions{DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "would move", fmt.Sprint(got.New, got.DryRun), "3 true")
	}
	if dump(t, s) != before {
		t.Error("a dry run wrote")
	}
}

func TestImportOfAFileDetachesParents(t *testing.T) {
	one := func(id, parent string) string {
		return fmt.Sprintf(`{"session":{"id":"%s","parent":"%s","opened_at":5}}`+"\n", id, parent)
	}
	s, _ := testStore(t)
	got := taken(t, s, head+one("a", "b")+one("b", "a")+one("c", "gone")+one("d", "d")+one("e", "a")+end(5, 0))
	equal(t, "notes", len(got.Notes), 3)
	equal(t, "parents", number(t, s, `SELECT count(*) FROM sessions WHERE parent IS NOT NULL`), 2)
	equal(t, "circles", codes(verified(t, s, VerifyOptions{})), "")
}

func TestImportOfAFileThatIsNone(t *testing.T) {
	s, _ := testStore(t)
	if _, err := Import(t.Context(), s, filepath.Join(t.TempDir(), "none"), ImportOptions{}); !problem.Is(err, problem.NotFound) {
		t.Errorf("missing: %v", err)
	}
	if _, err := Import(t.Context(), s, t.TempDir(), ImportOptions{}); !problem.Is(err, problem.Unavailable) {
		t.Errorf("a directory: %v", err)
	}
}

// Whatever bytes a file holds, reading it ends with a problem or with lines that are sound.
func FuzzFileReader(f *testing.F) {
	f.Add(head + sess + msg(`"uid":"u1","role":"user","content":"hello","active":true`) + end(1, 1))
	f.Add(head + `{"session":null}`)
	f.Add("\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		in := newFileReader("x", strings.NewReader(text), &defaultLimits)
		for range len(text) + 2 {
			if _, err := in.next(); err != nil {
				return
			}
		}
		t.Error("it does not end")
	})
}

// A line that was written is read back as it was.
func TestALineIsReadAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String()
		l := fileLine{Message: &messageLine{
			UID: text.Draw(t, "uid"), Content: text.Draw(t, "content"), Wire: text.Draw(t, "wire"), ToolCalls: text.Draw(t, "calls"), Role: text.Draw(t, "role"),
			Active: rapid.Bool().Draw(t, "active"), CreatedAt: rapid.Int64().Draw(t, "at"),
		}}
		var b bytes.Buffer
		encode(&b, l)
		if bytes.Count(b.Bytes(), []byte("\n")) != 1 {
			t.Fatalf("more than one line: %q", b.String())
		}
		got, err := decode(bytes.TrimRight(b.Bytes(), "\n"))
		if err != nil || *got.Message != *l.Message {
			t.Fatalf("%+v became %+v: %v", *l.Message, got.Message, err)
		}
	})
}
