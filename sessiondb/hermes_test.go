package sessiondb

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gatewayd/internal/problem"
)

// Every file of the original comes in whole, and a second time nothing comes; the file and its directory stay as they are.
func TestImportOfTheOriginalsFiles(t *testing.T) {
	for _, c := range []struct{ name, first, states, shape string }{
		{"state_0140.db", "20 sessions, 20 new, 154 added, 0 present, 0 skipped", "154 live, 0 folded, 0 superseded", "3 children, 0 rewinds, 0 titles"},
		{"state_0170.db", "40 sessions, 40 new, 311 added, 0 present, 0 skipped", "300 live, 7 folded, 4 superseded", "5 children, 1 rewinds, 10 titles"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := original(t, c.name)
			s, _ := testStore(t)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "first", moved(bring(t, s, filepath.Dir(path))), c.first)
			once := dump(t, s)
			again := bring(t, s, path)
			equal(t, "again: new, added", fmt.Sprint(again.New, again.Added, again.Skipped), "0 0 0")
			if dump(t, s) != once {
				t.Error("the second import changed something")
			}
			equal(t, "states", fmt.Sprintf("%d live, %d folded, %d superseded", number(t, s, `SELECT count(*) FROM messages WHERE active = 1`),
				number(t, s, `SELECT count(*) FROM messages WHERE compacted = 1`), number(t, s, `SELECT count(*) FROM messages WHERE active = 0 AND compacted = 0`)), c.states)
			equal(t, "sessions", fmt.Sprintf("%d children, %d rewinds, %d titles", number(t, s, `SELECT count(*) FROM sessions WHERE parent IS NOT NULL`),
				number(t, s, `SELECT coalesce(sum(rewind_count), 0) FROM sessions`), number(t, s, `SELECT count(*) FROM sessions WHERE title <> ''`)), c.shape)
			after, err := os.ReadFile(path)
			if err != nil || string(after) != string(before) {
				t.Errorf("the file has changed: %v", err)
			}
			if beside, _ := filepath.Glob(path + "-*"); len(beside) > 0 {
				t.Errorf("made beside the file: %v", beside)
			}
			soundAfter(t, s)
			if err := s.WaitIndexed(t.Context()); err != nil {
				t.Fatal(err)
			}
			checkIndexes(t, s)
		})
	}
}

func TestImportedTextIsFound(t *testing.T) {
	s, _ := testStore(t)
	bring(t, s, original(t, "state_0170.db"))
	for _, text := range []string{"kernel ledger", "数据库迁移"} {
		hits, err := s.Search(t.Context(), Query{Text: text})
		if err != nil || len(hits) == 0 {
			t.Errorf("%s: %d hits, %v", text, len(hits), err)
		}
	}
}

func TestImportShowsPartsThatAreNoText(t *testing.T) {
	s, _ := testStore(t)
	got := bring(t, s, original(t, "state_0140.db"))
	if number(t, s, `SELECT count(*) FROM messages WHERE content = ?`, "look\n[image not imported]") != 1 {
		t.Error("the message of several parts is not there")
	}
	if len(got.Notes) != 1 || !strings.Contains(got.Notes[0], "parts that are no text") {
		t.Errorf("notes: %q", got.Notes)
	}
}

// A file with a malformed schema is explained in one line, and nothing of it comes.
func TestImportOfAMalformedSchemaExplainsItself(t *testing.T) {
	s, _ := testStore(t)
	path := original(t, "state_0170_dup_schema.db")
	_, err := ImportHermes(t.Context(), s, HermesOptions{Path: path})
	if !problem.Is(err, problem.Damaged) || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "malformed database schema") || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
	equal(t, "rows", number(t, s, `SELECT (SELECT count(*) FROM sessions) + (SELECT count(*) FROM messages)`), 0)
}

