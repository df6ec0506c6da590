package kanban

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// life is a small model of a board: who holds which card by which run. Every verb is tried in every state; the model says
// whether a fence must have held, the invariants say what must be true of the file after each step.
type life struct {
	b     *Board
	cards []string
	open  map[string]RunID   // the run that the model believes to be current
	past  map[string][]RunID // runs that are over
}

func (l *life) card(t *rapid.T) string {
	if len(l.cards) == 0 {
		t.Skip("no card yet")
	}
	return rapid.SampledFrom(l.cards).Draw(t, "card")
}

// run draws a run to act for: the current one, one that is over, or none that ever was.
func (l *life) run(t *rapid.T, card string) (run RunID, current bool) {
	runs := append([]RunID{0, 9999}, l.past[card]...)
	if r, ok := l.open[card]; ok {
		runs = append(runs, r, r, r)
	}
	run = rapid.SampledFrom(runs).Draw(t, "run")
	return run, run != 0 && run == l.open[card]
}

func (l *life) over(card string) {
	if run, ok := l.open[card]; ok {
		l.past[card] = append(l.past[card], run)
		delete(l.open, card)
	}
}

// fenced checks what the fence said: a caller that is not current hears so, and one that is never does.
func (l *life) fenced(t *rapid.T, verb string, current bool, err error) {
	if stale := errors.Is(err, ErrStaleRun); stale == current {
		t.Fatalf("%s by a run that is current (%v): %v", verb, current, err)
	}
}

// allowed passes errors that a verb may answer in some state.
func allowed(t *rapid.T, verb string, err error) {
	if err != nil && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrNoEvidence) {
		t.Fatalf("%s: %v", verb, err)
	}
}

func (l *life) Create(t *rapid.T) {
	var parents []string
	if len(l.cards) > 0 {
		parents = rapid.SliceOfNDistinct(rapid.SampledFrom(l.cards), 0, 2, rapid.ID).Draw(t, "parents")
	}
	in := NewTask{Title: "card", Parents: parents, Assignee: rapid.SampledFrom([]string{"", "dev"}).Draw(t, "assignee")}
	if rapid.Bool().Draw(t, "blocked") {
		in.InitialStatus = StatusBlocked
	}
	if rapid.Bool().Draw(t, "few") {
		one := int64(1)
		in.MaxRetries = &one
	}
	card, err := l.b.Create(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	l.cards = append(l.cards, card.ID)
}

func (l *life) Claim(t *rapid.T) {
	card := l.card(t)
	claim, err := l.b.Claim(context.Background(), card, Claimer{Lock: "elsewhere:1"})
	allowed(t, "claim", err)
	if err != nil {
		return
	}
	if _, held := l.open[card]; held {
		t.Fatalf("%s was claimed twice", card)
	}
	l.open[card] = claim.Run.ID
}

func (l *life) Spawned(t *rapid.T) {
	card := l.card(t)
	run, current := l.run(t, card)
	l.fenced(t, "spawned", current, l.b.Spawned(context.Background(), card, run, 77, "f", fmt.Sprint("k", run)))
}

func (l *life) Heartbeat(t *rapid.T) {
	card := l.card(t)
	run, current := l.run(t, card)
	l.fenced(t, "heartbeat", current, l.b.Heartbeat(context.Background(), card, run, rapid.SampledFrom([]string{"", "n"}).Draw(t, "note"), time.Minute))
}

func (l *life) Complete(t *rapid.T) {
	card := l.card(t)
	run, current := l.run(t, card)
	err := l.b.Complete(context.Background(), card, Completion{Run: &run, Summary: rapid.SampledFrom([]string{"", "s", "s"}).Draw(t, "summary")})
	allowed(t, "complete", err)
	l.fenced(t, "complete", current, err)
	if err == nil {
		l.over(card)
	}
}

func (l *life) CompleteByPerson(t *rapid.T) {
	card := l.card(t)
	err := l.b.Complete(context.Background(), card, Completion{Force: rapid.Bool().Draw(t, "force"), Summary: "s"})
	allowed(t, "complete by a person", err)
	if err == nil {
		l.over(card)
	}
}

func (l *life) Block(t *rapid.T) {
	card := l.card(t)
	run, current := l.run(t, card)
	kind := rapid.SampledFrom([]string{"", BlockDependency, BlockNeedsInput, BlockTransient}).Draw(t, "kind")
	err := l.b.Block(context.Background(), card, Block{Run: &run, Reason: "r", Kind: kind})
	l.fenced(t, "block", current, err)
	if err == nil {
		l.over(card)
	}
}

func (l *life) EndRun(t *rapid.T) {
	card := l.card(t)
	run, current := l.run(t, card)
	end := End{
		Task: card, Run: run, Outcome: rapid.SampledFrom([]string{OutcomeCrashed, OutcomeStale, OutcomeSpawnFailed, OutcomeRateLimited}).Draw(t, "outcome"),
		Error: "e", Count: rapid.Bool().Draw(t, "count"), TripNow: rapid.Float64().Draw(t, "trip") > 0.9, Sticky: rapid.Bool().Draw(t, "sticky"),
	}
	if end.Outcome == OutcomeCrashed && rapid.Bool().Draw(t, "violation") {
		end.EventKind, end.Count = EventProtocolViolation, false
	}
	ended, err := l.b.EndRun(context.Background(), end)
	l.fenced(t, "end", current, err)
	if err == nil {
		l.over(card)
		if ended.GaveUp != (ended.Status == StatusBlocked) {
			t.Fatalf("end: %+v", ended)
		}
	}
}

func (l *life) Link(t *rapid.T) {
	parent, child := l.card(t), l.card(t)
	if parent == child {
		return
	}
	allowed(t, "link", l.b.Link(context.Background(), parent, child))
}

func (l *life) Unlink(t *rapid.T) {
	if err := l.b.Unlink(context.Background(), l.card(t), l.card(t)); err != nil && !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
}

func (l *life) Unblock(t *rapid.T) {
	allowed(t, "unblock", l.b.Unblock(context.Background(), l.card(t), ""))
}

func (l *life) Archive(t *rapid.T) {
	if rapid.Float64().Draw(t, "really") < 0.8 {
		t.Skip("seldom")
	}
	card := l.card(t)
	err := l.b.Archive(context.Background(), card)
	allowed(t, "archive", err)
	if err == nil {
		l.over(card)
	}
}

func (l *life) Promote(t *rapid.T) {
	if _, err := l.b.Promote(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// Check runs after each step.
func (l *life) Check(t *rapid.T) {
	l.b.invariants(t)
	running, err := l.b.Running(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(running) != len(l.open) {
		t.Fatalf("%d cards are running, the model knows %d", len(running), len(l.open))
	}
	for _, r := range running {
		if l.open[r.Task.ID] != r.Run.ID {
			t.Fatalf("%s is run by %d, the model says %d", r.Task.ID, r.Run.ID, l.open[r.Task.ID])
		}
	}
}

func TestEveryLifeKeepsTheRules(t *testing.T) {
	b := newBoard(t)
	rapid.Check(t, func(t *rapid.T) {
		for _, table := range schemaTables() {
			l := `DELETE FROM ` + table.name
			if err := b.write(context.Background(), "clear", func(tx *txn) error { _, err := tx.run("clear", l); return err }); err != nil {
				t.Fatal(err)
			}
		}
		t.Repeat(rapid.StateMachineActions(&life{b: b, open: map[string]RunID{}, past: map[string][]RunID{}}))
	})
}
