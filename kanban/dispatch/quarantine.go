package dispatch

import (
	"time"

	"gatewayd/internal/sqlite"
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
