package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gatewayd/internal/problem"
)

// storm is writers and readers on one File, with what they were told.
type storm struct {
	t     *testing.T
	f     *File
	acked atomic.Int64

	mu      sync.Mutex
	stored  []string
	refused []string
}

func (s *storm) write(uid string) {
	err := s.f.Write(context.Background(), enter(uid, 300))
	told, explained := errors.AsType[*problem.Error](err)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.acked.Add(1)
		s.stored = append(s.stored, uid)
	case !explained:
		s.t.Errorf("%s: not explained: %v", uid, err)
	case !strings.Contains(told.Fate, "unknown"):
		s.refused = append(s.refused, uid)
	}
}

// read must see whatever was acknowledged before it began: an index of zeros would show fewer rows and no error.
func (s *storm) read() {
	before := s.acked.Load()
	var n int64
	err := s.f.Read(context.Background(), func(c *Conn) error {
		_, err := c.Row("SELECT n FROM total", nil, &n)
		return err
	})
	switch _, explained := errors.AsType[*problem.Error](err); {
	case err == nil && n < before:
		s.t.Errorf("a read saw %d rows of %d acknowledged", n, before)
	case err != nil && !explained:
		s.t.Errorf("read: not explained: %v", err)
	}
}

// truncate cuts the -shm again after every few transactions, until stop.
func (s *storm) truncate(stop *atomic.Bool) {
	for !stop.Load() {
		os.Truncate(s.f.Path()+"-shm", 0)
		before := s.f.writer.tries.Load()
		for s.f.writer.tries.Load() < before+20 && !stop.Load() {
			s.f.Stamp()
		}
	}
}

// Somebody truncates the -shm again and again under readers and writers. Every connection may be lost at any
// moment; the process, and what was acknowledged, may not.
func TestAStormOfTruncationsCostsNoAcknowledgedRow(t *testing.T) {
	t.Parallel()
	s := &storm{t: t, f: mustOpen(t, ledgerOptions(t, t.TempDir(), "wal"))}
	var stop atomic.Bool
	var work, weather sync.WaitGroup
	for w := range 4 {
		work.Go(func() {
			for i := range 50 {
				s.write(fmt.Sprint(w, "-", i))
			}
		})
	}
	for range 3 {
		work.Go(func() {
			for range 60 {
				s.read()
			}
		})
	}
	weather.Go(func() { s.truncate(&stop) })
	work.Wait()
	stop.Store(true)
	weather.Wait()

	var have []string
	err := s.f.Read(context.Background(), func(c *Conn) (err error) {
		have, err = ledger(c)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d acknowledged, %d refused, %d stored, %d connections not freed", len(s.stored), len(s.refused), len(have), s.f.lost.add()-1)
	slices.Sort(have)
	if twice := len(have) - len(slices.Compact(slices.Clone(have))); twice > 0 {
		t.Errorf("%d rows are stored twice", twice)
	}
	for _, uid := range s.stored {
		if !slices.Contains(have, uid) {
			t.Errorf("row %s was acknowledged and is lost", uid)
		}
	}
	if err := absent(have, s.refused); err != nil {
		t.Error(err)
	}
	if err := s.f.Quarantine(); err != nil {
		t.Errorf("a lost mapping is no reason for quarantine: %v", err)
	}
}
