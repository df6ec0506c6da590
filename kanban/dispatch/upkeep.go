package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gatewayd/internal/mutation"
	"gatewayd/internal/procfs"
	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

// upkeep is a board's part of a tick up to the spawns: ends, claims, orphans, stale, crashes, timeouts, promotion,
// and then the list of cards that could start.
func (d *Dispatcher) upkeep(ctx context.Context, b *board, p *pass) error {
	survey, err := b.handle.Survey(ctx)
	if err != nil {
		return fmt.Errorf("survey board: %w", err)
	}
	b.wrote, b.pause = false, survey.Pause
	open := map[kanban.RunID]bool{}
	for _, row := range survey.Running {
		open[row.Run.ID] = true
		if w := d.workers[b.keeper(row)]; w != nil {
			w.wish = row.Stop
		}
	}
	ended, err := d.settleEnded(ctx, b, open, p)
	if err != nil {
		return err
	}
	if err := d.wakeDue(ctx, b, survey, p); err != nil {
		return err
	}
	b.others, b.running = map[string]other{}, 0
	for _, row := range survey.Running {
		if ended[row.Run.ID] {
			continue
		}
		if err := d.tend(ctx, b, row, p); err != nil && !errors.Is(err, kanban.ErrConflict) {
			return err
		}
	}
	d.remember(b, survey, p)
	d.depart(ctx, b, survey, p)
	d.leftovers(ctx, b, open, p)
	for run := range b.endings {
		if !open[run] {
			delete(b.endings, run)
		}
	}
	d.sweep(ctx, b, survey.Running, ended, p)
	return d.supply(ctx, b, survey, p)
}

// settleEnded accounts for the workers of this board that have ended.
func (d *Dispatcher) settleEnded(ctx context.Context, b *board, open map[kanban.RunID]bool, p *pass) (map[kanban.RunID]bool, error) {
	ended := map[kanban.RunID]bool{}
	for _, w := range d.workers {
		if w.board != b.slug || w.exit == nil {
			continue
		}
		if err := d.settle(ctx, b, w, open[w.run], p); err != nil {
			return nil, err
		}
		ended[w.run] = true
	}
	return ended, nil
}

// keeper names the keeper that a running card has, if one of ours has it.
func (b *board) keeper(row kanban.Running) string {
	return worker.KeeperID(b.path, int64(row.Run.ID), epoch(row.Started()).Unix())
}

// wakeDue wakes the scheduled cards whose time has come, and has the board looked at again when the next one is due.
func (d *Dispatcher) wakeDue(ctx context.Context, b *board, survey kanban.Survey, p *pass) error {
	next := epoch(survey.Wake)
	if !next.IsZero() && !p.now.Before(next) {
		var woken []string
		var err error
		if woken, next, err = b.handle.WakeDue(ctx, p.now); stored(err) != nil {
			return fmt.Errorf("wake scheduled cards: %w", err)
		}
		b.wrote = b.wrote || len(woken) > 0
		for _, id := range woken {
			p.note(&p.Woken, Item{Board: b.slug, Task: id})
			b.log.Info("scheduled card wakes", "task", id)
		}
	}
	if !next.IsZero() {
		b.look(next)
	}
	return nil
}

