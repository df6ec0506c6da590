package sqlite

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ncruces/go-sqlite3"
)

func TestReadersAreBoundedAndSeeOneMoment(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("a"))
	var now, most atomic.Int64
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			err := f.Read(context.Background(), func(c *Conn) error {
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				var before, after int
				if _, err := c.Row("SELECT count(*) FROM rows", nil, &before); err != nil {
					return err
				}
				mustWrite(t, f, insert(fmt.Sprint("during", i)))
				if _, err := c.Row("SELECT count(*) FROM rows", nil, &after); err != nil {
					return err
				}
				if before != after {
					t.Errorf("one read saw %d and %d rows", before, after)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if limit := int64(max(1, runtime.GOMAXPROCS(0)-1)); most.Load() > limit {
		t.Errorf("%d reads at once, want at most %d", most.Load(), limit)
	}
}

func TestAnIdleReaderIsClosedAfterHalfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := Open(context.Background(), testOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		count(t, f)
		<-time.After(readerIdle - time.Second)
		if n := f.readers.idleCount(); n != 1 {
			t.Errorf("%d readers before the time", n)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if n := f.readers.idleCount(); n != 0 {
			t.Errorf("%d readers after the time", n)
		}
		count(t, f)
		f.DropIdle()
		if n := f.readers.idleCount(); n != 0 {
			t.Errorf("%d readers after DropIdle", n)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

func (p *readers) idleCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle)
}

func TestAWarmReaderRidesOutAnIOErrorOnTheSameConnection(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	fails := func(n int) (func(*Conn) error, *int) {
		runs := new(int)
		return func(*Conn) error {
			if *runs++; *runs <= n {
				return fmt.Errorf("read: %w", sqlite3.IOERR_READ)
			}
			return nil
		}, runs
	}
	cold, runs := fails(1)
	if err := f.Read(t.Context(), cold); ClassOf(err) != IO || *runs != 1 {
		t.Errorf("a cold reader: %v after %d runs", err, *runs)
	}
	count(t, f)
	warm, runs := fails(3)
	if err := f.Read(t.Context(), warm); err != nil || *runs != 4 {
		t.Errorf("a warm reader: %v after %d runs", err, *runs)
	}
	worse, runs := fails(9)
	if err := f.Read(t.Context(), worse); ClassOf(err) != IO || *runs != 4 {
		t.Errorf("a persistent error: %v after %d runs", err, *runs)
	}
	if n := f.readers.idleCount(); n != 1 {
		t.Errorf("%d readers, want the same one", n)
	}
	if err := f.Quarantine(); err != nil {
		t.Errorf("an I/O error is no reason for quarantine: %v", err)
	}
}

// Running again after rows were handed out would hand them out twice.
func TestAReadIsNotReplayedOnceARowWasHandedOut(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("a"))
	count(t, f)
	runs := 0
	err := f.Read(t.Context(), func(c *Conn) error {
		runs++
		if _, err := c.Row("SELECT 1", nil, new(int)); err != nil {
			return err
		}
		return sqlite3.IOERR_READ
	})
	if ClassOf(err) != IO || runs != 1 {
		t.Errorf("%v after %d runs", err, runs)
	}
}

func TestAReadEndsWithItsContext(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("client gone")
	err := f.Read(ctx, func(c *Conn) error {
		cancel(gone)
		_, err := c.Row("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n", nil, new(int))
		return err
	})
	if !errors.Is(err, gone) || ClassOf(err) != Interrupted {
		t.Errorf("got %v of class %s", err, ClassOf(err))
	}
	if err := f.Read(ctx, func(*Conn) error { return nil }); err != nil && (!errors.Is(err, gone) || ClassOf(err) != Interrupted) {
		t.Errorf("a read that begins too late: %v", err)
	}
	count(t, f) // the reader is as good as new
}

func TestAPanicInAReadIsTheCallersAndLeavesTheReaderUsable(t *testing.T) {
	o := testOptions(t)
	opened := 0
	o.seams.opened = func(_ *Conn, r role) {
		if r == roleReader {
			opened++
		}
	}
	f := mustOpen(t, o)
	func() {
		defer func() {
			if p := recover(); p != "caller's" {
				t.Errorf("recovered %v", p)
			}
		}()
		f.Read(t.Context(), func(*Conn) error { panic("caller's") })
	}()
	for range 3 {
		count(t, f)
	}
	if opened != 1 {
		t.Errorf("%d readers were opened, want the first one back", opened)
	}
}
