package dispatch

import (
	"context"
	"maps"
	"os"
	"slices"
	"time"

	"gatewayd/kanban"
)

// Status is what the dispatcher is doing, as of its last tick.
type Status struct {
	Dispatching   bool           `json:"dispatching"` // it hands out cards
	Outside       *Hold          `json:"held,omitempty"`
	Lock          LockStatus     `json:"lock"`
	LastTick      *time.Time     `json:"last_tick,omitempty"`
	NextTick      *time.Time     `json:"next_tick,omitempty"` // at the latest; events come first
	Took          time.Duration  `json:"took_ns"`
	Ticks         int64          `json:"ticks"`
	InProgress    int            `json:"in_progress"`
	MaxInProgress int            `json:"max_in_progress"` // 0 = no limit
	Memory        MemoryStatus   `json:"memory"`
	Pools         []PoolStatus   `json:"pools,omitempty"`
	Held          map[Reason]int `json:"held_cards"`      // ready cards of all boards by what holds them
	Stuck         *Stuck         `json:"stuck,omitempty"` // cards wait and none has started for several ticks
	Boards        []BoardStatus  `json:"boards"`
	Lanes         []LaneStatus   `json:"lanes"`
}

// LockStatus says who leads on this root.
type LockStatus struct {
	Path string     `json:"path"`
	Ours bool       `json:"ours"`
	Held bool       `json:"held"`          // as far as can be seen without taking it
	PID  int        `json:"pid,omitempty"` // of the holder, or of who signed it last; a Python dispatcher does not sign
	Host string     `json:"host,omitempty"`
	From *time.Time `json:"since,omitempty"`
	By   string     `json:"command,omitempty"` // what the holder was started as
}

func lockStatus(s kanban.LockState) LockStatus {
	return LockStatus{Path: s.Path, Ours: s.Held && s.PID == os.Getpid(), Held: s.Held, PID: s.PID, Host: s.Host, From: at(s.Since), By: s.Command}
}

// StateOfRoot says who dispatches on a root, for those who run no dispatcher themselves.
func StateOfRoot(r *kanban.Root) LockStatus {
	return lockStatus(kanban.StateOfLock(r.SingletonLockPath()))
}

// PoolStatus is one of kanban.pools.
type PoolStatus struct {
	Name   string `json:"pool"`
	Taken  int    `json:"taken"`
	Places int    `json:"places"`
}

// BoardStatus is one board.
type BoardStatus struct {
	Slug     kanban.Slug    `json:"board"`
	Path     string         `json:"path"`
	State    string         `json:"state"` // ok, empty, disabled, unavailable, locked
	Hold     *Hold          `json:"held,omitempty"`
	Pause    *kanban.Pause  `json:"pause,omitempty"`
	Most     int            `json:"max_in_progress,omitempty"` // 0 = no limit
	Running  int            `json:"running"`
	Ready    int            `json:"ready"`
	Holds    map[Reason]int `json:"holds,omitempty"` // ready cards by what holds them
	LastTick *time.Time     `json:"last_tick,omitempty"`
	Due      *time.Time     `json:"due,omitempty"`  // when time alone makes it look again
	Lock     *LockStatus    `json:"lock,omitempty"` // of its tick; only StatusWithLocks looks
}

// LaneStatus is one lane.
type LaneStatus struct {
	Name          string `json:"lane"`
	Preset        string `json:"preset"`
	Running       int    `json:"running"`
	MaxInProgress int    `json:"max_in_progress"` // 0 = no limit
	Holds         []Hold `json:"held,omitempty"`
}

// Status gives the state as of the last tick; it never waits for one that is under way.
func (d *Dispatcher) Status() Status { return *d.published.Load() }

// StatusWithLocks is Status with who holds each board's lock now. It reads a small file for each board.
func (d *Dispatcher) StatusWithLocks() Status {
	s := d.Status()
	s.Boards = slices.Clone(s.Boards)
	for i := range s.Boards {
		lock := lockStatus(kanban.StateOfLock(kanban.DispatchLockPath(s.Boards[i].Path)))
		s.Boards[i].Lock = &lock
	}
	if state := StateOfRoot(d.o.Root); state.Held {
		s.Lock = state
	}
	return s
}

// publish makes the state visible. The caller holds mu.
func (d *Dispatcher) publish(p *pass) {
	s := Status{
		Dispatching: d.tuned().Kanban.Dispatch && d.outside == nil, Outside: d.outside, Lock: d.lockStatus(), LastTick: when(p.now), Took: time.Since(p.now),
		Ticks: d.ticks, MaxInProgress: d.tuned().Kanban.MaxInProgress,
	}
	next := p.now.Add(d.tuned().Kanban.Interval)
	for _, slug := range d.order {
		b := d.boards[slug]
		s.Boards = append(s.Boards, b.status())
		if !b.due.IsZero() && b.due.Before(next) {
			next = b.due
		}
	}
	s.NextTick = &next
	s.Held, s.Stuck = d.heldCards(), d.stuck.seen()
	c := d.running()
	s.InProgress, s.Memory = c.all, d.mem.state
	s.Lanes, s.Pools = d.laneStatus(c.lanes, p.now), d.poolStatus(c.lanes)
	d.published.Store(&s)
}