func TestImportRefusesWhatIsNoStateFile(t *testing.T) {
	s, _ := testStore(t)
	other := filepath.Join(t.TempDir(), "state.db")
	hermesDo(t, other, `CREATE TABLE sessions(x)`)
	if _, err := ImportHermes(t.Context(), s, HermesOptions{Path: other}); !problem.Is(err, problem.Invalid) || !strings.Contains(err.Error(), "is no Hermes state.db") {
		t.Errorf("another database: %v", err)
	}
	if _, err := ImportHermes(t.Context(), s, HermesOptions{Path: t.TempDir()}); !problem.Is(err, problem.NotFound) {
		t.Errorf("an empty directory: %v", err)
	}
	if _, err := ImportHermes(t.Context(), s, HermesOptions{Path: s.File().Path()}); !problem.Is(err, problem.Invalid) {
		t.Errorf("our own file: %v", err)
	}
}

// Whatever version wrote the file, the columns that it has come along and those that it lacks have their defaults.
func TestImportOfEveryVintage(t *testing.T) {
	for _, v := range vintages {
		t.Run(fmt.Sprint("schema ", v.version), func(t *testing.T) {
			path := hermesFile(t, v.version)
			hermesDo(t, path,
				`INSERT INTO sessions(id, source, model, system_prompt, started_at, ended_at, end_reason, input_tokens, api_call_count) VALUES('p', 'cli', 'm', 'be good', 1.7e9, 1.7e9 + 60, 'compression', 7, 1)`,
				`INSERT INTO sessions(id, source, parent_session_id, started_at, title) VALUES('c', 'cli', 'p', 1.7e9 + 61, 'child')`,
				`INSERT INTO messages(session_id, role, content, timestamp) VALUES('p', 'user', 'hello', 1.7e9 + 1.5)`,
				`INSERT INTO messages(session_id, role, content, tool_calls, timestamp, reasoning_content) VALUES('p', 'assistant', NULL, '[{"id": "c1", "type": "function"}]', 1.7e9 + 2, 'thought')`,
				`INSERT INTO messages(session_id, role, content, tool_call_id, tool_name, timestamp) VALUES('p', 'tool', 'result', 'c1', 't', 1.7e9 + 3)`,
				`INSERT INTO messages(session_id, role, content, timestamp, finish_reason) VALUES('p', 'assistant', 'done', 1.7e9 + 4, 'stop')`,
				`INSERT INTO messages(session_id, role, content, timestamp) VALUES('c', 'user', 'and now?', 1.7e9 + 62)`)
			s, _ := testStore(t)
			equal(t, "moved", moved(bring(t, s, path)), "2 sessions, 2 new, 5 added, 0 present, 0 skipped")
			equal(t, "child", number(t, s, `SELECT count(*) FROM sessions WHERE id = 'c' AND parent = 'p' AND title = 'child' AND ended_at IS NULL`), 1)
			equal(t, "parent", number(t, s, `SELECT count(*) FROM sessions s JOIN prompts p ON p.hash = s.prompt_hash WHERE s.id = 'p' AND p.body = 'be good' AND
 ended_at = 1700000060000000 AND end_reason = 'compression' AND message_count = 4 AND last_active = 1700000004000000 AND preview = 'hello'`), 1)
			equal(t, "calls byte for byte, reasoning", number(t, s, `SELECT count(*) FROM messages WHERE tool_calls = '[{"id": "c1", "type": "function"}]' AND reasoning = 'thought' AND content = ''`), 1)
			equal(t, "usage", number(t, s, `SELECT count(*) FROM usage WHERE session_id = 'p' AND model = 'm' AND prompt = 7 AND calls = 1`), 1)
			again := bring(t, s, path)
			equal(t, "again", moved(again), "2 sessions, 0 new, 0 added, 5 present, 0 skipped")
			soundAfter(t, s)
		})
	}
}

