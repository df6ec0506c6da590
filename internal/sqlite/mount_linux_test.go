package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"gatewayd/internal/problem"
)

// image is a small ext4 in a file, mounted where the test may do that.
type image struct{ file, dir string }

func mountImage(t *testing.T, size int64) image {
	t.Helper()
	for _, name := range []string{"mkfs.ext4", "mount", "umount"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("NOT TESTED: no file system can be made here: ", err)
		}
	}
	m := image{file: filepath.Join(t.TempDir(), "disk"), dir: t.TempDir()}
	if err := errors.Join(os.WriteFile(m.file, nil, 0o600), os.Truncate(m.file, size)); err != nil {
		t.Fatal(err)
	}
	program(t, "mkfs.ext4", "-q", "-m", "0", m.file)
	if out, err := exec.Command("mount", "-o", "loop", m.file, m.dir).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED: no file system can be mounted here: %v: %s", err, out)
	}
	t.Cleanup(func() { unix.Unmount(m.dir, unix.MNT_DETACH) })
	return m
}

func program(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// crowd are writers that go on until the disk says no, each with rows of its own.
type crowd struct {
	t    *testing.T
	f    *File
	want []problem.Kind // what a refused write may say
	acks atomic.Int64

	mu      sync.Mutex
	stored  []string
	refused []string
	unknown []string
}

// until lets some writers write, each until it was refused; then is called once when so many rows are in, inside a
// transaction: no sync is under way at that moment.
func (c *crowd) until(round string, rows int64, then func()) {
	var once sync.Once
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := 0; ; i++ {
				op := enter(fmt.Sprint(round, w, "-", i), 4000)
				if c.acks.Load() >= rows {
					op = first(op, func() { once.Do(then) })
				}
				if !c.do(op, fmt.Sprint(round, w, "-", i)) {
					return
				}
			}
		})
	}
	all.Wait()
}

// first is op with something before it, in its transaction.
func first(op Op, something func()) Op {
	do := op.Do
	op.Do = func(tx *Tx) error {
		something()
		return do(tx)
	}
	return op
}

func (c *crowd) write(uid string) (stored bool) { return c.do(enter(uid, 4000), uid) }

func (c *crowd) do(op Op, uid string) (stored bool) {
	err := c.f.Write(context.Background(), op)
	told, explained := errors.AsType[*problem.Error](err)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.acks.Add(1)
		c.stored = append(c.stored, uid)
	case !explained || told.Fate == "" || told.Remedy == "":
		c.t.Errorf("%s: not explained: %v", uid, err)
	case strings.Contains(told.Fate, "unknown"):
		c.unknown = append(c.unknown, uid)
	case !slices.Contains(c.want, told.Kind):
		c.t.Errorf("%s: kind %s, want %q: %v", uid, told.Kind, c.want, err)
	default:
		c.refused = append(c.refused, uid)
	}
	return err == nil
}

// settled compares the ledger with what everybody was told.
func (c *crowd) settled(when string) {
	c.t.Helper()
	err := c.f.Read(context.Background(), func(conn *Conn) error {
		have, err := ledger(conn)
		if err != nil {
			return err
		}
		for _, uid := range c.stored {
			if !slices.Contains(have, uid) {
				c.t.Errorf("%s: row %s was acknowledged and is lost", when, uid)
			}
		}
		if extra := len(have) - len(c.stored); extra < 0 || extra > len(c.unknown) {
			c.t.Errorf("%s: %d rows, %d were acknowledged", when, len(have), len(c.stored))
		}
		return absent(have, c.refused)
	})
	if err != nil {
		c.t.Errorf("%s: %v", when, err)
	}
}

