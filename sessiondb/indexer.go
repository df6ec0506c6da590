package sessiondb

import (
	"context"
	"errors"
	"time"

	"gatewayd/internal/sqlite"
)

// A step holds the writer for stepTime at most, then the indexer rests as long as the step took: an append beside it
// waits for one step and finds the writer free half of the time. After mergeEvery steps the segments they left are
// merged until nothing is left to merge, in steps of their own: what stays unmerged piles up, and ends in one crisis merge
// of 30 ms and more.
const (
	stepTime   = 3 * time.Millisecond
	mergeEvery = 8
	mergeSteps = 64 // of 16 pages each, per occasion; normally they end before, because nothing is left to merge

	firstBudget = 8 << 10 // bytes of text per step, before the first one was measured
	minBudget   = 1 << 10
	maxBudget   = 256 << 10
)

// An indexer that cannot write comes back after a pause, longer each time.
const (
	firstPause = time.Second
	longPause  = time.Minute
)

// RunIndexer keeps the search indexes behind the rows until ctx ends, which is no error. One at a time per store. Steps
// decide from the mark inside their own transaction, so a second process that indexes too does no harm.
func (s *Store) RunIndexer(ctx context.Context) error {
	if s.ReadOnly() { // whoever wrote the file keeps its indexes
		<-ctx.Done()
		return nil
	}
	if err := s.work.begin(); err != nil {
		return err
	}
	defer s.work.end()
	s.work.kick() // what was left by an earlier life
	trouble := indexTrouble{}
	for s.work.await(ctx) == nil {
		s.work.taken()
		err := s.catchUp(ctx)
		if ctx.Err() != nil || sqlite.ClassOf(err) == sqlite.Closed {
			break
		}
		pause := s.note(&trouble, err)
		if pause == 0 {
			continue
		}
		if rest(ctx, pause) != nil {
			break
		}
		s.work.kick()
	}
	return nil
}

// indexTrouble is what kept the indexer from its work when it last tried.
type indexTrouble struct {
	pause time.Duration
	other bool // another process does it
}

// note says that a trouble began or ended, and how long to pause; 0: there is none.
func (s *Store) note(t *indexTrouble, err error) time.Duration {
	path := s.file.Path()
	switch {
	case err == nil:
		if t.pause > 0 {
			s.log.Info("search index is written again", "path", path)
		}
		*t = indexTrouble{}
	case errors.Is(err, errDeferred):
		if !t.other {
			s.log.Info("search index is rebuilt by another process, searches scan meanwhile", "path", path)
		}
		*t = indexTrouble{pause: rebuildPoll, other: true}
	case t.pause == 0 || t.other:
		s.log.Warn("search index cannot be written, trying again", "path", path, "error", err)
		*t = indexTrouble{pause: firstPause}
	default:
		t.pause = min(2*t.pause, longPause)
	}
	return t.pause
}

// catchUp runs steps over both indexes until neither has rows left. errDeferred: one of them is another's to build.
func (s *Store) catchUp(ctx context.Context) error {
	for {
		more, deferred := false, error(nil)
		for i := range indexes {
			took, left, err := s.step(ctx, i)
			if errors.Is(err, errDeferred) {
				deferred = err
				continue
			}
			if err != nil {
				return err
			}
			more = more || left
			s.work.progress.tell()
			if err := rest(ctx, took); err != nil {
				return err
			}
			if err := s.mergeDue(ctx, i); err != nil {
				return err
			}
		}
		if !more {
			return deferred
		}
	}
}

func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// step indexes one chunk, or makes a stale index new. It repairs what it finds damaged: the next step starts over.
func (s *Store) step(ctx context.Context, i int) (took time.Duration, more bool, err error) {
	budget := s.budget(i)
	err = s.file.Maintain(ctx, sqlite.OpRebuild, sqlite.Op{
		Label: "index messages", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			began := time.Now()
			left, err := s.advance(tx, indexes[i], budget)
			took, more = time.Since(began), left
			return err
		},
	})
	if bad, ok := errors.AsType[*indexError](err); ok && damaged(bad.err) {
		bad.ix = i
		return took, true, s.markStale(ctx, i, bad.err)
	}
	if err == nil {
		s.spent(i, took)
	}
	return took, more, err
}

// budget is how much text the next step takes; spent learns from what the last one cost.
func (s *Store) budget(i int) int64 {
	s.work.mu.Lock()
	defer s.work.mu.Unlock()
	return s.work.budgets[i]
}

func (s *Store) spent(i int, took time.Duration) {
	s.work.mu.Lock()
	defer s.work.mu.Unlock()
	b := s.work.budgets[i]
	switch {
	case took > stepTime:
		b = max(b*int64(stepTime)/int64(took), b/4)
	case took < stepTime/2:
		b += b / 4
	}
	s.work.budgets[i] = min(max(b, minBudget), maxBudget)
}

// mergeDue merges the segments of an index after every few chunks.
func (s *Store) mergeDue(ctx context.Context, i int) error {
	if !s.work.mergeNow(i) {
		return nil
	}
	for range mergeSteps {
		took, worked, err := s.merge(ctx, i)
		if err != nil || !worked {
			return err
		}
		if err := rest(ctx, took); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) merge(ctx context.Context, i int) (took time.Duration, worked bool, err error) {
	err = s.file.Write(ctx, sqlite.Op{
		Label: "merge index", Patience: sqlite.Ordinary,
		Do: func(tx *sqlite.Tx) error {
			began := time.Now()
			did, err := indexes[i].merge(tx)
			took, worked = time.Since(began), did
			return err
		},
	})
	if bad, ok := errors.AsType[*indexError](err); ok && damaged(bad.err) {
		return took, false, s.markStale(ctx, i, bad.err)
	}
	return took, worked, err
}
