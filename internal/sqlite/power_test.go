package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"gatewayd/internal/sqlite/faultfs"
)

// ledgerSchema counts what it holds, so that half a transaction is noticed, and takes a row twice, so that a second
// copy is.
const ledgerSchema = `CREATE TABLE ledger (uid TEXT NOT NULL, body TEXT NOT NULL);
CREATE INDEX ledger_uid ON ledger (uid);
CREATE TABLE total (n INTEGER NOT NULL); INSERT INTO total VALUES (0); PRAGMA user_version=1;`

// journalModes are the two that a database can be in.
var journalModes = []string{"wal", "delete"}

func ledgerOptions(t testing.TB, dir, mode string) Options {
	o := testOptions(t)
	o.Path, o.Journal.Mode, o.Log = filepath.Join(dir, "ledger.db"), mode, nil
	o.Migrate = func(tx *Tx) error { return tx.Script(ledgerSchema) }
	return o
}

// enter adds a row of some length and counts it.
func enter(uid string, size int) Op {
	return Op{Label: "enter " + uid, Do: func(tx *Tx) error {
		if _, err := tx.Exec("INSERT INTO ledger (uid, body) VALUES (?, hex(zeroblob(?)))", uid, size/2); err != nil {
			return err
		}
		_, err := tx.Exec("UPDATE total SET n = n + 1")
		return err
	}, Done: func(c *Conn) (bool, error) {
		return c.Row("SELECT 1 FROM ledger WHERE uid = ?", []any{uid}, new(int))
	}}
}

// ledger reads all uids and checks that they are whole: no damage, as many rows as were counted.
func ledger(c *Conn) (uids []string, err error) {
	for row, err := range c.Query("SELECT uid FROM ledger ORDER BY rowid") {
		if err != nil {
			return nil, err
		}
		uids = append(uids, row.Text(0))
	}
	var total int
	var verdict string
	if _, err := c.Row("SELECT n FROM total", nil, &total); err != nil {
		return nil, err
	}
	if _, err := c.Row("PRAGMA integrity_check", nil, &verdict); err != nil {
		return nil, err
	}
	if verdict != "ok" || total != len(uids) {
		return nil, fmt.Errorf("integrity_check says %q; %d rows, %d were counted", verdict, len(uids), total)
	}
	return uids, nil
}

// scribe writes rows and notes on the disk which were tried and which were acknowledged.
type scribe struct {
	t    *testing.T
	disk *faultfs.Disk
	f    *File
}

func (s scribe) enter(uid string, size int) {
	s.disk.Mark("try " + uid)
	if err := s.f.Write(context.Background(), enter(uid, size)); err != nil {
		s.t.Errorf("%s: %v", uid, err)
		return
	}
	s.disk.Mark("ack " + uid)
}

func (s scribe) together(round string, n int) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { s.enter(fmt.Sprint(round, i), 200*i) })
	}
	wg.Wait()
}

func (s scribe) checkpoint() {
	if _, err := s.f.Checkpoint(context.Background()); err != nil {
		s.t.Error(err)
	}
}

