package kanban

import (
	"context"
	"strings"
	"time"

	"gatewayd/internal/sqlite"
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
	Missed    int64  `json:"missed"`    // times of the rule that brought no copy of their own, in all

	since int64 // the event by which the card was scheduled
}

const (
	insertTimer = `INSERT INTO gw_schedules (task_id, due_at, rule, zone, event_id) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (task_id) DO UPDATE SET due_at = excluded.due_at, rule = excluded.rule, zone = excluded.zone, event_id = excluded.event_id,
    moved_at = NULL`
	timerColumns = `g.task_id, g.due_at, g.rule, g.zone, g.last_fired_at, g.last_copy, g.missed, g.event_id`
	selectTimers = `SELECT ` + timerColumns + ` FROM gw_schedules g JOIN tasks t ON t.id = g.task_id WHERE t.status = 'scheduled' AND g.due_at > 0
ORDER BY g.due_at, g.task_id`
)

// Schedule parks a todo, ready, running or blocked card, or gives a scheduled one another time. Without a rule the
// dispatcher unblocks it at its time; with one the card stays scheduled and a copy of it is made at each time. Refused: a
// rule that cannot be read or is never due, a time that has passed or lies more than ten years ahead, and a running card
// whose worker lives and is not the caller.
func (b *Board) Schedule(ctx context.Context, task string, s Schedule) (Timer, error) {
	s.Reason, s.Rule, s.Zone = b.said(clean(strings.TrimSpace(s.Reason))), strings.TrimSpace(s.Rule), strings.TrimSpace(s.Zone)
	now := time.Now()
	r, err := s.check(now)
	if err != nil {
		return Timer{}, err
	}
	if s.Rule != "" && s.Due.IsZero() {
		s.Due, _ = r.next(now)
	}
	var timer Timer
	err = b.write(ctx, "schedule card", func(t *txn) error {
		card, err := loadTask(t.Conn, task)
		if err != nil {
			return err
		}
		timer, err = t.schedule(card, s, r)
		return err
	})
	if err != nil && !Committed(err) {
		return Timer{}, err
	}
	return timer, err
}

func (s Schedule) check(now time.Time) (r rule, err error) {
	switch {
	case s.Rule != "":
		if r, err = parseRule(s.Rule, s.Zone, now); err != nil {
			return r, err
		}
	case s.Zone != "":
		return r, invalidField("zone", "time zone "+quote(s.Zone), "is given without a rule", "leave it out; a time says its own zone")
	}
	if s.Due.IsZero() {
		return r, nil
	}
	stamp := quote(s.Due.UTC().Format(time.RFC3339))
	switch {
	case s.Due.Unix() < now.Unix():
		return r, invalidField("due_at", "the time "+stamp, "has passed", "give one that lies ahead")
	case s.Due.Sub(now) > horizon:
		return r, invalidField("due_at", "the time "+stamp, "lies more than ten years ahead", "give a nearer one, or none to park the card until somebody unblocks it")
	}
	return r, nil
}

func (t *txn) schedule(card Task, s Schedule, r rule) (Timer, error) {
	if err := t.mayEnd(card, s.Run, false, time.Unix(t.now, 0)); err != nil {
		return Timer{}, err
	}
	if card.GoalMode && s.Run != nil {
		return Timer{}, invalid(cardThing(card.ID), "is in goal mode: its worker may block it with a kind of dependency or needs_input, and not schedule it", "block it")
	}
	switch card.Status {
	case StatusTodo, StatusReady, StatusRunning, StatusBlocked, StatusScheduled:
	default:
		return Timer{}, conflict(card.ID, ErrConflict, "is %s and cannot be scheduled", card.Status)
	}
	p, err := t.goesOn(card, s.payload())
	if err != nil {
		return Timer{}, err
	}
	var run RunID
	if err := t.place(card, StatusScheduled, sameStart); err != nil {
		return Timer{}, err
	}
	if card.CurrentRunID != 0 {
		if run, err = t.closeWith(card, string(StatusScheduled), OutcomeScheduled, s.Reason, ""); err != nil {
			return Timer{}, err
		}
	}
	if err := t.event(card.ID, run, "scheduled", p); err != nil {
		return Timer{}, err
	}
	timer := Timer{Task: card.ID, Rule: s.Rule, Zone: s.Zone}
	if s.Due.IsZero() {
		_, err = t.run("drop schedule", deleteSchedule, card.ID)
		return timer, err
	}
	timer.Due = s.Due.Unix()
	return timer, t.must("set timer", insertTimer, card.ID, timer.Due, opt(timer.Rule), opt(timer.Zone), t.last.ID)
}

func (s Schedule) payload() payload {
	p := payload{{"reason", opt(s.Reason)}}
	if !s.Due.IsZero() {
		p = append(p, field{"due_at", s.Due.Unix()})
	}
	return p.say("rule", s.Rule).say("zone", s.Zone)
}

// goesOn keeps in the history that a parked card is to go on in review.
func (t *txn) goesOn(card Task, p payload) (payload, error) {
	if card.CurrentRunID != 0 {
		return t.withSource(card, p)
	}
	if card.Status == StatusReady {
		return p, nil
	}
	resume, err := t.resumeStatus(card.ID)
	if err == nil && resume == StatusReview {
		p = append(p, field{"resume_status", resume})
	}
	return p, err
}

// Timers lists the times of the scheduled cards, the earliest first.
func (b *Board) Timers(ctx context.Context) ([]Timer, error) {
	list := []Timer{}
	err := b.peek(ctx, func(c *sqlite.Conn) error {
		found, err := collect(c, scanTimer, selectTimers)
		list = append([]Timer{}, found...)
		return err
	})
	return list, err
}

func scanTimer(row *sqlite.Row) Timer {
	c := &cursor{row: row}
	return Timer{
		Task: c.text(), Due: c.num(), Rule: c.text(), Zone: c.text(), LastFired: c.num(), LastCopy: c.text(), Missed: c.num(), since: c.num(),
	}
}
