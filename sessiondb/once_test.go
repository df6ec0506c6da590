package sessiondb

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func asked(key string) Once {
	return Once{Scope: "key POST /x", Key: key, Request: "digest", UID: NewUID()}
}

func claim(t *testing.T, s *Store, o Once) (Once, bool) {
	t.Helper()
	held, mine, err := s.ClaimOnce(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return held, mine
}

// A request is claimed by one of many that come at the same time; the others are told what is known of it, also after the store was
// closed, and another scope has its own.
func TestARequestIsClaimedOnce(t *testing.T) {
	s, _ := testStore(t)
	var wg sync.WaitGroup
	won := make(chan Once, 20)
	for range 20 {
		wg.Go(func() {
			if held, mine, err := s.ClaimOnce(t.Context(), asked("k")); err == nil && mine {
				won <- held
			}
		})
	}
	wg.Wait()
	close(won)
	first := <-won
	if _, more := <-won; more || first.UID == "" {
		t.Fatal("it was claimed twice, or never")
	}
	if held, mine := claim(t, s, asked("k")); mine || held.UID != first.UID || held.Status != 0 || held.Kept {
		t.Errorf("while it runs: %+v %v", held, mine)
	}
	first.Status, first.Headers, first.Body, first.Kept = 201, `{"A":"b"}`, "body", true
	if err := s.SettleOnce(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if held, mine := claim(t, s, asked("k")); mine || held.Status != 201 || held.Body != "body" || held.Headers != `{"A":"b"}` || !held.Kept || held.Request != "digest" {
		t.Errorf("when it has ended: %+v %v", held, mine)
	}
	other := asked("k")
	other.Scope = "other POST /x"
	if _, mine := claim(t, s, other); !mine {
		t.Error("another holder's key is the same key")
	}
	if err := s.DropOnce(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if _, mine := claim(t, s, other); !mine {
		t.Error("a dropped request is still known")
	}
}

// What is remembered is bounded: in time, in number, in the size of one answer and of all.
func TestRememberedRequestsAreBounded(t *testing.T) {
	s, _ := testStore(t)
	large, _ := claim(t, s, asked("large"))
	large.Status, large.Body, large.Kept = 200, strings.Repeat("x", OnceAnswer+1), true
	if err := s.SettleOnce(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	if held, _ := claim(t, s, asked("large")); held.Status != 200 || held.Kept {
		t.Errorf("a large answer is kept: %d, %v", held.Status, held.Kept)
	}
	write(t, s, `UPDATE idempotency SET expires_at = 1`)
	if held, mine := claim(t, s, asked("large")); !mine || held.Status != 0 {
		t.Errorf("after its time it is known: %+v", held)
	}
	write(t, s, `UPDATE idempotency SET expires_at = 1`)
	if n, err := s.ExpireOnce(t.Context()); err != nil || n != 1 {
		t.Errorf("forgotten: %d %v", n, err)
	}
	equal(t, "rows", number(t, s, `SELECT count(*) FROM idempotency`), 0)

	s.bounds = onceBounds{most: 500, bytes: 2_000_000}
	fill := fmt.Sprintf(`INSERT INTO idempotency(scope, key, request, status, response, created_at, expires_at)
 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT 's', i, 'd', 200, printf('%%.*c', 7000, 'x'), i, %d FROM n`,
		s.bounds.most, time.Now().Add(time.Hour).UnixMicro())
	write(t, s, fill)
	if _, _, err := s.ClaimOnce(t.Context(), asked("one more")); !errors.Is(err, ErrOnceFull) {
		t.Errorf("beyond the number: %v", err)
	}
	s.onceKept.Store(s.bounds.bytes + 1)
	if n, err := s.ExpireOnce(t.Context()); err != nil || n != 0 {
		t.Errorf("forgotten: %d %v", n, err)
	}
	if held, err := s.onceSize(t.Context()); err != nil || held > s.bounds.bytes/2 || held != s.onceKept.Load() {
		t.Errorf("%d bytes are kept", held)
	}
	equal(t, "requests that are known", number(t, s, `SELECT count(*) FROM idempotency WHERE status = 200`), s.bounds.most)
	equal(t, "the newest answer", number(t, s, `SELECT count(*) FROM idempotency WHERE key = ? AND response IS NOT NULL`, fmt.Sprint(s.bounds.most)), 1)
}

// A message is found by its uid with what its turn stored; only an answer is one.
func TestWhatWasSaidIsFoundByItsUID(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	if _, found, err := s.Said(t.Context(), "u1"); found || err != nil {
		t.Errorf("before: %v %v", found, err)
	}
	if _, err := s.Begin(t.Context(), l, Pending{Turn: "t1", UserUID: "u1"}, []NewMessage{{UID: "u1", TurnID: "t1", Role: "user", Content: "q"}}); err != nil {
		t.Fatal(err)
	}
	if said, found, err := s.Said(t.Context(), "u1"); !found || err != nil || !said.Pending || said.Turn != "t1" || said.Session != l.Session || len(said.Rows) != 1 {
		t.Errorf("while it runs: %+v %v %v", said, found, err)
	}
	if _, err := s.End(t.Context(), l, "t1", []NewMessage{{TurnID: "t1", Role: "assistant", Content: "[ended]", Kind: "closing"}}); err != nil {
		t.Fatal(err)
	}
	said, _, _ := s.Said(t.Context(), "u1")
	if _, answered := said.Answer(); said.Pending || answered {
		t.Errorf("a closing row is an answer: %+v", said)
	}
	if _, err := s.Append(t.Context(), l, []NewMessage{{TurnID: "t1", Role: "assistant", Content: "a", FinishReason: "stop"}}); err != nil {
		t.Fatal(err)
	}
	said, _, _ = s.Said(t.Context(), "u1")
	if last, answered := said.Answer(); !answered || last.Content != "a" {
		t.Errorf("an answer is none: %+v", said)
	}
}
