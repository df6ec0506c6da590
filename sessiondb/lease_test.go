package sessiondb

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A killed holder is replaced at once; a living one is waited for.
func TestLeaseOfKilledProcessIsReclaimedAtOnce(t *testing.T) {
	s, log := testStore(t)
	made, err := s.CreateSession(t.Context(), NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	c := startChild(t, "hold", s.file.Path(), made.ID)
	equal(t, "child", c.Next(), "held")
	var held *HeldError
	if _, err := s.TryTurn(t.Context(), made.ID, self(t), 0); !errors.As(err, &held) || held.Lease.Holder.PID != c.PID() {
		t.Fatalf("a living holder's lease: %v", err)
	}
	c.Kill()
	l, err := s.TryTurn(t.Context(), made.ID, self(t), 0)
	if err != nil {
		t.Fatalf("a dead holder's lease: %v", err)
	}
	equal(t, "said", log.count("lease reclaimed"), 1)
	say(t, s, l, "goes on")
}

// A lease that ran out a day ago goes when another is taken, at most once an hour: looking for such reads them all.
func TestLeasesOfNobodyAreSweptOnceAnHour(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, _ := openStore(t, dir+"/state.db")
		left := conversation(t, s)
		abandon := func() {
			write(t, s, `UPDATE leases SET expires_at = expires_at - 90000000000 WHERE session_id = '`+left.Session+`'`)
		}
		leases := func() int { return int(number(t, s, `SELECT count(*) FROM leases`)) }
		abandon()
		conversation(t, s)
		equal(t, "swept within the hour", leases(), 2)
		time.Sleep(sweepEvery)
		conversation(t, s)
		equal(t, "swept after an hour", leases(), 2)
	})
}

// Who lost the lease writes nothing, in no way.
func TestLostLeaseRefusesRows(t *testing.T) {
	s, _ := testStore(t)
	lost := conversation(t, s)
	row := say(t, s, lost, "before")[0]
	write(t, s, `UPDATE leases SET expires_at = 1000000 + unixepoch() * 1000000 - 2000000`)
	now, err := s.TryTurn(t.Context(), lost.Session, self(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	_, appended := s.Append(t.Context(), lost, []NewMessage{{Role: "user", Content: "late"}})
	_, renewed := s.Renew(t.Context(), lost)
	repaired := s.Repair(t.Context(), lost, []RowRepair{{ID: row.ID, OldDigest: row.Digest(), Drop: true}})
	_, reopened := s.ReopenIfExplicitlyClosed(t.Context(), lost, "test")
	for what, err := range map[string]error{"append": appended, "renew": renewed, "repair": repaired} {
		if !errors.Is(err, ErrLeaseLost) {
			t.Errorf("%s with a lost lease: %v", what, err)
		}
	}
	if reopened != nil {
		t.Errorf("nothing to reopen: %v", reopened)
	}
	if err := s.Release(t.Context(), lost); err != nil {
		t.Errorf("release of a lost lease: %v", err)
	}
	say(t, s, now, "after") // and the release above did not take the new holder's
	rows, _ := s.Transcript(t.Context(), lost.Session)
	equal(t, "rows", contents(rows), []string{"before", "after"})
}

// A lease that ran out but that nobody took still works, and an append renews it.
func TestExpiredLeaseThatNobodyTookIsRenewed(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	write(t, s, `UPDATE leases SET expires_at = expires_at - 600000000`)
	say(t, s, l, "still mine")
	if _, err := s.TryTurn(t.Context(), l.Session, self(t), 0); !errors.Is(err, ErrLeaseHeld) {
		t.Errorf("after the append: %v", err)
	}
}

func TestOnlyOneHoldsTheTurn(t *testing.T) {
	s, _ := testStore(t)
	made, _ := s.CreateSession(t.Context(), NewSession{})
	var inside, most atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			l, err := s.AcquireTurn(t.Context(), made.ID, self(t), 0)
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n > most.Load() {
				most.Store(n)
			}
			if _, err := s.Append(t.Context(), l, []NewMessage{{Role: "user", Content: "x"}}); err != nil {
				t.Error(err)
			}
			inside.Add(-1)
			if err := s.Release(t.Context(), l); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	equal(t, "holders at once", most.Load(), 1)
	equal(t, "rows", number(t, s, `SELECT count(*) FROM messages`), 8)
}

// A holder that is alive but silent is replaced when its time is over, and a waiter gives up after half an hour.
func TestWaitingForALease(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s, _ := openStore(t, dir+"/state.db")
		l := conversation(t, s)
		began := time.Now()
		next, err := s.AcquireTurn(t.Context(), l.Session, self(t), 2*time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(began); waited < DefaultLeaseTTL || waited > DefaultLeaseTTL+2*leasePoll {
			t.Errorf("a silent holder was waited for %s", waited)
		}
		began = time.Now()
		if _, err := s.AcquireTurn(t.Context(), l.Session, self(t), 0); !errors.Is(err, ErrLeaseHeld) {
			t.Errorf("after half an hour: %v", err)
		}
		if waited := time.Since(began); waited < leaseWait || waited > leaseWait+2*leasePoll {
			t.Errorf("gave up after %s", waited)
		}
		began = time.Now()
		go func() {
			time.Sleep(10 * time.Millisecond)
			s.Release(t.Context(), next)
		}()
		if _, err := s.AcquireTurn(t.Context(), l.Session, self(t), 0); err != nil {
			t.Error(err)
		}
		equal(t, "wait for a release in this process", time.Since(began), 10*time.Millisecond)
	})
}

func TestHolderIsDeadOnlyOnProof(t *testing.T) {
	me := self(t)
	reused, reboot, elsewhere := me, me, me
	reused.Start++
	reboot.Boot = "another"
	elsewhere.PIDNS, elsewhere.Start = "pid:[1]", 1
	for name, c := range map[string]struct {
		h    Holder
		dead bool
	}{
		"alive": {me, false}, "pid used again": {reused, true}, "before a reboot": {reboot, true},
		"another pid namespace": {elsewhere, false}, "unknown": {Holder{}, false},
	} {
		equal(t, name, c.h.Dead(), c.dead)
	}
}

func TestLeasesAreListedAndBroken(t *testing.T) {
	s, _ := testStore(t)
	l := conversation(t, s)
	got, err := s.Leases(t.Context())
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	equal(t, "holder", got[0].Holder, l.Holder)
	equal(t, "token", got[0].Token, l.Token)
	if err := s.Break(t.Context(), got[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := s.TryTurn(t.Context(), l.Session, self(t), 0); err != nil {
		t.Error(err)
	}
	if _, err := s.TryTurn(t.Context(), "nobody", self(t), 0); !errors.Is(err, ErrSessionMissing) {
		t.Errorf("lease on no session: %v", err)
	}
}
