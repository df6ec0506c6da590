package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// fakeSize makes the file look shorter by some pages for a number of looks (negative: for ever).
func fakeSize(looks int64, missing int64) (seam func(func() (int64, error)) (int64, error), asked *atomic.Int64) {
	asked = new(atomic.Int64)
	return func(size func() (int64, error)) (int64, error) {
		n, err := size()
		if at := asked.Add(1); looks < 0 || at <= looks {
			n -= missing * 4096
		}
		return n, err
	}, asked
}

func TestAFileShorterThanItsHeaderIsCommittedAndSuspect(t *testing.T) {
	o := testOptions(t)
	o.TornCheck, o.AutoCheckpoint = true, 1
	f := mustOpen(t, o)
	mustWrite(t, f, insert("first"))
	seam, asked := fakeSize(-1, 2)
	f.opts.seams.fileSize = seam

	err := f.Write(t.Context(), insert("suspect"))
	torn, ok := errors.AsType[*TornError](err)
	if !ok || !IsCommitted(err) {
		t.Fatalf("got %v", err)
	}
	want := fmt.Sprintf("torn-extend detected: page count mismatch on %s: header claims %d pages, file has %d pages "+
		"(missing 2 pages, file_size=%d, page_size=4096)", f.Path(), torn.Claimed, torn.Claimed-2, torn.Actual*4096)
	if !strings.HasPrefix(err.Error(), want) {
		t.Errorf("text is %q, want %q", err, want)
	}
	if n := asked.Load(); n != 4 {
		t.Errorf("looked %d times, want once and three times again", n)
	}
	if n := count(t, f); n != 2 {
		t.Errorf("rows = %d, want 2: the data is stored", n)
	}
}

func TestAPeersCheckpointIsNoFalseAlarm(t *testing.T) {
	o := testOptions(t)
	o.TornCheck, o.AutoCheckpoint = true, 1
	f := mustOpen(t, o)
	mustWrite(t, f, insert("first"))
	seam, _ := fakeSize(3, 1) // three looks come too early, the fourth is right
	f.opts.seams.fileSize = seam
	mustWrite(t, f, insert("second"))
}

func TestTroubleInLookingIsNoAlarm(t *testing.T) {
	o := testOptions(t)
	o.TornCheck, o.AutoCheckpoint = true, 1
	o.seams.fileSize = func(func() (int64, error)) (int64, error) { return 0, errors.New("stat fails") }
	mustWrite(t, mustOpen(t, o), insert("first"))
}

func TestTheTornCheckRunsOncePerCommitAndEverybodyHears(t *testing.T) {
	o := testOptions(t)
	o.TornCheck, o.AutoCheckpoint = true, 1
	f := mustOpen(t, o)
	mustWrite(t, f, insert("first"))
	seam, asked := fakeSize(-1, 1)
	f.opts.seams.fileSize = seam
	errs := oneBatch(t, f, 8, func(i int) Op { return insert(fmt.Sprint("row", i)) })
	for _, err := range errs {
		if !IsCommitted(err) {
			t.Errorf("got %v", err)
		}
	}
	if n := asked.Load(); n != tornLooks {
		t.Errorf("looked %d times for one commit", n)
	}
}

// oneBatch makes n operations share one transaction: they queue while an earlier one holds the writer.
func oneBatch(t *testing.T, f *File, n int, op func(int) Op) []error {
	t.Helper()
	begun, hold := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		// A read on the writer's connection commits nothing.
		f.writer.submit(context.Background(), &request{
			op: Op{Label: "hold"}, deadline: f.deadline(context.Background(), 0),
			visit: func(*Conn) error { close(begun); <-hold; return nil },
		})
	})
	<-begun
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = f.Write(context.Background(), op(i)) })
	}
	waitUntil(t, func() bool { return len(f.writer.queue) == n })
	close(hold)
	wg.Wait()
	return errs
}
