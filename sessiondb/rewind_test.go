package sessiondb

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gatewayd/internal/problem"
)

// A turn is taken back whole, counted from either end; what stays is not touched in any byte.
func TestRewindTakesBackWholeTurns(t *testing.T) {
	for turn, want := range map[int]string{
		-1: "1Q call 1T 1A 2Q call 2T 2A", -2: "1Q call 1T 1A", -9: "", 1: "", 2: "1Q call 1T 1A", 3: "1Q call 1T 1A 2Q call 2T 2A",
	} {
		s, _ := testStore(t)
		l := conversation(t, s)
		converse(t, s, l, "1")
		converse(t, s, l, "2")
		converse(t, s, l, "3")
		if _, err := s.Append(t.Context(), l, []NewMessage{{Role: "user", Content: "steer", Kind: KindSteer}, {Role: "assistant", Content: "steered"}}); err != nil {
			t.Fatal(err)
		}
		before := transcript(t, s, l.Session)
		got, err := s.RewindTurns(t.Context(), l, turn)
		if err != nil {
			t.Fatal(err)
		}
		after := transcript(t, s, l.Session)
		equal(t, fmt.Sprint("live after ", turn), short(after), want)
		equal(t, "rows that stay", fmt.Sprintf("%+v", after), fmt.Sprintf("%+v", before[:len(after)]))
		equal(t, "removed", fmt.Sprintf("%+v", got.Removed), fmt.Sprintf("%+v", before[len(after):]))
		one, _ := s.Session(t.Context(), l.Session)
		equal(t, "counter", one.MessageCount, int64(len(after)))
		equal(t, "rewinds", number(t, s, `SELECT rewind_count FROM sessions`), 1)
		equal(t, "rows in all", number(t, s, `SELECT count(*) FROM messages`), int64(len(before)))
	}
}

// A rewind decided on rows that are others now changes nothing, and neither does one to a row that is not live.
func TestRewindIsCompareAndSwap(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	folded := converse(t, s, l, "1")
	converse(t, s, l, "2")
	rows := transcript(t, s, l.Session)
	if _, err := s.ArchiveAndCompact(t.Context(), here(compacting(t, s, l.Session), rows, 1)); err != nil {
		t.Fatal(err)
	}
	now := transcript(t, s, l.Session)
	for what, c := range map[string]struct {
		id   int64
		seen Seen
		want error
	}{
		"rows of before":  {now[1].ID, See(rows), ErrStalePlan},
		"not all rows":    {now[1].ID, See(now[:2]), ErrStalePlan},
		"a folded row":    {folded[0].ID, See(now), ErrRewindTarget},
		"an original":     {rows[4].ID, See(now), ErrRewindTarget},
		"no row":          {999, See(now), ErrRewindTarget},
		"a row of nobody": {0, See(now), ErrRewindTarget},
	} {
		_, err := s.RewindTo(t.Context(), l, c.id, c.seen, nil)
		if !errors.Is(err, c.want) || problem.KindOf(err) != problem.Conflict {
			t.Errorf("%s: %v", what, err)
		}
	}
	equal(t, "live", short(transcript(t, s, l.Session)), "SUMMARY 2Q call 2T 2A")
	got, err := s.RewindTo(t.Context(), l, now[1].ID, See(now), &NewMessage{Role: "user", Content: "instead"})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "live", short(transcript(t, s, l.Session)), "SUMMARY instead")
	equal(t, "done", fmt.Sprint(short(got.Removed), got.Active), "2Q call 2T 2A2")
	if one, _ := s.Session(t.Context(), l.Session); one.MessageCount != 2 {
		t.Errorf("counter: %d", one.MessageCount)
	}
	equal(t, "hits of what was taken back", len(search(t, s, Query{Text: "2T"})), 0)
}

// What cannot be taken back is one error, and a stranger's lease takes nothing back.
func TestRewindThatReachesNothing(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	if _, err := s.RewindTurns(t.Context(), l, -1); !errors.Is(err, ErrRewindTarget) {
		t.Errorf("in an empty conversation: %v", err)
	}
	converse(t, s, l, "1")
	if _, err := s.RewindTurns(t.Context(), l, 2); !errors.Is(err, ErrRewindTarget) {
		t.Errorf("after the last turn: %v", err)
	}
	if _, err := s.RewindTurns(t.Context(), l, 0); problem.KindOf(err) != problem.Invalid {
		t.Errorf("turn 0: %v", err)
	}
	lost := l
	lost.Token = "another"
	if _, err := s.RewindTurns(t.Context(), lost, -1); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("with a lost lease: %v", err)
	}
	equal(t, "rewinds", number(t, s, `SELECT rewind_count FROM sessions`), 0)
	equal(t, "live", short(transcript(t, s, l.Session)), "1Q call 1T 1A")
}

func takeBackTwo(ctx context.Context, s *Store, l Lease) error {
	_, err := s.RewindTurns(ctx, l, -2)
	return err
}
