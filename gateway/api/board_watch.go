package api

import (
	"context"
	"strconv"
	"sync"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/kanban"
)

// boardLook is how soon what other processes did is seen; what this daemon was asked to do is seen at once.
const boardLook = 250 * time.Millisecond

// headOf is the cursor of a board's newest event. The file is let go between two looks, so that watchers hold no board.
func (s *server) headOf(ctx context.Context, slug kanban.Slug) (int64, error) {
	board, release, err := s.Boards.Acquire(ctx, slug)
	if err != nil {
		return 0, err
	}
	defer release()
	return board.LatestEvent(ctx)
}

// newEvents is a page of a board's history as it is written to each of those who watch the whole board: read and encoded once.
type newEvents struct {
	from, to int64
	frame    []byte
}

// isNextOf reports whether it is what comes next for who watches with this filter.
func (n newEvents) isNextOf(f kanban.EventFilter) bool {
	return n.frame != nil && n.from == f.After && f.Task == "" && f.Assignee == "" && f.Tenant == "" && len(f.Kinds) == 0
}

// lookAt gives a board's newest cursor and what was written after one that is known; 0 is none.
func (s *server) lookAt(ctx context.Context, slug kanban.Slug, after int64) (head int64, newest newEvents, err error) {
	board, release, err := s.Boards.Acquire(ctx, slug)
	if err != nil {
		return 0, newEvents{}, err
	}
	defer release()
	if head, err = board.LatestEvent(ctx); err != nil || after == 0 || head <= after {
		return head, newEvents{}, err
	}
	list, cursor, err := board.EventsOf(ctx, kanban.EventFilter{After: after, Limit: eventsMost})
	if err != nil || len(list) == 0 {
		return head, newEvents{}, err
	}
	frame, err := frameOf(strconv.FormatInt(cursor, 10), "events", eventPage(list, cursor))
	return max(head, cursor), newEvents{after, cursor, frame}, err
}

// boardWatch looks after the boards that somebody watches: once for each board, however many watch it.
type boardWatch struct {
	mu     sync.Mutex
	boards map[kanban.Slug]*watchedBoard
}

type watchedBoard struct {
	watchers int
	stop     context.CancelFunc
	ended    chan struct{} // closed when nobody looks any more
	nudged   chan struct{} // it has changed, so look now

	mu      sync.Mutex
	head    int64
	newest  newEvents // what led to head
	err     error
	changed chan struct{} // closed at the next change
}

type lookAt func(ctx context.Context, slug kanban.Slug, after int64) (int64, newEvents, error)

func (b *boardWatch) join(slug kanban.Slug, look lookAt) *watchedBoard {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.boards == nil {
		b.boards = map[kanban.Slug]*watchedBoard{}
	}
	w, there := b.boards[slug]
	if !there {
		ctx, stop := context.WithCancel(context.Background())
		w = &watchedBoard{stop: stop, ended: make(chan struct{}), changed: make(chan struct{}), nudged: make(chan struct{}, 1)}
		b.boards[slug] = w
		go func() {
			defer close(w.ended)
			w.look(ctx, func(after int64) (int64, newEvents, error) { return look(ctx, slug, after) })
		}()
	}
	w.watchers++
	return w
}

// leave is the end of a watcher. With the last one of a board ends who looks after it, and the board is let go when leave returns; that waits
// for no more than a look that is under way.
func (b *boardWatch) leave(slug kanban.Slug) {
	if w := b.last(slug); w != nil {
		w.stop()
		<-w.ended
	}
}

// last takes a watcher off a board and gives the board where it was the last one.
func (b *boardWatch) last(slug kanban.Slug) *watchedBoard {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.boards[slug]
	if w.watchers--; w.watchers > 0 || mutation.On("nobody-watches-and-it-is-looked-at") {
		return nil
	}
	delete(b.boards, slug)
	return w
}

// nudge has a board looked at now, if somebody watches it.
func (b *boardWatch) nudge(slug kanban.Slug) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w, there := b.boards[slug]; there {
		select {
		case w.nudged <- struct{}{}:
		default:
		}
	}
}

// look looks until ctx ends.
func (w *watchedBoard) look(ctx context.Context, look func(after int64) (int64, newEvents, error)) {
	tick := time.NewTicker(boardLook)
	defer tick.Stop()
	known := int64(0)
	for {
		at, newest, err := look(known)
		if ctx.Err() != nil {
			return
		}
		w.mu.Lock()
		if at != w.head || err != nil {
			w.head, w.newest, w.err = at, newest, err
			close(w.changed)
			w.changed = make(chan struct{})
		}
		w.mu.Unlock()
		known = at
		select {
		case <-tick.C:
		case <-w.nudged:
		case <-ctx.Done():
			return
		}
	}
}

func (w *watchedBoard) state() (head int64, newest newEvents, changed <-chan struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.head, w.newest, w.changed, w.err
}
