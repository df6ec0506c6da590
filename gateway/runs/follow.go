package runs

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"gatewayd/gateway"
	"gatewayd/internal/mutation"
	"gatewayd/sessiondb"
)

// pace is how far apart pieces of an answer are stored. What comes meanwhile waits in the conversation's sink, where it is joined.
const pace = 50 * time.Millisecond

// follower turns what a run's turn shows into stored events. hear is called from one goroutine at a time.
type follower struct {
	desk *Desk
	wait func(context.Context) error // of the conversation

	accepted atomic.Bool // the run is stored, and its message with it
	life     context.Context
	stop     context.CancelFunc // it has heard enough

	mu   sync.Mutex
	run  sessiondb.Run // as it is stored
	more chan struct{} // closed and made anew when events were stored

	serial  sync.Mutex // held by whoever stores events; guards what follows
	turn    string
	voice   voice
	pending []sessiondb.RunEvent // the store did not take them yet
	asked   map[string]bool      // approvals that wait
	stored  time.Time            // the last piece of text
	over    bool
	silent  int // looks in a row that found a turn which nobody works on
}

func newFollower(d *Desk, run sessiondb.Run) *follower {
	f := &follower{desk: d, run: run, more: make(chan struct{}), turn: run.Turn, asked: map[string]bool{}, voice: voice{run: run.ID, reasoning: d.opts.Reasoning}}
	f.life, f.stop = context.WithCancel(d.life)
	return f
}

func (f *follower) attach() { f.wait = f.desk.opts.Chat.Attach(f.run.Session, f.hear) }

// work listens until the run has ended, is dropped, or the desk ends. A follower that comes to a run of an earlier process asks the rows
// whether it has ended meanwhile, and so does one that was too slow.
func (f *follower) work(found bool) {
	defer f.desk.leave(f.run.ID)
	defer f.stop()
	for {
		if found {
			f.look(true)
		}
		if err := f.wait(f.life); err == nil || f.life.Err() != nil {
			return
		}
		f.missed()
		f.attach()
		found = true
	}
}

// missed says that pieces of the answer are not among the events.
func (f *follower) missed() {
	f.desk.opts.Log.Warn("a run's events came faster than they could be stored", "run", f.run.ID, "session", f.run.Session)
	f.serial.Lock()
	defer f.serial.Unlock()
	f.store(sessiondb.RunChange{}, f.voice.missed())
}

// drop ends the following of a run that does not come to be.
func (f *follower) drop() { f.stop() }

// hear takes an event of the conversation.
func (f *follower) hear(e gateway.Event) {
	f.serial.Lock()
	defer f.serial.Unlock()
	f.silent = 0
	f.mu.Lock()
	uid, stopping := f.run.UID, f.run.Status == sessiondb.RunStopping
	f.mu.Unlock()
	switch {
	case f.over:
	case e.Kind == gateway.EventTurn && e.UID == uid:
		f.begun(e.Turn)
		if stopping {
			f.desk.opts.Chat.InterruptMessage(f.run.Session, uid, gateway.Stop)
		}
	case e.Kind == gateway.EventNotice && e.UID == uid && !mutation.On("stopped-early-is-not-heard"):
		f.finish(stoppedEarly)
	case f.turn == "" || e.Turn != f.turn:
	case e.Kind == gateway.EventEnded && e.Result != nil:
		f.ended(*e.Result)
	default:
		f.shown(e)
	}
}

// begun stores that the turn has begun, or that it goes on in this process.
func (f *follower) begun(turn string) {
	change := sessiondb.RunChange{Turn: turn}
	if f.status() != sessiondb.RunStopping {
		change.Status = sessiondb.RunRunning
	}
	if f.turn == turn && f.run.Turn == turn {
		f.store(change, f.voice.resumed())
		return
	}
	f.turn = turn
	f.store(change, event(f.run.ID, EventStarted, map[string]any{"session_id": f.run.Session, "turn_id": turn}))
}

func (f *follower) status() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.run.Status
}

// shown stores what the turn shows. Pieces of text are kept apart by pace.
func (f *follower) shown(e gateway.Event) {
	out, ok := f.voice.say(e)
	if !ok {
		return
	}
	if out.Name == EventDelta || out.Name == EventReasoning {
		f.rest()
		f.stored = time.Now()
	}
	f.store(f.asks(e), out)
}

// rest waits for the place of the next piece of text.
func (f *follower) rest() {
	left := pace - time.Since(f.stored)
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.life.Done():
	}
}

// asks gives the status that an approval makes.
func (f *follower) asks(e gateway.Event) (change sessiondb.RunChange) {
	if e.Approval == nil {
		return change
	}
	if e.Approval.State == sessiondb.ApprovalPending {
		f.asked[e.Approval.ID] = true
	} else {
		delete(f.asked, e.Approval.ID)
	}
	if f.status() == sessiondb.RunStopping {
		return change
	}
	change.Status = sessiondb.RunRunning
	if len(f.asked) > 0 {
		change.Status = sessiondb.RunWaiting
	}
	return change
}

// ended stores the end of the run. A turn that a stopping daemon put aside goes on at the next start, and so does its run.
func (f *follower) ended(r gateway.Result) {
	if r.ExitReason == "interrupted(drain)" && f.goesOn() {
		f.over = true
		return
	}
	f.finish(endOf(r))
}

// goesOn reports that the turn of this run is pending or waits. A store that cannot be asked is the next start's to ask.
func (f *follower) goesOn() bool {
	place, err := f.place(context.WithoutCancel(f.life))
	return err != nil || place.waits || place.turn != ""
}

// finish stores an end until the store takes it, or the desk ends: then the next start finds it in the rows.
func (f *follower) finish(e end) {
	f.over = true
	change := sessiondb.RunChange{Status: e.status, Turn: f.turn, Result: e.result(), Error: e.reason, Ended: true}
	last := event(f.run.ID, "run."+e.status, e.body())
	for !f.store(change, last) {
		select {
		case <-f.life.Done():
			return
		case <-time.After(retryEvery):
		}
		last = sessiondb.RunEvent{} // it is among those that wait
	}
	f.desk.opts.Log.Info("run ended", "run", f.run.ID, "session", f.run.Session, "turn", f.turn, "status", e.status)
	f.stop()
}

// store writes events behind those that wait, and tells the watchers. false: the store took nothing.
func (f *follower) store(change sessiondb.RunChange, e sessiondb.RunEvent) bool {
	if e.Name != "" {
		f.pending = append(f.pending, e)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.life), 30*time.Second)
	defer cancel()
	_, err := f.desk.opts.Store.AppendRun(ctx, f.run.ID, change, f.pending)
	if errors.Is(err, sessiondb.ErrRunEnded) { // somebody was quicker: there is one end
		f.over = true
		f.pending = nil
		f.stop()
		f.tell(sessiondb.RunChange{})
		return true
	}
	if err != nil {
		f.desk.opts.Log.Warn("events of a run not stored, they wait", "run", f.run.ID, "session", f.run.Session, "events", len(f.pending), "error", err)
		return false
	}
	f.pending = nil
	f.tell(change)
	return true
}

func (f *follower) tell(change sessiondb.RunChange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if change.Status != "" {
		f.run.Status = change.Status
	}
	if change.Turn != "" {
		f.run.Turn = change.Turn
	}
	close(f.more)
	f.more = make(chan struct{})
}

// next is closed when there is something new.
func (f *follower) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.more
}
