package sqlite

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"gatewayd/internal/sqlite/faultfs"
)

// The disk fails under a reader that has worked before: three times are ridden out on the same connection, the fourth is
// the disk's word, and neither is a reason to give up the file.
func TestAWarmReaderRidesOutADiskThatFailsThreeTimes(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		disk, unmount := faultfs.Mount(dir)
		defer unmount()
		o := ledgerOptions(t, dir, "wal")
		var opened atomic.Int64
		o.seams.opened = func(_ *Conn, r role) {
			if r == roleReader {
				opened.Add(1)
			}
		}
		f, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		read := func() error {
			return f.Read(context.Background(), func(c *Conn) error { _, err := ledger(c); return err })
		}
		if err := read(); err != nil {
			t.Fatal(err)
		}
		for times := range replayTries + 3 {
			mustWrite(t, f, enter(fmt.Sprint("row", times), 900)) // so that the reader has to read anew
			disk.Inject(faultfs.Fault{On: faultfs.Read, Times: times + 1, Err: syscall.EIO})
			err := read()
			if hits := disk.Heal(); hits != min(times+1, replayTries+1) {
				t.Fatalf("%d reads failed, want %d", hits, times+1)
			}
			if met := times < replayTries; (err == nil) != met || err != nil && ClassOf(err) != IO {
				t.Errorf("%d failures: %v", times+1, err)
			}
			if err := f.Quarantine(); err != nil {
				t.Errorf("%d failures: quarantined: %v", times+1, err)
			}
		}
		if err := read(); err != nil || opened.Load() != 1 {
			t.Errorf("on a whole disk: %v; %d readers were opened", err, opened.Load())
		}
	})
}

// A reader whose mapping is gone is lost, and only it.
func TestALostReaderQuarantinesNothing(t *testing.T) {
	f := mustOpen(t, testOptions(t))
	mustWrite(t, f, insert("a"))
	count(t, f)
	err := f.Read(t.Context(), func(c *Conn) error {
		if _, err := c.Row("SELECT count(*) FROM rows", nil, new(int)); err != nil {
			return err
		}
		truncateShm(t, f)
		mustWrite(t, f, insert("beside it")) // loses the writer's connection as well
		return nil
	})
	if err != nil && ClassOf(err) != IO {
		t.Errorf("class %s: %v", ClassOf(err), err)
	}
	if err := f.Quarantine(); err != nil {
		t.Errorf("quarantined: %v", err)
	}
	if n := count(t, f); n != 2 {
		t.Errorf("%d rows", n)
	}
}