// Rows that Hermes wrote since come along, those that it folded away meanwhile are folded here too, and a message and its
// copies stay one.
func TestImportFollowsWhatHermesDidSince(t *testing.T) {
	path := hermesFile(t, 31)
	uid := func(n int) string { return fmt.Sprintf("%032x", n) }
	hermesDo(t, path,
		`INSERT INTO sessions(id, source, started_at) VALUES('s', 'cli', 1.7e9)`,
		`INSERT INTO messages(session_id, role, content, timestamp, message_uid, display_order) VALUES('s', 'user', 'one', 1.7e9 + 1, '`+uid(1)+`', 1), ('s', 'assistant', 'two', 1.7e9 + 2, '`+uid(2)+`', 2),
 ('s', 'user', 'three', 1.7e9 + 3, '`+uid(3)+`', 3), ('s', 'assistant', 'four', 1.7e9 + 4, '`+uid(4)+`', 4)`)
	s, _ := testStore(t)
	bring(t, s, path)
	hermesDo(t, path, // a compaction: one and two are folded, three and four go on as copies
		`UPDATE messages SET active = 0, compacted = id < 3`,
		`INSERT INTO messages(session_id, role, content, timestamp, message_uid, display_order, _compressed_summary) VALUES('s', 'assistant', 'SUMMARY', 1.7e9 + 5, '`+uid(5)+`', 5, 1)`,
		`INSERT INTO messages(session_id, role, content, timestamp, message_uid, display_order) VALUES('s', 'user', 'three', 1.7e9 + 3, '`+uid(3)+`', 6), ('s', 'assistant', 'four', 1.7e9 + 4, '`+uid(4)+`', 7)`,
		`UPDATE sessions SET ended_at = 1.7e9 + 9, end_reason = 'done', title = 'later'`)
	equal(t, "moved", moved(bring(t, s, path)), "1 sessions, 0 new, 3 added, 4 present, 0 skipped")
	rows := transcript(t, s, "s")
	equal(t, "live", short(rows), "SUMMARY three four")
	equal(t, "kind and origins", fmt.Sprint(rows[0].Kind, " ", rows[1].OriginID, rows[2].OriginID), "summary 3 4")
	shown, err := s.Messages(t.Context(), "s", MessageFilter{IncludeCompacted: true})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "shown", short(shown), "one two three four SUMMARY")
	equal(t, "end and title", number(t, s, `SELECT count(*) FROM sessions WHERE end_reason = 'done' AND title = 'later' AND message_count = 3`), 1)
	equal(t, "a third time", moved(bring(t, s, path)), "1 sessions, 0 new, 0 added, 7 present, 0 skipped")
	soundAfter(t, s)
}

// A file that was upgraded between two imports has names for its rows, and for itself, that it had not: nothing comes twice.
func TestImportAfterAnUpgradeAddsNothingTwice(t *testing.T) {
	path := hermesFile(t, 22)
	hermesDo(t, path,
		`INSERT INTO sessions(id, source, started_at) VALUES('s', 'cli', 1.7e9)`,
		`INSERT INTO messages(session_id, role, content, timestamp) VALUES('s', 'user', 'one', 1.7e9 + 1), ('s', 'assistant', 'two', 1.7e9 + 2)`)
	s, _ := testStore(t)
	bring(t, s, path)
	hermesDo(t, path, `INSERT INTO state_meta VALUES('store_instance_id', 'new-name')`, `ALTER TABLE messages ADD COLUMN message_uid TEXT`,
		`UPDATE messages SET message_uid = lower(hex(randomblob(16)))`,
		`INSERT INTO messages(session_id, role, content, timestamp, message_uid) VALUES('s', 'user', 'three', 1.7e9 + 3, lower(hex(randomblob(16))))`)
	equal(t, "moved", moved(bring(t, s, path)), "1 sessions, 0 new, 1 added, 2 present, 0 skipped")
	equal(t, "live", short(transcript(t, s, "s")), "one two three")
}

