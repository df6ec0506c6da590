package notify

import (
	"math/rand/v2"
	"time"

	"gatewayd/kanban"
)

const (
	firstWait   = 5 * time.Second
	longestWait = 300 * time.Second
	// giveUp is how long a row is tried before it waits for a person: a night's outage is survived by a retry in the morning.
	giveUp = 6 * time.Hour
)

// verdict says what an answer of a target means.
type verdict int

const (
	accepted verdict = iota
	tryAgain         // the target is not well; the same may work later
	refused          // it does not want this one
	closed           // it wants none: not this address, not this daemon
)

// outcome is what came of one attempt.
type outcome struct {
	verdict verdict
	err     string
	after   time.Duration // the target asked for so much patience; 0 = it did not say
}

func ok() outcome                { return outcome{} }
func failed(err error) outcome   { return outcome{verdict: tryAgain, err: err.Error()} }
func closedBy(err error) outcome { return outcome{verdict: closed, err: err.Error()} }

// next decides what becomes of the row. It is pure but for the jitter.
func (o outcome) next(p kanban.Parcel, now time.Time) kanban.Delivery {
	d := kanban.Delivery{Delivered: o.verdict == accepted, Error: o.err}
	switch {
	case o.verdict == accepted:
	case o.verdict == refused:
		d.Park = true
	case o.verdict == closed:
		d.ParkAll = true
	case p.TriedAt != 0 && now.Sub(time.Unix(p.TriedAt, 0)) >= giveUp:
		d.ParkAll, d.Error = true, "tried for six hours: "+o.err
	default:
		d.Next = now.Add(min(max(wait(p.Attempts), o.after), giveUp))
	}
	return d
}

// wait before the attempt that follows the n-th, with a fifth of it left to chance: what failed together does not come back
// together.
func wait(n int64) time.Duration {
	d := longestWait
	if n < 8 {
		d = min(firstWait<<max(n-1, 0), longestWait)
	}
	return d - rand.N(d/5)
}
