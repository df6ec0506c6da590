package sqlite

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// rawConn is a peer without any of our settings.
func rawConn(t testing.TB, path string) *sqlite3.Conn {
	t.Helper()
	db, err := sqlite3.OpenFlags(path, sqlite3.OPEN_READWRITE)
	if err != nil {
		t.Fatal(err)
	}
	db.Config(sqlite3.DBCONFIG_NO_CKPT_ON_CLOSE, true)
	t.Cleanup(func() { db.Close() })
	return db
}

func size(t testing.TB, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

func fill(rows int) Op {
	return Op{Label: "fill", Do: func(tx *Tx) error {
		_, err := tx.Exec(`INSERT INTO rows (uid, body) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < ?)
			SELECT hex(randomblob(12)), hex(zeroblob(500)) FROM n`, rows)
		return err
	}}
}

func TestTheWriterKeepsTheWALShortByItself(t *testing.T) {
	t.Parallel()
	f := mustOpen(t, testOptions(t))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 16 {
				if err := f.Write(context.Background(), fill(80)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if n := size(t, f.Path()+"-wal"); n > 3*checkpointPages*4200 {
		t.Errorf("-wal has %d bytes after writing many times as much", n)
	}
}

func TestTheRestIsCheckpointedWhenNothingHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := Open(context.Background(), testOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		before := size(t, f.Path())
		if err := f.Write(context.Background(), fill(100)); err != nil {
			t.Fatal(err)
		}
		if size(t, f.Path()) != before {
			t.Error("checkpointed at once")
		}
		<-time.After(2 * idleCheck)
		synctest.Wait()
		if size(t, f.Path()) == before {
			t.Error("not checkpointed when idle")
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestALongReaderIsWaitedForOnlyPastItsLimit(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	modes := map[sqlite3.CheckpointMode]int{} // the writer's goroutine alone touches it
	o.seams.checkpoint = func(mode sqlite3.CheckpointMode) { modes[mode]++ }
	f := mustOpen(t, o)
	reader := rawConn(t, f.Path())
	if err := reader.Exec("BEGIN; SELECT count(*) FROM rows"); err != nil {
		t.Fatal(err)
	}
	for i := range 9 {
		if err := f.Write(t.Context(), fill(2000)); err != nil {
			t.Fatalf("write %d: %v", i, err)
		}
	}
	if err := f.writer.submit(t.Context(), &request{deadline: time.Now(), visit: func(*Conn) error {
		if modes[sqlite3.CHECKPOINT_RESTART] != 1 || modes[sqlite3.CHECKPOINT_PASSIVE] < 5 {
			return fmt.Errorf("checkpoints %v with %d pages pinned, want many PASSIVE and one RESTART", modes, f.writer.wal.pages)
		}
		return nil
	}}); err != nil {
		t.Error(err)
	}
	if err := reader.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, f, insert("goes on"))
}

// Closing as the last one must leave -wal and -shm: a peer whose locks were lost may still live on them.
func TestCloseKeepsTheSidecarsAndLosesNothing(t *testing.T) {
	o := testOptions(t)
	f := mustOpen(t, o)
	mustWrite(t, f, insert("a"))
	wal, _ := statInode(o.Path + "-wal")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if now, _ := statInode(o.Path + "-wal"); now != wal {
		t.Error("close deleted the -wal")
	}
	if got := f.Write(t.Context(), insert("b")); ClassOf(got) != Closed {
		t.Errorf("write after close: %v", got)
	}
	if err := f.Read(t.Context(), func(*Conn) error { return nil }); ClassOf(err) != Closed {
		t.Errorf("read after close: %v", err)
	}
	if _, err := f.Stamp(); err == nil {
		t.Error("stamp after close")
	}
	if err := f.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestCloseServesWhatWaits(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	begun, hold := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		f.Write(context.Background(), Op{Label: "hold", Do: func(*Tx) error { close(begun); <-hold; return nil }})
	})
	<-begun
	for i := range 5 {
		wg.Go(func() {
			if err := f.Write(context.Background(), insert(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	waitUntil(t, func() bool { return len(f.writer.queue) == 5 })
	wg.Go(func() { f.Close() })
	waitUntil(t, f.writer.isLeaving)
	close(hold)
	wg.Wait()
}

func TestCloseLosesNothingItAcknowledged(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	var wg sync.WaitGroup
	errs := make([]error, 200)
	for i := range errs {
		wg.Go(func() { errs[i] = f.Write(context.Background(), insert(fmt.Sprint(i))) })
	}
	f.Close()
	wg.Wait()
	stored := 0
	for _, err := range errs {
		switch {
		case err == nil:
			stored++
		case ClassOf(err) != Closed:
			t.Errorf("got %v", err)
		}
	}
	o := f.opts
	o.Create = false
	if n := count(t, mustOpen(t, o)); n != stored {
		t.Errorf("rows = %d, acknowledged %d", n, stored)
	}
}
