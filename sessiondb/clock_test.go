package sessiondb

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gatewayd/internal/sqlite/steps"
)

// A bubble's clock stands at the year 2000. What was written before it, in real time, is what a clock that was set back
// by decades leaves.
func TestClockSetBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, _ := openStore(t, path)
	exchanges(3)(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	holder := startChild(t, "hold", path, "s")
	equal(t, "child", holder.Next(), "held")
	synctest.Test(t, func(t *testing.T) {
		s, log := openStore(t, path)
		began := time.Now()
		l, err := s.AcquireTurn(t.Context(), "s", self(t), 0)
		if err != nil {
			t.Fatalf("a silent holder's lease, which ends in the far future: %v", err)
		}
		if waited := time.Since(began); waited > DefaultLeaseTTL {
			t.Errorf("a silent holder was waited for %s", waited)
		}
		equal(t, "said", log.count("lease reclaimed"), 1)
		say(t, s, l, "after the clock was set back")
		rows, err := s.Transcript(t.Context(), "s")
		if err != nil || rows[len(rows)-1].Content != "after the clock was set back" {
			t.Errorf("order is by time and not by id: %v, %v", contents(rows), err)
		}
		for i := 1; i < len(rows); i++ {
			if rows[i].ID <= rows[i-1].ID {
				t.Errorf("row %d comes after row %d", rows[i].ID, rows[i-1].ID)
			}
		}
		latest, err := s.Messages(t.Context(), "s", MessageFilter{Latest: true, Limit: 1})
		if err != nil || len(latest) != 1 || latest[0].Content != "after the clock was set back" {
			t.Errorf("the latest row is %v, %v", contents(latest), err)
		}
		list, err := s.Sessions(t.Context(), ListFilter{})
		if err != nil || len(list) != 1 || list[0].MessageCount != int64(len(rows)) {
			t.Errorf("the list: %+v, %v", list, err)
		}
	})
}

// A clock that jumps between two turns, in either direction, costs no row and makes nobody wait for it.
func TestClockThatJumps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, _ := openStore(t, path)
	exchanges(1)(t, s)
	l, err := s.AcquireTurn(t.Context(), "s", self(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	synctest.Test(t, func(t *testing.T) { // back: the holder itself goes on under the lease it has
		s, _ := openStore(t, path)
		say(t, s, l, "back")
		if l, err = s.Renew(t.Context(), l); err != nil {
			t.Errorf("renew: %v", err)
		}
		if _, err := s.TryTurn(t.Context(), "s", self(t), 0); !errors.Is(err, ErrLeaseHeld) {
			t.Errorf("a renewed lease of a living holder: %v", err)
		}
		time.Sleep(DefaultLeaseTTL + time.Second) // nobody took it
		say(t, s, l, "late")
		if _, err := s.TryTurn(t.Context(), "s", self(t), 0); !errors.Is(err, ErrLeaseHeld) {
			t.Errorf("a lease that an append renewed: %v", err)
		}
	})
	s, _ = openStore(t, path) // forward again, by decades
	say(t, s, l, "forth")
	if _, err := s.TryTurn(t.Context(), "s", self(t), 0); !errors.Is(err, ErrLeaseHeld) {
		t.Errorf("a lease that an append renewed: %v", err)
	}
	rows, _ := s.Transcript(t.Context(), "s")
	equal(t, "rows", contents(rows[4:]), []string{"back", "late", "forth"})
	if err := s.WaitIndexed(t.Context()); err != nil {
		t.Error(err)
	}
	sound(t, s)
}

// Times that no clock shows, planted by a foreign program, change no order, end no list and lock no conversation.
func TestPlantedTimes(t *testing.T) {
	for _, at := range []int64{math.MinInt64, -1, 0, 1, maxStamp, maxStamp + 1, math.MaxInt64} {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			s, _ := testStore(t)
			exchanges(2)(t, s)
			l, err := s.AcquireTurn(t.Context(), "s", self(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			db := bare(t, s.File().Path())
			if err := db.Exec(fmt.Sprintf(`UPDATE messages SET created_at = %[1]d WHERE id %% 2 = 0;
UPDATE sessions SET opened_at = %[1]d, last_active = %[1]d; UPDATE leases SET expires_at = %[1]d, acquired_at = %[1]d`, at)); err != nil {
				t.Fatal(err)
			}
			rows, err := s.Transcript(t.Context(), "s")
			if err != nil || len(rows) != 8 || rows[0].ID != 1 || rows[7].ID != 8 {
				t.Errorf("rows %v, %v", contents(rows), err)
			}
			if list, err := s.Sessions(t.Context(), ListFilter{}); err != nil || len(list) != 1 {
				t.Errorf("list %v, %v", list, err)
			}
			if at < time.Now().UnixMicro() {
				say(t, s, l, "the holder goes on") // it renews what nobody took
				return
			}
			next, err := s.TryTurn(t.Context(), "s", self(t), 0)
			if err != nil {
				t.Fatalf("a lease that ends at %d: %v", at, err)
			}
			if _, err := s.Append(t.Context(), l, exchange(7)); !errors.Is(err, ErrLeaseLost) {
				t.Errorf("append under the lease before: %v", err)
			}
			say(t, s, next, "goes on")
		})
	}
}

// A holder that was stopped past the end of its lease, in front of the write that it had begun, wakes up after another
// process took the conversation over: its row is refused and nothing is there twice.
func TestStoppedHolderWakesTooLate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.db")
	s, _ := openStore(t, path)
	exchanges(1)(t, s)
	c := startChild(t, "freeze", path, "s")
	equal(t, "child", c.Next(), "at the door")
	if err := c.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	l, err := s.AcquireTurn(t.Context(), "s", self(t), 0) // waits until the second of the other's lease is over
	if err != nil {
		t.Fatal(err)
	}
	say(t, s, l, "taken over")
	if err := c.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	c.Say("go on")
	equal(t, "append of the one that woke", c.Next(), "lost")
	equal(t, "its renewal", c.Next(), "lost")
	rows, err := s.Transcript(t.Context(), "s")
	equal(t, "rows", fmt.Sprint(contents(rows[4:]), err), "[in time taken over] <nil>")
	sound(t, s)
	if _, err := s.Append(t.Context(), l, exchange(2)); err != nil {
		t.Errorf("the new holder: %v", err)
	}
}

// childFreeze stores a row in time, and stands before the transaction of the next one until it is told to go on.
func childFreeze() {
	var armed atomic.Bool
	steps.Each(func(sql string) {
		if strings.HasPrefix(sql, "BEGIN IMMEDIATE") && armed.Swap(false) {
			fmt.Println("at the door")
			bufio.NewReader(os.Stdin).ReadString('\n')
		}
	})
	ctx, s := context.Background(), childStore()
	h, _ := SelfHolder("child turn")
	l, err := s.AcquireTurn(ctx, os.Getenv("SESSIONDB_SESSION"), h, time.Second)
	if err == nil {
		_, err = s.Append(ctx, l, []NewMessage{{Role: "user", Content: "in time"}})
	}
	if err != nil {
		childFail(err)
	}
	armed.Store(true)
	_, err = s.Append(ctx, l, []NewMessage{{Role: "assistant", Content: "too late"}})
	fmt.Println(verdict(err))
	_, err = s.Renew(ctx, l)
	fmt.Println(verdict(err))
	select {}
}

func verdict(err error) string {
	if errors.Is(err, ErrLeaseLost) {
		return "lost"
	}
	return fmt.Sprint("not lost: ", err)
}
