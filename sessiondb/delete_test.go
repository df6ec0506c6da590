package sessiondb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
)

// noTrace asserts that nothing in the file belongs to a session that is not there, and that the indexes hold the rows.
func noTrace(t testing.TB, s *Store) {
	t.Helper()
	for _, table := range []string{"messages", "usage", "leases", "routes", "folds", "compactions"} {
		equal(t, "orphans in "+table, number(t, s, `SELECT count(*) FROM `+table+` WHERE session_id NOT IN (SELECT id FROM sessions)`), 0)
	}
	equal(t, "prompts of nobody", number(t, s, `SELECT count(*) FROM prompts WHERE hash NOT IN (SELECT prompt_hash FROM sessions WHERE prompt_hash IS NOT NULL UNION
 SELECT json_extract(settings, '$.toolset') FROM sessions WHERE json_extract(settings, '$.toolset') IS NOT NULL)`), 0)
	checkIndexes(t, s)
}

// furnished is a session with something of everything, its leases given back.
func furnished(t testing.TB, s *Store, n NewSession) Session {
	t.Helper()
	made, err := s.CreateSession(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	l, err := s.TryTurn(t.Context(), made.ID, self(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	converse(t, s, l, "1")
	converse(t, s, l, "2")
	c := compacting(t, s, made.ID)
	if _, err := s.ArchiveAndCompact(t.Context(), here(c, transcript(t, s, made.ID), 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.SetCompactionState(t.Context(), c, CompactionState{Strikes: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.AddUsage(t.Context(), UsageDelta{Session: made.ID, Model: "m", Provider: "p"}); err != nil {
		t.Fatal(err)
	}
	for _, lease := range []Lease{c, l} {
		if err := s.Release(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	return made
}

// A deleted session leaves nothing behind, in no table and no index; what came from it stays and what it shares stays.
func TestDeleteLeavesNothingBehind(t *testing.T) {
	s, _ := testStore(t)
	gone := furnished(t, s, NewSession{Key: "k", Prompt: "its own"})
	shared := furnished(t, s, NewSession{Prompt: "shared"})
	child := furnished(t, s, NewSession{Prompt: "shared", Parent: gone.ID})
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, list := range map[string]string{gone.ID: "its own tools", shared.ID: "shared tools", child.ID: "shared tools"} {
		_, err := s.FixToolset(t.Context(), id, []byte(list))
		must(t, err)
	}
	late := furnished(t, s, NewSession{Prompt: "late"}) // above the marks of the indexes
	got, err := s.Delete(t.Context(), gone.ID, shared.ID, late.ID, gone.ID)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "deleted", got, Deleted{Sessions: 3, Messages: 3 * 13})
	noTrace(t, s)
	left, err := s.Session(t.Context(), child.ID)
	equal(t, "the child", fmt.Sprint(left.Parent, left.MessageCount, err), fmt.Sprint("", 5, nil))
	equal(t, "prompts", number(t, s, `SELECT count(*) FROM prompts WHERE body = 'shared'`), 1)
	equal(t, "lists of tools", number(t, s, `SELECT count(*) FROM prompts WHERE body = 'shared tools'`), 1)
	equal(t, "lists of tools that nobody has", number(t, s, `SELECT count(*) FROM prompts WHERE body = 'its own tools'`), 0)
	equal(t, "hits", len(search(t, s, Query{Text: "1T"})), 1)
	again, made, err := s.Resolve(t.Context(), NewSession{Key: "k"})
	if err != nil || !made || again.ID == gone.ID {
		t.Errorf("the key leads to %s: %v", again.ID, err)
	}
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	noTrace(t, s)
}

// All or nothing: one session that is not there, or in which somebody works, keeps all of them.
func TestDeleteRefusesTheWholeList(t *testing.T) {
	s, _ := testStore(t)
	idle, worked := furnished(t, s, NewSession{}), furnished(t, s, NewSession{})
	if _, err := s.Delete(t.Context(), idle.ID, "nobody"); !errors.Is(err, ErrSessionMissing) {
		t.Errorf("with an unknown one: %v", err)
	}
	child := startChild(t, "hold", s.file.Path(), worked.ID)
	equal(t, "child", child.Next(), "held")
	if _, err := s.Delete(t.Context(), idle.ID, worked.ID); !errors.Is(err, ErrLeaseHeld) || problem.KindOf(err) != problem.Busy {
		t.Errorf("with one that is worked in: %v", err)
	}
	equal(t, "sessions", number(t, s, `SELECT count(*) FROM sessions`), 2)
	child.Kill()
	if _, err := s.Delete(t.Context(), idle.ID, worked.ID); err != nil {
		t.Errorf("after its holder died: %v", err)
	}
	noTrace(t, s)
}

// 1,200 sessions go in one transaction where a statement may have no more than 999 parameters.
func TestManyIDsAreDeletedUnderASmallVariableLimit(t *testing.T) {
	s, _ := testStore(t)
	var ids []string
	write(t, s, `INSERT INTO sessions(id, opened_at, last_active, message_count) SELECT 's' || value, 1, 1, 1 FROM generate_series(1, 1201)`)
	write(t, s, `INSERT INTO messages(uid, session_id, origin_id, role, content, created_at) SELECT 'u' || id, id, 0, 'user', 'word', 1 FROM sessions`)
	write(t, s, `UPDATE messages SET origin_id = id`)
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 1200 {
		ids = append(ids, fmt.Sprint("s", i+1))
	}
	limit(t, s, 999)
	got, err := s.Delete(t.Context(), ids...)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "deleted", got, Deleted{Sessions: 1200, Messages: 1200})
	equal(t, "left", number(t, s, `SELECT count(*) FROM sessions`), 1)
	noTrace(t, s)
}

// limit lowers what the writer's statements may have, for the rest of the test.
func limit(t testing.TB, s *Store, most int) {
	t.Helper()
	set := func(n int) (before int) {
		err := s.file.Write(t.Context(), sqlite.Op{Label: "limit", Do: func(tx *sqlite.Tx) error {
			before = tx.LimitVariables(n)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		return before
	}
	if before := set(most); before <= most {
		t.Errorf("the limit was %d already", before)
	}
}

// A session too long for one transaction is out of sight at once and goes in steps, between which others write.
func TestLongSessionGoesInSteps(t *testing.T) {
	s, _ := testStore(t)
	long, other := conversation(t, s), conversation(t, s)
	rows := make([]NewMessage, 400)
	for i := range rows {
		rows[i] = NewMessage{Role: "user", Content: fmt.Sprint(strings.Repeat("word ", 200), i)}
	}
	if _, err := s.Append(t.Context(), long, rows); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(t.Context(), long); err != nil {
		t.Fatal(err)
	}
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := map[int64]bool{}
	done := make(chan error, 1)
	go func() {
		_, err := s.Delete(t.Context(), long.Session)
		done <- err
	}()
	for open := true; open; {
		select {
		case err := <-done:
			if open = false; err != nil {
				t.Fatal(err)
			}
		default:
			say(t, s, other, "beside it")
			n := number(t, s, `SELECT count(*) FROM messages WHERE session_id = ?`, long.Session)
			if seen[n] = true; n > 0 && n < int64(len(rows)) {
				equal(t, "end of a session that goes", number(t, s, `SELECT count(*) FROM sessions WHERE end_reason = 'deleted' AND hidden = 1`), 1)
			}
		}
	}
	if len(seen) < 4 {
		t.Errorf("other writers came between %d times", len(seen))
	}
	noTrace(t, s)
	equal(t, "sessions", number(t, s, `SELECT count(*) FROM sessions`), 1)
}

// Old sessions go, with all segments of a conversation or none; open, pinned, young and busy ones stay, and what a killed
// deletion left goes at any age.
func TestPruneTakesWholeConversationsThatAreOver(t *testing.T) {
	s, _ := testStore(t)
	at := func(days int) int64 { return time.Now().AddDate(0, 0, -days).UnixMicro() }
	plant := func(id, parent, reason string, days int, pinned bool) {
		t.Helper()
		var ended any
		if reason != "" {
			ended = at(days)
		}
		write(t, s, `INSERT INTO sessions(id, parent, opened_at, last_active, ended_at, end_reason, pinned) VALUES(?, ?, ?, ?, ?, ?, ?)`,
			id, null(parent), at(days), at(days), ended, null(reason), pinned)
	}
	plant("old", "", EndClosed, 100, false)
	plant("child of old", "old", EndClosed, 10, false)
	plant("young", "", EndClosed, 80, false)
	plant("open", "", "", 400, false)
	plant("pinned", "", "idle", 400, true)
	plant("held", "", "idle", 400, false)
	plant("left", "", EndDeleted, 1, false)
	plant("segment 1", "", EndCompression, 300, false)
	plant("segment 2", "segment 1", EndCompression, 200, false)
	plant("tip", "segment 2", "", 1, false)
	plant("over 1", "", EndCompression, 300, false)
	plant("over 2", "over 1", EndClosed, 200, false)
	plant("kept 1", "", EndCompression, 300, false)
	plant("kept 2", "kept 1", EndClosed, 200, true)
	if _, err := s.TryTurn(t.Context(), "held", self(t), 0); err != nil {
		t.Fatal(err)
	}
	would, err := s.Prune(t.Context(), PruneOptions{DryRun: true})
	if err != nil || would.Sessions != 5 {
		t.Fatal(would, err)
	}
	equal(t, "sessions after a dry run", number(t, s, `SELECT count(*) FROM sessions`), 14)
	got, err := s.Prune(t.Context(), PruneOptions{})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "pruned", got.IDs, []string{"left", "old", "over 1", "over 2"})
	equal(t, "busy", got.Busy, 1)
	var left []string
	err = s.file.Read(t.Context(), func(c *sqlite.Conn) error {
		for r, err := range c.Query(`SELECT id FROM sessions ORDER BY id`) {
			if err != nil {
				return err
			}
			left = append(left, r.Text(0))
		}
		return nil
	})
	equal(t, "left", fmt.Sprint(left, err), fmt.Sprint([]string{"child of old", "held", "kept 1", "kept 2", "open", "pinned", "segment 1", "segment 2", "tip", "young"}, nil))
	noTrace(t, s)
}

func deleteIt(ctx context.Context, s *Store, _ Lease) error {
	_, err := s.Delete(ctx, "s")
	return err
}
