package kanban

import (
	"context"
	"time"
)

// Schedule parks a card until a time, or makes it the pattern of cards that come back.
type Schedule struct {
	Run    *RunID // the run that the caller acts for; nil = a person
	Reason string
	Due    time.Time // the zero time with a Rule = the rule's first time from now; without one = until a person unblocks the card
	Rule   string    // cron of five fields, or @daily and its like; "" = once
	Zone   string    // IANA name in which Rule is read; "" = UTC
}

// Timer is when a scheduled card wakes. Times are epoch seconds; 0 = none.
type Timer struct {
	Task      string `json:"task_id"`
	Due       int64  `json:"due_at"`
	Rule      string `json:"rule"`
	Zone      string `json:"zone"`
	LastFired int64  `json:"last_fired_at"`
	LastCopy  string `json:"last_copy"` // the newest copy that a rule made
	Missed    int64  `json:"missed"`    // times that passed without a copy of their own, in all
}

// Schedule parks a card. Without a rule the dispatcher unblocks it at its time; with one the card stays scheduled and
// a copy of it is made at each time. A rule that is never due is refused.
func (b *Board) Schedule(ctx context.Context, task string, s Schedule) (Timer, error) {
	return Timer{}, notYet(task, "scheduled")
}

// Timers lists the times of the scheduled cards, the earliest first.
func (b *Board) Timers(ctx context.Context) ([]Timer, error) { return nil, nil }

// WakeDue wakes every card whose time has come and names what may run now: the card itself, or the copy that its rule
// made. next is the earliest time still to come; the zero time means never.
func (b *Board) WakeDue(ctx context.Context, now time.Time) (woken []string, next time.Time, err error) {
	return nil, time.Time{}, nil
}
