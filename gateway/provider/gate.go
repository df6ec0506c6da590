package provider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// Limits is what a provider allows one key. Zero is no limit.
type Limits struct {
	Concurrent int `json:"concurrent"` // calls at the same time
	PerMinute  int `json:"per_minute"` // calls begun in any minute
}

// Gate lets the calls of one provider key through, one for each permit: at most so many at once and in a minute, fairly between
// classes of callers and between their sessions, and nobody before the time that the provider asked all to wait until. It is safe
// for concurrent use.
type Gate interface {
	// Enter waits for a permit. tell, when not nil, is called from the caller's goroutine when the wait begins and each second of it.
	// An error is the context's cause, nothing else.
	Enter(ctx context.Context, caller Caller, tell func(Place)) (Permit, error)
	// Hold keeps everybody out until then. An earlier time than the one in force changes nothing.
	Hold(until time.Time)
	Stats() GateStats
}

// Permit is the right to one call. Leave gives it back and may be called again.
type Permit interface{ Leave() }

// Place is where a waiting call stands: Position 1 is next. Until is set while the provider's Retry-After keeps everybody out, or the calls
// of the last minute are used up.
type Place struct {
	Position int       `json:"position"`
	Waiting  int       `json:"waiting"`
	Until    time.Time `json:"until,omitzero"`
	Held     bool      `json:"held,omitempty"` // Until is the provider's word and not our own limit
}

// String says it to a person.
func (p Place) String() string {
	text := fmt.Sprintf("waiting for the provider: place %d of %d", p.Position, p.Waiting)
	switch {
	case p.Until.IsZero():
		return text
	case p.Held:
		return text + ", which asked everybody to wait until " + p.Until.Local().Format(time.TimeOnly)
	}
	return text + "; the calls of this minute are used up until " + p.Until.Local().Format(time.TimeOnly)
}

// GateStats is a gate as it stands.
type GateStats struct {
	Key       string    `json:"key"` // a fingerprint, never the key
	Limits    Limits    `json:"limits"`
	Inside    int       `json:"inside"`
	Waiting   []Waiter  `json:"waiting,omitempty"` // in the order in which they will be served
	HeldUntil time.Time `json:"held_until,omitzero"`
	Through   int64     `json:"through"` // permits given
	Shared    string    `json:"shared"`  // with whom
}

// IsZero reports that there is no gate.
func (s GateStats) IsZero() bool { return s.Key == "" }

// Waiter is one waiting call.
type Waiter struct {
	Caller Caller    `json:"caller"`
	Since  time.Time `json:"since"`
}

// GateKey names the gate of a server and a key: calls that are billed together wait together. It does not give the key away.
func GateKey(baseURL, key string) string {
	host := strings.TrimSpace(baseURL)
	if base, err := parseBase(baseURL); err == nil {
		host = base.Scheme + "://" + base.Host
	}
	sum := sha256.Sum256([]byte(host + "\x00" + strings.TrimSpace(key)))
	return hex.EncodeToString(sum[:8])
}

// How often a waiting call says where it stands: not before it has waited a moment, and then no more often than a person reads.
const (
	tellAfter = time.Second
	tellEvery = 10 * time.Second
)

// teller turns changing places into lines for a person and signs of life for the watchdog.
type teller struct {
	sink  func(Delta)
	since time.Time
	told  time.Time
	last  Place
}

func newTeller(sink func(Delta)) *teller { return &teller{sink: sink, since: time.Now()} }

// place is called each second of a wait.
func (t *teller) place(p Place) {
	now := time.Now()
	if now.Sub(t.since) < tellAfter {
		return
	}
	if p == t.last || !t.told.IsZero() && now.Sub(t.told) < tellEvery {
		emit(t.sink, Delta{})
		return
	}
	t.last, t.told = p, now
	emit(t.sink, Delta{Notice: p.String()})
}
