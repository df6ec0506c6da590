package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite/faultfs"
)

// trouble is one way in which a disk fails.
type trouble struct {
	name string
	on   faultfs.Call
	err  error
	only string // the journal mode it can happen in, "" both
	kind problem.Kind
}

var troubles = []trouble{
	{"write EIO", faultfs.Write, syscall.EIO, "", problem.Unavailable},
	{"write ENOSPC", faultfs.Write, syscall.ENOSPC, "", problem.Full},
	{"all but reads EROFS", faultfs.Any &^ faultfs.Read, syscall.EROFS, "", problem.Denied},
	{"sync EIO", faultfs.Sync, syscall.EIO, "", problem.Unavailable},
	{"sync of the directory EIO", faultfs.SyncDir, syscall.EIO, "delete", problem.Unavailable},
	{"delete EIO", faultfs.Delete, syscall.EIO, "delete", problem.Unavailable},
	{"open EIO", faultfs.Open, syscall.EIO, "delete", problem.Unavailable},
	{"read EIO", faultfs.Read, syscall.EIO, "", problem.Unavailable},
	{"read comes up short", faultfs.Read, nil, "wal", problem.Damaged}, // of a database alone SQLite takes what is missing for zeros
}

// strides are how far the calls that are tried lie apart: each one fails alone, every few fail with all that follow
// until the disk is whole again. Where there are many, the default run tries every few of the later ones.
var strides = map[int]int{1: 1, 0: 5}

const firstCalls = 12

func TestADiskThatFailsAtAnyCallIsExplainedAndLosesNothing(t *testing.T) {
	for _, mode := range journalModes {
		for _, bad := range troubles {
			if bad.only != "" && bad.only != mode {
				continue
			}
			t.Run(mode+"/"+bad.name, func(t *testing.T) {
				t.Parallel()
				calls, dir := 0, t.TempDir()
				for times, stride := range strides {
					for n := 0; !t.Failed(); n += stride {
						if !failAt(t, dir, mode, bad, faultfs.Fault{On: bad.on, Err: bad.err, After: n, Times: times}) {
							break
						}
						if calls++; n >= firstCalls {
							n += stride * (every(4) - 1)
						}
					}
				}
				t.Logf("%d runs", calls)
				if calls < 2 {
					t.Errorf("only %d calls failed: the script does not make any", calls)
				}
			})
		}
	}
}

// failAt runs the script with one fault and reports whether it was met.
func failAt(t *testing.T, top, mode string, bad trouble, fault faultfs.Fault) (met bool) {
	dir, err := os.MkdirTemp(top, "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	synctest.Test(t, func(t *testing.T) {
		disk, unmount := faultfs.Mount(dir)
		defer unmount()
		o := ledgerOptions(t, dir, mode)
		o.seams.full = func(string) bool { return bad.err == syscall.ENOSPC }
		o.seams.readOnly = func(string) bool { return bad.err == syscall.EROFS }
		f, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		p := patient{t: t, disk: disk, f: f, kind: bad.kind, where: fmt.Sprintf("fault at call %d, %d times", fault.After, fault.Times)}
		p.attempt("before", 900)
		p.read()
		p.refused = nil
		disk.Inject(fault)
		p.script()
		met = disk.Heal() > 0
		p.recovers()
		if err := f.Close(); err != nil {
			t.Errorf("%s: close: %v", p.where, err)
		}
		p.afterwards(mode)
	})
	return met
}

// patient is a File on a failing disk, and what its callers were told.
type patient struct {
	t     *testing.T
	disk  *faultfs.Disk
	f     *File
	where string
	kind  problem.Kind // what a refused write is to say

	mu      sync.Mutex
	stored  []string // acknowledged
	refused []string // told that nothing was stored
	unknown []string // told that this is unknown
}

func (p *patient) script() {
	p.attempt("one", 900)
	p.attempt("long", 9000)
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() { p.attempt(fmt.Sprint("together", i), 500) })
	}
	wg.Wait()
	p.read()
	p.checkpoint()
	p.attempt("last", 900)
}

// attempt writes a row and notes what was said about it.
func (p *patient) attempt(uid string, size int) {
	p.disk.Mark("try " + uid)
	err := p.f.Write(context.Background(), enter(uid, size))
	told, explained := errors.AsType[*problem.Error](err)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		p.disk.Mark("ack " + uid)
		p.stored = append(p.stored, uid)
	case !explained || told.Kind == problem.Internal || told.Fate == "" || told.Remedy == "":
		p.t.Errorf("%s: %s: not explained: %v", p.where, uid, err)
	case strings.Contains(told.Fate, "unknown"):
		p.unknown = append(p.unknown, uid)
	case told.Kind != p.kind:
		p.t.Errorf("%s: %s: kind %s: %v", p.where, uid, told.Kind, err)
	default:
		p.disk.Mark("refuse " + uid)
		p.refused = append(p.refused, uid)
	}
}

