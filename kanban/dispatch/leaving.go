package dispatch

import (
	"context"
	"errors"
	"strconv"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/procfs"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
	"gatewayd/reaper"
)

// foreignGrace is what a worker gets between SIGTERM and SIGKILL that another program started; ours have their lane's.
const foreignGrace = 5 * time.Second

// foreignLimit is the longest that the end of one may take, which is the reaper's promise.
const foreignLimit = foreignGrace + 10*time.Second

// leftoverLook is how often one is looked at that leaves by itself: nothing tells of its end.
const leftoverLook = 5 * time.Second

// ending is the end of a foreign worker, under way beside the tick.
type ending struct {
	cause Cause
	asked time.Time
	done  chan struct{}
	how   reaper.Departure // once done is closed
	again time.Time        // it survived: not before this is it tried anew
}

func (e *ending) over() bool {
	if e == nil {
		return false
	}
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// leaver is a worker whose run is over while its process is not, and that no keeper of ours watches: a Python dispatcher
// started it, or a gatewayd with another home. Its card does not start beside it.
type leaver struct {
	task   string
	run    kanban.RunID
	pid    int
	print  string
	tag    string // its keeper's id; "" = it has none
	since  time.Time
	ending *ending
}

func (l *leaver) name() string {
	if l.tag != "" {
		return l.tag
	}
	return "pid " + strconv.Itoa(l.pid)
}

// livesOn looks for the process, and where that is gone, or was never written down, for what its keeper's tag finds.
func (d *Dispatcher) livesOn(l *leaver) bool {
	if l.pid != 0 && whole(l.print) && procfs.LivesAs(l.pid, l.print) {
		return true
	}
	return l.tag != "" && d.o.Launcher.Lives(l.tag)
}

// whole reports a fingerprint that has everything: boot, container and start. No other process is ever signalled.
func whole(print string) bool { return hostPart(print) != "" || mutation.On("unverified-is-signalled") }

func (l *leaver) foreign() reaper.Foreign {
	return reaper.Foreign{PID: l.pid, Fingerprint: l.print, Tag: l.tag, Marks: marksOf(l.task, l.run)}
}

// marksOf are the words that a Hermes dispatcher puts into the environment of a run's worker.
func marksOf(task string, run kanban.RunID) []string {
	return []string{"HERMES_KANBAN_TASK=" + task, "HERMES_KANBAN_RUN_ID=" + strconv.FormatInt(int64(run), 10)}
}

// stopForeign ends the worker of a running card that another program started; its claim is kept until it is gone. One
// whose fingerprint says too little is left alone, and only kept from being started beside.
func (d *Dispatcher) stopForeign(ctx context.Context, b *board, row kanban.Running, o Open, j Judgement, p *pass, item Item) error {
	keeper := b.keeper(row)
	if b.endings == nil {
		b.endings = map[kanban.RunID]*ending{}
	}
	if whole(row.Task.WorkerStarted) || d.o.Launcher.Lives(keeper) {
		f := reaper.Foreign{PID: o.PID, Fingerprint: row.Task.WorkerStarted, Tag: keeper, Marks: marksOf(o.Task, o.Run)}
		b.log.Info("worker of another program is ended", "task", o.Task, "run", o.Run, "pid", o.PID, "why", string(j.Cause))
		b.endings[o.Run] = d.endForeign(b, f, j.Cause, p.now)
		b.look(p.now.Add(foreignLimit + killSlack))
		return nil
	}
	if near := o.Expires.Add(-deferFor / 2); p.now.Before(near) {
		b.look(near)
		return nil
	}
	return d.postpone(ctx, b, o, j, p, item)
}

// manual tells how the worker of a stop request went that had no keeper of ours.
func (b *board) manual(row kanban.Running, v Verdict) map[string]any {
	if row.Stop == nil {
		return nil
	}
	how := reaper.Departure{}
	if e := b.endings[row.Run.ID]; e.over() {
		how = e.how
	}
	return terminationOf(row.Task.WorkerPID, how)
}

// endForeign begins the end of a foreign worker beside the tick, all of them at once, and wakes the board when it is over.
func (d *Dispatcher) endForeign(b *board, f reaper.Foreign, cause Cause, now time.Time) *ending {
	e := &ending{cause: cause, asked: now, done: make(chan struct{})}
	d.watchers.Go(func() {
		life, cancel := d.untilClosing(context.Background())
		defer cancel()
		e.how = d.o.EndForeign(life, f, foreignGrace)
		close(e.done)
		d.Wake(b.slug)
	})
	return e
}

// depart looks after the workers whose run is over: ours are found again by their keepers, all others are held in mind
// until they are gone.
func (d *Dispatcher) depart(ctx context.Context, b *board, survey kanban.Survey, p *pass) {
	for _, k := range survey.Leaving {
		if d.workers[k.ID] == nil && (k.Lock == "" || kanban.HostLocal(k.Lock)) {
			d.departKeeper(ctx, b, k, p)
		}
	}
	d.obey(b, survey, p)
	for _, l := range b.leaving {
		switch {
		case l.ending != nil && !l.ending.over(), d.livesOn(l):
			d.dismiss(ctx, b, l, p)
		default:
			d.gone(ctx, b, l, p)
		}
	}
}

// obey ends at once the workers whose card has moved on and whom somebody wants gone.
func (d *Dispatcher) obey(b *board, survey kanban.Survey, p *pass) {
	if b.wanted = nil; len(survey.Stops) == 0 {
		return
	}
	current := map[kanban.RunID]bool{}
	for _, row := range survey.Running {
		current[row.Run.ID] = true
	}
	b.wanted = map[kanban.RunID]bool{}
	ours := map[kanban.RunID]*attached{}
	for _, w := range d.workers {
		if w.board == b.slug {
			ours[w.run] = w
		}
	}
	for _, s := range survey.Stops {
		if current[s.Run] {
			continue
		}
		b.wanted[s.Run] = true
		switch l := b.leaving[s.Run]; {
		case ours[s.Run] != nil:
			ours[s.Run].stop(OperatorOf, p.now)
		case l != nil && l.ending == nil:
			l.since = p.now.Add(-leftoverGrace)
		case l == nil:
			b.leave(&leaver{task: s.Task, run: s.Run, pid: s.Worker, print: s.WorkerStarted, since: p.now.Add(-leftoverGrace)})
		}
	}
}

// departKeeper takes over a keeper of ours, holds one of another daemon in mind, or strikes off what is gone.
func (d *Dispatcher) departKeeper(ctx context.Context, b *board, k kanban.Keeper, p *pass) {
	if b.leaving[k.Run] != nil {
		return
	}
	w := &attached{id: k.ID, board: b.slug, task: k.Task, run: k.Run, print: k.Fingerprint, started: time.Unix(k.SpawnedAt, 0), grace: foreignGrace, ending: worker.ByWorker}
	l := &leaver{task: k.Task, run: k.Run, pid: k.PID, print: k.Fingerprint, tag: k.ID, since: p.now}
	switch proc, err := d.o.Launcher.Adopt(k.ID); {
	case err == nil:
		d.attach(b, w, proc, p)
		return
	case !errors.Is(err, worker.ErrUnknown):
		if d.unread(ctx, b, w, err, true); !b.unread[k.ID].lives {
			return
		}
	case k.Fingerprint != "" && whole(k.Fingerprint) && hostPart(k.Fingerprint) != d.host, !d.livesOn(l), mutation.On("only-our-own-keepers-count"):
		d.strike(ctx, b, k.Task, k.Run)
		return
	}
	b.log.Info("a worker of another daemon outlives its run", "task", k.Task, "run", k.Run, "pid", k.PID)
	b.leave(l)
}

// strike notes that nothing is to be learnt of a run any more.
func (d *Dispatcher) strike(ctx context.Context, b *board, task string, run kanban.RunID) {
	if err := stored(b.handle.Settle(ctx, run)); err != nil {
		b.log.Debug("run cannot be settled", "task", task, "run", run, "error", err)
	}
}

func (b *board) leave(l *leaver) {
	if b.leaving == nil {
		b.leaving = map[kanban.RunID]*leaver{}
	}
	b.leaving[l.run] = l
}

// dismiss ends one that had time enough to go by itself, or whose card is put away or waits to start again.
func (d *Dispatcher) dismiss(ctx context.Context, b *board, l *leaver, p *pass) {
	end := l.since.Add(leftoverGrace)
	switch {
	case l.ending.over() && p.now.Before(l.ending.again):
		b.look(l.ending.again)
	case l.ending.over() && l.ending.again.IsZero():
		l.ending.again = p.now.Add(deferFor)
		b.look(l.ending.again)
		b.log.Warn("worker survived its end; its card is not started beside it", "task", l.task, "run", l.run, "pid", l.pid)
	case l.ending != nil && !l.ending.over():
		b.look(l.ending.asked.Add(foreignLimit))
	case l.ending == nil && p.now.Before(end) && !d.archived(ctx, b, l.task):
		b.look(p.now.Add(min(leftoverLook, end.Sub(p.now))))
	default:
		b.log.Info("worker outlived its run and is ended", "task", l.task, "run", l.run, "pid", l.pid)
		l.ending = d.endForeign(b, l.foreign(), RunOver, p.now)
		b.look(p.now.Add(foreignLimit))
	}
}

// gone says how the worker went, if it was made to.
func (d *Dispatcher) gone(ctx context.Context, b *board, l *leaver, p *pass) {
	delete(b.leaving, l.run)
	how := reaper.Departure{}
	if l.ending != nil {
		how = l.ending.how
	}
	if how.Attempted || b.wanted[l.run] || l.tag != "" {
		d.reaped(ctx, b, l.task, l.run, l.pid, how, p)
	}
	p.dirty(b.slug)
}

// archived reports whether the card is put away: then nobody waits for a worker's goodbye.
func (d *Dispatcher) archived(ctx context.Context, b *board, task string) bool {
	card, err := b.handle.Task(ctx, task)
	return err == nil && card.Status == kanban.StatusArchived
}

// reaped writes into the card's history that its worker was ended after its run.
func (d *Dispatcher) reaped(ctx context.Context, b *board, task string, run kanban.RunID, pid int, how reaper.Departure, p *pass) {
	err := stored(b.handle.Stopped(ctx, run, terminationOf(pid, how)))
	if err == nil && how.Attempted && !b.wanted[run] { // nobody had asked for it, so Stopped had nothing to say
		kind := kanban.EventTerminalWorkerReaped
		if d.archived(ctx, b, task) {
			kind = kanban.EventArchiveWorkerTermination
		}
		err = stored(b.handle.WorkerReaped(ctx, task, run, kind, terminationOf(pid, how)))
	}
	if err != nil {
		b.log.Debug("the end of a worker could not be noted", "task", task, "run", run, "error", err)
	}
	if how.Attempted {
		p.note(&p.Dismissed, Item{Board: b.slug, Task: task, Run: run, PID: pid})
	}
}

// terminationOf are the fields in which a board's history tells how a worker was ended.
func terminationOf(pid int, how reaper.Departure) map[string]any {
	return map[string]any{
		"prev_pid": pid, "host_local": true, "termination_attempted": how.Attempted, "terminated": how.Left == 0, "sigkill": how.Killed,
	}
}

// remember notes the running cards that no keeper of ours holds, and finds those that left since: a person or the worker
// itself ended the run, and nobody watches whether the process goes too.
func (d *Dispatcher) remember(b *board, survey kanban.Survey, p *pass) {
	if len(survey.Running) == 0 && len(b.seen) == 0 {
		return
	}
	next := map[kanban.RunID]*leaver{}
	for _, row := range survey.Running {
		if print := row.Task.WorkerStarted; row.Task.WorkerPID != 0 && whole(print) && kanban.HostLocal(row.Task.ClaimLock) {
			next[row.Run.ID] = &leaver{task: row.Task.ID, run: row.Run.ID, pid: row.Task.WorkerPID, print: print, tag: row.Keeper}
		}
	}
	for run, l := range b.seen {
		if next[run] == nil && l.tag == "" && b.leaving[run] == nil && d.livesOn(l) {
			l.since = p.now
			b.leave(l)
		}
	}
	b.seen = next
}

// recall finds, when a board is opened, the workers of other programs that outlived a run which ended before.
func (d *Dispatcher) recall(ctx context.Context, b *board) {
	runs, err := b.handle.ClosedWorkers(ctx)
	if err != nil {
		return // the tick that follows meets the same error and says so
	}
	for _, r := range runs {
		l := &leaver{task: r.TaskID, run: r.ID, pid: r.WorkerPID, print: r.WorkerStarted, since: time.Unix(r.EndedAt, 0)}
		if whole(l.print) && kanban.HostLocal(r.ClaimLock) && d.livesOn(l) {
			b.leave(l)
		}
	}
}
