package sessiondb

import (
	"context"
	"errors"
	"sync"
	"time"
)

// What the indexer waits for: so many new rows, or the first of them this old. Few enough that a search finds a short
// tail, rare enough that a turn's rows are indexed together.
const (
	indexAtRows = 16
	indexAfter  = 500 * time.Millisecond
)

// indexWork is how appends tell the indexer that there is something to do, and how it tells others how far it came.
type indexWork struct {
	mu       sync.Mutex
	pending  int           // rows added since the last look
	running  bool          // RunIndexer is at it
	wake     chan struct{} // capacity 1: look at pending again
	urgent   bool          // a search waits, or an index is stale
	progress broadcast     // told after each step and each look that found nothing
	token    string        // names this store on the ticket of a rebuild
	budgets  [len(indexes)]int64
	chunks   [len(indexes)]int // since the last merge
}

func (w *indexWork) init() {
	w.wake, w.token = make(chan struct{}, 1), newUID(time.Now())
	for i := range w.budgets {
		w.budgets[i] = firstBudget
	}
}

var errIndexerRuns = errors.New("the indexer of this store is running already")

func (w *indexWork) begin() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running {
		return errIndexerRuns
	}
	w.running = true
	return nil
}

func (w *indexWork) end() {
	w.mu.Lock()
	w.running = false
	w.mu.Unlock()
	w.progress.tell()
}

func (w *indexWork) isRunning() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running
}

// added counts rows that were appended.
func (w *indexWork) added(n int) {
	w.mu.Lock()
	w.pending += n
	ring := w.pending == n || w.pending >= indexAtRows
	w.mu.Unlock()
	if ring {
		w.ring()
	}
}

// kick asks for work at once, whatever is pending.
func (w *indexWork) kick() {
	w.mu.Lock()
	w.urgent = true
	w.mu.Unlock()
	w.ring()
}

func (w *indexWork) ring() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// due says whether to begin now, or else whether there is something to wait for.
func (w *indexWork) due() (now, some bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.urgent || w.pending >= indexAtRows, w.pending > 0
}

// mergeNow counts a chunk and says whether it was the last before a merge.
func (w *indexWork) mergeNow(i int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chunks[i] = (w.chunks[i] + 1) % mergeEvery
	return w.chunks[i] == 0
}

func (w *indexWork) taken() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending, w.urgent = 0, false
}

// await returns when there is work, or ctx ends.
func (w *indexWork) await(ctx context.Context) error {
	var late <-chan time.Time
	for {
		now, some := w.due()
		if now {
			return nil
		}
		if some && late == nil {
			timer := time.NewTimer(indexAfter)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-w.wake:
		case <-late:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