// tend judges one running card and acts.
func (d *Dispatcher) tend(ctx context.Context, b *board, row kanban.Running, p *pass) error {
	o := openOf(row)
	keeper := b.keeper(row)
	w := d.workers[keeper]
	if w == nil {
		w = d.claimed(ctx, b, row, o, p)
	}
	if w != nil && w.exit != nil { // it ended while nobody looked
		return d.settle(ctx, b, w, true, p)
	}
	if w != nil && w.proc != nil && o.PID == 0 {
		d.record(ctx, b, w)
	}
	sight := d.sight(b, row, o, w, p.now)
	if w == nil && b.unread[keeper].lives {
		sight.Alive = true
	}
	j := Judge(o, sight, d.rules(), p.now)
	if (j.Act == End || j.Act == Reconcile) && w == nil && !sight.Remote && !sight.HostEnded && d.hidden(keeper) {
		sight.Alive = true // its record is not to be found, and yet it works: who looks for it by its name finds it
		j = Judge(o, sight, d.rules(), p.now)
	}
	if !j.Again.IsZero() {
		b.look(j.Again)
	}
	if j.Act != End && j.Act != Reconcile {
		b.running++
		if w == nil && !sight.Remote {
			b.others[o.Task] = other{row.Run.Profile, row.Source == kanban.StatusReview}
		}
	}
	return d.act(ctx, b, row, o, w, j, p)
}

// hidden reports whether a worker of which there is no word lives. A card that is released beside it would get a second.
func (d *Dispatcher) hidden(keeper string) bool {
	return !mutation.On("worker-without-record-is-gone") && d.o.Launcher.Lives(keeper)
}

// claimed looks for a keeper of an earlier life of ours behind a running card. The name of the keeper follows
// from the row, so it is found even if the daemon died before it could write the pid down.
func (d *Dispatcher) claimed(ctx context.Context, b *board, row kanban.Running, o Open, p *pass) *attached {
	if o.Lock == "" || !kanban.HostLocal(o.Lock) || d.tended(o, p.now) {
		return nil
	}
	w := &attached{
		id: worker.KeeperID(b.path, int64(o.Run), o.Started.Unix()), board: b.slug, task: o.Task, run: o.Run, lane: row.Run.Profile,
		ending: worker.ByWorker, grace: 5 * time.Second, started: o.Started, limit: o.Limit, print: row.Task.WorkerStarted,
		review: row.Source == kanban.StatusReview, wish: row.Stop,
	}
	if !d.adopt(ctx, b, w, p) {
		return nil
	}
	return w
}

// record writes a worker's pid down. Its keeper may be just about to learn it.
func (d *Dispatcher) record(ctx context.Context, b *board, w *attached) {
	if w.proc.PID() == 0 {
		b.look(time.Now().Add(pollEvery))
		return
	}
	w.print = w.proc.Fingerprint()
	err := b.handle.Spawned(ctx, w.task, w.run, w.proc.PID(), w.print, w.id)
	if err != nil && !kanban.Committed(err) {
		b.log.Warn("worker runs, but its pid could not be written down", "task", w.task, "run", w.run, "pid", w.proc.PID(), "error", err)
	}
}

func (d *Dispatcher) act(ctx context.Context, b *board, row kanban.Running, o Open, w *attached, j Judgement, p *pass) error {
	item := Item{Board: b.slug, Task: o.Task, Run: o.Run, PID: o.PID, Lane: row.Run.Profile}
	switch j.Act {
	case Extend:
		_, err := b.handle.Extend(ctx, o.Task, o.Lock, o.Expires.Unix(), d.tuned().Kanban.ClaimTTL, nil)
		return stored(err)
	case Stop:
		if w == nil {
			return d.stopForeign(ctx, b, row, o, j, p, item)
		}
		b.log.Info("worker is asked to end", "task", o.Task, "run", o.Run, "pid", o.PID, "why", string(j.Cause))
		w.stop(j.Cause, p.now)
		b.look(p.now.Add(w.grace + killSlack))
	case Postpone:
		if e := b.endings[o.Run]; e.over() {
			e.again = p.now.Add(deferFor)
		}
		return d.postpone(ctx, b, o, j, p, item)
	case End:
		if w == nil {
			j.Verdict = d.byTrailer(b, o, j.Verdict)
		}
		if err := d.end(ctx, b, item, j.Verdict, nil, b.manual(row, j.Verdict), p); err != nil {
			return err
		}
		if keeper := worker.KeeperID(b.path, int64(o.Run), o.Started.Unix()); w == nil && b.unread[keeper].text != "" {
			d.forget(b, &attached{id: keeper, task: o.Task, run: o.Run})
		}
	case Reconcile:
		return d.reconcile(ctx, b, item, p)
	}
	return nil
}

