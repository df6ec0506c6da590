package dispatch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	stuckTicks = 6                 // full ticks in which cards waited and none started, before anybody is told
	stuckEvery = 300 * time.Second // and how often then
)

// Stuck says that cards have been ready for some while and none was started.
type Stuck struct {
	Ticks   int            `json:"ticks"` // full ticks in a row
	Since   time.Time      `json:"since"`
	Reasons map[Reason]int `json:"reasons"` // ready cards by what holds them; those that are nobody's to start are left out
	Kept    bool           `json:"kept"`    // all of them are held for reasons that pass or were wished for: nothing is wrong
}

// String says it to a person, with the reasons by name.
func (s Stuck) String() string {
	return fmt.Sprintf("ready cards for %d ticks in a row and no worker started: %s", s.Ticks, reasonCounts(s.Reasons))
}

func reasonCounts(counts map[Reason]int) string {
	var said []string
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		said = append(said, fmt.Sprintf("%d %s", counts[reason], reason))
	}
	return strings.Join(said, ", ")
}

// stuckness follows it over the full ticks. Ticks that an event brought on do not count: a busy second is no long wait.
type stuckness struct {
	now     *Stuck
	started int // workers since the last full tick
	warned  time.Time
	said    string // what was told last, so that it is told again only when it changes
}

// say is what there is to tell after a tick: nothing, a warning, or a word once.
type say int

const (
	sayNothing say = iota
	sayWarning
	sayOnce
	sayOver
)

// tick takes a full tick: what holds the ready cards by the end of it.
func (s *stuckness) tick(counts map[Reason]int, now time.Time) say {
	started := s.started > 0
	s.started = 0
	waiting := map[Reason]int{}
	kept := true
	for reason, n := range counts {
		if m := meanings[reason]; n > 0 && !m.Parked {
			waiting[reason] = n
			kept = kept && m.Kept
		}
	}
	if started || len(waiting) == 0 {
		told := s.said != ""
		s.now, s.said, s.warned = nil, "", time.Time{}
		if told {
			return sayOver
		}
		return sayNothing
	}
	next := Stuck{Ticks: 1, Since: now, Reasons: waiting, Kept: kept}
	if s.now != nil {
		next.Ticks, next.Since = s.now.Ticks+1, s.now.Since
	}
	s.now = &next
	if next.Ticks < stuckTicks {
		return sayNothing
	}
	return s.tell(next, now)
}

func (s *stuckness) tell(stuck Stuck, now time.Time) say {
	what := fmt.Sprint(stuck.Kept, " ", slices.Sorted(maps.Keys(stuck.Reasons)))
	switch {
	case stuck.Kept && what == s.said:
		return sayNothing
	case stuck.Kept:
		s.said = what
		return sayOnce
	case !s.warned.IsZero() && now.Sub(s.warned) < stuckEvery:
		return sayNothing
	}
	s.said, s.warned = what, now
	return sayWarning
}

// noteStuck ends a tick. The caller holds mu.
func (d *Dispatcher) noteStuck(p *pass) {
	if !p.full {
		return
	}
	switch d.stuck.tick(d.heldCards(), p.now) {
	case sayWarning:
		d.log.Warn("dispatcher is stuck", "ticks", d.stuck.now.Ticks, "why", reasonCounts(d.stuck.now.Reasons), "remedy", "gatewayd why names each card's reason and its remedy")
	case sayOnce:
		d.log.Info("ready cards wait for known reasons", "ticks", d.stuck.now.Ticks, "why", reasonCounts(d.stuck.now.Reasons))
	case sayOver:
		d.log.Info("dispatcher is not stuck any more")
	}
}

// heldCards counts the ready cards of all boards by what holds them. The caller holds mu.
func (d *Dispatcher) heldCards() map[Reason]int {
	counts := map[Reason]int{}
	for _, b := range d.boards {
		for _, c := range b.ready {
			if h, held := b.holds[c.Task]; held {
				counts[h.Reason]++
			} else if !d.lives(b.slug, c.Task) {
				counts[NotStarted]++
			}
		}
		if b.outside != nil && len(b.ready) == 0 && b.bad == nil && b.trouble != nil {
			counts[b.outside.Reason]++ // a board whose cards cannot be counted: one, so that it is named
		}
	}
	return counts
}

// seen is what status shows: from the first tick on in which it counts.
func (s *stuckness) seen() *Stuck {
	if s.now == nil || s.now.Ticks < stuckTicks {
		return nil
	}
	shown := *s.now
	return &shown
}
