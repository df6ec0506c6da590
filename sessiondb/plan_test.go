package sessiondb

import (
	"fmt"
	"strings"
	"testing"

	"gatewayd/internal/sqlite"
)

// What runs in each turn and on each screen goes by an index and sorts nothing.
func TestHotQueriesGoByAnIndex(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	say(t, s, l, "a")
	list := ListFilter{}.args(maxStamp, "z", 50)
	for name, c := range map[string]struct {
		sql   string
		args  []any
		index string
	}{
		"transcript":  {selectTranscript, []any{"x", 0}, "messages_by_session (session_id=? AND active=? AND compacted=? AND rowid>?)"},
		"page":        {selectLive, []any{"x", 0, 9}, "messages_by_session (session_id=? AND active=? AND compacted=? AND rowid>? AND rowid<?)"},
		"history":     {selectShown, []any{"x", 0, 9}, "messages_shown (session_id=? AND origin_id>? AND origin_id<?)"},
		"inspection":  {selectAll, []any{"x", 0, 9}, "MERGE (UNION ALL)"},
		"list":        {listRecent, list, "sessions_recent (last_active>? AND last_active<?)"},
		"neighbour":   {rowBefore, []any{"x", 1, 200, true}, "messages_by_session (session_id=? AND active=? AND compacted=? AND rowid<?)"},
		"by key":      {routed, []any{"k"}, "sessions USING INDEX"},
		"proof":       {selectProof, []any{"x", 9}, "COVERING INDEX messages_by_session (session_id=? AND active=? AND compacted=? AND rowid<?)"},
		"count":       {`SELECT count(*) FROM messages WHERE session_id = ? AND active = 1 AND compacted = 0`, []any{"x"}, "COVERING INDEX messages_by_session"},
		"chunk":       {`SELECT id, octet_length(content) FROM messages WHERE id > ? ORDER BY id LIMIT ?`, []any{0, 9}, "INTEGER PRIMARY KEY (rowid>?)"},
		"uid":         {`SELECT 1 FROM messages WHERE uid = ?`, []any{"u"}, "(uid=?)"},
		"routes back": {`SELECT 1 FROM routes WHERE session_id = ?`, []any{"x"}, "routes_session"},
	} {
		plan := explain(t, s, c.sql, c.args)
		if !strings.Contains(plan, c.index) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s:\n%s", name, plan)
		}
	}
}

func explain(t *testing.T, s *Store, sql string, args []any) (plan string) {
	t.Helper()
	err := s.file.Read(t.Context(), func(c *sqlite.Conn) error {
		for r, err := range c.Query(`EXPLAIN QUERY PLAN `+sql, args...) {
			if err != nil {
				return err
			}
			plan += r.Text(3) + "\n"
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// Two programs on one file index the same rows, each step once.
func TestTwoIndexersDoNotIndexTwice(t *testing.T) {
	path := t.TempDir() + "/state.db"
	a, _ := openStore(t, path)
	b, _ := openStore(t, path)
	runIndexer(t, a)
	runIndexer(t, b)
	la, lb := conversation(t, a), conversation(t, b)
	for i := range 60 {
		say(t, a, la, fmt.Sprint("from a ", i))
		say(t, b, lb, fmt.Sprint("from b ", i))
		if i%20 == 10 {
			if err := b.markStale(t.Context(), words, fmt.Errorf("test")); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, s := range []*Store{a, b} {
		if err := s.WaitIndexed(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	checkIndexes(t, a)
	equal(t, "documents", number(t, a, `SELECT count(*) FROM messages_fts_docsize`), 120)
}

// A store in rollback-journal mode does all the same; its reads go through the writer.
func TestStoreInDeleteMode(t *testing.T) {
	s, err := Open(t.Context(), Options{Path: t.TempDir() + "/state.db", Journal: sqlite.JournalConfig{Mode: "delete"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	equal(t, "journal", s.file.Journal().Mode, "delete")
	runIndexer(t, s)
	l := conversation(t, s)
	for i := range 30 {
		say(t, s, l, fmt.Sprint("row ", i))
		equal(t, "hits", len(search(t, s, Query{Text: "row", Limit: 100})), i+1)
	}
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkIndexes(t, s)
}
