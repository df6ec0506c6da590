package dispatch

import (
	"fmt"
	"time"

	"gatewayd/kanban"
	"gatewayd/kanban/worker"
)

const (
	heartbeatOld   = time.Hour         // a heartbeat older than this is no sign of life
	deferFor       = 120 * time.Second // a claim whose worker would not die is kept for so long, and looked at again
	killSlack      = 5 * time.Second   // beyond a keeper's own deadline or grace, before we act or give up waiting
	leftoverGrace  = 120 * time.Second // a worker whose run is over may take this long to go by itself
	unsignedPrefix = "pid %d not alive"
)

// Open is a running card as its row has it. Zero times are NULL.
type Open struct {
	Task      string
	Run       kanban.RunID
	Lock      string
	PID       int
	Started   time.Time // of this attempt, else the card's first start
	Expires   time.Time
	Heartbeat time.Time
	Limit     time.Duration // 0 = none
}

// Sight is what is seen of the process behind the row.
type Sight struct {
	Attached   bool // under a keeper of ours
	Starting   bool // and still being started
	Alive      bool
	HostEnded  bool          // the row was written before the machine or container restarted
	Remote     bool          // claimed on another host
	Claimer    bool          // another process claimed it, lives and tends it: its ends are its own to judge
	Dispatched bool          // it was claimed by a dispatcher, not by a person's hand
	Ending     worker.Ending //
	Cause      Cause         // why we asked it to end
	Asked      time.Time
	Wanted     bool // somebody asked for its end, and it was not told yet
	Survived   bool // all was done to end it, and it lives
	KillGrace  time.Duration
}

// Rules are the times that judge.
type Rules struct {
	TTL          time.Duration
	CrashGrace   time.Duration
	StaleTimeout time.Duration // 0 = off
}

// Act is what to do about a running card.
type Act string

const (
	Leave     Act = ""
	Extend    Act = "extend"
	Stop      Act = "stop"      // ask the worker to end; the card follows when it has
	Postpone  Act = "defer"     // keep the claim: the worker was asked to end and would not
	End       Act = "end"       // the worker is gone
	Reconcile Act = "reconcile" // the row is half a claim
)

// Judgement is the act, its reason, and when to look again.
type Judgement struct {
	Act     Act
	Cause   Cause
	Verdict Verdict
	Again   time.Time
}

// Judge decides about one running card. Known ends never come here: they were settled before. What is concluded
// from a missing process alone waits for the crash grace.
func Judge(o Open, s Sight, r Rules, now time.Time) Judgement {
	switch {
	case s.Remote:
		return judgeRemote(o, now)
	case s.HostEnded:
		return Judgement{Act: End, Verdict: Classify(worker.Exit{Kind: worker.HostEnded}, s.Ending, NoCause, 0)}
	case s.Starting || s.Alive:
		return judgeAlive(o, s, r, now)
	case s.Attached:
		return Judgement{} // its keeper will say how it ended
	}
	return judgeGone(o, s, r, now)
}

// judgeRemote: nothing can be seen of a process on another host; only its claim's time speaks.
func judgeRemote(o Open, now time.Time) Judgement {
	if o.Expires.IsZero() || now.Before(o.Expires) {
		return Judgement{Again: o.Expires}
	}
	return Judgement{Act: End, Verdict: staleLock(o)}
}

func staleLock(o Open) Verdict {
	return Verdict{Outcome: kanban.OutcomeReclaimed, Event: kanban.EventReclaimed, Error: "stale_lock=" + o.Lock, Count: true}
}

func judgeAlive(o Open, s Sight, r Rules, now time.Time) Judgement {
	switch {
	case s.Cause != NoCause:
		return judgeAsked(o, s, now)
	case s.Wanted:
		return Judgement{Act: Stop, Cause: OperatorOf}
	case s.Claimer:
		return Judgement{Again: o.Expires.Add(-r.TTL / 4)}
	}
	again := earliest(time.Time{}, o.Expires.Add(-r.TTL/2))
	if o.Limit > 0 {
		end := o.Started.Add(o.Limit + s.KillGrace + killSlack)
		if !now.Before(end) {
			return Judgement{Act: Stop, Cause: TimeUp}
		}
		again = earliest(again, end)
	}
	if r.StaleTimeout > 0 && s.Ending != worker.ByExit {
		quiet := latest(o.Started.Add(r.StaleTimeout), o.Heartbeat.Add(heartbeatOld))
		if !now.Before(quiet) {
			return Judgement{Act: Stop, Cause: NoSign}
		}
		again = earliest(again, quiet)
	}
	silent := s.Ending != worker.ByExit && !o.Heartbeat.IsZero() && now.Sub(o.Heartbeat) >= heartbeatOld
	switch {
	case silent && !now.Before(o.Expires):
		return Judgement{Act: Stop, Cause: ClaimOver}
	case silent:
		return Judgement{Again: o.Expires}
	case o.Expires.Sub(now) <= r.TTL/2:
		return Judgement{Act: Extend, Again: now.Add(r.TTL / 2)}
	}
	return Judgement{Again: again}
}

// judgeAsked: a worker that was asked to end keeps its claim until it is gone, however long that takes. A card
// released beside a living worker would get a second one.
func judgeAsked(o Open, s Sight, now time.Time) Judgement {
	patience := s.Asked.Add(s.KillGrace + killSlack)
	if now.Before(patience) && !s.Survived {
		return Judgement{Again: patience}
	}
	if s.Survived || o.Expires.Sub(now) <= deferFor/2 {
		return Judgement{Act: Postpone, Cause: s.Cause, Again: now.Add(deferFor / 2)}
	}
	return Judgement{Again: o.Expires.Add(-deferFor / 2)}
}

// cause is why its end was asked for, by us or by somebody whose wish we have not passed on yet.
func (s Sight) cause() Cause {
	if s.Cause == NoCause && s.Wanted {
		return OperatorOf
	}
	return s.Cause
}

// judgeGone: no process is there, and nobody saw how it ended.
func judgeGone(o Open, s Sight, r Rules, now time.Time) Judgement {
	if cause := s.cause(); cause != NoCause { // it went as it was asked to
		return Judgement{Act: End, Verdict: stopped(worker.Exit{PID: o.PID, Ran: now.Sub(o.Started)}, cause, o.Limit)}
	}
	graceOver := o.Started.Add(r.CrashGrace)
	if o.Started.IsZero() || o.Started.After(now.Add(r.CrashGrace)) {
		graceOver = now // it began before the clock was set back: the grace would last as long as that was
	}
	expired := !o.Expires.IsZero() && !now.Before(o.Expires)
	switch {
	case now.Before(graceOver):
		return Judgement{Again: graceOver}
	case o.Lock == "" || o.Expires.IsZero():
		return Judgement{Act: Reconcile}
	case s.Claimer && !expired:
		return Judgement{Again: o.Expires}
	case o.PID != 0:
		return Judgement{Act: End, Verdict: crashed("unknown", fmt.Sprintf(unsignedPrefix, o.PID))}
	case s.Dispatched:
		return Judgement{Act: End, Verdict: notStarted()}
	case expired:
		return Judgement{Act: End, Verdict: staleLock(o)}
	}
	return Judgement{Again: o.Expires}
}

// earliest gives the earlier of two times, of which a zero one does not count.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