func (d *Dispatcher) laneStatus(running map[string]int, now time.Time) []LaneStatus {
	var list []LaneStatus
	for _, name := range d.tuned().Lanes.Names() {
		lane, _ := d.tuned().Lanes.Lookup(name)
		status := LaneStatus{Name: name, Preset: lane.Preset, Running: running[name], MaxInProgress: lane.MaxInProgress}
		if hold := d.health[name].hold(name, running[name], now); hold != nil {
			status.Holds = append(status.Holds, *hold)
		}
		list = append(list, status)
	}
	return list
}

func (d *Dispatcher) poolStatus(running map[string]int) []PoolStatus {
	var list []PoolStatus
	for _, name := range slices.Sorted(maps.Keys(d.tuned().Kanban.Pools)) {
		p := PoolStatus{Name: name, Places: d.tuned().Kanban.Pools[name]}
		for lane, n := range running {
			if l, ok := d.tuned().Lanes.Lookup(lane); ok && l.Pool == name {
				p.Taken += n
			}
		}
		list = append(list, p)
	}
	return list
}

func (d *Dispatcher) lockStatus() LockStatus {
	s := LockStatus{Path: d.o.Root.SingletonLockPath(), Ours: d.leader != nil, Held: d.leader != nil || d.outside != nil && d.outside.Reason == NotLeader}
	s.PID, s.Host, s.From = d.holder.PID, d.holder.Host, at(d.holder.Since)
	return s
}

func (b *board) status() BoardStatus {
	s := BoardStatus{Slug: b.slug, Path: b.path, State: "ok", Hold: b.outside, Running: b.running, Pause: b.pause, Most: b.most, Ready: len(b.ready), LastTick: when(b.lastTick), Due: when(b.due)}
	switch {
	case b.bad != nil:
		s.State = "disabled"
	case b.trouble != nil:
		s.State = "unavailable"
	case b.outside != nil && b.outside.Reason == BoardLocked:
		s.State = "locked"
	case b.handle == nil:
		s.State = "empty"
	case b.pause != nil:
		s.State = "paused"
	}
	if s.Hold == nil {
		s.Hold = PauseHold(b.pause)
	}
	if len(b.holds) > 0 {
		s.Holds = map[Reason]int{}
		for _, h := range b.holds {
			s.Holds[h.Reason]++
		}
	}
	return s
}

// Why answers why a card is not running, with the first gate that holds it first. It reads the board beside the
// tick; the card's own state is that of this moment, the dispatcher's that of its last tick.
func (d *Dispatcher) Why(ctx context.Context, slug kanban.Slug, task string) (Why, error) {
	ask, served := d.asker(slug)
	if served {
		return ask.why(ctx, task)
	}
	if ask.s.Dispatcher != nil {
		return d.whyUnserved(ctx, slug, task, ask.s)
	}
	return d.whyUnread(slug, task)
}

// whyUnserved answers where this dispatcher serves no board: the board is opened for the answer alone.
func (d *Dispatcher) whyUnserved(ctx context.Context, slug kanban.Slug, task string, s Situation) (Why, error) {
	info, err := d.o.Root.Lookup(slug)
	if err != nil {
		return Why{}, err
	}
	if err := d.Disabled(slug); err != nil {
		return Unreadable(slug, task, err), nil
	}
	handle, release, err := d.o.Acquire(ctx, info.Path)
	if damaged(err) {
		return Unreadable(slug, task, err), nil
	}
	if err != nil {
		return Why{}, err
	}
	defer release()
	facts, err := Facts(ctx, handle, task)
	if err != nil {
		return Why{}, err
	}
	d.mu.Lock()
	d.fill(&s, facts.Candidate)
	d.mu.Unlock()
	return Explain(facts, s), nil
}

// whyUnread answers for a board that is not open: its state is the answer.
func (d *Dispatcher) whyUnread(slug kanban.Slug, task string) (Why, error) {
	if _, err := d.o.Root.Lookup(slug); err != nil {
		return Why{}, err
	}
	why := Why{Board: slug, Task: task}
	for _, b := range d.Status().Boards {
		if b.Slug == slug && b.Hold != nil {
			why.Holds = append(why.Holds, completed(*b.Hold))
		}
	}
	if len(why.Holds) == 0 {
		why.Holds = []Hold{{Reason: BoardUnavailable, Detail: "the dispatcher has not opened this board", Remedy: "wait for the next tick"}}
	}
	return why, nil
}
