package sessiondb

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

func user(uid, text string) NewMessage { return NewMessage{UID: uid, Role: "user", Content: text} }

func accept(t *testing.T, s *Store, session, uid string) int {
	t.Helper()
	place, err := s.Accept(t.Context(), Waiting{UID: uid, Session: session, Mode: InboxTurn, Source: "api", Content: "says " + uid}, 3, nil)
	must(t, err)
	return place
}

func waiting(t *testing.T, s *Store, session string) (uids []string) {
	t.Helper()
	list, err := s.Inbox(t.Context(), session)
	must(t, err)
	for _, w := range list {
		uids = append(uids, w.UID)
	}
	return uids
}

func TestATurnIsPendingFromItsFirstRowToItsLast(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	_, err := s.Begin(t.Context(), l, Pending{Turn: "t1", UserUID: "u1", Source: "api", Detached: true}, []NewMessage{user("u1", "hi")})
	must(t, err)
	list, err := s.Pendings(t.Context())
	must(t, err)
	if len(list) != 1 || list[0].Turn != "t1" || list[0].Session != l.Session || !list[0].Detached || list[0].Attempts != 1 || list[0].BeganAt.IsZero() {
		t.Fatalf("%+v", list)
	}
	p, err := s.Retry(t.Context(), l, "t1", false)
	must(t, err)
	equal(t, "attempts", p.Attempts, 2)
	must(t, s.Mark(t.Context(), MarkLeft, "t1", "unknown"))
	p, err = s.Retry(t.Context(), l, "t1", true)
	must(t, err)
	if p.Attempts != 2 || p.Mark != "" {
		t.Errorf("a turn that was left in order counts: %+v", p)
	}
	if _, err := s.Retry(t.Context(), l, "t2", false); !errors.Is(err, ErrStalePlan) {
		t.Errorf("a turn that is not pending was tried again: %v", err)
	}
	rows, err := s.End(t.Context(), l, "t1", []NewMessage{{Role: "assistant", Content: "bye"}})
	must(t, err)
	equal(t, "rows", len(rows), 1)
	equal(t, "pending", number(t, s, `SELECT count(*) FROM turns`), 0)
	must(t, s.Release(t.Context(), l))
	if _, err := s.End(t.Context(), l, "t1", nil); !errors.Is(err, ErrLeaseLost) {
		t.Errorf("ended without the lease: %v", err)
	}
}

func TestAMessageIsAcceptedOrSaidAndNeverBoth(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	for i, uid := range []string{"a", "b", "c"} {
		equal(t, "place of "+uid, accept(t, s, l.Session, uid), i+1)
	}
	equal(t, "place of one that waits", accept(t, s, l.Session, "b"), 2)
	if _, err := s.Accept(t.Context(), Waiting{UID: "d", Session: l.Session, Mode: InboxTurn, Source: "api", Content: "x"}, 3, nil); !errors.Is(err, ErrInboxFull) {
		t.Errorf("%v", err)
	}
	_, err := s.Append(t.Context(), l, []NewMessage{user("a", "says a")})
	must(t, err)
	equal(t, "waiting", waiting(t, s, l.Session), []string{"b", "c"})
	equal(t, "place of one that is said", accept(t, s, l.Session, "a"), 0)
	was, err := s.Withdraw(t.Context(), "c")
	must(t, err)
	again, err := s.Withdraw(t.Context(), "c")
	must(t, err)
	equal(t, "withdrawn", fmt.Sprint(was, again, waiting(t, s, "")), "true false [b]")
	if _, err := s.Accept(t.Context(), Waiting{UID: "e", Session: "nowhere", Mode: InboxTurn, Source: "api", Content: "x"}, 3, nil); !errors.Is(err, ErrSessionMissing) {
		t.Errorf("%v", err)
	}
	must(t, s.Tried(t.Context(), "b"))
	list, err := s.Inbox(t.Context(), l.Session)
	must(t, err)
	equal(t, "tries", list[0].Attempts, 1)
}

func TestTheLastRequestIsKeptWithItsUsage(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	note := func(row int64, digests []byte) {
		must(t, s.AddUsage(t.Context(), UsageDelta{
			Session: l.Session, Model: "m", Counts: Counts{Prompt: 7}, Request: &Asked{Session: l.Session, Model: "m", Prompt: 7, Completion: 2, Row: row, Bytes: 90, Digests: digests},
		}))
	}
	note(3, []byte{1, 2, 0})
	note(5, nil)
	got, found, err := s.LastRequest(t.Context(), l.Session)
	must(t, err)
	if !found || got.Row != 5 || got.Prompt != 7 || got.Completion != 2 || string(got.Digests) != "\x01\x02\x00" || got.At.IsZero() {
		t.Errorf("%v %+v", found, got)
	}
	if _, found, err := s.LastRequest(t.Context(), "other"); err != nil || found {
		t.Errorf("%v, %v", found, err)
	}
}

func TestWhatWasAcceptedAndLostWithTheLogComesBack(t *testing.T) {
	s, _ := testStore(t)
	path := s.file.Path()
	l := conversation(t, s)
	accept(t, s, l.Session, "said")
	_, err := s.file.Checkpoint(t.Context())
	must(t, err)
	_, err = s.Begin(t.Context(), l, Pending{Turn: "t1", UserUID: "said", Source: "api", Detached: true}, []NewMessage{user("said", "says said")})
	must(t, err)
	accept(t, s, l.Session, "lost")
	must(t, os.Remove(path+"-wal"))
	if _, err := s.Append(t.Context(), l, []NewMessage{{Role: "assistant", Content: "spooled"}}); !errors.Is(err, ErrSpooled) {
		t.Fatal(err)
	}
	must(t, s.Close())
	next, _ := healed(t, path)
	equal(t, "waiting", waiting(t, next, ""), []string{"lost"})
	list, err := next.Pendings(t.Context())
	must(t, err)
	if len(list) != 1 || list[0].Turn != "t1" || !list[0].Detached {
		t.Errorf("%+v", list)
	}
}
