package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

const (
	// DefaultBoardPatience is what one board may take of a tick, so that a file that another process holds locked
	// holds up no other board.
	DefaultBoardPatience = 5 * time.Second
	writePatience        = 10 * time.Second // what the record of a started worker may take
)

// supply promotes what became ready and lists what could start. The survey's list stands unless this tick has
// changed the board since.
func (d *Dispatcher) supply(ctx context.Context, b *board, survey kanban.Survey, p *pass) error {
	if survey.Promotable || b.wrote {
		promoted, err := b.handle.Promote(ctx)
		if err = stored(err); err != nil {
			return fmt.Errorf("promote cards: %w", err)
		}
		for _, id := range promoted {
			b.wrote = true
			p.note(&p.Promoted, Item{Board: b.slug, Task: id})
		}
	}
	if b.wrote {
		ready, err := b.handle.Ready(ctx)
		if err != nil {
			return fmt.Errorf("list ready cards: %w", err)
		}
		survey.Ready = ready
	}
	b.ready = b.ready[:0]
	for _, c := range survey.Ready {
		b.ready = append(b.ready, candidateOf(b.slug, c))
	}
	return nil
}

// spawn starts cards, one at a time: the next is of the board with the fewest workers, so that a board with a thousand
// ready cards leaves room for one with a single card.
func (d *Dispatcher) spawn(ctx context.Context, p *pass) {
	before := d.counted()
	queues := d.queues(p)
	defer d.wakeWaiting(before)
	if !slices.ContainsFunc(queues, func(q *queue) bool { return !q.empty() }) {
		return
	}
	d.lookAtMemory(p.now)
	s := d.situation(p.now)
	for q := fairest(queues, d.share(s), s.Reviewers); q != nil; q = fairest(queues, d.share(s), s.Reviewers) {
		for !q.empty() && !d.consider(ctx, q.b, q.next(s.Running, s.Reviewers), &s, p) {
			if q.b.trouble != nil || q.b.bad != nil {
				q.drop() // what its other cards would meet as well
			}
		}
	}
}

// queues are the boards that this tick holds, beginning with another one each time.
func (d *Dispatcher) queues(p *pass) []*queue {
	var list []*queue
	for _, b := range p.locked {
		if b.handle != nil && b.bad == nil && b.trouble == nil {
			b.past, b.holds = b.holds, map[string]Hold{}
			list = append(list, newQueue(b, b.ready))
		}
	}
	if n := len(list); n > 0 {
		d.turn++
		k := d.turn % n
		list = append(list[k:], list[:k]...)
	}
	return list
}

// consider starts a card, or records why not.
func (d *Dispatcher) consider(life context.Context, b *board, c Candidate, s *Situation, p *pass) bool {
	ctx, cancel := context.WithTimeout(life, d.o.BoardPatience)
	defer cancel()
	d.fill(s, c)
	holds := Gates(c, *s)
	if g := Guard(c.History, s.Limits, p.now); g.Block != "" {
		d.giveUp(ctx, b, c, g, p)
		return false
	}
	hold, pass := d.pullRequest(ctx, b, c, holds, p)
	if hold != nil {
		holds = append(holds, *hold)
	}
	if len(holds) > 0 {
		d.hurry(b, s, c)
		if b.hold(c.Task, holds[0], p) {
			d.noteGuard(ctx, b, c, holds[0].Reason)
		}
		switch until := holds[0].Until; {
		case until != nil:
			b.look(*until)
		case holds[0].Reason == MemoryCritical:
			b.look(p.now.Add(memoryAgain))
		}
		return false
	}
	lane, _ := s.lane(c)
	started, err := d.start(ctx, life, b, c, lane, p)
	if err != nil {
		d.failed(b, p, err)
	}
	if started {
		d.stuck.started++
		s.started(c, lane)
		if pass {
			if err := stored(b.handle.PRAuthorizationUsed(ctx, c.Task)); err != nil {
				b.log.Warn("permission for one start is not used up", "task", c.Task, "error", err)
			}
		}
		d.mem.last = p.now
		s.Memory = d.mem.holds(p.now)
	}
	return started
}

// hurry ends the worker of an earlier run that keeps a ready card waiting.
func (d *Dispatcher) hurry(b *board, s *Situation, c Candidate) {
	if w := d.workers[s.Alive[aliveKey(c.Board, c.Task)]]; w != nil {
		w.stop(RunOver, s.Now)
	}
	for _, l := range b.leaving {
		if l.task == c.Task && l.ending == nil {
			l.since = s.Now.Add(-leftoverGrace)
			b.look(s.Now) // the next tick ends it
		}
	}
}

// hold keeps the first moment of a hold while its reason stays the same, and reports whether it is a new one.
func (b *board) hold(task string, h Hold, p *pass) (begun bool) {
	p.Held[h.Reason]++
	if h.Since == nil {
		h.Since = when(p.now)
	}
	old, ok := b.past[task]
	if begun = !ok || old.Reason != h.Reason; begun {
		b.log.Debug("card is held", "task", task, "why", string(h.Reason), "detail", h.Detail)
	} else {
		h.Since = old.Since
	}
	b.holds[task] = h
	return begun
}