// Two files whose rows have the same numbers, and a child whose copied rows kept the uids of its parent's.
func TestImportKeepsRowsOfDifferentSessionsApart(t *testing.T) {
	s, _ := testStore(t)
	for _, name := range []string{"a", "b"} {
		path := hermesFile(t, 22)
		hermesDo(t, path, `INSERT INTO sessions(id, source, started_at) VALUES('`+name+`', 'cli', 1.7e9)`,
			`INSERT INTO messages(session_id, role, content, timestamp) VALUES('`+name+`', 'user', 'of `+name+`', 1.7e9 + 1)`)
		equal(t, "moved", moved(bring(t, s, path)), "1 sessions, 1 new, 1 added, 0 present, 0 skipped")
	}
	path := hermesFile(t, 31)
	hermesDo(t, path, `INSERT INTO sessions(id, source, started_at, parent_session_id) VALUES('child', 'cli', 1.7e9, 'parent'), ('parent', 'cli', 1.7e9, NULL)`,
		`INSERT INTO messages(session_id, role, content, timestamp, message_uid) VALUES('parent', 'user', 'said', 1.7e9 + 1, '`+strings.Repeat("a", 32)+`'),
 ('child', 'user', 'said', 1.7e9 + 1, '`+strings.Repeat("a", 32)+`')`)
	equal(t, "moved", moved(bring(t, s, path)), "2 sessions, 2 new, 2 added, 0 present, 0 skipped")
	equal(t, "again", moved(bring(t, s, path)), "2 sessions, 0 new, 0 added, 2 present, 0 skipped")
	soundAfter(t, s)
}

// A cell that is not what it should be costs neither its row nor its session, and is named once.
func TestImportDegradesCellByCell(t *testing.T) {
	path := hermesFile(t, 31)
	hermesDo(t, path,
		`INSERT INTO sessions(id, source, started_at, last_activity_at, model_config, rewind_count) VALUES('s', 'cli', 'yesterday', 8.4e252, '{', 'x')`,
		`INSERT INTO messages(session_id, role, content, timestamp) VALUES('s', 'user', 'a', '1700000001.5'), ('s', 'assistant', 'b', 'noon'), ('s', 'user', 'c', 8.4e252), ('s', 'assistant', 'd', -1)`,
		`INSERT INTO messages(session_id, role, content, timestamp) VALUES('s', 'user', CAST(X'6162FF63' AS TEXT), 1.7e9 + 9), ('s', 'assistant', X'0061', 1.7e9 + 10)`,
		`INSERT INTO messages(session_id, role, content, timestamp, tool_calls) VALUES('s', 'user', char(0) || 'json:[{', 1.7e9 + 11, NULL), ('s', 'assistant', 'calls', 1.7e9 + 12, '[{"id":')`,
		`INSERT INTO messages(session_id, role, content, timestamp) VALUES('s', 'narrator', 'once upon a time', 1.7e9 + 13)`,
		`INSERT INTO messages(session_id, role, content, timestamp, active, compacted) VALUES('s', 'user', 'both', 1.7e9 + 14, 1, 1), ('s', 'assistant', 'neither', 1.7e9 + 15, NULL, 0)`,
		`INSERT INTO messages(session_id, role, content, timestamp) VALUES('nobody', 'user', 'orphan', 1.7e9)`)
	s, _ := testStore(t)
	got := bring(t, s, path)
	equal(t, "moved", moved(got), "1 sessions, 1 new, 10 added, 0 present, 2 skipped")
	equal(t, "reasons", fmt.Sprint(got.Sessions[0].Reason, ", ", got.Orphans), `the role "narrator" is none of a conversation, 1`)
	for _, column := range []string{"started_at", "last_activity_at", "rewind_count", "timestamp", "content", "tool_calls", "compacted"} {
		if !strings.Contains(strings.Join(got.Notes, "\n"), column+":") {
			t.Errorf("nothing is said of %s: %q", column, got.Notes)
		}
	}
	equal(t, "notes", len(got.Notes), 9)
	rows := transcript(t, s, "s")
	equal(t, "texts", fmt.Sprintf("%q", contents(rows)), `["a" "b" "c" "d" "ab`+"\uFFFD"+`c" "\x00a" "\x00json:[{" "calls" "both" "neither"]`)
	equal(t, "calls as text", string(rows[7].ToolCalls), `"[{\"id\":"`)
	for _, row := range rows {
		if row.CreatedAt.IsZero() {
			t.Errorf("row %d has no time", row.ID)
		}
	}
	equal(t, "a time that was text", rows[0].CreatedAt.UnixMicro(), 1700000001500000)
	soundAfter(t, s, "calls_unreadable")
}

