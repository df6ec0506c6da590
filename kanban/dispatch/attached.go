package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"gatewayd/kanban"
	"gatewayd/kanban/worker"
	"gatewayd/reaper"
)

// attached is a worker that this dispatcher started or took over: one keeper, one run.
type attached struct {
	id      string
	board   kanban.Slug
	task    string
	run     kanban.RunID
	lane    string
	ending  worker.Ending
	grace   time.Duration
	started time.Time
	limit   time.Duration
	print   string       // the worker's fingerprint as the row has it
	workdir string       // the board's, at the claim
	review  bool         // it reviews
	orphan  bool         // its board has left
	wish    *kanban.Stop // somebody asked for its end

	proc  worker.Running // nil while it is being started
	cause Cause
	asked time.Time
	over  time.Time // when it was first seen that its run is over while it is not
	exit  *worker.Exit
}

func (w *attached) item(lane bool) Item {
	item := Item{Board: w.board, Task: w.task, Run: w.run}
	if lane {
		item.Lane = w.lane
	}
	if w.proc != nil {
		item.PID = w.proc.PID()
	}
	return item
}

// stop asks the worker to end, once for each cause.
func (w *attached) stop(cause Cause, now time.Time) {
	if w.proc == nil || w.cause != NoCause {
		return
	}
	w.cause, w.asked = cause, now
	w.proc.Stop(w.grace)
}

// follow wakes the dispatcher when the worker has ended. The caller holds mu.
func (d *Dispatcher) follow(w *attached) {
	proc := w.proc
	d.watchers.Go(func() {
		select {
		case <-proc.Done():
			d.Wake(w.board)
		case <-d.closing:
		}
	})
}

// adopt takes over the keeper of a running card, if there is one.
func (d *Dispatcher) adopt(ctx context.Context, b *board, w *attached, p *pass) bool {
	proc, err := d.o.Launcher.Adopt(w.id)
	switch {
	case errors.Is(err, worker.ErrUnknown):
		return false
	case err != nil:
		d.unread(ctx, b, w, err, false)
		return false
	}
	d.attach(b, w, proc, p)
	return true
}

// attach makes a worker of an earlier life, or of another daemon, one of ours.
func (d *Dispatcher) attach(b *board, w *attached, proc worker.Running, p *pass) {
	delete(b.unread, w.id)
	d.fit(w)
	w.proc = proc
	d.workers[w.id] = w
	d.follow(w)
	p.note(&p.Adopted, w.item(false))
	p.dirty(b.slug)
	select {
	case <-proc.Done():
		exit := proc.Exit()
		w.exit = &exit
		b.log.Info("worker ended while nobody looked", "task", w.task, "run", w.run, "pid", exit.PID)
	default:
		b.log.Info("worker adopted", "task", w.task, "run", w.run, "pid", proc.PID())
	}
}

// unread: a worker whose record cannot be read is judged by what is seen of it, like one that somebody else started. Of
// a run that is over there is nothing to learn any more once no process of it is left.
func (d *Dispatcher) unread(ctx context.Context, b *board, w *attached, err error, over bool) {
	broken, _ := errors.AsType[*worker.AdoptError](err)
	lives := broken == nil || broken.Lives
	if old, known := b.unread[w.id]; !known || old.text != err.Error() {
		b.log.Warn("worker cannot be adopted; it is judged by its process alone", "task", w.task, "run", w.run, "error", err)
	}
	if b.unread == nil {
		b.unread = map[string]unreadable{}
	}
	b.unread[w.id] = unreadable{text: err.Error(), lives: lives}
	if over && !lives {
		if err := b.handle.Settle(ctx, w.run); stored(err) == nil {
			d.forget(b, w)
		}
	}
}

// fit completes what only the lane knows. A lane that is gone from the configuration ends by the stricter rule.
func (d *Dispatcher) fit(w *attached) {
	lane, ok := d.tuned().Lanes.Lookup(w.lane)
	if !ok {
		return
	}
	w.lane, w.ending, w.grace = lane.Name, lane.Ending, lane.KillGrace
}

