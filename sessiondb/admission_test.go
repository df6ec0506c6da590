package sessiondb

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// childRebuild begins to build an index anew, says so after the first rows, and waits for its end.
func childRebuild() {
	s := childStore()
	for range 3 { // makes it new, then indexes some rows
		if _, more, err := s.step(context.Background(), words); err != nil || !more {
			childFail(fmt.Errorf("more %t: %w", more, err))
		}
	}
	fmt.Println("begun")
	select {}
}

// While one process builds an index anew, another one neither starts over nor helps, and its searches miss nothing. Once
// the first is killed the second goes on where it was.
func TestOneProcessRebuildsAndAKilledOneIsSucceeded(t *testing.T) {
	path := t.TempDir() + "/state.db"
	s, _ := openStore(t, path)
	l := conversation(t, s)
	var rows []NewMessage
	for i := range 3 * chunkRows {
		rows = append(rows, NewMessage{Role: "user", Content: fmt.Sprintf("word number %04d", i)})
	}
	if _, err := s.Append(t.Context(), l, rows); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range indexes {
		if err := s.markStale(t.Context(), i, errors.New("test")); err != nil {
			t.Fatal(err)
		}
	}
	c := startChild(t, "rebuild", path, "")
	equal(t, "child", c.Next(), "begun")
	for i, ix := range indexes {
		if _, _, err := s.step(t.Context(), i); !errors.Is(err, errDeferred) {
			t.Errorf("a step of %s beside another rebuild: %v", ix.table, err)
		}
	}
	equal(t, "hits", len(search(t, s, Query{Text: "number", Limit: 200})), 200)
	equal(t, "hits of the oldest", len(search(t, s, Query{Text: `"number 0003"`})), 1)
	states, err := s.IndexStates(t.Context())
	if err != nil || states[words].By == "" || states[words].Mark == 0 {
		t.Fatalf("while it is rebuilt: %+v, %v", states, err)
	}
	c.Kill()
	if _, _, err := s.step(t.Context(), words); err != nil {
		t.Errorf("after the other was killed: %v", err)
	}
	now, _ := s.IndexStates(t.Context())
	if now[words].Mark <= states[words].Mark {
		t.Errorf("it began again at %d instead of going on at %d", now[words].Mark, states[words].Mark)
	}
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkIndexes(t, s)
	equal(t, "ticket", number(t, s, `SELECT count(*) FROM meta WHERE k = ?`, rebuildTicket), 0)
	equal(t, "documents", number(t, s, `SELECT count(*) FROM messages_fts_docsize`), int64(len(rows)))
}

// A holder that lives but is silent gives its ticket up after a minute; one that nobody can read holds nothing.
func TestATicketDoesNotHoldForEver(t *testing.T) {
	s, _ := testStore(t)
	say(t, s, conversation(t, s), "word")
	h := self(t)
	for name, plant := range map[string]string{
		"ran out":               fmt.Sprintf(`{"token":"x","holder":{"boot":%q,"pid":%d},"expires":1,"tables":["messages_fts"]}`, h.Boot, h.PID),
		"of a clock far ahead":  `{"token":"x","expires":4000000000000000,"tables":["messages_fts"]}`,
		"of a life before this": fmt.Sprintf(`{"token":"x","holder":{"boot":"other","pid":1},"expires":%d,"tables":["messages_fts"]}`, number(t, s, `SELECT (unixepoch() + 30) * 1000000`)),
		"unreadable":            `no JSON`,
	} {
		if err := s.markStale(t.Context(), words, errors.New("test")); err != nil {
			t.Fatal(err)
		}
		write(t, s, `INSERT OR REPLACE INTO meta(k, v) VALUES(?, ?)`, rebuildTicket, plant)
		if _, _, err := s.step(t.Context(), words); err != nil {
			t.Errorf("with a ticket that is %s: %v", name, err)
		}
	}
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkIndexes(t, s)
}