func TestADiskThatFillsUpUnderManyWritersLosesNothingAndTheyGoOn(t *testing.T) {
	for _, mode := range journalModes {
		for _, disk := range []string{"tmpfs", "ext4"} {
			t.Run(mode+"/"+disk, func(t *testing.T) {
				t.Parallel()
				dir := smallDiskOf(t, disk)
				ballast := filepath.Join(dir, "ballast")
				if err := os.WriteFile(ballast, make([]byte, 3<<20), 0o600); err != nil {
					t.Fatal(err)
				}
				f := mustOpen(t, ledgerOptions(t, dir, mode))
				c := &crowd{t: t, f: f, want: []problem.Kind{problem.Full}}
				c.until("a", 1, func() {})
				if len(c.refused) == 0 {
					t.Fatalf("the disk never filled up: %d stored, %d unknown", len(c.stored), len(c.unknown))
				}
				c.settled("on a full disk")
				if err := os.Remove(ballast); err != nil {
					t.Fatal(err)
				}
				again := c.refused
				c.refused = nil
				for _, uid := range again {
					c.write(uid)
				}
				if len(c.refused) > 0 || f.Quarantine() != nil {
					t.Errorf("with space back %q are refused; quarantine: %v", c.refused, f.Quarantine())
				}
				c.settled("with space back")
				t.Logf("%d rows, %d refused meanwhile", len(c.stored), len(again))
			})
		}
	}
}

func smallDiskOf(t *testing.T, kind string) string {
	t.Helper()
	if kind == "ext4" {
		return mountImage(t, 7<<20).dir
	}
	dir := smallDisk(t)
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=6m"); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The kernel gives a disk up in the middle of everything, as it does after an error of the hardware: it takes no more
// writes until it is mounted anew. What was acknowledged is there then.
//
// Not tried is a disk that goes while a sync is under way: ext4 answers that one sync with success when its journal is
// aborted between the two (a bare program that appends and calls fdatasync lost its last write in 32 of 300 such
// moments, on Linux 6.18, and statfs right after did not tell it either). No program can see that.
func TestADiskThatTurnsReadOnlyUnderWritersLosesNothing(t *testing.T) {
	for _, mode := range journalModes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			disk := mountImage(t, 24<<20)
			o := ledgerOptions(t, disk.dir, mode)
			f := mustOpen(t, o)
			// The kernel does not always say that the file system is read-only now.
			c := &crowd{t: t, f: f, want: []problem.Kind{problem.Denied, problem.Unavailable}}
			c.until("a", 40, func() { program(t, "mount", "-o", "remount,abort", disk.dir) })
			if n := len(c.refused) + len(c.unknown); n != 4 {
				t.Errorf("%d of 4 writers heard that the disk failed", n)
			}
			if err := f.Quarantine(); err != nil {
				t.Errorf("quarantined: %v", err)
			}
			if err := f.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			program(t, "umount", disk.dir)
			if _, err := Open(t.Context(), Options{Path: o.Path}); ClassOf(err) != Missing {
				t.Errorf("without the disk: %v", err)
			}
			program(t, "mount", "-o", "loop", disk.file, disk.dir)
			c.f = mustOpen(t, o)
			c.settled("mounted anew")
			c.refused, c.unknown = nil, nil
			if !c.write("after") {
				t.Errorf("refused: %q", c.refused)
			}
			c.f.Close()
			t.Logf("%d rows", len(c.stored))
		})
	}
}

func TestADatabaseOnAReadOnlyDiskIsLeftAsItIs(t *testing.T) {
	disk := mountImage(t, 8<<20)
	o := ledgerOptions(t, disk.dir, "wal")
	f := mustOpen(t, o)
	mustWrite(t, f, enter("a", 10))
	f.Close()
	program(t, "mount", "-o", "remount,ro", disk.dir)
	_, err := Open(t.Context(), o)
	if !problem.Is(err, problem.Denied) || !strings.Contains(err.Error(), "read-only") || !strings.Contains(err.Error(), "left as it is") {
		t.Errorf("got %v", err)
	}
	program(t, "mount", "-o", "remount,rw", disk.dir)
	c := &crowd{t: t, f: mustOpen(t, o), stored: []string{"a"}}
	c.settled("writable again")
	c.f.Close()
}