// postpone keeps the claim of a worker that would not end. The card is not released beside it.
func (d *Dispatcher) postpone(ctx context.Context, b *board, o Open, j Judgement, p *pass, item Item) error {
	until := p.now.Add(deferFor)
	b.look(until)
	p.note(&p.Deferred, item)
	b.log.Warn("worker survived; its card is kept", "task", o.Task, "run", o.Run, "pid", o.PID, "why", string(j.Cause))
	return stored(b.handle.Defer(ctx, o.Task, o.Run, until, string(j.Cause)+"_worker_alive", nil))
}

// byTrailer: a worker of a Python dispatcher prints its exit code for whoever comes after it.
func (d *Dispatcher) byTrailer(b *board, o Open, v Verdict) Verdict {
	if v.Exit != "unknown" {
		return v
	}
	tail := worker.LogTail(d.o.Root.LogPath(b.slug, o.Task), o.Started)
	if code, ok := worker.TrailerCode(tail); ok {
		v = byCode(o.PID, code, worker.ByWorker)
	}
	v.Error = withOutput(v.Error, worker.LastOutput(tail))
	return v
}

// reconcile frees a running card that nobody can hold: its claim is half there and its worker is not.
func (d *Dispatcher) reconcile(ctx context.Context, b *board, item Item, p *pass) error {
	freed, err := b.handle.Reconcile(ctx, item.Task)
	if freed {
		b.wrote = true
		p.note(&p.Reconciled, item)
		b.log.Info("card without a whole claim was freed", "task", item.Task, "run", item.Run)
	}
	return stored(err)
}

// end closes a run, and says so. manual tells how the worker of a stop request went, nil where there was none.
func (d *Dispatcher) end(ctx context.Context, b *board, item Item, v Verdict, exit *worker.Exit, manual map[string]any, p *pass) error {
	ended, err := b.handle.EndRun(ctx, kanban.End{
		Task: item.Task, Run: item.Run, Outcome: v.Outcome, EventKind: v.Event, Payload: payloadOf(item, v, exit), Error: v.Error,
		Count: v.Count, Limit: d.tuned().Kanban.FailureLimit, Sticky: v.Sticky, TripNow: v.TripNow, Reset: manual != nil, Manual: manual,
	})
	if err = stored(err); err != nil {
		return err
	}
	b.wrote = true
	p.note(p.byOutcome(v), item)
	if ended.GaveUp {
		p.note(&p.AutoBlocked, item)
	}
	b.log.Info("run ended", "task", item.Task, "run", item.Run, "pid", item.PID, "lane", item.Lane, "outcome", v.Outcome,
		"why", v.Error, "card", string(ended.Status), "failures", ended.Failures)
	return nil
}

func payloadOf(item Item, v Verdict, exit *worker.Exit) map[string]any {
	payload := map[string]any{}
	if item.PID != 0 {
		payload["pid"] = item.PID
	}
	if v.Exit != "" {
		payload["exit_kind"] = v.Exit
	}
	if v.Code != 0 || v.Protocol {
		payload["exit_code"] = v.Code
	}
	if exit != nil && exit.CPU > 0 {
		payload["cpu_seconds"] = exit.CPU.Seconds()
		payload["max_rss_bytes"] = exit.MaxRSS
	}
	return payload
}