func (p *patient) read() {
	err := p.f.Read(context.Background(), func(c *Conn) error {
		_, err := c.Row("SELECT n FROM total", nil, new(int))
		return err
	})
	if _, explained := errors.AsType[*problem.Error](err); err != nil && !explained {
		p.t.Errorf("%s: read: not explained: %v", p.where, err)
	}
}

func (p *patient) checkpoint() {
	if _, err := p.f.Checkpoint(context.Background()); err != nil {
		if _, explained := errors.AsType[*problem.Error](err); !explained {
			p.t.Errorf("%s: checkpoint: not explained: %v", p.where, err)
		}
	}
}

// recovers holds the File, the disk being whole again, to what it said: all that it acknowledged is there, nothing of
// what it refused; and it takes the refused rows now, unless it is in quarantine and says so.
func (p *patient) recovers() {
	if err := p.f.Quarantine(); err != nil {
		if ClassOf(err) != Corrupt {
			p.t.Errorf("%s: quarantined: %v", p.where, err)
		}
		return
	}
	p.holds(p.read2(), false)
	for _, uid := range append(slices.Clone(p.refused), p.unknown...) {
		if slices.Contains(p.unknown, uid) && slices.Contains(p.read2(), uid) {
			p.stored = append(p.stored, uid)
			continue
		}
		if err := p.f.Write(context.Background(), enter(uid, 900)); err != nil {
			p.t.Errorf("%s: %s on a whole disk: %v", p.where, uid, err)
		}
		p.stored = append(p.stored, uid)
	}
	p.refused, p.unknown = nil, nil
	p.holds(p.read2(), true)
}

func (p *patient) read2() (uids []string) {
	err := p.f.Read(context.Background(), func(c *Conn) (err error) {
		uids, err = ledger(c)
		return err
	})
	if err != nil {
		p.t.Errorf("%s: read on a whole disk: %v", p.where, err)
	}
	return uids
}

// holds compares what is there with what was said.
func (p *patient) holds(uids []string, exactly bool) {
	have := map[string]int{}
	for _, uid := range uids {
		have[uid]++
	}
	for _, uid := range p.stored {
		if have[uid] != 1 {
			p.t.Errorf("%s: %s was acknowledged and is there %d times", p.where, uid, have[uid])
		}
	}
	for _, uid := range p.refused {
		if have[uid] != 0 {
			p.t.Errorf("%s: %s was refused and is there", p.where, uid)
		}
	}
	if exactly && len(uids) != len(p.stored) {
		p.t.Errorf("%s: there are %q, acknowledged were %q", p.where, uids, p.stored)
	}
}

// afterwards cuts the power, or kills the process, at each moment at which a caller was told something soon after a
// call had failed.
func (p *patient) afterwards(mode string) {
	after := survivor{t: p.t, dir: filepath.Dir(p.f.path), mode: mode, known: map[[32]byte]verdict{}}
	after.clear()
	told := 0
	p.disk.Crash(func(n int, notes []string, image func(faultfs.Loss) faultfs.Image) {
		if p.t.Failed() || len(notes) == told || !toldAfterFault(notes) {
			return
		}
		told = len(notes)
		for _, loss := range []faultfs.Loss{{}, {Keep: true}} {
			img := image(loss)
			err := after.check(img, notes)
			if err == nil {
				err = absent(after.known[keyOf(img)].uids, noted(notes, "refuse "))
			}
			if err != nil {
				p.t.Errorf("%s: power cut after change %d (nothing lost: %t): %v", p.where, n, loss.Keep, err)
			}
		}
	})
}

func toldAfterFault(notes []string) bool {
	last := notes[len(notes)-1]
	recent := notes[max(0, len(notes)-6):]
	return (strings.HasPrefix(last, "ack ") || strings.HasPrefix(last, "refuse ")) && slices.Contains(recent, faultfs.Struck)
}

func absent(have, refused []string) error {
	for _, uid := range refused {
		if slices.Contains(have, uid) {
			return fmt.Errorf("row %s was refused and comes back", uid)
		}
	}
	return nil
}
