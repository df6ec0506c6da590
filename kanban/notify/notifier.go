package notify

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"gatewayd/kanban"
)

const (
	// pollEvery is how soon an event of another process is seen: a look costs about a microsecond a board.
	pollEvery = 250 * time.Millisecond
	// listEvery finds boards that the directory's time did not tell of.
	listEvery = time.Minute
	// atOnce bounds the deliveries under way. A target that hangs holds one for half a minute.
	atOnce = 8
	// leaseTime is longer than any attempt: a lease that runs out under its holder would have a row sent twice.
	leaseTime = 3 * time.Minute
	// recordTime bounds the wait for a board that is busy when an attempt is over. What is not recorded is sent again.
	recordTime = 30 * time.Second
	pruneEvery = time.Hour
	// Retention is how long delivered rows are kept for people to look at.
	Retention = 30 * 24 * time.Hour
)

// Options are what a Notifier works with.
type Options struct {
	Root     *kanban.Root
	Acquire  func(ctx context.Context, path string) (*kanban.Board, func(), error)
	Disabled func(slug kanban.Slug) error // why a board may not be opened now; nil func = they all may
	Targets  *Targets
	Off      bool // kanban.notify.enabled is false: nothing is opened and nothing sent
	Log      *slog.Logger
}

// Notifier delivers. Run is its life; Wake, LetGo, Status and Test are safe for concurrent use.
type Notifier struct {
	o         Options
	log       *slog.Logger
	wake      chan struct{}
	mu        sync.Mutex // guards what follows, for the length of a look
	boards    map[kanban.Slug]*board
	listed    time.Time // when the directory was read
	mtime     time.Time
	slots     chan struct{}
	flights   sync.WaitGroup
	published atomic.Pointer[Status]
}

// Status is how the deliveries stand, as of the last look.
type Status struct {
	Enabled bool          `json:"enabled"`
	Boards  []BoardStatus `json:"boards"` // those with subscriptions or trouble
}

// BoardStatus is one board.
type BoardStatus struct {
	Board kanban.Slug `json:"board"`
	kanban.OutboxCounts
	Trouble string `json:"trouble,omitempty"` // why nothing can be delivered for it just now
}

// Parked counts what waits for a person.
func (s Status) Parked() (n int) {
	for _, b := range s.Boards {
		n += b.Parked
	}
	return n
}

// New makes a Notifier. It opens nothing before Run.
func New(o Options) (*Notifier, error) {
	if o.Root == nil || o.Acquire == nil || o.Targets == nil {
		return nil, errors.New("make notifier: root, acquire and targets are needed")
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Disabled == nil {
		o.Disabled = func(kanban.Slug) error { return nil }
	}
	n := &Notifier{o: o, log: o.Log, wake: make(chan struct{}, 1), boards: map[kanban.Slug]*board{}, slots: make(chan struct{}, atOnce)}
	n.published.Store(&Status{Enabled: !o.Off, Boards: []BoardStatus{}})
	return n, nil
}

// Wake asks for a look now; it never blocks.
func (n *Notifier) Wake() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Status gives the state as of the last look.
func (n *Notifier) Status() Status { return *n.published.Load() }

// Run delivers until ctx ends. An attempt that is under way is then broken off and made again, with its key, by whoever
// serves the board next.
func (n *Notifier) Run(ctx context.Context) error {
	if n.o.Off {
		<-ctx.Done()
		return nil
	}
	defer n.close()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for ctx.Err() == nil {
		n.look(ctx)
		select {
		case <-ctx.Done():
		case <-poll.C:
		case <-n.wake:
		}
	}
	return nil
}

func (n *Notifier) close() {
	n.flights.Wait()
	for _, b := range n.boards {
		b.close()
	}
}

// LetGo gives back what is held of a board that is about to leave; Disabled keeps it from being opened again. A delivery that
// is under way still uses it.
func (n *Notifier) LetGo(slug kanban.Slug) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if b := n.boards[slug]; b != nil {
		b.close()
	}
}

// look visits each board that changed or whose time has come.
func (n *Notifier) look(ctx context.Context) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.enumerate(now)
	changed := false
	for _, b := range n.boards {
		changed = b.look(ctx, n, now) || changed
	}
	if changed {
		n.publish()
	}
}

// enumerate finds the boards, so that one that was made a moment ago needs no restart.
func (n *Notifier) enumerate(now time.Time) {
	var mtime time.Time
	if info, err := os.Stat(filepath.Join(n.o.Root.Dir(), "kanban", "boards")); err == nil {
		mtime = info.ModTime()
	}
	if mtime.Equal(n.mtime) && now.Sub(n.listed) < listEvery && n.listed.Sub(mtime) > 2*time.Second {
		return
	}
	if mtime.Equal(n.mtime) && now.Sub(n.listed) < time.Second {
		return
	}
	infos, err := n.o.Root.Boards()
	if err != nil {
		return // the dispatcher says it
	}
	n.mtime, n.listed = mtime, now
	seen := map[kanban.Slug]bool{}
	for _, info := range infos {
		seen[info.Slug] = true
		if n.boards[info.Slug] == nil {
			n.boards[info.Slug] = newBoard(info.Slug, info.Path, n.log)
		}
	}
	for slug, b := range n.boards {
		if !seen[slug] && !b.flying() {
			b.close()
			delete(n.boards, slug)
		}
	}
}

func (n *Notifier) publish() {
	s := Status{Enabled: true, Boards: []BoardStatus{}}
	for _, info := range sortedBoards(n.boards) {
		if info.counts.Subscriptions > 0 || info.trouble != "" {
			s.Boards = append(s.Boards, BoardStatus{Board: info.slug, OutboxCounts: info.counts, Trouble: info.trouble})
		}
	}
	n.published.Store(&s)
}
