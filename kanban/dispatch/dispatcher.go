package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"gatewayd/config"
	"gatewayd/internal/procfs"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
	"gatewayd/reaper"
)

// Acquire opens a board by its path, or gives the handle that is open already, and what gives it back. The
// daemon wires the registry in here.
type Acquire func(ctx context.Context, path string) (*kanban.Board, func(), error)

// Options are what a dispatcher works with.
type Options struct {
	Root       *kanban.Root
	Acquire    Acquire
	Launcher   worker.Launcher
	Workspaces worker.Workspaces
	Lanes      *worker.Lanes
	Config     config.Kanban
	Environ    config.Environ // where lanes' programs are looked for
	Home       string
	Exe        string      // this binary, for workers
	RunsDir    string      // per-run directories; default <home>/runs
	Offline    func() bool // reports that there is only the offline model; nil = never
	Log        *slog.Logger

	BoardPatience time.Duration // 0 = DefaultBoardPatience

	// Memory reads how much there is; nil = procfs.ReadMemory.
	Memory func() (procfs.Memory, error)
	// EndForeign ends a worker that no keeper of this daemon watches; nil = reaper.Foreign.End.
	EndForeign func(ctx context.Context, f reaper.Foreign, grace time.Duration) reaper.Departure
}

// Dispatcher hands cards to workers. Run is its life; Wake, Tick, Status and Why are safe for concurrent use.
type Dispatcher struct {
	o         Options
	log       *slog.Logger
	lock      string    // what our claims are signed with
	host      string    // "<boot>:<start of pid 1>", the first part of a fingerprint written on this machine
	hostStart time.Time // when this machine or container started; zero = unknown
	wake      chan struct{}
	woken     wakes

	// mu is held by one tick at a time, and by the end of a start that a tick began. Both bound what they do with a
	// board's file, so that nobody waits long.
	mu        sync.Mutex
	boards    map[kanban.Slug]*board
	order     []kanban.Slug
	workers   map[string]*attached // by keeper id
	health    map[string]*laneHealth
	leader    *kanban.FileLock
	holder    kanban.Holder // who signed the leader's lock last
	outside   *Hold         // what stops this dispatcher as a whole
	turn      int           // which board spawns first, so that none always does
	listed    listing
	lastCount int // workers after the last tick
	mem       memory
	stuck     stuckness
	ticks     int64
	closing   chan struct{}
	closed    bool
	launches  sync.WaitGroup
	watchers  sync.WaitGroup

	tuning    atomic.Pointer[Tuning]
	published atomic.Pointer[Status]
	shut      sync.Map // of *shut by slug: the boards that are disabled
	going     sync.Map // by slug: the boards that are let go
}

// New makes a dispatcher. It opens nothing before the first tick.
func New(o Options) (*Dispatcher, error) {
	if o.Root == nil || o.Acquire == nil || o.Launcher == nil || o.Lanes == nil {
		return nil, errors.New("make dispatcher: root, acquire, launcher and lanes are needed")
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.RunsDir == "" {
		o.RunsDir = o.Home + "/runs"
	}
	if o.BoardPatience == 0 {
		o.BoardPatience = DefaultBoardPatience
	}
	if o.Memory == nil {
		o.Memory = procfs.ReadMemory
	}
	if o.EndForeign == nil {
		o.EndForeign = func(ctx context.Context, f reaper.Foreign, grace time.Duration) reaper.Departure {
			return f.End(ctx, grace)
		}
	}
	if o.Offline == nil {
		o.Offline = func() bool { return false }
	}
	d := &Dispatcher{
		o: o, log: o.Log, lock: kanban.ClaimLock(), host: hostPart(procfs.Fingerprint(1)),
		wake: make(chan struct{}, 1), closing: make(chan struct{}),
		hostStart: procfs.HostStart(), boards: map[kanban.Slug]*board{}, workers: map[string]*attached{}, health: map[string]*laneHealth{},
	}
	d.tuning.Store(&Tuning{o.Config, o.Lanes})
	d.published.Store(&Status{Dispatching: o.Config.Dispatch, MaxInProgress: o.Config.MaxInProgress})
	return d, nil
}

// Tick does one full tick over all boards and waits until the workers it decided on run. Boards in another
// process's tick are left to it.
func (d *Dispatcher) Tick(ctx context.Context) (Report, error) { return d.round(ctx, true) }

// Look does what a wake does: a tick over the boards that changed, are due or were woken, and no other.
func (d *Dispatcher) Look(ctx context.Context) (Report, error) { return d.round(ctx, false) }

func (d *Dispatcher) round(ctx context.Context, full bool) (Report, error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return Report{}, errors.New("tick: the dispatcher has ended")
	}
	report := d.tick(ctx, full)
	d.mu.Unlock()
	report.started.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.publish(report)
	return report.finish(), ctx.Err()
}