// aLifeOfWrites is the script whose every moment is tried: a new file, rows alone and together, one that needs many
// pages, checkpoints after which the log begins anew, and a second life.
func aLifeOfWrites(t *testing.T, dir, mode string) *faultfs.Disk {
	disk, unmount := faultfs.Mount(dir)
	defer unmount()
	for life := range 2 {
		f, err := Open(t.Context(), ledgerOptions(t, dir, mode))
		if err != nil {
			t.Fatal(err)
		}
		s := scribe{t, disk, f}
		for i := range 3 {
			s.enter(fmt.Sprint(life, "-alone", i), 900)
		}
		s.checkpoint()
		if life == 0 {
			s.together("first", 5)
			s.enter("long", 30_000)
			s.together("second", 5)
			s.checkpoint()
		}
		s.enter(fmt.Sprint(life, "-last"), 900)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return disk
}

// cuts are the ways in which a power cut treats what was not synced, tried at each moment.
func cuts(seed uint64) map[string]faultfs.Loss {
	return map[string]faultfs.Loss{
		"dropped":           {},
		"torn at 512 bytes": {Sector: 512, Seed: seed},
		"torn at 4 KiB":     {Sector: 4096, Seed: seed + 1},
		"reordered":         {Whole: true, Seed: seed + 2},
		"killed":            {Keep: true},
	}
}

// apart is how far the moments lie apart that the default run tries: a rollback journal makes many that are alike.
var apart = map[string]int{"wal": 1, "delete": 4}

func TestAPowerCutAtAnyMomentLosesNoAcknowledgedRow(t *testing.T) {
	for _, mode := range journalModes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			seed := testSeed(t)
			disk := aLifeOfWrites(t, t.TempDir(), mode)
			after := survivor{t: t, dir: t.TempDir(), mode: mode, known: map[[32]byte]verdict{}}
			moments, acks := 0, 0
			disk.Crash(func(n int, notes []string, image func(faultfs.Loss) faultfs.Image) {
				moments = n + 1
				acks = len(noted(notes, "ack "))
				if n%every(apart[mode]) != 0 {
					return
				}
				for name, loss := range cuts(seed) {
					if t.Failed() {
						return
					}
					if err := after.check(image(loss), notes); err != nil {
						t.Errorf("power cut after change %d, %s, seed %d: %v", n, name, seed, err)
					}
				}
			})
			if acks != 15+4 || moments < 100 {
				t.Errorf("%d rows were acknowledged in %d changes: the script did not run", acks, moments)
			}
			if len(after.known) < 100 {
				t.Errorf("only %d different disks were opened", len(after.known))
			}
			t.Logf("%d moments, %d different disks, seed %d", moments, len(after.known), seed)
		})
	}
}

// survivor opens what a power cut left, as the next start does. Disks that are the same are opened once.
type survivor struct {
	t         *testing.T
	dir, mode string
	known     map[[32]byte]verdict
}

type verdict struct {
	uids []string
	err  error
}

// check holds what is left against what was promised up to the cut.
func (s *survivor) check(image faultfs.Image, notes []string) error {
	key := keyOf(image)
	v, ok := s.known[key]
	if !ok {
		v.uids, v.err = s.open(image)
		s.known[key] = v
	}
	acked, tried := noted(notes, "ack "), noted(notes, "try ")
	switch {
	case v.err != nil && len(acked) == 0 && ClassOf(v.err) == Missing:
		return nil // the file itself was not there yet
	case v.err != nil:
		return v.err
	}
	have := map[string]int{}
	for _, uid := range v.uids {
		if have[uid]++; have[uid] > 1 {
			return fmt.Errorf("row %s is stored twice", uid)
		}
		if !slices.Contains(tried, uid) {
			return fmt.Errorf("row %s was never written", uid)
		}
	}
	for _, uid := range acked {
		if have[uid] == 0 {
			return fmt.Errorf("row %s was acknowledged and is lost; there are %q", uid, v.uids)
		}
	}
	return nil
}

// open opens the disk, reads it and writes to it.
func (s *survivor) open(image faultfs.Image) (uids []string, err error) {
	_, unmount := faultfs.Mount(s.dir) // afresh: nobody reads its notes
	defer unmount()
	defer s.clear()
	if s.mode == "wal" { // of the boot before
		image["ledger.db-shm"] = bytes.Repeat([]byte{0xaa}, 32768)
	}
	if err := image.Lay(s.dir); err != nil {
		return nil, err
	}
	o := ledgerOptions(s.t, s.dir, s.mode)
	f, err := Open(s.t.Context(), o)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	err = f.Peek(s.t.Context(), func(c *Conn) (err error) {
		uids, err = ledger(c)
		return err
	})
	if err != nil {
		return nil, err
	}
	return uids, f.Write(s.t.Context(), enter("after the cut", 10))
}

// clear empties the directory for the next disk.
func (s *survivor) clear() {
	left, err := filepath.Glob(filepath.Join(s.dir, "ledger.db*"))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		s.t.Error(err)
	}
}

func keyOf(image faultfs.Image) [32]byte {
	h := sha256.New()
	for _, name := range []string{"ledger.db", "ledger.db-wal", "ledger.db-journal"} {
		content, ok := image[name]
		fmt.Fprint(h, ok, len(content), ":")
		h.Write(content)
	}
	return [32]byte(h.Sum(nil))
}

func noted(notes []string, kind string) (uids []string) {
	for _, note := range notes {
		if uid, ok := strings.CutPrefix(note, kind); ok {
			uids = append(uids, uid)
		}
	}
	return uids
}