// A conversation that went on here is left as it is, and so is one in which a turn runs.
func TestImportLeavesAloneWhatGoesOnHere(t *testing.T) {
	path := hermesFile(t, 22)
	hermesDo(t, path, `INSERT INTO sessions(id, source, started_at) VALUES('s', 'cli', 1.7e9)`,
		`INSERT INTO messages(session_id, role, content, timestamp) VALUES('s', 'user', 'one', 1.7e9 + 1), ('s', 'assistant', 'two', 1.7e9 + 2)`)
	s, _ := testStore(t)
	bring(t, s, path)
	hermesDo(t, path, `INSERT INTO messages(session_id, role, content, timestamp) VALUES('s', 'user', 'three', 1.7e9 + 3)`)
	l, err := s.TryTurn(t.Context(), "s", self(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	got := bring(t, s, path)
	equal(t, "beside a turn", moved(got), "1 sessions, 0 new, 0 added, 2 present, 1 skipped")
	if !strings.Contains(got.Sessions[0].Reason, "a turn runs in it here") {
		t.Error(got.Sessions[0].Reason)
	}
	say(t, s, l, "said here")
	if err := s.Release(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	got = bring(t, s, path)
	equal(t, "after it went on", moved(got), "1 sessions, 0 new, 0 added, 2 present, 1 skipped")
	if !strings.Contains(got.Sessions[0].Reason, "went on here") {
		t.Error(got.Sessions[0].Reason)
	}
	equal(t, "live", short(transcript(t, s, "s")), "one two said here")
}

// A circle of parents is cut, a parent that is missing is let go, and both are said.
func TestImportDetachesParentsThatLeadNowhere(t *testing.T) {
	path := hermesFile(t, 22)
	hermesDo(t, path, `INSERT INTO sessions(id, source, started_at, parent_session_id) VALUES('a', 'cli', 1.7e9, 'b'), ('b', 'cli', 1.7e9, 'a'), ('c', 'cli', 1.7e9, 'gone'), ('d', 'cli', 1.7e9, 'd')`)
	s, _ := testStore(t)
	got := bring(t, s, path)
	equal(t, "moved", moved(got), "4 sessions, 4 new, 0 added, 0 present, 0 skipped")
	equal(t, "notes", len(got.Notes), 3)
	equal(t, "circles", codes(verified(t, s, VerifyOptions{})), "")
}

func TestImportDryRunWritesNothing(t *testing.T) {
	path := hermesFile(t, 31)
	hermesDo(t, path, `INSERT INTO sessions(id, source, started_at) VALUES('s', 'cli', 1.7e9), ('empty', 'cli', 1.7e9)`,
		`INSERT INTO messages(session_id, role, content, timestamp) VALUES('s', 'user', 'one', 1.7e9 + 1)`)
	s, _ := testStore(t)
	before := dump(t, s)
	for _, store := range []*Store{s, nil} {
		got, err := ImportHermes(t.Context(), store, HermesOptions{Path: path, DryRun: true, Scratch: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "would move", moved(got), "2 sessions, 2 new, 1 added, 0 present, 0 skipped")
		if dump(t, s) != before {
			t.Fatal("a dry run wrote")
		}
	}
}