// settle writes what a worker's end means to its board, and only then forgets the record. A run that is over was
// ended by the worker itself or by somebody else; then there is nothing to say.
func (d *Dispatcher) settle(ctx context.Context, b *board, w *attached, open bool, p *pass) error {
	err := kanban.ErrStaleRun
	if open {
		err = d.conclude(ctx, b, w, d.verdict(w), p)
	}
	switch {
	case errors.Is(err, kanban.ErrStaleRun), errors.Is(err, kanban.ErrNotFound):
		d.healthOf(w.lane).recovered(false)
	case err != nil:
		return err
	}
	over := err != nil || w.exit.Kind == worker.Exited && w.exit.Code == 0 // a run that EndRun closed is settled already
	switch {
	case !open && (w.cause != NoCause || b.wanted[w.run]):
		killed := w.exit.Signal == int(syscall.SIGKILL)
		d.reaped(ctx, b, w.task, w.run, w.exit.PID, reaper.Departure{Attempted: w.cause != NoCause, Killed: killed}, p)
	case over:
		if err := stored(b.handle.Settle(ctx, w.run)); err != nil {
			return fmt.Errorf("settle run: %w", err)
		}
	}
	d.forget(b, w)
	return nil
}

func (d *Dispatcher) forget(b *board, w *attached) {
	delete(d.workers, w.id)
	delete(b.unread, w.id)
	if err := d.o.Launcher.Forget(w.id); err != nil {
		b.log.Warn("record of an ended worker stays", "task", w.task, "run", w.run, "error", err)
	}
}

// verdict classifies the end, with the worker's last words for the reader of the card.
func (d *Dispatcher) verdict(w *attached) Verdict {
	exit := *w.exit
	if exit.Kind == worker.Lost && w.print != "" && hostPart(w.print) != d.host {
		exit.Kind = worker.HostEnded
	}
	if exit.Kind == worker.Lost {
		if code, ok := worker.TrailerCode(w.proc.Output()); ok {
			exit.Kind, exit.Code = worker.Exited, code
		}
	}
	limit := w.limit
	if limit == 0 {
		limit = exit.Ran
	}
	cause := w.cause
	if w.wish != nil && exit.Kind != worker.HostEnded { // however it went: somebody wanted it gone
		exit.Kind, cause = worker.Stopped, OperatorOf
	}
	v := Classify(exit, w.ending, cause, limit)
	output := w.proc.Output()
	switch {
	case v.Outcome == kanban.OutcomeCrashed:
		v.Error = withOutput(v.Error, worker.LastOutput(output))
	case exit.Kind == worker.Exited: // its time or its steps were up, or its provider asked to wait
		v.Error = withOutput(v.Error, worker.Why(output))
	}
	return v
}

const maxError = 500

// withOutput adds a worker's last words, in one line: they stand in lists, in logs and beside other texts.
func withOutput(text, output string) string {
	var lines []string
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) > 0 {
		text += ": " + strings.Join(lines, " | ")
	}
	if r := []rune(text); len(r) > maxError {
		text = string(r[:maxError])
	}
	return text
}

// quickDeath: a lane that is broken kills its workers at once; one that died after a while died of its own card.
const quickDeath = 30 * time.Second

// conclude ends the run on the board.
func (d *Dispatcher) conclude(ctx context.Context, b *board, w *attached, v Verdict, p *pass) error {
	health := d.healthOf(w.lane)
	if v.Complete {
		refused, err := d.complete(ctx, b, w, p)
		if refused == "" || err != nil {
			health.recovered(false)
			return err
		}
		v = crashed("refused", "the card could not be completed: "+refused)
	}
	if v.Event == kanban.EventCrashed && !v.TripNow && w.exit.Ran < quickDeath {
		systemic, charged := health.crashed(death{w.board, w.task, w.run, p.now}, v.Error)
		if systemic {
			v.Count = false
			b.log.Warn("lane fails as a whole; its cards are spared", "lane", w.lane, "task", w.task, "run", w.run, "error", v.Error)
			d.spare(ctx, charged, w.lane)
		}
	} else if v.Outcome != kanban.OutcomeReclaimed { // what we ended, or the machine did, says nothing of the lane
		health.recovered(false)
	}
	return d.end(ctx, b, w.item(true), v, w.exit, w.manual(), p)
}

// manual tells how the worker went that somebody wanted gone.
func (w *attached) manual() map[string]any {
	if w.wish == nil {
		return nil
	}
	if w.exit == nil { // it never started
		return terminationOf(0, reaper.Departure{})
	}
	killed := w.exit.Signal == int(syscall.SIGKILL)
	return terminationOf(w.exit.PID, reaper.Departure{Attempted: w.cause != NoCause, Killed: killed})
}

func (d *Dispatcher) healthOf(lane string) *laneHealth {
	h := d.health[lane]
	if h == nil {
		h = &laneHealth{}
		d.health[lane] = h
	}
	return h
}