// leftovers ends workers of ours that live on after their run: a card that was blocked or taken over must not keep a
// process, but one that just completed its card may say goodbye. That of an archived card is ended at once.
func (d *Dispatcher) leftovers(ctx context.Context, b *board, open map[kanban.RunID]bool, p *pass) {
	for _, w := range d.workers {
		if w.board != b.slug || w.exit != nil || w.proc == nil || open[w.run] {
			continue
		}
		if w.over.IsZero() {
			w.over = p.now
			if d.archived(ctx, b, w.task) {
				w.over = p.now.Add(-leftoverGrace)
			}
		}
		if end := w.over.Add(leftoverGrace); p.now.Before(end) {
			b.look(end)
			continue
		}
		b.log.Info("worker outlived its run and is ended", "task", w.task, "run", w.run, "pid", w.proc.PID())
		w.stop(RunOver, p.now)
	}
}

func (d *Dispatcher) rules() Rules {
	c := d.tuned().Kanban
	return Rules{TTL: c.ClaimTTL, CrashGrace: c.CrashGrace, StaleTimeout: c.StaleTimeout}
}

func openOf(row kanban.Running) Open {
	o := Open{Task: row.Task.ID, Run: row.Run.ID, Lock: row.Task.ClaimLock, PID: row.Task.WorkerPID, Limit: time.Duration(row.Run.MaxRuntimeSeconds) * time.Second}
	o.Started = epoch(row.Started())
	o.Expires, o.Heartbeat = epoch(row.Task.ClaimExpires), epoch(row.Task.LastHeartbeatAt)
	return o
}

// sight looks at the process behind a running card.
func (d *Dispatcher) sight(b *board, row kanban.Running, o Open, w *attached, now time.Time) Sight {
	s := Sight{KillGrace: 5 * time.Second, Ending: worker.ByWorker}
	if w != nil {
		s.Attached, s.Starting, s.Ending, s.Cause, s.Asked, s.KillGrace = true, w.proc == nil, w.ending, w.cause, w.asked, w.grace
		s.Wanted = row.Stop != nil
		s.Alive = w.proc != nil && w.proc.Alive()
		return s
	}
	if o.Lock != "" && !kanban.HostLocal(o.Lock) {
		s.Remote = true
		return s
	}
	print := row.Task.WorkerStarted
	if host := hostPart(print); o.PID != 0 && host != "" && d.host != "" && host != d.host {
		s.HostEnded = true
		return s
	}
	s.Wanted = row.Stop != nil
	s.Alive = o.PID != 0 && procfs.LivesAs(o.PID, print)
	if e := b.endings[o.Run]; e != nil && (e.again.IsZero() || now.Before(e.again)) {
		s.Cause, s.Asked, s.KillGrace = e.cause, e.asked, foreignLimit
		s.Survived = e.over() && e.again.IsZero()
		s.Alive = s.Alive || (!e.over() || e.how.Left > 0) && !mutation.On("card-is-free-with-its-leader") // the leader may be gone before what it started
	} else {
		delete(b.endings, o.Run) // it survived once; now it is tried anew
	}
	if before := d.hostStart; !s.Alive && o.PID != 0 && !whole(print) && !before.IsZero() && o.Started.Before(before) {
		s.HostEnded = true // rows of older programs name no boot; their times tell
		return s
	}
	s.Claimer = d.tended(o, now)
	s.Dispatched = o.Lock != "" && (o.Lock == d.lock || o.Lock == b.before || row.Dispatched && !mutation.On("only-the-last-dispatcher-is-known"))
	return s
}

// tended reports whether another dispatcher on this host looks after the card: the process that claimed it lives, and
// the claim is as fresh as one that is looked after. A stranger with the claimer's recycled pid extends nothing.
func (d *Dispatcher) tended(o Open, now time.Time) bool {
	return o.Lock != d.lock && now.Before(o.Expires.Add(-d.tuned().Kanban.ClaimTTL/4)) && claimerLives(o.Lock)
}

func epoch(seconds int64) time.Time {
	if seconds <= 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// stored passes over an error that says that the change is in the file: it must not be made twice. The file's
// health is looked at by the next read.
func stored(err error) error {
	if kanban.Committed(err) {
		return nil
	}
	return err
}