// tick is one pass. The caller holds mu.
func (d *Dispatcher) tick(ctx context.Context, full bool) *pass {
	now := time.Now()
	p := newPass(now, full, d.woken.take())
	d.reap(p)
	d.enumerate(p)
	for _, slug := range d.order {
		d.visit(ctx, d.boards[slug], p)
	}
	if ctx.Err() == nil {
		d.spawn(ctx, p)
	}
	for _, b := range p.locked {
		b.unlock()
	}
	d.ticks++
	d.noteStuck(p)
	d.publish(p)
	return p
}

// reap takes up the ends of workers before any board is touched, so that a board that cannot be read delays no
// reaping: what a worker's end means for its card waits in memory, and in the keeper's record.
func (d *Dispatcher) reap(p *pass) {
	for _, w := range d.workers {
		if w.exit != nil || w.proc == nil {
			continue
		}
		select {
		case <-w.proc.Done():
			exit := w.proc.Exit()
			w.exit = &exit
			p.Reaped = append(p.Reaped, w.id)
			d.log.Debug("worker reaped", "board", w.board, "task", w.task, "run", w.run, "pid", exit.PID)
		default:
		}
	}
	d.bury()
	for _, w := range d.workers {
		if w.exit != nil {
			p.dirty(w.board)
		}
	}
}

// enumerate finds the boards, so that one that was created a moment ago needs no restart.
func (d *Dispatcher) enumerate(p *pass) {
	if changed := d.listed.changed(d.o.Root.Dir()); !changed && !p.full {
		return
	}
	infos, err := d.o.Root.Boards()
	if err != nil {
		p.fail("", fmt.Errorf("list boards: %w", err))
		return
	}
	seen := map[kanban.Slug]bool{}
	d.order = d.order[:0]
	for _, info := range infos {
		seen[info.Slug] = true
		d.order = append(d.order, info.Slug)
		b := d.boards[info.Slug]
		if b == nil {
			b = &board{slug: info.Slug, path: info.Path, log: d.log.With("board", string(info.Slug))}
			d.boards[info.Slug] = b
		}
		b.workdir, b.most = info.DefaultWorkdir, d.tuned().Kanban.MaxPerBoard
		if info.MaxInProgress > 0 {
			b.most = info.MaxInProgress
		}
	}
	for slug, b := range d.boards {
		if !seen[slug] {
			b.log.Info("board is gone", "path", b.path)
			b.close()
			delete(d.boards, slug)
		}
	}
}

// close lets go of every lock and board, once no start is under way. Workers live on; their keepers' records wait
// for the next daemon.
func (d *Dispatcher) close() {
	d.mu.Lock()
	first := !d.closed
	d.closed = true // no tick begins from here on
	d.mu.Unlock()
	d.launches.Wait()
	d.mu.Lock()
	if first {
		close(d.closing)
	}
	for _, b := range d.boards {
		b.close()
	}
	if d.leader != nil {
		_ = d.leader.Close()
		d.leader = nil
	}
	d.mu.Unlock()
	d.watchers.Wait()
}

// tally is who works now.
type tally struct {
	all       int
	lanes     map[string]int
	boards    map[kanban.Slug]int
	reviewers int
}

func (c *tally) add(board kanban.Slug, lane string, review bool) {
	c.all++
	c.lanes[lane]++
	c.boards[board]++
	if review {
		c.reviewers++
	}
}

// running counts the workers that live, each card's once: ours, and those that others started here.
func (d *Dispatcher) running() tally {
	c := tally{lanes: map[string]int{}, boards: map[kanban.Slug]int{}}
	ours := map[string]bool{}
	for _, w := range d.workers {
		if key := aliveKey(w.board, w.task); w.exit == nil && !ours[key] {
			ours[key] = true
			c.add(w.board, w.lane, w.review)
		}
	}
	for _, b := range d.boards {
		for task, o := range b.others {
			if !ours[aliveKey(b.slug, task)] {
				c.add(b.slug, o.lane, o.review)
			}
		}
	}
	return c
}

func hostPart(fingerprint string) string {
	for i := range len(fingerprint) {
		if fingerprint[i] == '|' {
			return fingerprint[:i]
		}
	}
	return ""
}

// wakes collects who asked for a tick.
type wakes struct {
	mu     sync.Mutex
	boards map[kanban.Slug]bool
}

func (w *wakes) add(slug kanban.Slug) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.boards == nil {
		w.boards = map[kanban.Slug]bool{}
	}
	w.boards[slug] = true
}

func (w *wakes) take() map[kanban.Slug]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := maps.Clone(w.boards)
	clear(w.boards)
	if taken == nil {
		taken = map[kanban.Slug]bool{}
	}
	return taken
}

// Wake says that something happened on a board; it never blocks.
func (d *Dispatcher) Wake(slug kanban.Slug) {
	d.woken.add(slug)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}