// noteGuard writes one line into the card's history when a guard begins to hold it, as Hermes does on every tick.
func (d *Dispatcher) noteGuard(ctx context.Context, b *board, c Candidate, reason Reason) {
	kind := "respawn_guarded"
	switch reason {
	case InfrastructureCooldown, RateLimitCooldown, BlockerAuth, RecentSuccess, ActivePR:
	case NoLane:
		kind = "skipped_nonspawnable"
	default:
		return
	}
	if c.GuardedFor == string(reason) {
		return
	}
	if _, err := b.handle.Guarded(ctx, c.Task, kind, string(reason)); stored(err) != nil {
		b.log.Debug("guard could not be noted", "task", c.Task, "error", err)
	}
}

// giveUp blocks a card that a guard has held long enough, so that a person sees it.
func (d *Dispatcher) giveUp(ctx context.Context, b *board, c Candidate, g Guarded, p *pass) {
	err := stored(b.handle.Block(ctx, c.Task, kanban.Block{Reason: g.Because, Kind: g.Block}))
	switch {
	case errors.Is(err, kanban.ErrConflict):
	case err != nil:
		d.failed(b, p, fmt.Errorf("block card: %w", err))
	default:
		p.note(&p.AutoBlocked, Item{Board: b.slug, Task: c.Task})
		b.log.Info("card is blocked by a guard", "task", c.Task, "why", g.Because)
	}
}

// start claims the card and has its worker started beside the tick, for which life is the context.
func (d *Dispatcher) start(ctx, life context.Context, b *board, c Candidate, lane worker.Lane, p *pass) (bool, error) {
	if c.Assignee == "" {
		if err := stored(b.handle.AssignFrom(ctx, c.Task, lane.Name, "kanban.default_assignee")); err != nil {
			return false, lost(err)
		}
		p.note(&p.Assigned, Item{Board: b.slug, Task: c.Task, Lane: lane.Name})
	}
	claim, err := b.handle.Claim(ctx, c.Task, kanban.Claimer{Lock: d.lock, TTL: d.tuned().Kanban.ClaimTTL, Review: c.Review, Dispatcher: true})
	if err = stored(err); err != nil {
		return false, lost(err)
	}
	w := &attached{
		id: worker.KeeperID(b.path, int64(claim.Run.ID), claim.Run.StartedAt), board: b.slug, task: c.Task, run: claim.Run.ID, lane: lane.Name,
		ending: lane.Ending, grace: lane.KillGrace, started: time.Unix(claim.Run.StartedAt, 0),
		limit: runtimeLimit(claim, lane), workdir: b.workdir, review: c.Review,
	}
	d.workers[w.id] = w
	p.started.Add(1)
	handle := b.handle
	d.launches.Go(func() {
		defer p.started.Done()
		d.launch(life, b, handle, w, claim, lane, p)
	})
	return true, nil
}

// lost passes over a claim that another won; the loser has nothing to do.
func lost(err error) error {
	if errors.Is(err, kanban.ErrConflict) || errors.Is(err, kanban.ErrNotFound) {
		return nil
	}
	return fmt.Errorf("claim card: %w", err)
}

func runtimeLimit(claim kanban.Claim, lane worker.Lane) time.Duration {
	if s := claim.Task.MaxRuntimeSeconds; s > 0 {
		return time.Duration(s) * time.Second
	}
	return lane.MaxRuntime
}

// share is how many workers each board has.
func (d *Dispatcher) share(s Situation) map[kanban.Slug]int {
	share := make(map[kanban.Slug]int, len(s.Boards))
	for slug, b := range s.Boards {
		share[slug] = b.Running
	}
	return share
}

// pullRequest holds a card back, where that is wanted, while a comment names a pull request that may be its own. It is
// asked last, because it reads the comments; a card that may start all the same uses its permission up.
func (d *Dispatcher) pullRequest(ctx context.Context, b *board, c Candidate, holds []Hold, p *pass) (hold *Hold, pass bool) {
	if !d.tuned().Kanban.ActivePRGuard || c.Review || len(holds) > 0 {
		return nil, false
	}
	found, err := b.handle.ActivePR(ctx, c.Task, p.now.Add(-prWindow).Unix())
	if err != nil || found.URL == "" || found.Authorized {
		return nil, found.Authorized
	}
	until := epoch(found.At).Add(prWindow)
	return &Hold{
		Reason: ActivePR, Detail: "a comment names " + found.URL + ", which may be this card's", Since: at(found.At), Until: &until,
		Remedy: "gatewayd kanban authorize-existing-pr " + c.Task + ", or assign the card to another lane",
	}, false
}

// prWindow is how long a comment that names a pull request keeps its card back.
const prWindow = 24 * time.Hour

// counted is how many workers are running, all boards.
func (d *Dispatcher) counted() int {
	return d.running().all
}

// wakeWaiting has boards looked at whose cards wait for a place, when one became free.
func (d *Dispatcher) wakeWaiting(before int) {
	freed := before < d.lastCount
	d.lastCount = d.counted()
	if !freed {
		return
	}
	for _, b := range d.boards {
		for _, h := range b.holds {
			if slices.Contains([]Reason{GlobalCap, LaneCap, PoolCap, BoardCap, LaneBackoff, PreviousWorker}, h.Reason) {
				d.Wake(b.slug)
				break
			}
		}
	}
}
