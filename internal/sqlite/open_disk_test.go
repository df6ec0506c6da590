package sqlite

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite/faultfs"
)

// A disk that fails at any call of an open, of a new file or of one that was left with rows in its log, gets an
// explained error or is ridden out, and changes neither the rows nor the journal: an I/O error is never answered by
// leaving WAL.
func TestAnOpenOnADiskThatFailsAtAnyCallChangesNothing(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		for _, on := range []faultfs.Call{faultfs.Open, faultfs.Read, faultfs.Write, faultfs.Sync, faultfs.Delete} {
			t.Run(fmt.Sprintf("new=%t/call=%d", fresh, on), func(t *testing.T) {
				t.Parallel()
				runs, dir := 0, t.TempDir()
				for times := range 2 { // all that follow, or one
					for n := 0; openFailsAt(t, dir, fresh, faultfs.Fault{On: on, After: n, Times: times, Err: syscall.EIO}); n++ {
						runs++
					}
				}
				if opens := on == faultfs.Open || on == faultfs.Read; (fresh || opens) && runs == 0 {
					t.Error("no call of it failed")
				}
			})
		}
	}
}

func openFailsAt(t *testing.T, top string, fresh bool, fault faultfs.Fault) (met bool) {
	dir, err := os.MkdirTemp(top, "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	synctest.Test(t, func(t *testing.T) {
		disk, unmount := faultfs.Mount(dir)
		defer unmount()
		o := ledgerOptions(t, dir, "wal")
		o.seams.full = func(string) bool { return false }
		var want []string
		if !fresh {
			f := mustOpen(t, o)
			mustWrite(t, f, enter("before", 900))
			f.Close()
			want = []string{"before"}
		}
		where := fmt.Sprintf("fault at call %d, %d times", fault.After, fault.Times)
		disk.Inject(fault)
		f, err := Open(t.Context(), o)
		met = disk.Heal() > 0
		if err == nil {
			f.Close()
		} else if told, explained := errors.AsType[*problem.Error](err); !explained || told.Fate == "" || told.Remedy == "" {
			t.Errorf("%s: not explained: %v", where, err)
		}
		f, err = Open(t.Context(), o)
		if err != nil {
			t.Errorf("%s: on a whole disk: %v", where, err)
			return
		}
		defer f.Close()
		mustWrite(t, f, enter("after", 900))
		err = f.Peek(t.Context(), func(c *Conn) error {
			have, err := ledger(c)
			if !slices.Equal(have, append(want, "after")) {
				t.Errorf("%s: rows %q", where, have)
			}
			return err
		})
		if mode := f.Journal().Mode; mode != "wal" || err != nil {
			t.Errorf("%s: journal %s, %v", where, mode, err)
		}
	})
	return met
}
