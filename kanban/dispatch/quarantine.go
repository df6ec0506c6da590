package dispatch

import (
	"fmt"
	"time"

	"gatewayd/internal/problem"
	"gatewayd/internal/sqlite"
	"gatewayd/kanban"
)

const (
	quarantineFirst   = 300 * time.Second
	quarantineLongest = time.Hour
)

// quarantine is the fingerprint gate of one board: while a damaged file is as it was, nothing opens it.
type quarantine struct {
	print   sqlite.Fingerprint
	reason  string
	since   time.Time
	retryAt time.Time
	wait    time.Duration
}

// gate is what the fingerprint gate decides for this tick.
type gate int

const (
	gateOpen    gate = iota // nothing is wrong
	gateShut                // damaged and unchanged: keep away
	gateChanged             // the file changed: try it
	gateRetry               // unchanged, but a damage may have been a passing race: try it
)

func (q *quarantine) gate(print sqlite.Fingerprint, now time.Time) gate {
	switch {
	case q == nil:
		return gateOpen
	case q.print != print:
		return gateChanged
	case !now.Before(q.retryAt):
		return gateRetry
	}
	return gateShut
}

// failed records that the file is damaged. first reports whether a person must be told: once for a file, not
// for each look at it.
func (q *quarantine) failed(print sqlite.Fingerprint, reason string, now time.Time) (next *quarantine, first bool) {
	if q != nil && q.print == print {
		again := *q
		again.wait = min(2*q.wait, quarantineLongest)
		again.retryAt = now.Add(again.wait)
		return &again, false
	}
	since := now
	if q != nil {
		since = q.since
	}
	return &quarantine{print: print, reason: reason, since: since, wait: quarantineFirst, retryAt: now.Add(quarantineFirst)}, true
}

// shut is a disabled board as others of this process see it. It does not change.
type shut struct {
	quarantine
	path, remedy string
}

// Disabled says why nothing may open a board's file now: a Damaged problem with the dispatcher's words, or nil. It looks
// at the file's times alone, and waits for nothing: not for a tick either. A file that has changed since may be opened.
func (d *Dispatcher) Disabled(slug kanban.Slug) error {
	if path, going := d.going.Load(slug); going {
		return &problem.Error{
			Kind: problem.Busy, Thing: fmt.Sprintf("board %s (%s)", slug, path), What: "is about to leave", Fate: "nothing was changed",
			Remedy: "see with `gatewayd kanban boards list` whether it is still there",
		}
	}
	found, ok := d.shut.Load(slug)
	if !ok {
		return nil
	}
	s := found.(*shut)
	if s.gate(sqlite.TakeFingerprint(s.path), time.Now()) != gateShut {
		return nil
	}
	return &problem.Error{
		Kind: problem.Damaged, Thing: fmt.Sprintf("board %s (%s)", slug, s.path), What: "is disabled since " + s.since.Format(time.RFC3339) + ": its file " + s.reason,
		Fate: "the file was left as it is", Remedy: s.remedy,
	}
}
